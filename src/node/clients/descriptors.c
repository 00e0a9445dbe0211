/* See descriptors.h. */
#include "node/clients/descriptors.h"

#include <dirent.h>
#include <stddef.h>
#include <sys/resource.h>

#include "base/limits.h"

enum {
    PEERS_MIN = 24,
    PEERS_MAX = 6 * LIMIT_NODES, /* two thirds are for incoming ones */
    OPEN_UNKNOWN = 16,           /* without /proc */
    LOG_SPARE = 16,              /* for segments created before the next count */
    FILES_OF_A_SEGMENT = 2,      /* one more for direct writes */
};

static uint64_t peers_of(uint64_t limit)
{
    uint64_t part = limit / 8;
    return part < PEERS_MIN ? PEERS_MIN : part > PEERS_MAX ? PEERS_MAX : part;
}

static uint64_t reserved_of(const struct descriptor_use *use, uint64_t limit)
{
    uint64_t log = FILES_OF_A_SEGMENT * use->log_segments + LOG_SPARE;
    return use->open + DESCRIPTORS_FIXED + (log < DESCRIPTORS_LOG ? DESCRIPTORS_LOG : log) +
           DESCRIPTORS_REFUSALS + peers_of(limit);
}

void descriptors_share(const struct descriptor_use *use, struct descriptor_shares *out)
{
    uint64_t reserved = reserved_of(use, use->limit);
    uint64_t left = use->limit > reserved ? use->limit - reserved : 0;
    out->clients = left > UINT32_MAX ? UINT32_MAX : (uint32_t)left;
    out->peers = (uint32_t)(peers_of(use->limit) * 2 / 3);
}

uint64_t descriptors_needed(const struct descriptor_use *use, uint32_t clients)
{
    /* The share of peers grows more slowly than the limit: this converges in a few steps. */
    uint64_t limit = 0;
    for (;;) {
        uint64_t needed = reserved_of(use, limit) + clients;
        if (needed <= limit) {
            return limit;
        }
        limit = needed;
    }
}

uint64_t descriptors_limit(void)
{
    struct rlimit files;
    return getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 1024;
}

uint64_t descriptors_open(void)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) {
        return OPEN_UNKNOWN;
    }
    uint64_t count = 0;
    for (const struct dirent *at = readdir(folder); at != NULL; at = readdir(folder)) {
        count += at->d_name[0] != '.' ? 1 : 0;
    }
    closedir(folder);
    return count - 1; /* the folder itself */
}
