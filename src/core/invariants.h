/* What the files of the invariants share. Each function returns NULL, or a text that begins with
 * the number of the invariant it found broken; the list is in invariants.c. */
#ifndef HOLDFAST_CORE_INVARIANTS_H
#define HOLDFAST_CORE_INVARIANTS_H

#include "core/keyed.h"
#include "core/state.h"

/* What has been seen on the way through the state, to be compared at the end. */
struct census {
    const struct core *c;
    bool trusts_tables; /* does not look everything up: whoever built the state did */
    uint64_t names;
    uint64_t sessions;
    uint64_t grants;
    uint64_t held; /* grants, seen from their locks */
    uint64_t waiters;
    uint64_t private_waiters;
    uint64_t crowded; /* waiters, seen from their crowds */
    uint64_t places;
    uint64_t queued; /* places, seen from their locks */
    uint64_t leases;
    uint64_t by_token;
    uint64_t requests; /* by id, not done */
    uint64_t delayed;  /* locks */
    uint64_t woken;    /* locks */
    uint64_t timers;
    uint64_t first_timer_ms;
    struct keyed_list tokens;
    struct keyed_list attachments;
};

/* A walk along a ring that checks it on the way and ends even if the ring does not. */
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
#define WALK(w, c, who, last, type, field, max)                                         \
    for (ref who = walk_begin(w, c, last, offsetof(struct type, field), max); who != 0; \
         who = walk_next(w))

/* Whether the neighbours of an object in a ring know it. */
bool is_linked(const struct core *c, ref who, size_t offset);

extern const char broken_ring[];

/* All invariants. With `trusts_tables` those that ask whether things are found by name, id or
 * token, and only once, are left out: they cost as much as all others together, and the builder of
 * a snapshot has just asked. */
const char *check_all(const struct core *c, bool trusts_tables);

/* Counts a timer; false when it is missing, needless or later than `due_ms`. */
bool timer_is_right(struct census *n, ref who, uint64_t due_ms, bool may_be_stale);

/* invariants_lock.c: names, queues, crowds. */
const char *check_locks(struct census *n);
const char *check_crowds(struct census *n);
/* Whether the waiter could be given what it waits for, and nothing will do so: a lost wake-up. */
bool is_forgotten(const struct core *c, const struct waiter *w);

/* invariants_memory.c: requests, ends, fence marks, audit. */
const char *check_replies(struct census *n, const struct session *s);
/* The request that a waiter or a first grant answers. */
const char *check_tie(struct census *n, ref request, enum request_state state, ref target,
                      const struct session *s);
const char *check_memory(struct census *n);

#endif
