/* Writes a snapshot that is received in pieces. Each block is checked before it is written. The
 * file is FILE.part, locked against other commands, until it is complete and durable; then it is
 * renamed to FILE. The functions block: for commands, not for a node. */
#ifndef HOLDFAST_SERVER_SNAPSHOT_FILE_H
#define HOLDFAST_SERVER_SNAPSHOT_FILE_H

#include "storage/snapshot_format.h"

#define SNAPSHOT_FILE_PATH 4096

struct snapshot_file {
    const char *path; /* "-": stdout */
    bool replaces;    /* an existing file may be replaced */
    int fd;           /* -1: none */
    char part[SNAPSHOT_FILE_PATH];
    struct snapshot_check check;
    struct snapshot_info info; /* from its header, without the configuration */
    uint8_t *piece;            /* collects the bytes of the next block */
    size_t piece_size;
    size_t piece_used;
};

/* On failure, all three return false with a sentence in `problem`; only abandon may follow. `path`
 * must stay valid until abandon. */
bool snapshot_file_open(struct snapshot_file *f, const char *path, bool replaces,
                        struct problem *problem);
bool snapshot_file_put(struct snapshot_file *f, struct slice bytes, struct problem *problem);
/* After the last byte. The file is then complete, durable and has its name. */
bool snapshot_file_finish(struct snapshot_file *f, struct problem *problem);
/* Removes an unfinished file and frees the memory. Also after finish. */
void snapshot_file_abandon(struct snapshot_file *f);

#endif
