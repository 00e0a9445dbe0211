/* Shared by disk_posix.c and disk_direct.c. */
#ifndef HOLDFAST_STORAGE_DISK_POSIX_STATE_H
#define HOLDFAST_STORAGE_DISK_POSIX_STATE_H

#include <linux/aio_abi.h>

#include "storage/disk.h"

/* The one direct write of a folder. */
struct direct {
    aio_context_t context; /* 0: none yet */
    struct iocb write;
    bool waits;
};

struct folder {
    struct disk disk;
    int fd;
    char *path;
    struct direct direct;
};

struct posix_file {
    struct disk_file file;
    struct folder *folder;
    int fd;
    int direct_fd; /* the same file, opened for direct writes; or -1 */
};

/* ---- disk_posix.c ---- */

enum storage_status posix_status_of(int error);
/* Sets "cannot WHAT PATH/NAME: why" from errno. */
enum storage_status posix_failed(struct problem *problem, const struct posix_file *file,
                                 const char *what);

/* ---- disk_direct.c ---- */

bool posix_direct_prepare(struct disk_file *file);
enum disk_direct posix_direct_begin(struct disk_file *file, uint64_t offset, const void *data,
                                    size_t len, int event_fd);
enum disk_direct posix_direct_end(struct disk_file *file, bool wait, struct problem *problem);
void posix_direct_free(struct folder *folder);

#endif
