/* An encoded page of the tier EFFICIENCY, whose state only the leader has (S10). A node sends its
 * query with its barrier (gateway_call.look) and renders the page like its own state. */
#ifndef HOLDFAST_SERVICE_REQUEST_MEMORY_PAGE_H
#define HOLDFAST_SERVICE_REQUEST_MEMORY_PAGE_H

#include "base/buffer.h"
#include "core/view.h"
#include "service/request/leader_query.h"

enum memory_page_kind {
    MEMORY_LOCKS = QUERY_LOCKS,
    MEMORY_LOCK = QUERY_LOCK,
    MEMORY_SESSIONS = QUERY_SESSIONS,
    MEMORY_LONG_HELD = QUERY_LONG_HELD, /* since version 7 */
    MEMORY_SESSION_NAMES = QUERY_SESSION_NAMES,
};

struct memory_request {
    uint32_t version; /* of the state; every member supports it */
    enum memory_page_kind kind;
    uint32_t tenant;
    uint64_t cursor;
    uint32_t limit;
    struct slice name; /* or the prefix of a list */
    uint64_t now_ms;   /* LONG_HELD: cluster time */
    struct id session; /* SESSION_NAMES */
};

#define MEMORY_REQUEST_BYTES (LIMIT_NAME + 64)
#define MEMORY_PAGE_BYTES (16u << 20)

size_t memory_request_encode(const struct memory_request *request,
                             uint8_t at[MEMORY_REQUEST_BYTES]);

/* On the leader: appends the page for an encoded request. `core` NULL: an empty page. False:
 * malformed request, or the page does not fit. */
bool memory_page_write(const struct core *core, struct slice request, struct buffer *out);

/* On other nodes. An empty slice is an empty page. Views have `tier` set. Lists return the next
 * cursor, VIEW_END at the end. */
uint64_t memory_page_locks(struct slice page, view_lock_fn on_lock, void *ctx);
uint64_t memory_page_sessions(struct slice page, view_session_fn on_session, void *ctx);
/* Its session is in memory_page_sessions, if it is a private one of the tier. Returns
 * VIEW_NAMES_END at the end. */
uint64_t memory_page_session_names(struct slice page, view_session_name_fn on_name, void *ctx);
/* False: no such name. */
bool memory_page_lock(struct slice page, struct lock_view *out);
void memory_page_holders(struct slice page, view_grant_fn on_grant, view_waiter_fn on_waiter,
                         void *ctx);

#endif
