/* Events: one for each change, numbered (entry index, ordinal) identically on every node (S9.3). An
 * event carries all that a node needs to find the waiting connection or session. The renderer
 * decides what other clients may see of it (S4.4). */
#ifndef HOLDFAST_CORE_EVENT_H
#define HOLDFAST_CORE_EVENT_H

#include "core/result.h"

#define EVENT_LIST(X)                                                                              \
    X(GRANTED, granted)     /* name, token, holder; `attachment` if it had waited */               \
    X(REENTERED, reentered) /* the same owner acquired it again */                                 \
    X(QUEUED, queued)                                                                              \
    X(WAIT_ENDED, wait_ended) /* a waiter left without a grant, see `reason` */                    \
    X(SUPERSEDED, superseded) /* an older attachment of a waiter is void (S7.1) */                 \
    X(DETACHED, detached)     /* a waiter lost its connection and keeps its place */               \
    X(RENEWAL_FAILED, renewal_failed)                                                              \
    X(RELEASED, released)                                                                          \
    X(EXPIRED, expired)                                                                            \
    X(FORCED, forced)   /* by an operator, see `actor` and `text` */                               \
    X(REVOKED, revoked) /* the deadline of a revocation passed */                                  \
    X(LOST, lost)       /* to the holder: it no longer holds the lock, see `ended` */              \
    X(REVOKE_REQUESTED, revoke_requested) /* to the holder: release by deadline_ms */              \
    X(DELAYED, delayed)                   /* free, but not granted before deadline_ms (S6.5) */    \
    X(SESSION_OPENED, session_opened)                                                              \
    X(SESSION_CLOSED, session_closed)                                                              \
    X(SESSION_EXPIRED, session_expired)                                                            \
    X(LEADER_CHANGED, leader_changed) /* of an election; token 0: there is no leader */            \
    X(PROCLAIMED, proclaimed)                                                                      \
    X(FENCE_REJECTED, fence_rejected)                                                              \
    X(EPOCH, epoch) /* a node leads now; token is the epoch */                                     \
    X(UPGRADED, upgraded)                                                                          \
    X(PUBLISHED, published) /* name: the channel, text: the message, client: the sender (S13.7) */ \
    X(LINGERS, lingers)     /* the session's stream (`attachment`) broke; it ends at deadline_ms */

enum event_type {
    EVENT_NONE,
#define X(symbol, name) EVENT_##symbol,
    EVENT_LIST(X)
#undef X
        EVENT_COUNT
};

/* Slices are borrowed for the duration of the callback. Fields that do not apply are zero. */
struct event {
    enum event_type type;
    uint32_t tier; /* enum tier; the core sets 0 (S10) */
    uint32_t tenant;
    uint64_t index;   /* of the log entry */
    uint32_t ordinal; /* within the entry, from 0 */
    uint32_t part;    /* number of this name in a multi-lock */
    uint32_t parts;   /* names of the multi-lock; 1 otherwise */
    uint32_t node;    /* to which the waiter is attached */
    uint64_t at_ms;   /* cluster time */
    uint64_t wall_ms; /* for display */
    uint64_t token;
    uint64_t attachment;
    uint64_t deadline_ms;
    uint32_t ttl_ms;           /* GRANTED: of the lock; its session may end earlier */
    uint64_t wait_deadline_ms; /* GRANTED after a wait: when the wait would have ended */
    struct id session;
    struct id lease;
    enum reason reason;
    enum ended ended;
    enum mode mode;
    uint32_t slot;
    struct slice name;
    struct slice client;
    struct slice owner;
    struct slice actor;
    struct slice text; /* an operator's reason; the value of an election; a message, any bytes */
};

const char *event_name(enum event_type type);

#endif
