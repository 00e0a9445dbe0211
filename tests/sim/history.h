/* What clients saw, and whether any order of events explains it: linearizability of the lock model,
 * name by name. Knows nothing of the world: a history is a list of operations with the times of
 * their call and return.
 *
 * The model of one name: exclusive or shared holders, reported by their tokens. A grant needs all
 * holders in its way to be gone; tokens rise. A holder is gone by its release, or by expiry, which
 * may come (and never must) once its lease is over, or because an operator took it away. Each
 * operation takes effect at one moment between its call and its return.
 *
 * An operation whose outcome the client never learned has no return. It is not placed; what it may
 * have done is allowed for: an acquire may be a holder that others see, a release may have ended
 * its token at any time after its call, what an operator did whoever held the name within
 * HISTORY_LATE_US. */
#ifndef HOLDFAST_TESTS_SIM_HISTORY_H
#define HOLDFAST_TESTS_SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_NEVER UINT64_MAX
#define HISTORY_LATE_US UINT64_C(25000000)

enum history_kind {
    HISTORY_GRANT,   /* an acquire that was granted `token` */
    HISTORY_REFUSAL, /* an acquire that was refused, because somebody holds it */
    HISTORY_RELEASE, /* `held`: of a token that was held, else it was answered that it is not */
    HISTORY_RENEW,   /* likewise; also a keep-alive of the session that holds it */
    HISTORY_READ,    /* `token` was seen as the holder, 0: nobody */
    HISTORY_ACQUIRE, /* outcome unknown, or none: may be in others' way until its return */
    HISTORY_FORCE, /* `held`: an operator ended whoever held it, else it was answered that nobody did */
    HISTORY_REVOKE, /* likewise, but they may stay for `lease_us` after its call */
};

struct history_op {
    enum history_kind kind;
    int client;
    bool shared;
    bool waits;
    bool held;
    bool maybe;     /* renew: only if it is held yet; a keep-alive does not report it */
    bool multi;     /* grant, renew: of several names at once */
    bool nearby;    /* force, revoke: of another name, which ends only who holds this one, too */
    uint64_t token; /* force, revoke: of the only holder concerned; 0: all holders */
    uint64_t call_us;
    uint64_t return_us; /* HISTORY_NEVER: not known */
    uint64_t lease_us;  /* grant, renew: held at least that long after its call */
};

enum history_verdict { HISTORY_GOOD, HISTORY_BAD, HISTORY_UNDECIDED };

/* The operations on one name, in any order. On HISTORY_BAD `problem` says where no order goes on.
 * HISTORY_UNDECIDED: gave up after `max_steps`. */
enum history_verdict history_check(const struct history_op *ops, size_t count, uint64_t max_steps,
                                   char *problem, size_t problem_size);

#endif
