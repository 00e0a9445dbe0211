/* What the tests of the client's engine share: a world that is made and cleared away for each. */
#ifndef HOLDFAST_TESTS_CLIENT_TESTING_H
#define HOLDFAST_TESTS_CLIENT_TESTING_H

#include "base_testing.h"

#include "client_world.h"

static inline int make_world(void **state)
{
    struct client_world *w = malloc(sizeof(*w));
    world_init(w);
    *state = w;
    return 0;
}

static inline int clear_world(void **state)
{
    world_close(*state);
    free(*state);
    return 0;
}

#define world_test(f) cmocka_unit_test_setup_teardown(f, make_world, clear_world)

/* Takes a lock that is free. */
static inline struct hf_lock *take(struct client_world *w, const char *name,
                                   const struct hf_lock_options *options)
{
    struct hf_lock *lock = NULL;
    assert_int_equal(world_await(w, world_acquire(w, name, options), 1000, &lock), 0);
    assert_non_null(lock);
    return lock;
}

static inline int64_t left(const struct client_world *w, const struct hf_lock *lock)
{
    return life_left(lock_safe_until(lock), w->now_ms);
}

#endif
