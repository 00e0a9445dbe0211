/* Name, owner and lease of the grants that ended last. A renewal that comes after the end names only a
 * token or a lease id; the state keeps no more of an ended grant, and the line of the log about the
 * failed renewal has the rest from here. In memory, of bounded size, newest first to stay. */
#ifndef HOLDFAST_NODE_LINES_RECENT_ENDS_H
#define HOLDFAST_NODE_LINES_RECENT_ENDS_H

#include "base/memory.h"
#include "core/event.h"

enum { RECENT_ENDS = 1024 };

/* The caller frees it. */
struct recent_ends *recent_ends_new(const struct memory *memory);
void recent_ends_free(struct recent_ends *ends);
/* `e` is the event of the end of a grant. */
void recent_ends_add(struct recent_ends *ends, const struct event *e);

/* Slices are valid until the next recent_ends_add. */
struct recent_end {
    enum tier tier;
    uint64_t token;
    struct id lease;
    struct slice name;
    struct slice client;
    struct slice owner;
    struct slice trace;
};
/* By the lease id, or by the token if that is zero. */
bool recent_ends_find(const struct recent_ends *ends, uint32_t tenant, uint64_t token,
                      struct id lease, struct recent_end *out);

#endif
