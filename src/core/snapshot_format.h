/* The layout of a snapshot.
 *
 *   magic (8 bytes), format and state version (4 bytes each, little-endian)
 *   records: length (LEB128), then so many bytes: the type (1 byte) and its fields
 *   an end record, which counts those before it
 *   the XXH3 checksum (8 bytes, little-endian) of everything before
 *
 * The types are in the order of their numbers, the records of a type in the order of a ring of
 * the state. A session is followed by what it owns: replies, grants (a multi-lock's first part,
 * then the others), waiters. Nothing depends on hash tables, the heap or the pool: a state has
 * exactly one form, everywhere and after reading and writing it again.
 *
 * The format follows from the version of the state: every member that supports the version can
 * read it. Format 8 is of version 9: lists, sorted sets and sets. Format 7 is of version 8: TTLs of keys above 24 h, and none. Format 6 is of version 7: rows of the wall clock, long-held rules, positions of sinks.
 * Format 5 is of version 6: the records of a type are in the order of their tenants,
 * TENANT has the numbers of each tenant other than 0, and POLICY the policy. Format 4 is of version
 * 5: its heads are wider (snapshot_record.h). Format 3 is of version 4. Format 2 is of versions 2 and 3: no deadlines of counters, no node of a stream, no
 * DRAWN_REQUEST or OPERATOR_REQUEST; its end record has the number of the first of them. Format
 * 1 is of version 1: also no counters and transactions, with a lower end record; the state
 * record has one field less. */
#ifndef HOLDFAST_CORE_SNAPSHOT_FORMAT_H
#define HOLDFAST_CORE_SNAPSHOT_FORMAT_H

#include "core/state.h"

#define SNAPSHOT_MAGIC "\x89HFsnap\n" /* not text: a transfer in text mode damages it */
#define SNAPSHOT_FORMAT 8

enum {
    SNAPSHOT_MAGIC_BYTES = 8,
    SNAPSHOT_HEADER_BYTES = 16,
    SNAPSHOT_CHECKSUM_BYTES = 8,
    /* Upper bound: a key has 64 KiB of value; a waiter for 64 names has 33 KiB of names, 8 KiB of
     * metadata and value; less than 1 KiB of other fields. */
    SNAPSHOT_RECORD_MAX = 72 * 1024,
    SNAPSHOT_LENGTH_BYTES = 3, /* of a length field, at most */
};

#define SNAPSHOT_RECORDS(X)                                                      \
    X(STATE, state)                                                              \
    X(NODE_WAITERS, node_waiters)                                                \
    X(SESSION, session)                                                          \
    X(REPLY, reply) /* of the session; by seq */                                 \
    X(GRANT, grant) /* of the session */                                         \
    X(PART, part)   /* second and later names of a multi-lock */                 \
    X(WAITER, waiter)                                                            \
    X(REVISIT, revisit) /* node_waiters in core->revisits */                     \
    X(DELAYED, delayed)                                                          \
    X(WOKEN, woken)                                                              \
    X(REQUEST, request) /* by id, done: DONE_OF_CLIENTS */                       \
    X(ENDED_GRANT, ended_grant)                                                  \
    X(ENDED_SESSION, ended_session)                                              \
    X(FENCE, fence)                                                              \
    X(AUDIT, audit)                                                              \
    X(COUNTER, counter)                                                          \
    X(TRANSACT, transact)                                                        \
    X(DRAWN_REQUEST, drawn_request)       /* DONE_DRAWN */                       \
    X(OPERATOR_REQUEST, operator_request) /* DONE_OF_OPERATORS, with the time */ \
    X(TENANT, tenant)                                                            \
    X(POLICY, policy) /* a head, then the rows: policy_each_record */            \
    X(WALL_ROW, wall_row)                                                        \
    X(ALERT, alert) /* by tenant, then by prefix */                              \
    X(SINK, sink)   /* in the order of the last change */                        \
    X(END, end)

enum record_type {
    RECORD_NONE,
#define X(symbol, name) RECORD_##symbol,
    SNAPSHOT_RECORDS(X)
#undef X
        RECORD_COUNT
};

static inline uint32_t snapshot_format_of(uint32_t version)
{
    return version == 1 ? 1 : version < 4 ? 2 : version - 1;
}

/* The number of the end record. */
static inline uint8_t snapshot_end_of(uint32_t format)
{
    return format == 1   ? RECORD_COUNTER
           : format == 2 ? RECORD_DRAWN_REQUEST
           : format < 5  ? RECORD_TENANT
           : format == 5 ? RECORD_WALL_ROW
                         : RECORD_END;
}

/* Flags select optional fields. The two lowest bits of a grant's, waiter's and place's flags are
 * unused: up to version 4 they have the mode (snapshot_record.h); of a place, the name's. */
enum {
    AUDIT_IS_NOTE = 0x80, /* added to the action; since version 3 */

    SESSION_IS_PRIVATE = 1,
    SESSION_HAS_TIMER = 2,
    SESSION_HAS_EXTRA = 4,
    SESSION_IS_PURGE_CURSOR = 8, /* core->purge_at; since version 6 */
    SESSION_FLAGS = 15,

    MODE_BITS = 3,
    GRANT_LOCK_HAS_EXTRA = 4,
    GRANT_HAS_LIFE = 8,
    GRANT_HAS_REVOKE = 16,
    GRANT_HAS_TIMER = 32,
    GRANT_REQUEST_SHIFT = 6, /* two bits */
    GRANT_FLAGS = 252,
    GRANT_HAS_MAX_HOLD = 256, /* since version 7 */
    GRANT_WAS_LONG_HELD = 512,
    GRANT_FLAGS_7 = GRANT_FLAGS | GRANT_HAS_MAX_HOLD | GRANT_WAS_LONG_HELD,

    PART_WAS_LONG_HELD = 8, /* since version 7, beside GRANT_LOCK_HAS_EXTRA */

    WAITER_HAS_DEADLINE = 4,
    WAITER_IS_DETACHED = 8,
    WAITER_HAS_TIMER = 16,
    WAITER_REQUEST_SHIFT = 5,
    WAITER_FLAGS = 124,

    PLACE_IS_CURSOR = 4,
    PLACE_FLAGS = PLACE_IS_CURSOR,
};

/* The number of bits of a count. The first record announces the largest tables in this unit; the
 * reader reserves memory for them. */
static inline uint8_t snapshot_magnitude(uint64_t count)
{
    return count == 0 ? 0 : (uint8_t)(64 - __builtin_clzll(count));
}

/* How a waiter or grant identifies its request. */
enum { TIED_TO_NONE, TIED_BY_ID, TIED_BY_SEQ, TIED_COUNT };

#endif
