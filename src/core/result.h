/* The answer to a command. */
#ifndef HOLDFAST_CORE_RESULT_H
#define HOLDFAST_CORE_RESULT_H

#include "core/command.h"

enum outcome {
    OUTCOME_DONE, /* completed; transact: all effects applied */
    OUTCOME_GRANTED,
    OUTCOME_QUEUED, /* an event reports the outcome */
    OUTCOME_REFUSED /* an answer with a `reason`, not an error */
};

/* Why something was not acquired, released or renewed. The words are interface. */
#define REASON_LIST(X)                                                                 \
    X(NONE, "ok")                                                                      \
    X(HELD, "held")                                                                    \
    X(TIMEOUT, "timeout")                                                              \
    X(DELAYED, "delayed")                                                              \
    X(DEADLOCK, "deadlock")                                                            \
    X(ALREADY_HELD, "already_held") /* or waited for, by the same owner */             \
    X(MODE_MISMATCH, "mode_mismatch")                                                  \
    X(LIMIT_MISMATCH, "limit_mismatch")                                                \
    X(PERMITS_EXCEED_LIMIT, "permits_exceed_limit")                                    \
    X(SUPERSEDED, "superseded")                                                        \
    X(CANCELLED, "cancelled")                                                          \
    X(DETACHED, "detached") /* connection not restored in time (S7.3) */               \
    X(SESSION_ENDED, "session_ended")                                                  \
    X(NOT_OWNER, "not_owner")                                                          \
    X(ALREADY_RELEASED, "already_released")                                            \
    X(EXPIRED, "expired")                                                              \
    X(NOT_WAITING, "not_waiting") /* cancel, detach: no such waiter */                 \
    X(BELOW_FLOOR, "below_floor") /* fence check (S11) */                              \
    X(STALE_TOKEN, "stale_token") /* fence check */                                    \
    X(CONFLICT, "conflict")       /* transact: a key changed since it was read */      \
    X(WRONG_KIND, "wrong_kind")   /* counter where a lock is needed, or the reverse */ \
    X(NOT_ISSUED, "not_issued")   /* fence check: no grant has this token yet (S11) */ \
    X(DENIED, "denied")           /* the waiter's principal may no longer lock it (S14) */

enum reason {
#define X(symbol, word) REASON_##symbol,
    REASON_LIST(X)
#undef X
        REASON_COUNT
};

/* How a grant or session ended; the last LIMIT_ENDED of each are kept (S8.3). */
#define ENDED_LIST(X)                                                \
    X(NOT, "not")                                                    \
    X(RELEASED, "released")                                          \
    X(SESSION_CLOSED, "session_closed")                              \
    X(EXPIRED, "expired") /* its own or its private session's TTL */ \
    X(SESSION_EXPIRED, "session_expired")                            \
    X(FORCED, "forced")                                              \
    X(REVOKED, "revoked")                                            \
    X(RECOVERED, "recovered") /* after a lost majority (S3.3) */     \
    X(MAX_HOLD, "max_hold")   /* held as long as it may be (S16.3) */

enum ended {
#define X(symbol, word) ENDED_##symbol,
    ENDED_LIST(X)
#undef X
        ENDED_COUNT
};

FIELD_NUMBER_TYPE(error, enum hf_error)
FIELD_NUMBER_TYPE(outcome, enum outcome)
FIELD_NUMBER_TYPE(reason, enum reason)
FIELD_NUMBER_TYPE(ended, enum ended)

/* What other clients may see of a holder (S4.4). Role ALL: every client. */
#define HOLDER_FIELDS(F)                       \
    F(ALL, 1, slice, client, LIMIT_CLIENT)     \
    F(ALL, 1, slice, owner, LIMIT_OWNER)       \
    F(ALL, 1, slice, metadata, LIMIT_METADATA) \
    F(ALL, 1, mode, mode, MODE_COUNT - 1)      \
    F(ALL, 1, u32, permits, UINT32_MAX)        \
    F(ALL, 1, u64, since_ms, UINT64_MAX)       \
    F(ALL, 1, u64, deadline_ms, UINT64_MAX)    \
    F(ALL, 5, slice, trace, LIMIT_TRACE)       \
    F(ALL, 7, u64, since_wall_ms, UINT64_MAX) /* 0: unknown */

struct holder_view {
    HOLDER_FIELDS(FIELD_MEMBER)
};

#define HOLDER_BYTES (LIMIT_CLIENT + LIMIT_OWNER + LIMIT_METADATA + LIMIT_TRACE)

typedef struct holder_view FIELD_C_holder;
static inline void field_clear_holder(struct holder_view *f)
{
    *f = (struct holder_view){0};
}

static inline void field_put_holder(struct writer *w, uint32_t version, const struct holder_view *f)
{
    HOLDER_FIELDS(FIELD_PUT)
}

static inline void field_take_holder(struct reader *r, uint32_t version, struct holder_view *f,
                                     uint64_t max)
{
    (void)max;
    HOLDER_FIELDS(FIELD_TAKE)
}

/* One owner in a cycle: it waits for `name`, which the next owner holds or waits for before it. */
struct cycle_step {
    struct slice client;
    struct slice owner;
    struct slice name;
};

/* The fields of an answer, in the order in which nodes send them. Role ANSWER.
 *
 * type                    error: not HF_OK: nothing was done, the other fields are zero
 * ended                   of a grant that had already ended
 * replayed                repeats the answer to an earlier command with this id
 * deadlock_unchecked      S6.4
 * accepted                fence check
 * token                   the grant's. LEAD: the epoch. ADVANCE: C. transact: the last one given.
 *                         fence_reset: the earlier mark
 * lease                   the grant's; a replayed acquire gets the original one
 * deadline_ms             of grant, session or revocation, in cluster time; UINT64_MAX: none
 * ttl_ms                  in force, not beyond hold_until_ms; TTL_NONE: none
 * attachment              QUEUED: the number to cancel with; stream_up: the stream's
 * wait_deadline_ms        QUEUED; UINT64_MAX: none
 * delayed_until_ms        REASON_DELAYED, also while a delay runs
 * highest                 fence check and fence_reset: the mark afterwards
 * slot                    of a semaphore grant (S11)
 * depth                   how often the owner holds it
 * queue_position          from 1; LIMIT_POSITION + 1: further back
 * count                   holders forced out or requested to release. Keep-alive: sessions.
 *                         transact: effects applied. ADVANCE: rise of C
 * more                    force-unlock: call again for the rest (S2.1)
 * holder                  the first of `holders`, if has_holder
 * reserved_for            client whose multi-lock reserves the free name (S6.2)
 * name                    of several, the one that caused the refusal; transact: the key
 * hold_until_ms           of a grant with max_hold, in cluster time; 0: none */
#define RESULT_FIELDS(F)                                \
    F(ANSWER, 1, command_type, type, COMMAND_COUNT - 1) \
    F(ANSWER, 1, error, error, HF_ERROR_COUNT - 1)      \
    F(ANSWER, 1, outcome, outcome, OUTCOME_REFUSED)     \
    F(ANSWER, 1, reason, reason, REASON_COUNT - 1)      \
    F(ANSWER, 1, ended, ended, ENDED_COUNT - 1)         \
    F(ANSWER, 1, flag, replayed, 1)                     \
    F(ANSWER, 1, flag, deadlock_unchecked, 1)           \
    F(ANSWER, 1, flag, accepted, 1)                     \
    F(ANSWER, 1, mode, mode, MODE_COUNT - 1)            \
    F(ANSWER, 1, u64, token, LIMIT_NUMBER - 1)          \
    F(ANSWER, 1, id, lease, 0)                          \
    F(ANSWER, 1, u64, deadline_ms, UINT64_MAX)          \
    F(ANSWER, 1, u64, ttl_ms, UINT64_MAX)               \
    F(ANSWER, 1, u64, attachment, UINT64_MAX)           \
    F(ANSWER, 1, u64, wait_deadline_ms, UINT64_MAX)     \
    F(ANSWER, 1, u64, delayed_until_ms, UINT64_MAX)     \
    F(ANSWER, 1, u64, highest, UINT64_MAX)              \
    F(ANSWER, 1, u32, slot, UINT32_MAX)                 \
    F(ANSWER, 1, u32, depth, UINT32_MAX)                \
    F(ANSWER, 1, u32, queue_length, UINT32_MAX)         \
    F(ANSWER, 1, u32, queue_position, UINT32_MAX)       \
    F(ANSWER, 1, u32, count, UINT32_MAX)                \
    F(ANSWER, 1, flag, more, 1)                         \
    F(ANSWER, 1, flag, has_holder, 1)                   \
    F(ANSWER, 1, u32, holders, UINT32_MAX)              \
    F(ANSWER, 1, holder, holder, 0)                     \
    F(ANSWER, 1, slice, reserved_for, LIMIT_CLIENT)     \
    F(ANSWER, 1, slice, name, LIMIT_NAME)               \
    F(ANSWER, 7, u64, hold_until_ms, UINT64_MAX)

/* Slices are borrowed until the next command or sweep. */
struct result {
    RESULT_FIELDS(FIELD_MEMBER)
    const uint8_t *alive;           /* keep-alive: an hf_error per id: OK, NOT_FOUND, EXPIRED */
    const struct cycle_step *cycle; /* REASON_DEADLOCK; begins with this request's owner */
    uint32_t cycle_length;
    uint64_t
        waited_ms; /* of a grant after a wait: from its event, at the node that waited; else 0 */
};

const char *reason_name(enum reason reason);
const char *ended_name(enum ended ended);

#endif
