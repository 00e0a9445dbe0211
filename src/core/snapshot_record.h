/* The fields of the records of a snapshot that are written and read from one list each: sessions,
 * grants, waiters with their places, and audit records. See core/field.h for the lists.
 *
 * The role of a field is the condition under which the record has it, by fields before it. */
#ifndef HOLDFAST_CORE_SNAPSHOT_RECORD_H
#define HOLDFAST_CORE_SNAPSHOT_RECORD_H

#include "core/snapshot_format.h"

/* The mode and the flags of a grant, a waiter or a place. Up to version 4 they share a byte, with
 * the mode in the two lowest bits. */
struct record_head {
    uint8_t mode;
    uint32_t flags;
};

/* How a waiter or a grant identifies the request that it answers. The kind is in the flags. */
struct tie {
    unsigned kind;
    struct slice id;
    uint64_t digest;
    uint64_t seq;
};

/* What a grant of a key has besides; flags 0: it is not a key. */
struct key_mark {
    uint8_t flags; /* GRANT_KEY_FLAGS */
    uint32_t changes;
};

typedef uint8_t FIELD_C_byte; /* always one byte, also above 127 */
typedef struct tie FIELD_C_tie;
typedef struct key_mark FIELD_C_key;
typedef struct carried FIELD_C_carried;

#define SESSION_RECORD(F)                                                        \
    F(true, 1, u32, flags, SESSION_FLAGS)                                        \
    F(true, 1, u32, tenant, UINT32_MAX)                                          \
    F(true, 1, id, id, 0)                                                        \
    F(true, 1, slice, client, LIMIT_CLIENT)                                      \
    F(true, 1, u64, ttl_ms, UINT64_MAX)                                          \
    F(true, 1, u64, life_ms, UINT64_MAX)                                         \
    F((f->flags & SESSION_HAS_TIMER) != 0, 1, u64, timer_ms, UINT64_MAX)         \
    F((f->flags & SESSION_HAS_EXTRA) != 0, 1, u64, acked_through, UINT64_MAX)    \
    F((f->flags & SESSION_HAS_EXTRA) != 0, 1, u64, stream, UINT64_MAX)           \
    F((f->flags & SESSION_HAS_EXTRA) != 0, 1, u32, linger_ms, UINT32_MAX)        \
    F((f->flags & SESSION_HAS_EXTRA) != 0, 1, u64, lingers_until_ms, UINT64_MAX) \
    F((f->flags & SESSION_HAS_EXTRA) != 0, 4, u32, node, UINT32_MAX)             \
    F((f->flags & SESSION_HAS_EXTRA) != 0, 1, slice, metadata, LIMIT_METADATA)   \
    F(true, 6, u32, principal, UINT32_MAX)

struct session_record {
    SESSION_RECORD(FIELD_MEMBER)
};

/* After its head. is_private: of the session, in which the lease id is the session's id. */
#define GRANT_RECORD(F)                                                           \
    F(true, 1, slice, name, LIMIT_NAME)                                           \
    F(true, 1, u64, token, UINT64_MAX)                                            \
    F(true, 1, u64, since_ms, UINT64_MAX)                                         \
    F(true, 1, u64, parts, UINT64_MAX)                                            \
    F(true, 1, u64, depth, UINT64_MAX)                                            \
    F(true, 1, u64, delay_ms, UINT64_MAX)                                         \
    F(true, 1, slice, owner, LIMIT_OWNER)                                         \
    F(!f->is_private, 1, id, lease, 0)                                            \
    F(f->head.mode == MODE_SEMAPHORE, 1, u64, limit, UINT64_MAX)                  \
    F(f->head.mode == MODE_SEMAPHORE, 1, u64, permits, UINT64_MAX)                \
    F(f->head.mode == MODE_SEMAPHORE, 1, u64, slot, UINT64_MAX)                   \
    F(true, 1, u64, ttl_ms, UINT64_MAX)                                           \
    F(true, 1, carried, carried, 0)                                               \
    F((f->head.flags & GRANT_HAS_LIFE) != 0, 1, u64, life_ms, UINT64_MAX)         \
    F((f->head.flags & GRANT_HAS_REVOKE) != 0, 1, u64, revoke_at_ms, UINT64_MAX)  \
    F((f->head.flags & GRANT_HAS_REVOKE) != 0, 1, u64, revoke_record, UINT64_MAX) \
    F((f->head.flags & GRANT_HAS_TIMER) != 0, 1, u64, timer_ms, UINT64_MAX)       \
    F(true, 1, tie, tie, 0)                                                       \
    F(true, 1, key, key, 0)                                                       \
    F((f->head.flags & GRANT_HAS_MAX_HOLD) != 0, 7, u64, hold_until_ms, UINT64_MAX)

struct grant_record {
    struct record_head head;
    bool is_private;
    GRANT_RECORD(FIELD_MEMBER)
};

/* After its head; its places follow. A waiter of a private session has the number of its list of
 * waiters in place of the lease id. */
#define WAITER_RECORD(F)                                                                \
    F(true, 1, u32, acquire_flags, UINT8_MAX)                                           \
    F(true, 1, u64, ticket, UINT64_MAX)                                                 \
    F(true, 1, u64, attachment, UINT64_MAX)                                             \
    F(true, 1, u32, node, UINT32_MAX)                                                   \
    F(true, 1, u64, ttl_ms, UINT64_MAX)                                                 \
    F(true, 1, u64, delay_ms, UINT64_MAX)                                               \
    F(true, 1, slice, owner, LIMIT_OWNER)                                               \
    F(true, 1, carried, carried, 0)                                                     \
    F(f->is_private, 1, u64, node_waiters_number, UINT64_MAX)                           \
    F(!f->is_private, 1, id, lease, 0)                                                  \
    F(f->head.mode == MODE_SEMAPHORE, 1, u64, limit, UINT64_MAX)                        \
    F(f->head.mode == MODE_SEMAPHORE, 1, u64, permits, UINT64_MAX)                      \
    F((f->head.flags & WAITER_HAS_DEADLINE) != 0, 1, u64, wait_deadline_ms, UINT64_MAX) \
    F((f->head.flags & WAITER_IS_DETACHED) != 0, 1, u64, detached_until_ms, UINT64_MAX) \
    F((f->head.flags & WAITER_HAS_TIMER) != 0, 1, u64, timer_ms, UINT64_MAX)            \
    F(true, 1, tie, tie, 0)                                                             \
    F(true, 1, u64, parts, UINT64_MAX)                                                  \
    F(true, 7, u64, since_ms, UINT64_MAX)                                               \
    F(true, 7, u32, max_hold_ms, UINT32_MAX)

struct waiter_record {
    struct record_head head;
    bool is_private;
    WAITER_RECORD(FIELD_MEMBER)
};

#define AUDIT_RECORD(F)                                                \
    F(true, 1, u64, number, UINT64_MAX)                                \
    F(true, 1, u64, index, UINT64_MAX)                                 \
    F(true, 1, u64, wall_ms, UINT64_MAX)                               \
    F(true, 1, u32, tenant, UINT32_MAX)                                \
    F(true, 1, byte, action, 0) /* AUDIT_IS_NOTE added */              \
    F(true, 1, u32, count, UINT32_MAX)                                 \
    F(true, 1, slice, resource, LIMIT_NAME)                            \
    F(true, 1, slice, actor, LIMIT_ACTOR)                              \
    F(true, 1, slice, reason, LIMIT_REASON)                            \
    F(f->action == AUDIT_FENCE_RESET, 1, u32, slot, UINT32_MAX)        \
    F(f->action == AUDIT_FENCE_RESET, 1, u64, mark_before, UINT64_MAX) \
    F(f->action == AUDIT_FENCE_RESET, 1, u64, mark_after, UINT64_MAX)  \
    F(true, 5, slice, trace, LIMIT_TRACE)

struct audit_fields {
    AUDIT_RECORD(FIELD_MEMBER)
};

/* Each pair writes and reads one record of a state of this version. A field that the record does
 * not have is zero after reading; timers and deadlines of waits are UINT64_MAX. Damaged bytes set
 * the reader's `bad`; the caller checks the values. `is_private` is that of the session. */
void session_record_write(struct writer *w, uint32_t version, const struct session_record *f);
void session_record_read(struct reader *r, uint32_t version, struct session_record *f);
void grant_record_write(struct writer *w, uint32_t version, const struct grant_record *f);
void grant_record_read(struct reader *r, uint32_t version, bool is_private, struct grant_record *f);
void waiter_record_write(struct writer *w, uint32_t version, const struct waiter_record *f);
void waiter_record_read(struct reader *r, uint32_t version, bool is_private,
                        struct waiter_record *f);
void audit_fields_write(struct writer *w, uint32_t version, const struct audit_fields *f);
void audit_fields_read(struct reader *r, uint32_t version, struct audit_fields *f);

/* `flags` is the union of the flags that the record may have. */
void record_head_write(struct writer *w, uint32_t version, const struct record_head *head);
struct record_head record_head_read(struct reader *r, uint32_t version, uint32_t flags);

#endif
