/* The state out of a snapshot file: used at the start, after a snapshot was received, and offline.
 */
#ifndef HOLDFAST_NODE_SNAPSHOT_STATE_LOAD_H
#define HOLDFAST_NODE_SNAPSHOT_STATE_LOAD_H

#include "core/core.h"
#include "storage/store.h"

/* Reads, checks and builds. `*out` is the caller's. STORAGE_CORRUPT names what is wrong. May run on
 * any thread that holds the store. */
enum storage_status state_load(struct store *store, uint64_t index, uint64_t term,
                               const struct core_options *options, struct core **out,
                               struct problem *problem);
/* The same of a file that is open already, and has the state at `index`. */
enum storage_status state_load_source(struct snapshot_source *source, uint64_t index,
                                      const struct core_options *options, struct core **out,
                                      struct problem *problem);

#endif
