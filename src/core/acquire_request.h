/* An acquire while it is decided; for acquire.c, own.c and again.c. */
#ifndef HOLDFAST_CORE_ACQUIRE_REQUEST_H
#define HOLDFAST_CORE_ACQUIRE_REQUEST_H

#include "core/state.h"

struct acquire_request {
    const struct command *cmd;
    const struct command_acquire *a;
    ref session; /* 0: it gets a private one */
    uint32_t count;
    struct slice names[LIMIT_MULTILOCK_NAMES]; /* canonical order */
    uint32_t hashes[LIMIT_MULTILOCK_NAMES];
    ref locks[LIMIT_MULTILOCK_NAMES]; /* 0: free */
};

/* A request remembered by its id. */
void answer_again(struct core *c, ref request, uint32_t node, struct result *out);
/* True when the lease id is known; then `out` is the answer. */
bool known_by_lease(struct core *c, const struct acquire_request *req, struct result *out);
void answer_granted(const struct core *c, ref grant, struct result *out);
void answer_queued(struct core *c, ref waiter, struct result *out);

/* own.c: what the same owner already has (S4.1), one bit per name. */
struct own {
    uint64_t held;
    uint64_t waited_for;
    ref grant; /* of a single held name */
};
void find_own(struct core *c, const struct acquire_request *req, struct own *own);

#endif
