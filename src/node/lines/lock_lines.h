/* The lines of the log about locks: grants, their ends, failed renewals, what operators did. Only the
 * leader writes them, because every node applies the same events. A field that is not known is left
 * out. */
#ifndef HOLDFAST_NODE_LINES_LOCK_LINES_H
#define HOLDFAST_NODE_LINES_LOCK_LINES_H

#include "base/journal.h"
#include "base/memory.h"
#include "core/event.h"

/* Lines about one operator's action on one lock; the audit trail has the number of all. */
enum { LOCK_LINES_FORCED_MAX = 16 };

/* The caller frees it; `journal` must outlive it. */
struct lock_lines *lock_lines_new(const struct memory *memory, const struct journal *journal);
void lock_lines_free(struct lock_lines *lines);
/* Every event, on every node. `leads`: this node is the one that logs. */
void lock_lines_note(struct lock_lines *lines, const struct event *e, bool leads);

#endif
