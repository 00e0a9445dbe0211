/* Events: one for each change, numbered (entry index, ordinal) identically on every node (S9.3). An
 * event has all that a node needs to find the waiting connection or session. The renderer decides
 * what other clients may see (S4.4). */
#ifndef HOLDFAST_CORE_EVENT_H
#define HOLDFAST_CORE_EVENT_H

#include "base/tier.h"
#include "core/result.h"

#define EVENT_LIST(X)                                                                       \
    X(GRANTED, granted)     /* name, token, holder; `attachment` after a wait */            \
    X(REENTERED, reentered) /* by the same owner */                                         \
    X(QUEUED, queued)                                                                       \
    X(WAIT_ENDED, wait_ended) /* without a grant, see `reason` */                           \
    X(SUPERSEDED, superseded) /* an older attachment is void (S7.1) */                      \
    X(DETACHED, detached)     /* a waiter without connection keeps its place */             \
    X(RENEWAL_FAILED, renewal_failed)                                                       \
    X(RELEASED, released)                                                                   \
    X(EXPIRED, expired)                                                                     \
    X(FORCED, forced) /* by an operator: `actor`, `text` */                                 \
    X(REVOKED, revoked)                                                                     \
    X(LOST, lost)                         /* to the holder, see `ended` */                  \
    X(REVOKE_REQUESTED, revoke_requested) /* to the holder: release by deadline_ms */       \
    X(DELAYED, delayed)                   /* free, not granted before deadline_ms (S6.5) */ \
    X(SESSION_OPENED, session_opened)                                                       \
    X(SESSION_CLOSED, session_closed)                                                       \
    X(SESSION_EXPIRED, session_expired)                                                     \
    X(LEADER_CHANGED, leader_changed) /* of an election; token 0: no leader */              \
    X(PROCLAIMED, proclaimed)                                                               \
    X(FENCE_REJECTED, fence_rejected)                                                       \
    X(EPOCH, epoch) /* of a new leader; token is the epoch */                               \
    X(UPGRADED, upgraded)                                                                   \
    X(PUBLISHED, published) /* channel `name`, message `text`, sender `client` (S13.7) */   \
    X(LINGERS, lingers)     /* its stream (`attachment`) broke; it ends at deadline_ms */   \
    X(LONG_HELD, long_held) /* held longer than its rule allows; `text`: its prefix (S16.2) */

enum event_type {
    EVENT_NONE,
#define X(symbol, name) EVENT_##symbol,
    EVENT_LIST(X)
#undef X
        EVENT_COUNT
};

FIELD_NUMBER_TYPE(event_type, enum event_type)

/* The fields of an event, in the order of sending. Role ALL: watchers may see it (S4.4); NODE: only
 * nodes.
 *
 * tier                enum tier; 0 from the core (S10)
 * index, ordinal      the log entry, and the number within it, from 0
 * part, parts         number of this name in a multi-lock, of how many; else parts is 1
 * node                to which the waiter is attached
 * at_ms, wall_ms      cluster time; wall clock for display
 * text                an operator's reason; an election's value; a message, any bytes; LONG_HELD: a prefix
 * ttl_ms              GRANTED: of the lock; its session may end earlier. 0: none
 * wait_deadline_ms    GRANTED after a wait: when it would have ended
 * trace               of the acquire
 * since_ms            cluster time of the grant, in events about one; since_wall_ms: as wall clock (S16.1)
 * waited_ms           GRANTED and WAIT_ENDED after a wait; 0: no wait, or unknown (before version 7) */
#define EVENT_TEXT_MAX (LIMIT_VALUE > LIMIT_REASON ? LIMIT_VALUE : LIMIT_REASON)
#define EVENT_FIELDS(F)                           \
    F(ALL, 1, event_type, type, EVENT_COUNT - 1)  \
    F(ALL, 1, u32, tier, TIER_EFFICIENCY)         \
    F(NODE, 1, u32, tenant, UINT32_MAX)           \
    F(ALL, 1, u64, index, UINT64_MAX)             \
    F(ALL, 1, u32, ordinal, UINT32_MAX)           \
    F(NODE, 1, u32, part, UINT32_MAX)             \
    F(NODE, 1, u32, parts, UINT32_MAX)            \
    F(NODE, 1, u32, node, UINT32_MAX)             \
    F(ALL, 1, u64, at_ms, UINT64_MAX)             \
    F(ALL, 1, u64, wall_ms, UINT64_MAX)           \
    F(ALL, 1, u64, token, UINT64_MAX)             \
    F(NODE, 1, u64, attachment, UINT64_MAX)       \
    F(ALL, 1, u64, deadline_ms, UINT64_MAX)       \
    F(ALL, 1, reason, reason, REASON_COUNT - 1)   \
    F(ALL, 1, ended, ended, ENDED_COUNT - 1)      \
    F(ALL, 1, mode, mode, MODE_COUNT - 1)         \
    F(ALL, 1, u32, slot, UINT32_MAX)              \
    F(NODE, 1, id, session, 0)                    \
    F(NODE, 1, id, lease, 0)                      \
    F(ALL, 1, slice, name, LIMIT_NAME)            \
    F(ALL, 1, slice, client, LIMIT_CLIENT)        \
    F(ALL, 1, slice, owner, LIMIT_OWNER)          \
    F(ALL, 1, slice, actor, LIMIT_ACTOR)          \
    F(ALL, 1, slice, text, EVENT_TEXT_MAX)        \
    F(ALL, 5, u64, ttl_ms, UINT64_MAX)            \
    F(NODE, 5, u64, wait_deadline_ms, UINT64_MAX) \
    F(ALL, 5, slice, trace, LIMIT_TRACE)          \
    F(ALL, 7, u64, since_ms, UINT64_MAX)          \
    F(ALL, 7, u64, waited_ms, UINT64_MAX)         \
    F(ALL, 7, u64, since_wall_ms, UINT64_MAX)

/* Slices are borrowed during the callback. Fields that do not apply are zero. */
struct event {
    EVENT_FIELDS(FIELD_MEMBER)
    /* EXPIRED, where it was applied; not sent: the deadline, and when the TTL began. */
    uint64_t due_ms;
    uint64_t life_ms;
};

const char *event_name(enum event_type type);

#endif
