/* Raw system calls: the C library's functions need a newer version of it, or allocate (opendir). */
#include "node/snapshot/child_descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/panic.h"

enum { LISTING_BYTES = 4096, DESCRIPTORS_MAX = 1 << 20 };

/* As getdents64(2) describes it. */
struct directory_entry {
    uint64_t inode;
    int64_t next;
    uint16_t len;
    uint8_t type;
    char name[];
};

static bool close_from_to(unsigned first, unsigned last)
{
    return syscall(SYS_close_range, first, last, 0u) == 0;
}

/* -1 for "." and "..". */
static int number_of(const char *name)
{
    int number = *name == '\0' ? -1 : 0;
    for (; *name != '\0' && number >= 0; name++) {
        number = *name >= '0' && *name <= '9' && number < DESCRIPTORS_MAX
                     ? number * 10 + (*name - '0')
                     : -1;
    }
    return number;
}

/* The kernel lists descriptors by number, so closing them meanwhile skips none. */
static bool close_listed(int keep)
{
    _Alignas(struct directory_entry) char listing[LISTING_BYTES];
    int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return false;
    }
    long got;
    while ((got = syscall(SYS_getdents64, folder, listing, sizeof(listing))) > 0) {
        for (long at = 0; at < got;) {
            const struct directory_entry *entry =
                (const struct directory_entry *)(const void *)(listing + at);
            int number = number_of(entry->name);
            if (number >= 0 && number != keep && number != folder) {
                (void)close(number);
            }
            at += entry->len;
        }
    }
    (void)close(folder);
    return got == 0;
}

static void close_each(int keep)
{
    struct rlimit limit;
    int end = DESCRIPTORS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < DESCRIPTORS_MAX) {
        end = (int)limit.rlim_max;
    }
    for (int number = 0; number < end; number++) {
        if (number != keep) {
            (void)close(number);
        }
    }
}

void child_descriptors_close(int keep)
{
    hf_assert(keep >= 0);
    bool below = keep == 0 || close_from_to(0, (unsigned)keep - 1);
    if (below && close_from_to((unsigned)keep + 1, ~0u)) {
        return;
    }
    if (!close_listed(keep)) {
        close_each(keep);
    }
}
