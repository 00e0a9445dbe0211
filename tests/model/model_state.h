/* What the model is made of, and the functions that its files share. */
#ifndef HF_TESTS_MODEL_MODEL_STATE_H
#define HF_TESTS_MODEL_MODEL_STATE_H

#include <stdio.h>
#include <stdlib.h>

#include "base/panic.h"
#include "model.h"
#include "model_policy.h"

#define NEVER UINT64_MAX

/* Something that can be locked; it exists while it is held, waited for or delayed. */
struct model_name {
    uint32_t tenant;
    struct owned text;
    uint64_t print;
    struct list holders; /* struct model_grant, earliest first */
    struct list queue;   /* struct model_waiter, earliest first */
    uint64_t delayed_until_ms;
    bool woken;
    /* Waiters with a lower ticket are known to be detached and are not looked at again. */
    uint64_t cursor;
    /* It has had a queue, a delay, or may have several holders: only such names are woken. */
    bool furnished;
};

/* The answer to a command, kept so that its repetition gets it again (S8). While `lives`, a waiter
 * or a grant made by the command exists and the answer is made from that one. */
struct memo {
    uint32_t tenant;
    uint32_t principal; /* without a session */
    struct id session;
    struct owned scope; /* the client or the actor, without a session */
    enum command_type type;
    struct owned request_id; /* empty: known by seq */
    uint64_t seq;
    uint64_t digest;
    bool lives;
    uint64_t done_ms; /* of an operator's */
    struct result reply;
};

/* The answers to requests by id that are over, in memories of their own (S8.3). Those of `first`
 * up to `next` are remembered. */
enum memo_kind { MEMO_CLIENT, MEMO_DRAWN, MEMO_OPERATOR, MEMO_KINDS };

struct memo_ring {
    size_t limit;
    uint64_t first;
    uint64_t next;
    struct memo **at;
    uint64_t *prints;
};

/* A timer is when the sweep will look at something. It is never late, but what puts a deadline off
 * does not move it: the sweep does, and looking counts (LIMIT_SWEEP_VISITS). */
struct model_session {
    struct id id;
    uint32_t tenant;
    uint32_t principal; /* 0: of nobody */
    struct owned client;
    struct owned metadata;
    uint64_t ttl_ms;
    uint32_t linger_ms;
    bool is_private;
    bool waits; /* private, not granted yet: no deadline */
    uint64_t alive_ms;
    uint64_t timer_ms;
    uint64_t stream; /* the number of the latest one */
    uint32_t node;   /* that carries it */
    bool broken;
    uint64_t broken_ms;
    uint64_t acked;
    struct list memos;   /* by seq */
    struct list grants;  /* in the order they were given */
    struct list waiters; /* in the order they came */
};

/* What an acquire requested; a waiter has it and a grant inherits it. */
struct request {
    struct id lease;
    struct model_session *session;
    struct owned owner;
    uint32_t parts;
    struct model_name *names[LIMIT_MULTILOCK_NAMES]; /* sorted */
    enum mode mode;
    uint32_t limit;
    uint32_t permits;
    uint64_t ttl_ms; /* 0: the session's */
    uint32_t delay_ms;
    struct owned metadata;
    struct owned value;
    struct owned trace; /* since version 5 */
    struct memo *memo;
    uint32_t max_hold_ms; /* 0: none (S16.3) */
    bool is_key;          /* S13 */
    enum key_kind kind;   /* ... of this type */
    bool is_value;        /* ... without an owner */
    uint32_t changes;     /* ... and was set so often again */
};

struct model_grant {
    struct request r;
    uint64_t token;
    uint64_t since_ms;
    uint64_t renewed_ms;
    uint64_t timer_ms;
    uint32_t slot;
    uint32_t depth;
    uint64_t revoke_at_ms;  /* 0: not revoked */
    uint64_t revoke_record; /* of the audit trail */
    uint64_t reported;      /* a bit for each name that was held too long (S16.2) */
};

/* The private waiters that are attached through one node. When the node is gone they are a group of
 * detached waiters, and later waiters of it make a new group. */
struct model_node_waiters {
    uint64_t number;
    uint32_t node;
    bool gone;
    uint64_t until_ms;
    struct list waiters;          /* by attachment number */
    struct model_waiter *revisit; /* whose names are to be woken next; NULL: all were */
};

struct model_waiter {
    struct request r;
    uint64_t ticket;
    uint64_t since_ms; /* 0: before version 7 */
    uint64_t attachment;
    uint32_t node;
    uint64_t wait_deadline_ms;
    uint64_t timer_ms;
    uint64_t detached_until_ms;              /* 0: not by itself */
    struct model_node_waiters *node_waiters; /* NULL: in a session */
};

/* The ends of grants and of sessions are remembered in rings of LIMIT_ENDED. */
struct ended_grant {
    uint32_t tenant;
    uint64_t token;
    struct id lease;
    enum ended ended;
};
struct ended_session {
    uint32_t tenant;
    struct id id;
    enum ended ended;
};

enum { MODEL_AUDIT_TEXTS = 5 };

struct audit_record {
    struct audit_view view;
    struct owned texts[MODEL_AUDIT_TEXTS]; /* action, resource, actor, reason, trace */
};

struct mark {
    uint32_t tenant;
    struct owned resource;
    uint32_t slot;
    uint64_t highest;
};

struct model_counter {
    uint32_t tenant;
    struct owned text;
    int64_t number;
    uint64_t change;
    uint64_t deadline_ms; /* NEVER: none */
};

/* From this cluster time on, the wall clock showed this (S16.1). */
struct model_wall {
    uint64_t cluster_ms;
    uint64_t wall_ms;
};

struct model_alert {
    uint32_t tenant;
    struct owned prefix;
    uint64_t held_ms;
};

struct model_sink {
    struct owned name;
    uint64_t index;
    uint32_t ordinal;
};

struct model_transact {
    struct id id;
    uint32_t tenant;
    uint64_t digest;
    struct result reply;
};

/* What is remembered of a tenant. Rings: the slot of number n is n modulo the size. The second array
 * has a hash of each key, so that a linear search is bearable. */
struct model_share {
    struct memo_ring memos[MEMO_KINDS];
    uint64_t ended_grant_count;
    struct ended_grant *ended_grants;
    uint64_t *ended_lease_prints;
    uint64_t ended_session_count;
    struct ended_session *ended_sessions;
    uint64_t *ended_session_prints;
    struct list audit;
    uint64_t audit_next;
    struct list marks;
    uint64_t *mark_prints;
    uint64_t floor;
    uint64_t rejections;
    uint64_t transact_count;
    struct model_transact *transacts;
    uint64_t *transact_prints;
};

enum { MODEL_TENANTS = 2 };

struct model {
    core_event_fn on_event;
    void *event_ctx;
    uint64_t index;
    uint32_t ordinal;
    uint64_t now_ms;
    uint64_t wall_ms;
    uint32_t version;
    uint64_t counter;
    uint64_t epoch;
    uint64_t last_ticket;
    uint64_t last_attachment;
    uint64_t last_node_waiters;
    bool backlog;
    struct list names;
    struct list sessions;
    struct list grants;  /* in token order */
    struct list waiters; /* in ticket order */
    struct list woken;   /* names, in the order they were woken */
    struct list node_waiters_all;
    struct list revisits; /* groups of waiters that are gone and have names left to wake */
    struct list live_memos;
    struct model_share shares[MODEL_TENANTS];
    struct model_policy policy;
    struct model_session *purge_at; /* the next to look at for a removed principal; or NULL */
    struct list walls;              /* struct model_wall, oldest first */
    struct list alerts;             /* struct model_alert, in the order in which they were set */
    struct list sinks;              /* struct model_sink, the one that moved last at the end */
    struct list counters;
    uint64_t counter_changes;
    struct list scratch; /* blocks that the last result points to */
    const struct result *seen;
    uint32_t prune_left; /* holders and waiters that this command may still look at */
};

/* model_share.c */
/* Before version 6 all tenants share that of tenant 0. */
struct model_share *model_share(const struct model *m, uint32_t tenant);
void model_share_open(struct model_share *share);
void model_share_close(struct model_share *share);
/* When the version rises to 6: everything moves to its tenant. */
void model_share_upgrade(struct model *m);

/* model_util.c */
void *model_alloc(size_t size);
struct owned owned_copy(struct slice bytes);
void owned_free(struct owned *text);
struct slice owned_slice(const struct owned *text);
void model_list_add(struct list *list, void *item);
void model_list_remove_at(struct list *list, size_t i);
bool model_list_remove(struct list *list, const void *item);
void model_list_free(struct list *list);
/* A copy that lives until the next command. */
struct slice model_keep(struct model *m, struct slice bytes);
void *model_scratch(struct model *m, size_t size);
void model_forget_scratch(struct model *m);

/* A hash that only speeds up linear searches; equality is decided by the bytes. */
uint64_t model_print(uint64_t print, struct slice bytes);

/* model_state.c: looking things up; deadlines. */
struct model_name *model_find_name(struct model *m, uint32_t tenant, struct slice text);
struct model_name *model_make_name(struct model *m, uint32_t tenant, struct slice text);
void model_drop_unused_names(struct model *m);
struct model_session *model_find_session(const struct model *m, struct id id);
struct model_grant *model_find_lease(const struct model *m, uint32_t tenant, struct id lease);
struct model_waiter *model_find_waiter(const struct model *m, uint32_t tenant, struct id lease);
uint64_t model_session_deadline(const struct model_session *s);
uint64_t model_grant_ttl(const struct model_grant *g);
uint64_t model_grant_deadline(const struct model_grant *g);   /* without a revocation */
uint64_t model_grant_lease_ends(const struct model_grant *g); /* ... and max_hold */
uint64_t model_grant_hold_until(const struct model_grant *g); /* 0: no max_hold */
uint64_t model_grant_due(const struct model_grant *g);
/* Until when a detached waiter keeps its place; NEVER: it is attached. */
uint64_t model_waiter_leaves(const struct model_waiter *w);
bool model_waiter_detached(const struct model_waiter *w);
/* When it dies, and of what: its session, its wait, or being detached. */
uint64_t model_waiter_dies(const struct model_waiter *w, enum reason *why);
bool model_session_dead(const struct model *m, const struct model_session *s);
bool model_grant_dead(const struct model *m, const struct model_grant *g);
bool model_waiter_dead(const struct model *m, const struct model_waiter *w);
/* The first waiter that is not known to be detached, or NULL. */
struct model_waiter *model_name_cursor(const struct model_name *name);
uint32_t model_name_permits_used(const struct model_name *name);
/* The mode that binds newcomers; false when nothing does. */
bool model_name_mode(const struct model_name *name, enum mode *mode, uint32_t *limit);

/* model_event.c */
struct event model_event(struct model *m, enum event_type type, uint32_t tenant);
void model_emit(struct model *m, struct event *event);
void model_emit_grant(struct model *m, enum event_type type, const struct model_grant *g,
                      uint32_t part, const struct event *more);
void model_emit_waiter(struct model *m, enum event_type type, const struct model_waiter *w,
                       uint32_t part, const struct event *more);
void model_emit_session(struct model *m, enum event_type type, const struct model_session *s,
                        enum ended ended);

/* model_end.c: ends of grants, waiters and sessions. */
struct end {
    enum ended ended;
    bool clean;
    uint64_t delay_from_ms; /* unclean: the lock-delay counts from here */
    struct slice actor;
    struct slice text;
};
void model_end_grant(struct model *m, struct model_grant *g, const struct end *end);
void model_end_waiter(struct model *m, struct model_waiter *w, enum reason reason);
void model_end_session(struct model *m, struct model_session *s, enum ended ended);
/* Ends what is found past its deadline, for the reason that it died of. */
void model_bury_grant(struct model *m, struct model_grant *g);
void model_bury_waiter(struct model *m, struct model_waiter *w);
void model_bury_session(struct model *m, struct model_session *s);
/* In the order of opening; NULL: the last. */
struct model_session *model_session_after(const struct model *m, const struct model_session *s);
void model_free_session_if_unused(struct model *m, struct model_session *s);
const struct ended_grant *model_ended_token(const struct model *m, uint32_t tenant, uint64_t token);
const struct ended_grant *model_ended_lease(const struct model *m, uint32_t tenant,
                                            struct id lease);
const struct ended_session *model_ended_session(const struct model *m, uint32_t tenant,
                                                struct id id);
/* Those that the tenant's share has; before version 6, of all tenants. */
bool model_ended_lease_anywhere(const struct model *m, uint32_t tenant, struct id lease);
bool model_ended_session_anywhere(const struct model *m, uint32_t tenant, struct id id);
void model_remember_grant(struct model_share *share, const struct ended_grant *ended);
void model_remember_session(struct model_share *share, const struct ended_session *ended);
void model_request_free(struct request *r);

/* model_node_waiters.c */
/* The group of waiters that a newcomer through the node joins; NULL when there are too many. */
struct model_node_waiters *model_node_waiters_for(struct model *m, uint32_t node);
void model_node_waiters_join(struct model_node_waiters *node_waiters, struct model_waiter *w);
void model_node_waiters_part(struct model *m, struct model_waiter *w);
/* Wakes the names of waiters who were detached with their node. */
void model_node_waiters_revisit(struct model *m, uint32_t *steps);

/* model_wake.c: handing over. */
/* The first waiter that can be given something, dead and detached ones aside. Each one looked at is
 * a step; `unsure` when the steps ran out. */
struct model_waiter *model_front(struct model *m, struct model_name *name, uint32_t *steps,
                                 bool *unsure);
void model_wake(struct model *m, struct model_name *name);
void model_serve(struct model *m);
/* Is there space for it on this name, queue aside? */
bool model_name_has_capacity(const struct model *m, const struct model_name *name, enum mode mode,
                             uint32_t limit, uint32_t permits);
struct model_grant *model_grant(struct model *m, const struct request *r,
                                const struct model_waiter *waited);

/* model_sweep.c */
void model_timer_lower(uint64_t *timer_ms, uint64_t at_ms);
void model_grant_reschedule(struct model_grant *g);
void model_sweep(struct model *m);
/* Ends what a command names and finds dead, while there is a backlog. */
void model_prune_name(struct model *m, struct model_name *name);

/* model_once.c: exactly once. */
/* Of the command without its trace: a retry may have another one (S8.1). */
uint64_t model_digest(const struct command *c);
/* True when the command has been answered, by an error or by a replay. */
bool model_once(struct model *m, const struct command *c, struct model_session *s,
                struct result *out);
/* Remembers the answer; `memo_out`, when given, gets the memo that a waiter or grant shall keep. */
void model_remember(struct model *m, const struct command *c, struct model_session *s,
                    const struct result *reply, struct memo **memo_out);
/* The waiter or the grant is gone: the reply is what is left. */
void model_memo_ends(struct model *m, struct memo *memo);
void model_memo_free(struct memo *memo);
void model_memos_open(struct model_share *share);
void model_memos_close(struct model_share *share);
/* Adds a memo that is done; drops the oldest. */
void model_memo_keep(struct memo_ring *ring, struct memo *memo);

/* model_acquire.c */
void model_acquire(struct model *m, const struct command *c, struct result *out);
void model_result_from_grant(struct model *m, const struct model_grant *g, struct result *out);
void model_result_from_waiter(struct model *m, const struct model_waiter *w, struct result *out);
void model_result_about_name(struct model *m, struct model_name *name, struct result *out);
bool model_lease_lives(const struct model *m, struct id lease);
void model_answer_waiter(struct model *m, struct model_waiter *w, uint32_t node,
                         struct result *out);

/* A refusal that says who is in the way. */
void model_refuse(struct model *m, struct result *out, enum reason reason, struct model_name *name);
/* Of the command's principal. It is not granted yet, and so has no deadline. */
struct model_session *model_private_session(struct model *m, const struct command *c,
                                            struct id lease, struct slice client, uint64_t ttl_ms);

/* model_policy.c */
void model_policy_open(struct model_policy *p);
void model_policy_close(struct model_policy *p);
void model_policy_change(struct model *m, const struct command *c, struct result *out);
bool model_is_allowed(const struct model *m, const struct command *c);
bool model_may_lock(const struct model *m, uint32_t principal, uint32_t tenant, struct slice name);
bool model_principal_exists(const struct model *m, uint32_t principal);
/* The command may use the session and what it holds. */
bool model_owns(const struct command *c, const struct model_session *s);
/* Who stands in the audit trail. */
struct slice model_actor(struct model *m, const struct command *c, struct slice said);

/* model_time.c: S16 */
bool model_is_of_7(const struct command *c);
/* Cluster time moved. */
void model_note_wall(struct model *m);
void model_alert_set(struct model *m, const struct command *c, struct result *out);
void model_alert_remove(struct model *m, const struct command *c, struct result *out);
void model_long_held(struct model *m, const struct command *c, struct result *out);
void model_sink_position(struct model *m, const struct command *c, struct result *out);
void model_free_times(struct model *m);

/* model_grant.c */
void model_renew_grant(struct model *m, struct model_grant *g, uint64_t ttl_ms);

/* model_transact.c */
/* One that is past its deadline is not there. */
struct model_counter *model_find_counter(const struct model *m, uint32_t tenant, struct slice text);
/* ... or takes it away. */
bool model_sets_a_ttl_of_a_counter(const struct command *c);
/* It gives a key or a counter a TTL that earlier versions do not have. */
bool model_is_of_8(const struct command *c);
bool model_is_of_9(const struct command *c);
void model_remove_counter(struct model *m, struct model_counter *counter);
/* In a backlog: removes it if its time is over. */
void model_prune_counter(struct model *m, uint32_t tenant, struct slice text);
void model_transact(struct model *m, const struct command *c, struct result *out);
void model_free_counters(struct model *m);

/* model_deadlock.c */
enum deadlock { DEADLOCK_NONE, DEADLOCK_FOUND, DEADLOCK_UNCHECKED };
enum deadlock model_deadlock(struct model *m, const struct request *requester, struct result *out);

/* The other commands, by file. */
enum hf_error model_named_session(struct model *m, const struct command *c,
                                  struct model_session **out);
void model_session_open(struct model *m, const struct command *c, struct result *out);
void model_keepalive(struct model *m, const struct command *c, struct result *out);
void model_session_close(struct model *m, const struct command *c, struct result *out);
void model_stream_up(struct model *m, const struct command *c, struct result *out);
void model_stream_through(struct model *m, const struct command *c, struct result *out);
void model_stream_down(struct model *m, const struct command *c, struct result *out);
void model_cancel(struct model *m, const struct command *c, struct result *out);
void model_detach(struct model *m, const struct command *c, struct result *out);
void model_node_gone(struct model *m, const struct command *c, struct result *out);
void model_release(struct model *m, const struct command *c, struct result *out);
void model_renew(struct model *m, const struct command *c, struct result *out);
void model_proclaim(struct model *m, const struct command *c, struct result *out);
void model_force_unlock(struct model *m, const struct command *c, struct result *out);
void model_revoke(struct model *m, const struct command *c, struct result *out);
void model_note(struct model *m, const struct command *c, struct result *out);
void model_fence_check(struct model *m, const struct command *c, struct result *out);
void model_fence_reset(struct model *m, const struct command *c, struct result *out);
void model_fence_upgrade(struct model *m);
void model_audit(struct model *m, uint32_t tenant, const char *action, struct slice resource,
                 struct slice actor, struct slice reason, struct slice trace, uint32_t count);

#endif
