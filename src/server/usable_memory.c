/* Memory limits of the machine and of control groups. libuv reads those of cgroup v2 only since
 * 1.45, so this file does: memory.max of the process's group and of each parent. */
#include "server/usable_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { PATH = 4096 };

/* The line of cgroup v2 is "0::PATH". */
static bool read_group(const char *membership, char path[PATH])
{
    char line[PATH];
    bool found = false;
    FILE *file = fopen(membership, "re");
    if (file == NULL) {
        return false;
    }
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(path, PATH, "%s", line + 3);
            found = true;
        }
    }
    fclose(file);
    return found;
}

/* UINT64_MAX, no limit, for "max" and for a file that cannot be read. */
static uint64_t read_limit(const char *root, const char *group)
{
    char path[2 * PATH + 16];
    char text[64] = "";
    snprintf(path, sizeof(path), "%s%s/memory.max", root, group);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return UINT64_MAX;
    }
    char *line = fgets(text, sizeof(text), file);
    fclose(file);
    if (line == NULL || text[0] < '0' || text[0] > '9') {
        return UINT64_MAX;
    }
    errno = 0;
    unsigned long long limit = strtoull(text, NULL, 10);
    return errno != 0 ? UINT64_MAX : limit;
}

uint64_t cgroup_memory(const char *membership, const char *root)
{
    char group[PATH];
    uint64_t smallest = UINT64_MAX;
    if (!read_group(membership, group)) {
        return smallest;
    }
    for (;;) {
        uint64_t limit = read_limit(root, group);
        smallest = limit < smallest ? limit : smallest;
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return smallest;
        }
        *slash = '\0';
    }
}

uint64_t usable_memory(const char *membership, const char *root)
{
    uint64_t total = uv_get_total_memory();
    uint64_t older = uv_get_constrained_memory(); /* 0: unknown */
    uint64_t group = cgroup_memory(membership, root);
    total = older != 0 && older < total ? older : total;
    return group < total ? group : total;
}
