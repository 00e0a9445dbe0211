/* Each function returns NULL, or a text that begins with the number of the broken invariant (list
 * in invariants.c). */
#ifndef HOLDFAST_CORE_INVARIANTS_H
#define HOLDFAST_CORE_INVARIANTS_H

#include "core/keyed.h"
#include "core/state.h"

/* Totals of the walk, compared at the end. */
struct census {
    const struct core *c;
    bool trusts_tables; /* the builder of the state has just done the lookups */
    uint64_t names;
    uint64_t sessions;
    uint64_t grants;
    uint64_t held; /* grants, from their locks */
    uint64_t waiters;
    uint64_t private_waiters;
    uint64_t in_node_waiters; /* waiters, from their node's list */
    uint64_t places;
    uint64_t queued; /* places, from their locks */
    uint64_t leases;
    uint64_t by_token;
    uint64_t requests;  /* by id, not done */
    uint64_t delayed;   /* locks */
    uint64_t woken;     /* locks */
    uint64_t long_held; /* marked grants */
    uint64_t timers;
    uint64_t first_timer_ms;
    struct keyed_list tokens;
    struct keyed_list attachments;
    const struct tenant *tenant; /* whose share is checked */
    uint64_t ended_sessions;     /* of all shares */
    uint64_t fences;
    uint64_t counters;
};

/* Checks the links of a ring; ends even if the ring is broken. */
struct walk {
    const struct core *c;
    size_t offset;
    ref last;
    ref at;
    uint64_t left;
    bool is_broken;
};

ref walk_begin(struct walk *w, const struct core *c, ref last, size_t offset, uint64_t max);
ref walk_next(struct walk *w);
#define WALK(w, c, obj, last, type, field, max)                                         \
    for (ref obj = walk_begin(w, c, last, offsetof(struct type, field), max); obj != 0; \
         obj = walk_next(w))

/* Whether its neighbours point back. */
bool is_linked(const struct core *c, ref obj, size_t offset);

extern const char broken_ring[];

/* `trusts_tables`: without the lookups by name, id and token, which cost as much as the rest; the
 * builder of a snapshot has just done them. */
const char *check_all(const struct core *c, bool trusts_tables);

/* Counts a timer; false: missing, needless or later than `due_ms`. */
bool timer_is_right(struct census *n, ref obj, uint64_t due_ms, bool may_be_stale);

/* invariants_lock.c */
const char *check_locks(struct census *n);
const char *check_all_node_waiters(struct census *n);
/* A lost wake-up: the waiter could be granted, and no pending work will do it. */
bool is_forgotten(const struct core *c, const struct waiter *w);

/* invariants_memory.c */
const char *check_replies(struct census *n, const struct session *s);
/* The request that a waiter or first grant answers. */
const char *check_tie(struct census *n, ref request, enum request_state state, ref target,
                      const struct session *s);
const char *check_memory(struct census *n);
/* invariants_usage.c: what the share of n->tenant counts. */
const char *check_usage(struct census *n);

#endif
