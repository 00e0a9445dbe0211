/* The list of snapshots. Private to snapshot*.c. */
#ifndef HOLDFAST_STORAGE_SNAPSHOTS_STATE_H
#define HOLDFAST_STORAGE_SNAPSHOTS_STATE_H

#include <pthread.h>

#include "base/memory.h"
#include "storage/snapshot_format.h"
#include "storage/snapshots.h"

struct snapshot_item {
    uint64_t index;
    uint64_t term;
    unsigned pins;
};

/* Contents of the header and the end of a file. */
struct snapshot_glance {
    struct snapshot_info info; /* its configuration points into `header` */
    uint64_t bytes;
    uint8_t header[SNAPSHOT_HEADER + SNAPSHOT_CONFIGURATION_MAX];
};

struct snapshots {
    struct disk *disk;
    struct id cluster;
    struct snapshot_item *items; /* oldest first */
    size_t count;
    size_t capacity;
    struct snapshot_glance *newest; /* of the last item */
    pthread_mutex_t guard;          /* of all fields; recursive */
    bool in_steps;                  /* snapshots_remove_in_steps */
    struct disk_file **nameless;    /* files without a name whose bytes are not freed yet */
    size_t nameless_count;
    size_t nameless_capacity;
};

/* Gives a complete and synced file its name, durably, as the newest one. */
enum storage_status snapshots_adopt(struct snapshots *snapshots, struct disk_file *file,
                                    uint64_t index, uint64_t term, struct problem *problem);

/* ---- snapshot_removal.c ---- */

/* Durably if the file is freed in steps. */
enum storage_status snapshots_unlink(struct snapshots *snapshots, const char *name,
                                     struct problem *problem);
/* Removes the name of an open unfinished file, and closes it. */
void snapshots_discard(struct snapshots *snapshots, struct disk_file *file, const char *name);
void snapshots_close_nameless(struct snapshots *snapshots);

#endif
