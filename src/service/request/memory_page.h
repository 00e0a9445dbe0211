/* A page of what the tier EFFICIENCY holds, as bytes. Only the leader has it (S10): a node that is
 * asked for a list or for one name asks the leader along with its barrier (gateway_call.look), and
 * renders the answer like its own state. */
#ifndef HOLDFAST_SERVICE_REQUEST_MEMORY_PAGE_H
#define HOLDFAST_SERVICE_REQUEST_MEMORY_PAGE_H

#include "base/buffer.h"
#include "core/view.h"

enum memory_page_kind { MEMORY_LOCKS = 1, MEMORY_LOCK = 2, MEMORY_SESSIONS = 3 };

struct memory_request {
    enum memory_page_kind kind;
    uint32_t tenant;
    uint64_t cursor;
    uint32_t limit;
    struct slice name; /* or the prefix of a list */
};

#define MEMORY_ASK_BYTES (LIMIT_NAME + 64)
#define MEMORY_PAGE_BYTES (16u << 20)

size_t memory_request_encode(const struct memory_request *pending, uint8_t at[MEMORY_ASK_BYTES]);

/* The leader's side: appends the page that these bytes ask for. `core` may be NULL: nothing is
 * there. False: they are garbled, or it does not fit. */
bool memory_page_write(const struct core *core, struct slice pending, struct buffer *out);

/* The other side. An empty page is one where nothing is. Views have their `tier` set. Lists return
 * the next cursor, VIEW_END at the end. */
uint64_t memory_page_locks(struct slice page, view_lock_fn on_lock, void *ctx);
uint64_t memory_page_sessions(struct slice page, view_session_fn on_session, void *ctx);
/* False when the name is not there. */
bool memory_page_lock(struct slice page, struct lock_view *out);
void memory_page_holders(struct slice page, view_grant_fn on_grant, view_waiter_fn on_waiter,
                         void *ctx);

#endif
