/* The commands: the only way to change the state. One list gives each command its struct, encoding,
 * name and the digest that recognises a repeated request id (S8.1).
 *
 * Roles of fields (core/field.h):
 *   BODY  from the client, part of the digest. A state of an earlier version refuses it
 *         (`not_upgraded`).
 *   EDGE  drawn by the receiving node (lease ids, its number); may differ in a retry.
 *   HINT  from the client, for display only: not part of the digest, left out while the state has
 *         an earlier version. */
#ifndef HOLDFAST_CORE_COMMAND_H
#define HOLDFAST_CORE_COMMAND_H

#include "base/error.h"
#include "base/limits.h"
#include "base/slice.h"
#include "core/effect.h"
#include "core/field.h"
#include "core/policy_change.h"

/* Modes and their words in every interface. */
#define MODE_LIST(X)          \
    X(EXCLUSIVE, "exclusive") \
    X(SHARED, "shared")       \
    X(SEMAPHORE, "semaphore") \
    X(ELECTION, "election") /* exclusive; the holder is announced as leader */

enum mode {
#define X(symbol, word) MODE_##symbol,
    MODE_LIST(X)
#undef X
        MODE_COUNT
};

const char *mode_name(enum mode mode);
/* In any case of letters; MODE_COUNT: no such mode. */
enum mode mode_of_word(struct slice word);

/* The class of a name in use (S6.3): exclusive and shared requests share one queue; semaphores and
 * elections mix with nothing. */
static inline enum mode mode_class(enum mode mode)
{
    return mode == MODE_SHARED ? MODE_EXCLUSIVE : mode;
}

enum {
    ACQUIRE_REENTRANT = 1,       /* its (session, owner) may acquire it again (S4.1) */
    ACQUIRE_DETECT_DEADLOCK = 2, /* S6.4 */
    ACQUIRE_KEY = 4,             /* a key with a value (S13): exclusive, one name, no session */
    ACQUIRE_FLAGS = 7
};

#define WAIT_FOREVER UINT64_MAX

/* TTL of a key that lives until it is deleted (S13.1); since version 8. */
#define TTL_NONE UINT64_MAX
/* A TTL that a key may have: 1 ms to 10 years, or none. */
bool key_ttl_is_valid(uint64_t ttl_ms);
/* The first version in which a key may have it. */
uint32_t key_ttl_since(uint64_t ttl_ms);

/* Prefix of a request id drawn by a node; 32 hexadecimal digits follow. The core remembers such ids
 * separately (S8.3). */
#define REQUEST_ID_NODE "node-"
#define REQUEST_ID_LEASE "lease-" /* of an acquire; the digits: its lease id */

struct names {
    uint32_t count;
    struct slice at[LIMIT_MULTILOCK_NAMES];
};

struct ids {
    uint32_t count;
    const uint8_t *packed; /* count times two little-endian 64-bit numbers, high first */
};

struct id ids_at(const struct ids *ids, uint32_t i);

/* Symbol, name, first version of the state. */
#define COMMAND_LIST(X)                                                                         \
    X(LEAD, lead, 1) /* first entry of a leader; starts an epoch (S1.3, S3.1) */                \
    X(TICK, tick, 1)                                                                            \
    X(ADVANCE, advance, 1) /* S3.1 */                                                           \
    X(UPGRADE, upgrade, 1)                                                                      \
    X(SESSION_OPEN, session_open, 1)                                                            \
    X(KEEPALIVE, keepalive, 1) /* of many sessions (S4.5) */                                    \
    X(SESSION_CLOSE, session_close, 1)                                                          \
    X(STREAM_UP, stream_up, 1)     /* S4.6 */                                                   \
    X(STREAM_DOWN, stream_down, 1) /* S4.6 */                                                   \
    X(ACQUIRE, acquire, 1)                                                                      \
    X(CANCEL, cancel, 1)       /* a waiter leaves its queue (S7.1, S7.2) */                     \
    X(DETACH, detach, 1)       /* a waiter without connection (S7.3) */                         \
    X(NODE_GONE, node_gone, 1) /* detaches all waiters of that node (S7.3) */                   \
    X(RELEASE, release, 1)                                                                      \
    X(RENEW, renew, 1)                                                                          \
    X(PROCLAIM, proclaim, 1) /* an election's leader changes its value */                       \
    X(FORCE_UNLOCK, force_unlock, 1)                                                            \
    X(REVOKE, revoke, 1)           /* requests a release by a deadline */                       \
    X(FENCE_CHECK, fence_check, 1) /* S11 */                                                    \
    X(TRANSACT, transact, 2)       /* compares and changes keys, all or nothing (S13) */        \
    X(NOTE, note, 2) /* operator action in the tier without a log, for the audit trail */       \
    X(FENCE_RESET, fence_reset, 4)       /* sets the mark of a resource (S11) */                \
    X(STREAM_THROUGH, stream_through, 4) /* STREAM_UP with the node */                          \
    X(POLICY_CHANGE, policy_change, 6)   /* tenants, principals, tokens (core/policy.h, S14) */ \
    X(ALERT_SET, alert_set, 7)           /* a long-held rule (S16.2) */                         \
    X(ALERT_REMOVE, alert_remove, 7)     /* ... */                                              \
    X(LONG_HELD, long_held, 7)           /* of the leader: a grant is past its rule */          \
    X(SINK_POSITION, sink_position, 7)   /* of the leader: events before it were delivered */

/* Role, since, type, name, largest value or length. */
#define COMMAND_FIELDS_lead(F) F(EDGE, 1, u32, node, UINT32_MAX)
#define COMMAND_FIELDS_tick(F)
#define COMMAND_FIELDS_advance(F)
#define COMMAND_FIELDS_upgrade(F) F(BODY, 1, u32, version, UINT32_MAX)
#define COMMAND_FIELDS_session_open(F)      \
    F(EDGE, 1, id, id, 0)                   \
    F(BODY, 1, slice, client, LIMIT_CLIENT) \
    F(BODY, 1, u32, ttl_ms, UINT32_MAX)     \
    F(BODY, 1, u32, linger_ms, UINT32_MAX)  \
    F(BODY, 1, slice, metadata, LIMIT_METADATA)
#define COMMAND_FIELDS_keepalive(F) F(EDGE, 1, ids, sessions, LIMIT_KEEPALIVE_IDS)
#define COMMAND_FIELDS_session_close(F)
#define COMMAND_FIELDS_stream_up(F)
#define COMMAND_FIELDS_stream_through(F) F(EDGE, 1, u32, node, UINT32_MAX)
#define COMMAND_FIELDS_stream_down(F) F(EDGE, 1, u64, stream, UINT64_MAX)
#define COMMAND_FIELDS_acquire(F)                                              \
    F(EDGE, 1, id, lease, 0)                                                   \
    F(EDGE, 1, u32, node, UINT32_MAX)                                          \
    F(BODY, 1, slice, client, LIMIT_CLIENT)                                    \
    F(BODY, 1, slice, owner, LIMIT_OWNER)                                      \
    F(BODY, 1, names, names, LIMIT_MULTILOCK_NAMES)                            \
    F(BODY, 1, u32, mode, MODE_COUNT - 1)                                      \
    F(BODY, 1, u32, limit, UINT32_MAX)                                         \
    F(BODY, 1, u32, permits, UINT32_MAX)                                       \
    F(BODY, 1, u64, ttl_ms, UINT64_MAX) /* above 24 h only of a key (S13.1) */ \
    F(BODY, 1, u64, wait_ms, UINT64_MAX)                                       \
    F(BODY, 1, u32, delay_ms, UINT32_MAX)                                      \
    F(BODY, 1, u32, flags, ACQUIRE_FLAGS)                                      \
    F(BODY, 1, slice, metadata, LIMIT_METADATA)                                \
    F(BODY, 1, slice, value, LIMIT_VALUE)                                      \
    F(HINT, 5, slice, trace, LIMIT_TRACE)                                      \
    F(BODY, 7, u32, max_hold_ms, UINT32_MAX) /* 0: none (S16.3) */
/* Fields of an acquire that its waiter and grant carry. */
#define CARRIED_FIELDS(F)                                                      \
    F(CARRIED, 1, slice, metadata, LIMIT_METADATA)                             \
    F(CARRIED, 1, slice, value, LIMIT_KEY_VALUE) /* of an election or a key */ \
    F(CARRIED, 5, slice, trace, LIMIT_TRACE)     /* traceparent, or empty */

#define COMMAND_FIELDS_cancel(F) \
    F(EDGE, 1, id, lease, 0)     \
    F(EDGE, 1, u64, attachment, UINT64_MAX)
#define COMMAND_FIELDS_detach(F) \
    F(EDGE, 1, id, lease, 0)     \
    F(EDGE, 1, u64, attachment, UINT64_MAX)
#define COMMAND_FIELDS_node_gone(F) F(EDGE, 1, u32, node, UINT32_MAX)
/* A lease id or a token identifies the grant. With a token, name and client are checked when given.
 * The token of a single lock needs its name; that of a multi-lock does not. */
#define COMMAND_FIELDS_release(F)           \
    F(BODY, 1, slice, name, LIMIT_NAME)     \
    F(BODY, 1, slice, client, LIMIT_CLIENT) \
    F(BODY, 1, id, lease, 0)                \
    F(BODY, 1, u64, token, LIMIT_NUMBER - 1)
#define COMMAND_FIELDS_renew(F)              \
    F(BODY, 1, slice, name, LIMIT_NAME)      \
    F(BODY, 1, slice, client, LIMIT_CLIENT)  \
    F(BODY, 1, id, lease, 0)                 \
    F(BODY, 1, u64, token, LIMIT_NUMBER - 1) \
    F(BODY, 1, u32, ttl_ms, UINT32_MAX)
#define COMMAND_FIELDS_proclaim(F)           \
    F(BODY, 1, slice, name, LIMIT_NAME)      \
    F(BODY, 1, slice, client, LIMIT_CLIENT)  \
    F(BODY, 1, u64, token, LIMIT_NUMBER - 1) \
    F(BODY, 1, slice, value, LIMIT_VALUE)
/* `if_token`, if not 0: only the holder with this token, else token_mismatch. */
#define COMMAND_FIELDS_force_unlock(F)      \
    F(BODY, 1, slice, name, LIMIT_NAME)     \
    F(BODY, 1, slice, actor, LIMIT_ACTOR)   \
    F(BODY, 1, slice, reason, LIMIT_REASON) \
    F(BODY, 1, u32, now, 1)                 \
    F(BODY, 7, u64, if_token, LIMIT_NUMBER - 1)
#define COMMAND_FIELDS_revoke(F)            \
    F(BODY, 1, slice, name, LIMIT_NAME)     \
    F(BODY, 1, slice, actor, LIMIT_ACTOR)   \
    F(BODY, 1, slice, reason, LIMIT_REASON) \
    F(BODY, 1, u32, grace_ms, UINT32_MAX)   \
    F(BODY, 7, u64, if_token, LIMIT_NUMBER - 1)
#define COMMAND_FIELDS_fence_check(F)        \
    F(BODY, 1, slice, resource, LIMIT_NAME)  \
    F(BODY, 1, u32, slot, LIMIT_HOLDERS - 1) \
    F(BODY, 1, u64, token, LIMIT_NUMBER - 1)
/* The node keeps the id for its retries. `client` becomes the holder of acquired names. A forced
 * drop requires actor and reason. */
#define COMMAND_FIELDS_transact(F)           \
    F(EDGE, 1, id, id, 0)                    \
    F(BODY, 1, slice, client, LIMIT_CLIENT)  \
    F(BODY, 1, slice, actor, LIMIT_ACTOR)    \
    F(BODY, 1, slice, reason, LIMIT_REASON)  \
    F(BODY, 1, checks, checks, LIMIT_CHECKS) \
    F(BODY, 1, effects, effects, LIMIT_EFFECTS)

/* Of a note, since version 6: `count` denied calls of the command's principal; refused nodes. Since
 * version 7: changes of members, a transfer of leadership, a changed setting. */
enum {
    NOTE_DENIED = 9,
    NOTE_PEER_REFUSED = 10,
    NOTE_MEMBER_ADD = 11,
    NOTE_MEMBER_PROMOTE,
    NOTE_MEMBER_DEMOTE,
    NOTE_MEMBER_REMOVE,
    NOTE_TRANSFER,
    NOTE_SETTING
};

/* `action`: audit_view.kind. */
#define COMMAND_FIELDS_note(F)              \
    F(BODY, 1, u32, action, UINT32_MAX)     \
    F(BODY, 1, slice, name, LIMIT_NAME)     \
    F(BODY, 1, slice, actor, LIMIT_ACTOR)   \
    F(BODY, 1, slice, reason, LIMIT_REASON) \
    F(BODY, 1, u32, count, UINT32_MAX)      \
    F(BODY, 7, slice, trace, LIMIT_TRACE) /* of the first holder; empty: none */

/* `token` becomes the mark; 0: a token above all issued ones, which no grant has. */
#define COMMAND_FIELDS_fence_reset(F)        \
    F(BODY, 1, slice, resource, LIMIT_NAME)  \
    F(BODY, 1, u32, slot, LIMIT_HOLDERS - 1) \
    F(BODY, 1, u64, token, LIMIT_NUMBER - 1) \
    F(BODY, 1, slice, actor, LIMIT_ACTOR)    \
    F(BODY, 1, slice, reason, LIMIT_REASON)

/* All or nothing. `expect`: the version of the policy that it was made for; UINT64_MAX: any.
 * `origin`: enum policy_origin. `end_sessions`: the next entries end the sessions and
 * waiters of all principals that do not exist afterwards. */
#define COMMAND_FIELDS_policy_change(F)     \
    F(BODY, 1, u64, expect, UINT64_MAX)     \
    F(BODY, 1, slice, actor, LIMIT_ACTOR)   \
    F(BODY, 1, slice, reason, LIMIT_REASON) \
    F(BODY, 1, u32, origin, UINT32_MAX)     \
    F(BODY, 1, u32, end_sessions, 1)        \
    F(BODY, 1, changes, changes, LIMIT_POLICY_CHANGES)

/* Replaces the rule of this prefix; an empty prefix: every name of the tenant. */
#define COMMAND_FIELDS_alert_set(F)       \
    F(BODY, 1, slice, prefix, LIMIT_NAME) \
    F(BODY, 1, u64, held_ms, UINT64_MAX)  \
    F(BODY, 1, slice, actor, LIMIT_ACTOR) \
    F(BODY, 1, slice, reason, LIMIT_REASON)
#define COMMAND_FIELDS_alert_remove(F)    \
    F(BODY, 1, slice, prefix, LIMIT_NAME) \
    F(BODY, 1, slice, actor, LIMIT_ACTOR) \
    F(BODY, 1, slice, reason, LIMIT_REASON)
/* Does nothing when the grant is not held any more, not past its rule, or marked already. */
#define COMMAND_FIELDS_long_held(F)     \
    F(EDGE, 1, slice, name, LIMIT_NAME) \
    F(EDGE, 1, u64, token, LIMIT_NUMBER - 1)
/* The sink has all events up to (index, ordinal). It never goes back. */
#define COMMAND_FIELDS_sink_position(F)      \
    F(EDGE, 1, slice, name, LIMIT_SINK_NAME) \
    F(EDGE, 1, u64, index, LIMIT_NUMBER - 1) \
    F(EDGE, 1, u32, ordinal, UINT32_MAX)

enum command_type {
    COMMAND_NONE,
#define X(symbol, name, since) COMMAND_##symbol,
    COMMAND_LIST(X)
#undef X
        COMMAND_COUNT
};

FIELD_NUMBER_TYPE(command_type, enum command_type)
FIELD_NUMBER_TYPE(mode, enum mode)

struct carried {
    CARRIED_FIELDS(FIELD_MEMBER)
};

typedef struct ids FIELD_C_ids;
typedef struct names FIELD_C_names;
typedef struct packed FIELD_C_checks;
typedef struct packed FIELD_C_effects;
typedef struct packed FIELD_C_changes;

#define X(symbol, name, since)                              \
    struct command_##name {                                 \
        COMMAND_FIELDS_##name(FIELD_MEMBER) uint8_t unused; \
    };
COMMAND_LIST(X)
#undef X

/* Of every command. */
#define COMMAND_COMMON_FIELDS(F)                                                         \
    F(COMMON, 1, u32, tenant, UINT32_MAX) /* S14 */                                      \
    F(COMMON, 1, id, session, 0)                                                         \
    F(COMMON, 1, slice, request_id, LIMIT_REQUEST_ID) /* empty: none (S8.1) */           \
    F(COMMON, 1, u64, seq, UINT64_MAX)                /* 0: none; in a session (S8.2) */ \
    F(COMMON, 1, u64, acked_through, UINT64_MAX)                                         \
    F(COMMON, 6, u32, principal, UINT32_MAX) /* that sent it; 0: none (S14) */

/* Slices point into the decoded bytes or the caller's memory. */
struct command {
    enum command_type type;
    COMMAND_COMMON_FIELDS(FIELD_MEMBER)
    union {
#define X(symbol, name, since) struct command_##name name;
        COMMAND_LIST(X)
#undef X
    };
};

const char *command_name(enum command_type type);

/* Zeroes the common fields and the scalars of the command. */
void command_init(struct command *command, enum command_type type);

/* Encodes for a state of this version; CORE_VERSION: a copy for this program. Leaves out HINT
 * fields of a later version; other such fields must not be set (command_since). The lowest format
 * with all set fields is used, so the encoding is unique. Returns the length; 0: larger than
 * `size`. */
size_t command_encode(const struct command *command, uint32_t version, void *buffer, size_t size);

/* Decodes exactly these bytes and checks only their form. HF_MALFORMED and HF_VERSION (a newer
 * program wrote them) leave `out` unspecified. */
enum hf_error command_decode(struct slice bytes, struct command *out);

/* The rules that need no state. The receiving node calls it to refuse early; core_apply calls it
 * again, so an invalid command changes nothing on any node. */
enum hf_error command_check(const struct command *command);

/* What a state of this version keeps. */
struct carried carried_by(const struct command_acquire *acquire, uint32_t version);

/* command_check for these fields, also for a snapshot's. */
enum hf_error carried_check(const struct carried *carried, enum mode mode, bool is_key);

/* Clears HINT fields that this version does not have. */
void command_drop_hints(struct command *command, uint32_t version);

/* The first version that supports its type, effects and fields other than HINTs. */
uint32_t command_since(const struct command *command);

/* Digest of type and BODY fields; equal for all commands with one request id. A field later than
 * version 4 is included only when set: a retry across an upgrade keeps its digest. */
uint64_t command_digest(const struct command *command);

#endif
