/* The commands: the only way to change the state of the locks. One list below gives each command
 * its struct, encoding, decoding, name and the digest that recognises a repeated request id (S8.1).
 *
 * Roles of fields: BODY comes from the client and is part of the digest. EDGE was drawn by the node
 * that received the request (lease ids, its own number) and may differ in a retry. */
#ifndef HOLDFAST_CORE_COMMAND_H
#define HOLDFAST_CORE_COMMAND_H

#include "base/error.h"
#include "base/limits.h"
#include "base/slice.h"
#include "core/effect.h"

enum mode {
    MODE_EXCLUSIVE,
    MODE_SHARED,
    MODE_SEMAPHORE,
    MODE_ELECTION, /* exclusive, and its holder is announced as the leader */
    MODE_COUNT
};

const char *mode_name(enum mode mode);

/* The class of a name while it has holders or waiters (S6.3): exclusive and shared requests share
 * one queue; semaphores and elections do not mix with others. */
static inline enum mode mode_class(enum mode mode)
{
    return mode == MODE_SHARED ? MODE_EXCLUSIVE : mode;
}

enum {
    ACQUIRE_REENTRANT = 1,       /* the same (session, owner) may acquire it again (S4.1) */
    ACQUIRE_DETECT_DEADLOCK = 2, /* S6.4 */
    ACQUIRE_KEY = 4,             /* a key with a value (S13): exclusive, one name, no session */
    ACQUIRE_FLAGS = 7
};

#define WAIT_FOREVER UINT64_MAX

/* Prefix of a request id that a node drew; 32 hexadecimal digits follow. The core remembers such
 * ids separately from those of clients (S8.3). */
#define REQUEST_ID_NODE "node-"
#define REQUEST_ID_LEASE "lease-" /* of an acquire: the digits are its lease id */

struct names {
    uint32_t count;
    struct slice at[LIMIT_MULTILOCK_NAMES];
};

struct ids {
    uint32_t count;
    const uint8_t *packed; /* count times two little-endian 64-bit numbers, high first */
};

struct id ids_at(const struct ids *ids, uint32_t i);

/*        symbol        name           what it does */
#define COMMAND_LIST(X)                                                                          \
    X(LEAD, lead)       /* a new leader's first entry; starts an epoch (S1.3, S3.1) */           \
    X(TICK, tick)       /* lets time pass */                                                     \
    X(ADVANCE, advance) /* reserves tokens (S3.1) */                                             \
    X(UPGRADE, upgrade) /* raises the version of the state machine */                            \
    X(SESSION_OPEN, session_open)                                                                \
    X(KEEPALIVE, keepalive) /* many sessions in one command (S4.5) */                            \
    X(SESSION_CLOSE, session_close)                                                              \
    X(STREAM_UP, stream_up)     /* the session's stream is connected (S4.6) */                   \
    X(STREAM_DOWN, stream_down) /* the session's stream is broken (S4.6) */                      \
    X(ACQUIRE, acquire)         /* one name or several; with or without waiting */               \
    X(CANCEL, cancel)           /* a waiter leaves its queue (S7.1, S7.2) */                     \
    X(DETACH, detach)           /* a waiter lost its connection and keeps its place (S7.3) */    \
    X(NODE_GONE, node_gone)     /* all waiters attached through that node are detached (S7.3) */ \
    X(RELEASE, release)                                                                          \
    X(RENEW, renew)                                                                              \
    X(PROCLAIM, proclaim) /* an election's leader changes its value */                           \
    X(FORCE_UNLOCK, force_unlock)                                                                \
    X(REVOKE, revoke)           /* requests the holders to release by a deadline */              \
    X(FENCE_CHECK, fence_check) /* S11 */                                                        \
    X(TRANSACT, transact)       /* compares keys and changes them, all or nothing (S13) */       \
    X(NOTE, note) /* an operator's action in the tier without a log, for the audit trail */      \
    X(FENCE_RESET, fence_reset)       /* an operator sets the mark of a resource (S11) */        \
    X(STREAM_THROUGH, stream_through) /* as STREAM_UP, with the node of the stream */

/*      role, type, name, largest value or length */
#define COMMAND_FIELDS_lead(F) F(EDGE, u32, node, UINT32_MAX)
#define COMMAND_FIELDS_tick(F)
#define COMMAND_FIELDS_advance(F)
#define COMMAND_FIELDS_upgrade(F) F(BODY, u32, version, UINT32_MAX)
#define COMMAND_FIELDS_session_open(F)   \
    F(EDGE, id, id, 0)                   \
    F(BODY, slice, client, LIMIT_CLIENT) \
    F(BODY, u32, ttl_ms, UINT32_MAX)     \
    F(BODY, u32, linger_ms, UINT32_MAX)  \
    F(BODY, slice, metadata, LIMIT_METADATA)
#define COMMAND_FIELDS_keepalive(F) F(EDGE, ids, sessions, LIMIT_KEEPALIVE_IDS)
#define COMMAND_FIELDS_session_close(F)
#define COMMAND_FIELDS_stream_up(F)
#define COMMAND_FIELDS_stream_through(F) F(EDGE, u32, node, UINT32_MAX)
#define COMMAND_FIELDS_stream_down(F) F(EDGE, u64, stream, UINT64_MAX)
#define COMMAND_FIELDS_acquire(F)                \
    F(EDGE, id, lease, 0)                        \
    F(EDGE, u32, node, UINT32_MAX)               \
    F(BODY, slice, client, LIMIT_CLIENT)         \
    F(BODY, slice, owner, LIMIT_OWNER)           \
    F(BODY, names, names, LIMIT_MULTILOCK_NAMES) \
    F(BODY, u32, mode, MODE_COUNT - 1)           \
    F(BODY, u32, limit, UINT32_MAX)              \
    F(BODY, u32, permits, UINT32_MAX)            \
    F(BODY, u32, ttl_ms, UINT32_MAX)             \
    F(BODY, u64, wait_ms, UINT64_MAX)            \
    F(BODY, u32, delay_ms, UINT32_MAX)           \
    F(BODY, u32, flags, ACQUIRE_FLAGS)           \
    F(BODY, slice, metadata, LIMIT_METADATA)     \
    F(BODY, slice, value, LIMIT_VALUE)
#define COMMAND_FIELDS_cancel(F) \
    F(EDGE, id, lease, 0)        \
    F(EDGE, u64, attachment, UINT64_MAX)
#define COMMAND_FIELDS_detach(F) \
    F(EDGE, id, lease, 0)        \
    F(EDGE, u64, attachment, UINT64_MAX)
#define COMMAND_FIELDS_node_gone(F) F(EDGE, u32, node, UINT32_MAX)
/* A grant is identified by its lease id or its token. With a token, name and client are checked
 * when given. The token of a single lock needs its name; that of a multi-lock does not. */
#define COMMAND_FIELDS_release(F)        \
    F(BODY, slice, name, LIMIT_NAME)     \
    F(BODY, slice, client, LIMIT_CLIENT) \
    F(BODY, id, lease, 0)                \
    F(BODY, u64, token, LIMIT_NUMBER - 1)
#define COMMAND_FIELDS_renew(F)           \
    F(BODY, slice, name, LIMIT_NAME)      \
    F(BODY, slice, client, LIMIT_CLIENT)  \
    F(BODY, id, lease, 0)                 \
    F(BODY, u64, token, LIMIT_NUMBER - 1) \
    F(BODY, u32, ttl_ms, UINT32_MAX)
#define COMMAND_FIELDS_proclaim(F)        \
    F(BODY, slice, name, LIMIT_NAME)      \
    F(BODY, slice, client, LIMIT_CLIENT)  \
    F(BODY, u64, token, LIMIT_NUMBER - 1) \
    F(BODY, slice, value, LIMIT_VALUE)
#define COMMAND_FIELDS_force_unlock(F)   \
    F(BODY, slice, name, LIMIT_NAME)     \
    F(BODY, slice, actor, LIMIT_ACTOR)   \
    F(BODY, slice, reason, LIMIT_REASON) \
    F(BODY, u32, now, 1)
#define COMMAND_FIELDS_revoke(F)         \
    F(BODY, slice, name, LIMIT_NAME)     \
    F(BODY, slice, actor, LIMIT_ACTOR)   \
    F(BODY, slice, reason, LIMIT_REASON) \
    F(BODY, u32, grace_ms, UINT32_MAX)
#define COMMAND_FIELDS_fence_check(F)     \
    F(BODY, slice, resource, LIMIT_NAME)  \
    F(BODY, u32, slot, LIMIT_HOLDERS - 1) \
    F(BODY, u64, token, LIMIT_NUMBER - 1)
/* The node draws the id once and keeps it for its retries. `client` becomes the holder of acquired
 * names. actor and reason are required when something is dropped by force. */
#define COMMAND_FIELDS_transact(F)        \
    F(EDGE, id, id, 0)                    \
    F(BODY, slice, client, LIMIT_CLIENT)  \
    F(BODY, slice, actor, LIMIT_ACTOR)    \
    F(BODY, slice, reason, LIMIT_REASON)  \
    F(BODY, checks, checks, LIMIT_CHECKS) \
    F(BODY, effects, effects, LIMIT_EFFECTS)

/* `action` is the action of the record (audit_view.kind). */
#define COMMAND_FIELDS_note(F)           \
    F(BODY, u32, action, UINT32_MAX)     \
    F(BODY, slice, name, LIMIT_NAME)     \
    F(BODY, slice, actor, LIMIT_ACTOR)   \
    F(BODY, slice, reason, LIMIT_REASON) \
    F(BODY, u32, count, UINT32_MAX)

/* `token` becomes the mark; 0: a token above all issued ones, which no grant has. */
#define COMMAND_FIELDS_fence_reset(F)     \
    F(BODY, slice, resource, LIMIT_NAME)  \
    F(BODY, u32, slot, LIMIT_HOLDERS - 1) \
    F(BODY, u64, token, LIMIT_NUMBER - 1) \
    F(BODY, slice, actor, LIMIT_ACTOR)    \
    F(BODY, slice, reason, LIMIT_REASON)

enum command_type {
    COMMAND_NONE,
#define X(symbol, name) COMMAND_##symbol,
    COMMAND_LIST(X)
#undef X
        COMMAND_COUNT
};

#define COMMAND_C_u32 uint32_t
#define COMMAND_C_u64 uint64_t
#define COMMAND_C_id struct id
#define COMMAND_C_ids struct ids
#define COMMAND_C_slice struct slice
#define COMMAND_C_names struct names
#define COMMAND_C_checks struct packed
#define COMMAND_C_effects struct packed

#define F(role, type, name, max) COMMAND_C_##type name;
#define X(symbol, name)                          \
    struct command_##name {                      \
        COMMAND_FIELDS_##name(F) uint8_t unused; \
    };
COMMAND_LIST(X)
#undef X
#undef F

/* The slices point into the decoded bytes, or into memory of the caller. */
struct command {
    enum command_type type;
    uint32_t tenant;         /* 0 for now (S12.9) */
    struct id session;       /* zero: none */
    struct slice request_id; /* empty: none (S8.1) */
    uint64_t seq;            /* 0: none; only in a session (S8.2) */
    uint64_t acked_through;
    union {
#define X(symbol, name) struct command_##name name;
        COMMAND_LIST(X)
#undef X
    };
};

const char *command_name(enum command_type type);

/* Sets the common fields and the scalars of the command's own part to zero. */
void command_init(struct command *command, enum command_type type);

/* The encoded length, or 0 when it exceeds `size`. */
size_t command_encode(const struct command *command, void *buffer, size_t size);

/* Decodes exactly these bytes; HF_MALFORMED leaves `out` unspecified. Checks only the form;
 * command_check has the rules. */
enum hf_error command_decode(struct slice bytes, struct command *out);

/* The rules that need no state: lengths, text, ranges. The receiving node calls it to refuse early.
 * core_apply calls it again, so that an invalid command changes nothing on any node. */
enum hf_error command_check(const struct command *command);

/* The first version of the state machine that supports the command (core.h). */
static inline uint32_t command_since(const struct command *command)
{
    if (command->type == COMMAND_FENCE_RESET || command->type == COMMAND_STREAM_THROUGH) {
        return 4;
    }
    if (command->type == COMMAND_TRANSACT) {
        return effects_since(&command->transact.effects);
    }
    bool is_key = command->type == COMMAND_ACQUIRE && (command->acquire.flags & ACQUIRE_KEY) != 0;
    return is_key || command->type == COMMAND_NOTE ? 2 : 1;
}

/* A digest of the type and the BODY fields. Two commands with the same request id must have the
 * same digest. */
uint64_t command_digest(const struct command *command);

#endif
