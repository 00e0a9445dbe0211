/* The list of snapshots, as its files share it. Private to snapshot*.c. */
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

/* What the beginning and the end of a file say. */
struct snapshot_glance {
    struct snapshot_info info; /* its configuration lies in `header` */
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
    pthread_mutex_t guard;          /* of what is above and below; recursive */
    bool in_steps;                  /* snapshots_remove_in_steps */
    struct disk_file **nameless;    /* removed, but for their bytes */
    size_t nameless_count;
    size_t nameless_capacity;
};

/* Gives a complete and synced file its name, durably, and puts it into the list as the newest one.
 */
enum storage_status snapshots_adopt(struct snapshots *snapshots, struct disk_file *file,
                                    uint64_t index, uint64_t term, struct problem *problem);

/* ---- snapshot_removal.c ---- */

/* Takes the name away from a file of the list, durably if its bytes are to go in steps. */
enum storage_status snapshots_unlink(struct snapshots *snapshots, const char *name,
                                     struct problem *problem);
/* Takes the name away from an open file that was not finished, and closes it. */
void snapshots_discard(struct snapshots *snapshots, struct disk_file *file, const char *name);
void snapshots_close_nameless(struct snapshots *snapshots);

#endif
