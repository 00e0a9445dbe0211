/* The answer to a command. */
#ifndef HOLDFAST_CORE_RESULT_H
#define HOLDFAST_CORE_RESULT_H

#include "core/command.h"

enum outcome {
    OUTCOME_DONE,    /* completed, see the other fields; transact: all effects applied */
    OUTCOME_GRANTED, /* acquire: held now */
    OUTCOME_QUEUED,  /* acquire: an event reports the outcome */
    OUTCOME_REFUSED  /* not done, see `reason`; this is an answer, not an error */
};

/* Why something was not acquired, released or renewed. The words are part of the interface. */
#define REASON_LIST(X)                                                                             \
    X(NONE, "ok")                                                                                  \
    X(HELD, "held")                                                                                \
    X(TIMEOUT, "timeout")                                                                          \
    X(DELAYED, "delayed")                                                                          \
    X(DEADLOCK, "deadlock")                                                                        \
    X(ALREADY_HELD, "already_held") /* or already waited for, by the same owner */                 \
    X(MODE_MISMATCH, "mode_mismatch")                                                              \
    X(LIMIT_MISMATCH, "limit_mismatch")                                                            \
    X(PERMITS_EXCEED_LIMIT, "permits_exceed_limit")                                                \
    X(SUPERSEDED, "superseded")                                                                    \
    X(CANCELLED, "cancelled") /* the waiter was withdrawn */                                       \
    X(DETACHED, "detached")   /* the waiter's connection was not restored in time (S7.3) */        \
    X(SESSION_ENDED, "session_ended") /* the wait ended with its session */                        \
    X(NOT_OWNER, "not_owner")                                                                      \
    X(ALREADY_RELEASED, "already_released")                                                        \
    X(EXPIRED, "expired")                                                                          \
    X(NOT_WAITING, "not_waiting") /* cancel, detach: there is no such waiter */                    \
    X(BELOW_FLOOR, "below_floor") /* fence check (S11) */                                          \
    X(STALE_TOKEN, "stale_token") /* fence check */                                                \
    X(CONFLICT, "conflict")       /* transact: a key changed since it was read */                  \
    X(WRONG_KIND, "wrong_kind") /* the name is a counter where a lock is needed, or the reverse */ \
    X(NOT_ISSUED, "not_issued") /* fence check: no grant has this token yet (S11) */

enum reason {
#define X(symbol, word) REASON_##symbol,
    REASON_LIST(X)
#undef X
        REASON_COUNT
};

/* How a grant or a session ended; kept for the last LIMIT_ENDED of each (S8.3). */
#define ENDED_LIST(X)                                                       \
    X(NOT, "not")                                                           \
    X(RELEASED, "released")                                                 \
    X(SESSION_CLOSED, "session_closed")                                     \
    X(EXPIRED, "expired") /* its own TTL, or that of its private session */ \
    X(SESSION_EXPIRED, "session_expired")                                   \
    X(FORCED, "forced")                                                     \
    X(REVOKED, "revoked")                                                   \
    X(RECOVERED, "recovered") /* by the recovery of a lost majority (S3.3) */

enum ended {
#define X(symbol, word) ENDED_##symbol,
    ENDED_LIST(X)
#undef X
        ENDED_COUNT
};

/* What clients other than its owner may see of a holder (S4.4). */
struct holder_view {
    struct slice client;
    struct slice owner;
    struct slice metadata;
    enum mode mode;
    uint32_t permits;
    uint64_t since_ms;
    uint64_t deadline_ms;
};

/* One owner in a cycle: it waits for `name`, which the next owner holds or waits for before it. */
struct cycle_step {
    struct slice client;
    struct slice owner;
    struct slice name;
};

/* Slices are borrowed from the state until the next command or sweep. */
struct result {
    enum command_type type;
    enum hf_error error; /* not HF_OK: nothing was done and the other fields are zero */
    enum outcome outcome;
    enum reason reason;
    enum ended ended;        /* of a grant that had already ended */
    bool replayed;           /* repeats the answer to an earlier command with this id */
    bool deadlock_unchecked; /* S6.4 */
    bool accepted;           /* fence check */
    enum mode mode;
    /* The grant's token. LEAD: the epoch. ADVANCE: C. transact: the last token given. fence_reset:
     * the mark before it. */
    uint64_t token;
    struct id lease;           /* the grant's; a replayed acquire gets the original one */
    uint64_t deadline_ms;      /* of the grant, the session or the revocation, in cluster time */
    uint64_t ttl_ms;           /* in force */
    uint64_t attachment;       /* QUEUED: the number to cancel with; stream_up: the stream's */
    uint64_t wait_deadline_ms; /* QUEUED; UINT64_MAX: none */
    uint64_t delayed_until_ms; /* REASON_DELAYED, also while a delay runs */
    uint64_t highest;          /* fence check and fence_reset: the mark afterwards */
    uint32_t slot;             /* of a semaphore grant (S11) */
    uint32_t depth;            /* how often the owner holds it */
    uint32_t queue_length;
    uint32_t queue_position; /* from 1; LIMIT_POSITION + 1: further back */
    /* Holders forced out or requested to release. Keep-alive: sessions reported. transact: effects
     * applied. ADVANCE: by how much C rose. */
    uint32_t count;
    bool more; /* force-unlock: call again for the rest (S2.1) */
    bool has_holder;
    uint32_t holders;
    struct holder_view holder; /* the first one */
    struct slice reserved_for; /* the client whose multi-lock reserves the free name (S6.2) */
    struct slice name;    /* the name, of several, that caused the refusal; transact: the key */
    const uint8_t *alive; /* keep-alive: an hf_error for each id: OK, NOT_FOUND, EXPIRED */
    const struct cycle_step *cycle; /* REASON_DEADLOCK; begins with the owner of this request */
    uint32_t cycle_length;
};

const char *reason_name(enum reason reason);
const char *ended_name(enum ended ended);

#endif
