/* The state of the locks in memory and the functions that share it, for the files of core/ only.
 *
 * Everything that decides an output is a function of the log, including the (possibly early)
 * deadlines in the heap. The order of hash chains is not: no output may depend on it. */
#ifndef HOLDFAST_CORE_STATE_H
#define HOLDFAST_CORE_STATE_H

#include "base/heap.h"
#include "base/panic.h"
#include "base/pool.h"
#include "base/recent.h"
#include "base/table.h"
#include "core/core.h"
#include "core/key.h"
#include "core/objects.h"
#include "core/policy_state.h"
#include "core/ring.h"
#include "core/tenant.h"

struct core {
    const struct memory *memory;
    uint64_t hash_key;
    core_event_fn on_event;
    void *event_ctx;

    /* Replicated. */
    uint64_t index;
    uint64_t now_ms;
    uint64_t wall_ms;
    uint64_t counter; /* C (S3.1) */
    uint64_t epoch;
    uint64_t ticket;     /* of the last waiter */
    uint64_t attachment; /* last number given to a connection of a waiter or a session */
    uint64_t node_waiters_number;
    uint64_t fence_base;     /* floor of a new tenant: the common one before version 6 (S14.3) */
    uint64_t counter_change; /* last change of any counter (S13.5) */
    uint32_t version;
    bool backlog; /* the last sweep left something due */
    ref purge_at; /* session at which the sweep goes on to end those of removed principals; or 0 */
    /* Set by core_set_tokens; 0 in the replicated core. The next may be a multiple of TOKEN_SCALE,
     * which is skipped. */
    uint64_t token_next;
    uint64_t token_end;
    bool is_taking_back;

    struct wall_row *wall_rows; /* LIMIT_WALL_ROWS, oldest first */
    uint32_t wall_row_count;
    uint32_t sink_count;
    struct sink *sinks; /* LIMIT_SINKS, in the order of their last change */
    uint64_t long_held; /* grants with GRANT_IS_LONG_HELD */

    struct policy *policy;            /* S14 */
    const struct core *policy_source; /* its policy counts instead; or NULL */

    struct pool pool;
    struct table locks;
    struct table sessions;
    struct table leases;   /* grants and waiters of real sessions */
    struct table tokens;   /* details */
    struct table requests; /* by id, waiting or holding */
    struct table ended_sessions;
    struct table fences;
    struct table counters;
    struct table tenants; /* other than 0 */
    struct heap timers;
    struct tenant own; /* tenant 0 */

    /* Rings (core/ring.h). */
    ref all_sessions;
    ref all_node_waiters;
    ref delayed;     /* lock_extra, in the order the delays began */
    ref woken;       /* lock_extra, in the order of waking */
    ref revisits;    /* node_waiters: detached, not yet walked */
    ref all_tenants; /* other than 0 */

    uint64_t grants;
    uint64_t waiters;
    uint64_t remembered_bytes; /* of the pool, in the memories of tenants; see core_bytes */
    uint64_t shared_bytes;     /* of the pool, of no tenant: node_waiters */
    uint64_t charged_bytes;    /* core_live at the last tenant_charge */
    uint32_t charged;          /* the tenant that owns the difference */

    uint64_t audits; /* records made since core_new; not replicated */
    /* Not replicated: scratch of the current entry or command. */
    uint32_t ordinal;
    uint32_t steps;
    uint32_t last_steps;
    uint32_t worst_steps;
    uint32_t last_sweep_steps;
    uint32_t prune_left;
    uint8_t *alive;           /* LIMIT_KEEPALIVE_IDS answers */
    struct cycle_step *cycle; /* LIMIT_DEADLOCK_CYCLE */
    uint8_t *kept;            /* KEPT_BYTES, target of a result's slices */
};

/* Tokens: C · 1024 + e; e belongs to the other tier (S3.1). */
#define TOKEN_SCALE 1024u

/* What a result can point to: name, holder, reserved_for, cycle. */
#define KEPT_BYTES                              \
    (LIMIT_NAME + LIMIT_CLIENT + HOLDER_BYTES + \
     LIMIT_DEADLOCK_CYCLE * (LIMIT_CLIENT + LIMIT_OWNER + LIMIT_NAME))

#define CORE_ACCESS(type)                                               \
    static inline struct type *type##_at(const struct core *c, ref obj) \
    {                                                                   \
        hf_assert(obj != 0);                                            \
        return (struct type *)pool_at(&c->pool, obj);                   \
    }
CORE_ACCESS(blob)
CORE_ACCESS(session)
CORE_ACCESS(session_extra)
CORE_ACCESS(lock)
CORE_ACCESS(lock_extra)
CORE_ACCESS(grant)
CORE_ACCESS(detail)
CORE_ACCESS(group)
CORE_ACCESS(waiter)
CORE_ACCESS(place)
CORE_ACCESS(node_waiters)
CORE_ACCESS(request)
CORE_ACCESS(ended_grant)
CORE_ACCESS(ended_session)
CORE_ACCESS(fence_mark)
CORE_ACCESS(audit_record)
CORE_ACCESS(counter)
CORE_ACCESS(done_transact)
#undef CORE_ACCESS

/* The body must not remove `obj`. */
#define RING_EACH(c, obj, last, type, field)                                             \
    for (ref obj = ring_first(&(c)->pool, last, offsetof(struct type, field)); obj != 0; \
         obj = ring_after(&(c)->pool, last, obj, offsetof(struct type, field)))

#define RING_FIRST(c, last, type, field) ring_first(&(c)->pool, last, offsetof(struct type, field))
#define RING_APPEND(c, last, obj, type, field) \
    ring_append(&(c)->pool, last, obj, offsetof(struct type, field))
#define RING_REMOVE(c, last, obj, type, field) \
    ring_remove(&(c)->pool, last, obj, offsetof(struct type, field))

static inline void core_step(struct core *c, uint32_t steps)
{
    c->steps += steps;
}

/* ---- tenant.c ---- */

/* The share of this tenant, which may be an empty one. */
static inline const struct tenant *tenant_look(const struct core *c, uint32_t number)
{
    return number == 0 ? &c->own : tenant_look_other(c, number);
}

static inline struct tenant *tenant_get(struct core *c, uint32_t number)
{
    return number == 0 ? &c->own : tenant_get_other(c, number);
}

/* The same for what is remembered. */
static inline const struct tenant *tenant_memory_look(const struct core *c, uint32_t number)
{
    return tenant_look(c, c->version < TENANT_VERSION ? 0 : number);
}

static inline struct tenant *tenant_memory(struct core *c, uint32_t number)
{
    return tenant_get(c, c->version < TENANT_VERSION ? 0 : number);
}

/* The share that has the tenant's audit records. A core next to a replicated one has them together:
 * it only passes them on as notes (S10). */
static inline uint32_t tenant_of_audit(const struct core *c, uint32_t number)
{
    return c->version < TENANT_VERSION || c->token_end != 0 ? 0 : number;
}

/* Bytes of the pool that belong to tenants and are not remembered. */
static inline uint64_t core_live(const struct core *c)
{
    return pool_bytes_used(&c->pool) - c->remembered_bytes - c->shared_bytes;
}

/* What is taken from the pool and returned to it from now on belongs to this tenant. */
static inline void tenant_charge(struct core *c, uint32_t number)
{
    if (c->charged != number) {
        tenant_charge_other(c, number);
    }
}

/* ---- mirror.c ---- */

/* It lives in the other core, which alone ends it. */
bool session_is_mirrored(const struct core *c, const struct session *s);
void session_put_off(struct core *c, ref session);

/* The highest token that this core can have given. */
uint64_t token_highest(const struct core *c);

/* ---- core.c ---- */
uint32_t hash_name(const struct core *c, uint32_t tenant, struct slice name);
uint32_t hash_id(const struct core *c, struct id id);
uint32_t hash_token(const struct core *c, uint64_t token);
uint32_t hash_fence(const struct core *c, uint32_t tenant, struct slice name, uint32_t slot);
ref blob_new(struct core *c, struct slice bytes); /* 0 for none */
void blob_free(struct core *c, ref obj);
struct slice blob_slice(const struct core *c, ref obj);
struct carried_refs carried_new(struct core *c, const struct carried *from);
void carried_free(struct core *c, const struct carried_refs *refs);
struct carried carried_slices(const struct core *c, const struct carried_refs *refs);
bool carried_is_empty(const struct carried *carried);
/* Sets, moves or (UINT64_MAX) clears the deadline for the sweep. */
void timer_set(struct core *c, ref obj, uint64_t at_ms);
/* Only lowers the deadline. The sweep corrects an early one. */
void timer_lower(struct core *c, ref obj, uint64_t at_ms);
/* UINT64_MAX: none. */
uint64_t timer_at(const struct core *c, ref obj);

/* ---- report.c ---- */
void event_emit(struct core *c, struct event *event);
/* All but the trace: ending parts of a multi-lock have no first part any more. */
void event_about_grant(const struct core *c, const struct grant *g, struct event *out);
void event_about_waiter(const struct core *c, const struct waiter *w, struct event *out);
/* Which part of how many this grant is. */
void event_set_part(const struct core *c, ref grant, struct event *out);
void result_from_grant(const struct core *c, ref grant, struct result *out);
void result_holder(const struct core *c, ref lock, struct result *out);
void holder_view_fill(const struct core *c, const struct grant *g, struct holder_view *out);
struct slice grant_trace(const struct core *c, const struct grant *g);
/* The trace in `bytes`, valid after the grant's end. */
struct slice grant_trace_copy(const struct core *c, const struct grant *g,
                              uint8_t bytes[LIMIT_TRACE]);
struct slice reserved_for(const struct core *c, const struct lock *l);

/* ---- view.c ---- */
struct grant_view;
struct waiter_view;
void grant_view_fill(const struct core *c, ref grant, struct grant_view *out);
void waiter_view_fill(const struct core *c, const struct waiter *w, struct waiter_view *out);

/* ---- lock.c ---- */
ref lock_find(const struct core *c, uint32_t tenant, struct slice name);
ref lock_find_hashed(const struct core *c, uint32_t hash, uint32_t tenant, struct slice name);
/* `hash` is hash_name's. The caller sets the mode next. */
ref lock_new(struct core *c, uint32_t hash, uint32_t tenant, struct slice name);
/* Only while it is neither held nor waited for. */
void lock_set_mode(struct core *c, ref lock, enum mode mode, uint32_t limit);
struct slice lock_name(const struct lock *l);
struct lock_extra *lock_extra_make(struct core *c, ref lock);
struct lock_extra *lock_extra_get(const struct core *c, const struct lock *l); /* or NULL */
uint32_t lock_holders(const struct core *c, const struct lock *l);
bool lock_in_use(const struct core *c,
                 const struct lock *l); /* held or waited for: mode is fixed */
bool lock_is_delayed(const struct core *c, const struct lock *l);
bool lock_has_capacity(const struct core *c, const struct lock *l, enum mode mode,
                       uint32_t permits);
void lock_delay(struct core *c, ref lock, uint64_t until_ms);
void lock_delay_over(struct core *c, ref lock);
void lock_wake(struct core *c, ref lock);
void lock_drop_if_unused(struct core *c, ref lock);
/* In a backlog: ends dead holders within the command's budget (S1.7). */
void lock_prune(struct core *c, ref lock);

/* ---- grant.c ---- */
struct grant_terms {
    ref session;
    struct slice owner;
    struct carried carried;
    struct id lease;
    ref request;
    uint64_t ttl_ms;
    uint32_t max_hold_ms; /* 0: none */
    uint32_t delay_ms;
    uint32_t permits;
    uint8_t key_flags; /* GRANT_KEY_FLAGS */
    enum mode mode;
};
/* Grants the locks (canonical order) under one new token; returns the first grant. */
ref grant_give(struct core *c, const ref *locks, uint32_t count, const struct grant_terms *terms,
               const struct waiter *waited);
struct slice grant_owner(const struct grant *g);
struct id grant_lease(const struct core *c, const struct grant *g);
struct detail *grant_detail(const struct core *c, const struct grant *g); /* or NULL */
struct detail *grant_detail_make(struct core *c, ref grant);
ref grant_first_part(const struct core *c, ref grant);
/* The part that carries TTL, request and metadata. */
const struct grant *grant_head(const struct core *c, const struct grant *g);
uint32_t grant_parts(const struct core *c, const struct grant *g);
ref grant_part(const struct core *c, ref grant, uint32_t i);
uint64_t grant_deadline(const struct core *c, const struct grant *g);
bool grant_is_dead(const struct core *c, const struct grant *g);
uint64_t grant_due_ms(const struct core *c, const struct grant *g); /* deadline or revocation */
/* In force: its own or the session's, not beyond max_hold. TTL_NONE: none. */
uint64_t grant_ttl(const struct core *c, const struct grant *g);
uint64_t grant_hold_until(const struct core *c, const struct grant *g); /* 0: no max_hold */
void grant_reschedule(struct core *c, ref grant); /* its timer is then not too late */
/* Ends all parts, and a private session. The lock-delay starts at `at_ms`. */
void grant_end(struct core *c, ref grant, enum ended how, uint64_t at_ms, struct slice actor,
               struct slice text, bool no_delay);
/* Ends a dead grant as expired, session expired or revoked. */
void grant_end_dead(struct core *c, ref grant);
ref grant_find_by_token(const struct core *c, uint64_t token);
/* The part of the grant with this token that holds the name; 0: none. */
ref grant_of_lock(const struct core *c, ref lock, uint64_t token);

/* ---- session.c ---- */
ref session_find(const struct core *c, struct id id);
/* The living real session, or the error. Ends a dead one. */
enum hf_error session_for(struct core *c, const struct command *cmd, ref *out);
/* Of the command's tenant, and the principals of both do not differ (S14.2). */
bool session_is_of(const struct session *s, const struct command *cmd);
ref session_new(struct core *c, uint32_t tenant, struct id id, struct slice client, bool is_private,
                uint64_t ttl_ms);
struct slice session_client(const struct session *s);
struct session_extra *session_extra_make(struct core *c, ref session);
struct session_extra *session_extra_get(const struct core *c, const struct session *s);
uint64_t session_deadline(const struct core *c, const struct session *s);
bool session_is_dead(const struct core *c, const struct session *s);
void session_end(struct core *c, ref session, enum ended how);
void session_drop_if_empty(struct core *c, ref session); /* a private one */

/* token_count and token_xor of the session: a grant, or all parts of a multi-lock, begins or ends. */
static inline void session_add_token(struct session *s, uint64_t token)
{
    s->token_count++;
    s->token_xor ^= token;
}

static inline void session_remove_token(struct session *s, uint64_t token)
{
    hf_assert(s->token_count > 0);
    s->token_count--;
    s->token_xor ^= token;
}

void apply_session_open(struct core *c, const struct command *cmd, struct result *out);
void apply_session_close(struct core *c, const struct command *cmd, struct result *out);
void apply_keepalive(struct core *c, const struct command *cmd, struct result *out);
void apply_stream_up(struct core *c, const struct command *cmd, struct result *out);
void apply_stream_through(struct core *c, const struct command *cmd, struct result *out);
void apply_stream_down(struct core *c, const struct command *cmd, struct result *out);

/* ---- waiter.c ---- */
ref waiter_new(struct core *c, const struct command_acquire *a, ref session, const ref *locks,
               uint32_t count);
struct slice waiter_owner(const struct waiter *w);
bool waiter_is_detached(const struct core *c, const struct waiter *w);
bool waiter_is_dead(const struct core *c, const struct waiter *w);
void waiter_attach(struct core *c, ref waiter, uint32_t node);
/* Removes and frees it with a wait_ended event; wakes its names. */
void waiter_end(struct core *c, ref waiter, enum reason reason);
/* Emits an event like `about` for each of its names. */
void waiter_announce(struct core *c, const struct waiter *w, const struct event *about);
void waiter_end_dead(struct core *c, ref waiter);
uint64_t waiter_due_ms(const struct core *c, const struct waiter *w);
/* Removes it without an event; keeps metadata, value and request for the grant. */
void waiter_remove(struct core *c, ref waiter);
/* The first place whose waiter is alive and attached, or 0. In a backlog it ends dead waiters on
 * the way. Sets *unsure when the budget ran out first. */
ref queue_front(struct core *c, ref lock, uint32_t *budget, bool *unsure);
ref node_waiters_for(struct core *c, uint32_t node);
/* Ends waiters of a gone node, at most *budget entries; true when none is left. */
bool node_waiters_leave(struct core *c, ref node_waiters, uint32_t *budget);
void node_waiters_drop_if_empty(struct core *c, ref node_waiters);
void node_waiters_revisit_next(struct core *c, ref node_waiters);
void apply_cancel(struct core *c, const struct command *cmd, struct result *out);
void apply_detach(struct core *c, const struct command *cmd, struct result *out);
void apply_node_gone(struct core *c, const struct command *cmd, struct result *out);

/* ---- wake.c ---- */
void wake_all(struct core *c);
bool wake_pending(const struct core *c);

/* ---- acquire.c, deadlock.c ---- */
void apply_acquire(struct core *c, const struct command *cmd, struct result *out);
ref lease_find(const struct core *c, struct id lease); /* of a real session: grant or waiter */
/* The first grant or the waiter with that lease id, private or not; 0: none. */
ref lease_target(const struct core *c, struct id lease, bool *is_grant);
/* True when queueing the request would close a cycle; `out` then has it. */
bool deadlock_would_close(struct core *c, ref session, struct slice owner, const ref *locks,
                          uint32_t count, enum mode mode, struct result *out);

/* ---- release.c ---- */
void apply_release(struct core *c, const struct command *cmd, struct result *out);
void apply_renew(struct core *c, const struct command *cmd, struct result *out);
void apply_proclaim(struct core *c, const struct command *cmd, struct result *out);
/* Records a sign of life; sets the TTL unless it is 0. */
void grant_renew(struct core *c, ref grant, uint64_t ttl_ms);

/* ---- request.c ---- */
struct request_key {
    uint32_t tenant;
    uint32_t principal;
    enum command_type type;
    ref session;          /* owns the replies by seq; 0: none */
    struct id session_id; /* as named, also when gone; zero: the scope is client or actor */
    struct slice scope;
    struct slice id;
    uint64_t seq;
    uint64_t digest;
    uint32_t hash; /* set by a lookup by id */
};
enum request_found { REQUEST_NONE, REQUEST_NEW, REQUEST_KNOWN };
/* Looks up the command's id. KNOWN: `*request` has it. NEW: the id is free. NONE: no id was given.
 * An error is the answer to the command. */
enum hf_error request_look(struct core *c, const struct command *cmd, ref session,
                           struct request_key *key, enum request_found *found, ref *request);
/* By id; key->hash must be set. 0: none. */
ref request_find(const struct core *c, const struct request_key *key);
ref request_new(struct core *c, const struct request_key *key);
void request_wait(struct core *c, ref request, ref waiter);
void request_hold(struct core *c, ref request, ref grant);
/* Stores the answer; a request by id moves to the memory of its kind. */
void request_done(struct core *c, ref request, const struct result *answer);
/* Independent of the version. */
enum done_kind request_kind(enum command_type type, struct slice id);
/* The memory of this kind in the state's version; it is searched first. */
enum done_kind request_place(const struct core *c, enum done_kind kind);
/* Adds a done request by id to the memory `where` of its tenant. */
void request_remember(struct core *c, struct tenant *t, enum done_kind where, ref request);
/* Removes every trace of it; for a grant taken back. */
void request_forget(struct core *c, ref request, ref session);
void request_replay(const struct core *c, ref request, struct result *out);
void request_drop_all(struct core *c, ref session); /* its replies */
/* Looks up the id, calls `run` when it is new, remembers the answer. Not for acquire. */
typedef void (*apply_fn)(struct core *c, const struct command *cmd, ref session,
                         struct result *out);
void request_once(struct core *c, const struct command *cmd, ref session, apply_fn run,
                  struct result *out);
uint32_t request_hash(const void *ctx, const void *object);
uint32_t request_hash_of(const struct core *c, const struct command *cmd); /* cmd has an id */
/* The correct hash, for snapshots and checks. */
uint32_t request_make_hash(const struct core *c, const struct request *r);
size_t request_size(const struct request *r);

/* ---- history.c ---- */
void history_add_grant(struct core *c, uint32_t tenant, uint64_t token, struct id lease,
                       enum ended how);
void history_add_session(struct core *c, uint32_t tenant, struct id id, enum ended how);
/* Adds it to the memory of its tenant; drops the oldest. */
void history_remember(struct core *c, ref ended_grant);
/* In the tenant's memory; before version 6 it may be the grant of another one. */
const struct ended_grant *history_by_token(const struct core *c, uint32_t tenant, uint64_t token);
const struct ended_grant *history_by_lease(const struct core *c, uint32_t tenant, struct id lease);
enum ended history_session(const struct core *c, uint32_t tenant, struct id id);
/* Does not reveal the ends of other tenants' sessions (S4.4), in any version. */
enum ended history_session_of(const struct core *c, uint32_t tenant, struct id id);

/* ---- operator.c ---- */
void apply_force_unlock(struct core *c, const struct command *cmd, struct result *out);
void apply_revoke(struct core *c, const struct command *cmd, struct result *out);
void apply_note(struct core *c, const struct command *cmd, struct result *out);
void revoke_take(struct core *c, ref grant);
struct audit_entry {
    enum audit_action action;
    uint32_t tenant;
    uint32_t count;
    struct slice text[AUDIT_TEXTS];
};
/* The other fields are zero. */
ref audit_record_new(struct core *c, const struct slice text[AUDIT_TEXTS]);
uint64_t audit_add(struct core *c, const struct audit_entry *entry); /* returns the number */
/* The trace of the first holder, copied to `bytes`. */
struct slice audit_trace(const struct core *c, ref lock, uint8_t bytes[LIMIT_TRACE]);
/* The principal of the command, or else what the client said; `text` is for the result. */
struct slice audit_actor(const struct core *c, const struct command *cmd, struct slice said,
                         uint8_t text[PRINCIPAL_TEXT]);
/* Adds a numbered record; drops the oldest. */
void audit_append(struct core *c, struct tenant *t, ref record);
struct audit_record *audit_newest(struct core *c, uint32_t tenant);
size_t audit_size(const struct audit_record *a);
const struct audit_record *audit_find(const struct core *c, uint32_t tenant, uint64_t number);
struct slice audit_text(const struct audit_record *a, enum audit_text which);
const char *audit_action_name(enum audit_action action);

/* ---- policy_command.c ---- */
void apply_policy_change(struct core *c, const struct command *cmd, struct result *out);
/* It does not exist, so its sessions end (purge) and are not kept alive. */
bool principal_is_removed(const struct core *c, uint32_t principal);
/* The next sweeps end the sessions of removed principals. */
void purge_begin(struct core *c);
/* Whether the principal of a waiter may still lock all its names. */
bool waiter_is_allowed(const struct core *c, const struct waiter *w);

/* ---- fence.c ---- */
size_t fence_mark_size(const struct fence_mark *f);
void apply_fence_check(struct core *c, const struct command *cmd, struct result *out);
void apply_fence_reset(struct core *c, const struct command *cmd, struct result *out);
uint64_t fence_floor(const struct core *c, uint32_t tenant);
/* When the version rises: lowers a floor above all issued tokens to the highest possible one. */
void fence_upgrade(struct core *c);
/* Neither tier can have issued a higher token. */
uint64_t fence_issued_bound(const struct core *c);
struct fence_mark *fence_find(const struct core *c, uint32_t tenant, struct slice name,
                              uint32_t slot);
ref fence_add(struct core *c, uint32_t tenant, struct slice name, uint32_t slot, uint64_t token);

/* ---- wall.c ---- */

/* At the beginning of an entry that moved cluster time: adds a row if the wall clock differs by more
 * than LIMIT_WALL_STEP_MS from the row in force. */
void wall_row_begin(struct core *c);
/* Adds a row; drops the oldest. */
void wall_row_add(struct core *c, const struct wall_row *row);

/* ---- alert.c ---- */
void apply_alert_set(struct core *c, const struct command *cmd, struct result *out);
void apply_alert_remove(struct core *c, const struct command *cmd, struct result *out);
void apply_long_held(struct core *c, const struct command *cmd, struct result *out);
/* The rule of exactly this prefix. False: it would be one too many. */
bool alert_put(struct core *c, uint32_t tenant, struct slice prefix, uint64_t held_ms);
struct slice alert_prefix(const struct alert_rule *rule);
/* The rule with the longest prefix of the name, or NULL. */
const struct alert_rule *alert_for(const struct core *c, uint32_t tenant, struct slice name);
/* Sets the mark of a grant that has none. */
void grant_mark_long_held(struct core *c, struct grant *g);
void alerts_free(struct core *c, struct tenant *t);
uint64_t alerts_bytes(const struct tenant *t);

/* ---- sink.c ---- */
void apply_sink_position(struct core *c, const struct command *cmd, struct result *out);
/* Adds it as the newest; the oldest makes place. */
void sink_put(struct core *c, struct slice name, uint64_t index, uint32_t ordinal);

/* ---- apply.c ---- */
uint64_t counter_raise(struct core *c, uint32_t by); /* returns the new C */

/* ---- sweep.c ---- */
void sweep(struct core *c);

/* ---- invariants.c, snapshot_read.c: objects with a tail ---- */
size_t session_size(const struct session *s);
size_t lock_size(const struct lock *l);
size_t lock_slots_size(uint32_t limit); /* of the bits of a semaphore */
size_t grant_size(const struct grant *g);
size_t waiter_size(const struct waiter *w);

#endif
