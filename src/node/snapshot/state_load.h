/* The state from a snapshot file: at start, after a fetch, and offline. */
#ifndef HOLDFAST_NODE_SNAPSHOT_STATE_LOAD_H
#define HOLDFAST_NODE_SNAPSHOT_STATE_LOAD_H

#include "core/core.h"
#include "storage/store.h"

/* Called after each block of the file. */
struct state_watch {
    void (*note)(void *ctx, uint64_t done, uint64_t total); /* bytes */
    void *ctx;
};

/* The caller owns `*out`. STORAGE_CORRUPT: `problem` names the defect. May run on any thread that
 * owns the store. */
enum storage_status state_load(struct store *store, uint64_t index, uint64_t term,
                               const struct core_options *options, struct core **out,
                               struct problem *problem);
/* `watch` may be NULL, in both. */
enum storage_status state_load_watched(struct store *store, uint64_t index, uint64_t term,
                                       const struct core_options *options,
                                       const struct state_watch *watch, struct core **out,
                                       struct problem *problem);
/* For an open file, which has the state at `index`. */
enum storage_status state_load_source(struct snapshot_source *source, uint64_t index,
                                      const struct core_options *options,
                                      const struct state_watch *watch, struct core **out,
                                      struct problem *problem);

#endif
