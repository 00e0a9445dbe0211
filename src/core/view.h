/* Read access to the state; nothing is changed. For a linearizable answer, wait for a barrier first
 * (S9.1). Slices are borrowed until the next command. */
#ifndef HOLDFAST_CORE_VIEW_H
#define HOLDFAST_CORE_VIEW_H

#include "core/core.h"

/* What a list shows: role, since, type, name, limit (core/field.h). Roles: ALL clients may see it;
 * only an OPERATOR may (S4.4); only the NODE does, to render the others. Nodes send each other
 * pages of these records. */

/* parts: names under the token. revoke_at_ms 0: none. value: of an election or a key (any bytes, up to
 * LIMIT_KEY_VALUE; pages leave out those beyond LIMIT_VALUE). */
#define GRANT_VIEW_FIELDS(F)                                               \
    F(ALL, 1, holder, holder, 0)                                           \
    F(OPERATOR, 1, u64, token, UINT64_MAX)                                 \
    F(OPERATOR, 1, id, session, 0)                                         \
    F(OPERATOR, 1, id, lease, 0)                                           \
    F(ALL, 1, u32, slot, UINT32_MAX)                                       \
    F(ALL, 1, u32, depth, UINT32_MAX)                                      \
    F(ALL, 1, u32, parts, UINT32_MAX)                                      \
    F(ALL, 1, u64, revoke_at_ms, UINT64_MAX)                               \
    F(ALL, 1, slice, value, LIMIT_VALUE)                                   \
    F(ALL, 7, u64, hold_until_ms, UINT64_MAX) /* 0: no max_hold (S16.3) */ \
    F(ALL, 7, flag, long_held, 1)

struct grant_view {
    GRANT_VIEW_FIELDS(FIELD_MEMBER)
    bool is_key; /* by ACQUIRE_KEY or a transaction (S13); not sent */
};

/* ticket: rises with arrival. wait_deadline_ms UINT64_MAX: none. since_ms: cluster time at which it
 * was queued; 0: unknown (before version 7), as since_wall_ms. */
#define WAITER_VIEW_FIELDS(F)                    \
    F(ALL, 1, slice, client, LIMIT_CLIENT)       \
    F(ALL, 1, slice, owner, LIMIT_OWNER)         \
    F(ALL, 1, slice, metadata, LIMIT_METADATA)   \
    F(ALL, 1, mode, mode, MODE_COUNT - 1)        \
    F(ALL, 1, u32, permits, UINT32_MAX)          \
    F(ALL, 1, u32, parts, UINT32_MAX)            \
    F(ALL, 1, u32, node, UINT32_MAX)             \
    F(ALL, 1, flag, detached, 1)                 \
    F(ALL, 1, u64, ticket, UINT64_MAX)           \
    F(NODE, 1, u64, attachment, UINT64_MAX)      \
    F(ALL, 1, u64, wait_deadline_ms, UINT64_MAX) \
    F(OPERATOR, 1, id, session, 0)               \
    F(OPERATOR, 1, id, lease, 0)                 \
    F(ALL, 5, slice, trace, LIMIT_TRACE)         \
    F(ALL, 7, u64, since_ms, UINT64_MAX)         \
    F(ALL, 7, u64, since_wall_ms, UINT64_MAX)

struct waiter_view {
    WAITER_VIEW_FIELDS(FIELD_MEMBER)
};

/* limit, permits_used: semaphore. delayed_until_ms 0: none. long_held: the first holder is marked
 * (S16.2). waiting_*: since_* of the first waiter; 0: none waits, or unknown. */
#define LOCK_VIEW_FIELDS(F)                      \
    F(ALL, 1, slice, name, LIMIT_NAME)           \
    F(NODE, 1, u32, tenant, UINT32_MAX)          \
    F(ALL, 1, mode, mode, MODE_COUNT - 1)        \
    F(ALL, 1, u32, limit, UINT32_MAX)            \
    F(ALL, 1, u32, permits_used, UINT32_MAX)     \
    F(ALL, 1, u32, holders, UINT32_MAX)          \
    F(ALL, 1, u32, queue_length, UINT32_MAX)     \
    F(ALL, 1, u64, delayed_until_ms, UINT64_MAX) \
    F(ALL, 1, slice, reserved_for, LIMIT_CLIENT) \
    F(ALL, 1, flag, has_holder, 1)               \
    F(ALL, 7, flag, long_held, 1)                \
    F(ALL, 7, u64, waiting_ms, UINT64_MAX)       \
    F(ALL, 7, u64, waiting_wall_ms, UINT64_MAX)

struct lock_view {
    uint32_t tier; /* enum tier; 0 from the core (S10); not sent */
    LOCK_VIEW_FIELDS(FIELD_MEMBER)
    struct grant_view first; /* earliest holder, if has_holder */
};

/* deadline_ms: UINT64_MAX: none, or a private session that waits (S4.3). ttl_ms: TTL_NONE: none. entries: names held or waited
 * for. */
#define SESSION_VIEW_FIELDS(F)                 \
    F(OPERATOR, 1, id, id, 0)                  \
    F(NODE, 1, u32, tenant, UINT32_MAX)        \
    F(ALL, 1, slice, client, LIMIT_CLIENT)     \
    F(ALL, 1, slice, metadata, LIMIT_METADATA) \
    F(ALL, 1, u64, ttl_ms, UINT64_MAX)         \
    F(ALL, 1, u32, linger_ms, UINT32_MAX)      \
    F(ALL, 1, u64, deadline_ms, UINT64_MAX)    \
    F(ALL, 1, u32, entries, UINT32_MAX)        \
    F(NODE, 6, u32, principal, UINT32_MAX)

/* Only those of the tier EFFICIENCY are sent; they have no stream. */
struct session_view {
    uint32_t tier;
    SESSION_VIEW_FIELDS(FIELD_MEMBER)
    bool lingers;    /* stream broken, linger time runs (S4.6) */
    uint64_t stream; /* number of its latest; 0: none */
    uint32_t node;   /* of that stream; 0: unknown */
    bool is_private;
};

struct audit_view {
    uint64_t number;
    uint64_t index;
    uint64_t wall_ms;
    uint32_t tenant;
    uint32_t kind;       /* the action, for COMMAND_NOTE */
    bool is_of_cluster;  /* about no name of a tenant */
    struct slice action; /* "FORCE_UNLOCK", ... */
    struct slice resource;
    struct slice actor;
    struct slice reason;
    struct slice trace; /* of the first holder affected */
    uint32_t count;
    bool is_fence_reset; /* then these are set, of resource and slot: */
    uint32_t slot;
    uint64_t mark_before;
    uint64_t mark_after;
    bool is_note; /* by COMMAND_NOTE, of the tier without a log; since version 3 */
};

/* False: neither held, waited for nor delayed. */
bool view_lock(const struct core *core, uint32_t tenant, struct slice name, struct lock_view *out);

/* Calls on_grant for each holder, earliest first, and on_waiter in queue order, each at most `max`
 * times. False: no such name. */
typedef void (*view_grant_fn)(void *ctx, const struct grant_view *grant);
typedef void (*view_waiter_fn)(void *ctx, const struct waiter_view *waiter);
bool view_holders_and_waiters(const struct core *core, uint32_t tenant, struct slice name,
                              uint32_t max, view_grant_fn on_grant, view_waiter_fn on_waiter,
                              void *ctx);

/* A name as a Redis key (S13). */
enum key_kind {
    KEY_ABSENT,
    KEY_STRING, /* lock with a value: by ACQUIRE_KEY, or EFFECT_PUT */
    KEY_HASH,   /* by EFFECT_PUT with EFFECT_HASH */
    KEY_LIST,
    KEY_SORTED_SET,
    KEY_SET,
    KEY_LOCK,    /* lock of another API */
    KEY_COUNTER, /* not a lock */
    KEY_RESERVED /* free, but a lock-delay or a queue prevents acquiring it */
};

/* A lock with a value, of any type. */
static inline bool key_kind_has_value(enum key_kind kind)
{
    return kind >= KEY_STRING && kind <= KEY_SET;
}

/* Has no owner in the Redis protocol (S13.11). */
static inline bool key_kind_is_shared(enum key_kind kind)
{
    return kind >= KEY_LIST && kind <= KEY_SET;
}

/* As EFFECT_PUT has it, see EFFECT_TYPES. */
enum key_kind key_kind_of_effect(const struct effect *put);
uint32_t key_kind_effect_flag(enum key_kind kind);

struct key_view {
    enum key_kind kind;
    struct key_version version; /* for a check */
    struct slice value;         /* of a kind that has one: any bytes */
    int64_t number;             /* COUNTER */
    struct slice client;        /* ... and LOCK: of the first holder */
    uint32_t holders;           /* ... their number; several only of a LOCK */
    uint64_t token;             /* ... and its token */
    uint32_t principal;         /* ... and its principal */
    bool is_value;              /* without an owner (S13.9) */
    uint64_t deadline_ms; /* of a lock in cluster time; COUNTER; RESERVED: of the delay. 0: none */
};

/* KEY_COUNTER; cheap without counters. */
bool view_is_counter(const struct core *core, uint32_t tenant, struct slice name);
/* The version of a counter, since version 8 of the state. */
struct key_version view_counter_version(int64_t number, uint64_t deadline_ms);
/* Always fills `out`; an invalid name is ABSENT. */
void view_key(const struct core *core, uint32_t tenant, struct slice name, struct key_view *out);

/* One page of an unordered list (S9.2) from `cursor` (0 first); returns the next cursor or
 * VIEW_END. Examines at most LIMIT_LIST_VISITS objects, and stops after the bucket in which `limit`
 * was reached. An object that exists during the whole listing is returned at least once. */
#define VIEW_END (UINT64_C(1) << 32)
typedef void (*view_lock_fn)(void *ctx, const struct lock_view *lock);
uint64_t view_locks(const struct core *core, uint32_t tenant, struct slice prefix, uint64_t cursor,
                    uint32_t limit, view_lock_fn on_lock, void *ctx);
typedef void (*view_counter_fn)(void *ctx, struct slice name, int64_t number);
uint64_t view_counters(const struct core *core, uint32_t tenant, uint64_t cursor, uint32_t limit,
                       view_counter_fn on_counter, void *ctx);
typedef void (*view_session_fn)(void *ctx, const struct session_view *session);
uint64_t view_sessions(const struct core *core, uint32_t tenant, uint64_t cursor, uint32_t limit,
                       view_session_fn on_session, void *ctx);
bool view_session(const struct core *core, struct id id, struct session_view *out);
/* The tokens of what a session holds; a multi-lock has one. Of a session without a lock: zero. O(1). */
struct token_sum {
    uint32_t count;
    uint64_t xor_of_all;
};
struct token_sum view_session_tokens(const struct core *core, struct id id);

/* A name that a session holds or waits for. queue_length: all that wait for the name. */
struct session_name_view {
    uint32_t tier; /* as of lock_view; not sent */
    struct slice name;
    bool is_held;
    uint32_t queue_length;
    struct grant_view grant; /* is_held */
    struct waiter_view waiter;
};
/* One page of a session's names: held ones by rising token, then those it waits for. `cursor` 0
 * first; returns the next one, less than 2^54, or VIEW_NAMES_END. Examines at most
 * LIMIT_SESSION_ENTRIES objects; the names of one multi-lock are in one page, which may be longer
 * than `limit` by them. A session of another tenant has no names. */
#define VIEW_NAMES_END UINT64_MAX
typedef void (*view_session_name_fn)(void *ctx, const struct session_name_view *name);
uint64_t view_session_names(const struct core *core, uint32_t tenant, struct id id, uint64_t cursor,
                            uint32_t limit, view_session_name_fn on_name, void *ctx);

/* A grant or waiter has this lease id. The second includes ended ones of the tenant. */
bool view_has_lease(const struct core *core, struct id lease, bool *is_grant);
bool view_knows_lease(const struct core *core, uint32_t tenant, struct id lease);

/* Records of the tenant with number >= from, oldest first, at most `max`; returns the next number.
 * Each tenant has its own numbers (S14.3). A core next to a replicated one has the records of all
 * tenants under tenant 0. */
typedef void (*view_audit_fn)(void *ctx, const struct audit_view *record);
uint64_t view_audit(const struct core *core, uint32_t tenant, uint64_t from, uint32_t max,
                    view_audit_fn on_record, void *ctx);
/* Records that the newest entry made, by tenant, then number. For each tenant the newest LIMIT_AUDIT. */
void view_audit_of_entry(const struct core *core, view_audit_fn on_record, void *ctx);
/* Rises with each record that is made; not replicated. */
uint64_t core_audits(const struct core *core);

/* Long-held rules of the tenant, by prefix (S16.2). Of a core next to a replicated one: those of its
 * source. */
typedef void (*view_alert_fn)(void *ctx, struct slice prefix, uint64_t held_ms);
void view_alerts(const struct core *core, uint32_t tenant, view_alert_fn on_rule, void *ctx);
/* The longest prefix of the name that has a rule. False: none; `out` is unchanged. */
struct alert_view {
    struct slice prefix;
    uint64_t held_ms;
};
bool view_alert_for(const struct core *core, uint32_t tenant, struct slice name,
                    struct alert_view *out);
/* A page as of view_locks: names whose earliest holder is past its rule at `now_ms`. */
uint64_t view_locks_long_held(const struct core *core, uint32_t tenant, uint64_t now_ms,
                              uint64_t cursor, uint32_t limit, view_lock_fn on_lock, void *ctx);
/* Whether any tenant has a rule. */
bool view_has_alerts(const struct core *core);
/* For the leader: examines at most `visits` names from `cursor` (0 first) and calls on_grant for each
 * grant that at `now_ms` is past its rule and is not marked; returns the next cursor or VIEW_END. */
typedef void (*view_long_held_fn)(void *ctx, uint32_t tenant, struct slice name, uint64_t token);
uint64_t view_long_held(const struct core *core, uint64_t now_ms, uint64_t cursor, uint32_t visits,
                        view_long_held_fn on_grant, void *ctx);

/* The hold that began first. since_ms UINT64_MAX: none. */
struct oldest_hold {
    uint64_t since_ms;
    uint64_t token;
    uint32_t tenant;
    uint32_t name_len;
    uint8_t name[LIMIT_NAME];
};
/* Examines about `visits` names from `cursor` (0 first) and replaces `oldest` by an older hold;
 * returns the next cursor or VIEW_END. */
uint64_t view_oldest(const struct core *core, uint64_t cursor, uint32_t visits,
                     struct oldest_hold *oldest);
/* Whether that holder is still the first of its name. */
bool view_still_holds(const struct core *core, const struct oldest_hold *hold);

/* The event up to which a sink was sent all events. */
struct sink_view {
    struct slice name;
    uint64_t index;
    uint32_t ordinal;
};
/* False: no position was recorded. */
bool view_sink(const struct core *core, struct slice name, struct sink_view *out);
typedef void (*view_sink_fn)(void *ctx, const struct sink_view *sink);
void view_sinks(const struct core *core, view_sink_fn on_sink, void *ctx);

/* The actions of audit records, from number 0; NULL: there are no more. */
const char *view_audit_action(unsigned number);
/* Whether it is one of them; upper case. */
bool view_is_audit_action(struct slice action);

/* False: no mark. Always sets `floor` (S11). */
bool view_fence(const struct core *core, uint32_t tenant, struct slice resource, uint32_t slot,
                uint64_t *highest, uint64_t *floor);

#endif
