/* A snapshot that comes in pieces becomes a file: each block is checked before it is written, and
 * the file has its name only when it is whole and durable. Until then it is FILE.part, which is
 * locked, so that two who fetch the same one do not mix. Blocks; for commands. */
#ifndef HOLDFAST_SERVER_SNAPSHOT_FILE_H
#define HOLDFAST_SERVER_SNAPSHOT_FILE_H

#include "storage/snapshot_format.h"

#define SNAPSHOT_FILE_PATH 4096

struct snapshot_file {
    const char *path; /* "-": stdout */
    bool replaces;    /* a file of that name may be there */
    int fd;           /* -1: none */
    char part[SNAPSHOT_FILE_PATH];
    struct snapshot_check check;
    struct snapshot_info info; /* from its header, without the configuration */
    uint8_t *piece;            /* that is being gathered */
    size_t piece_size;
    size_t piece_used;
};

/* All three: false, and a sentence in `problem`; then only abandon is left. `path` must last. */
bool snapshot_file_open(struct snapshot_file *f, const char *path, bool replaces,
                        struct problem *problem);
bool snapshot_file_put(struct snapshot_file *f, struct slice bytes, struct problem *problem);
/* No more comes. It is whole, synced, and has its name. */
bool snapshot_file_finish(struct snapshot_file *f, struct problem *problem);
/* Removes what was written. Also behind finish, when it does nothing but free. */
void snapshot_file_abandon(struct snapshot_file *f);

#endif
