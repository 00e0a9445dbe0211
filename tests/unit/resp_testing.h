/* What the tests of the Redis protocol share: a world of it, and somebody who comes by another
 * protocol. To be included first and once, since it holds the world. */
#ifndef HOLDFAST_TESTS_RESP_TESTING_H
#define HOLDFAST_TESTS_RESP_TESTING_H

#include "base_testing.h"

#include "core/view.h"
#include "resp_world.h"

static struct resp_world world;
static struct counted counted;

static inline void set_up_with(const struct service_options *options)
{
    counted_init(&counted);
    resp_world_open(&world, &counted.memory, options);
}

static inline int set_up(void **state)
{
    set_up_with(NULL);
    return 0;
}

static inline int tear_down(void **state)
{
    const char *problem = core_check_invariants(world.gateway.core);
    if (problem != NULL) {
        fail_msg("%s", problem);
    }
    resp_world_close(&world);
    assert_all_given_back(&counted);
    return 0;
}

static inline struct resp_client *client(void)
{
    return resp_world_client(&world);
}

static inline uint64_t submitted(enum command_type type)
{
    return world.gateway.submitted[type];
}

/* Somebody takes a lock by another API; returns the token. */
static inline uint64_t take_elsewhere(const char *name)
{
    struct command c;
    struct result r;
    command_init(&c, COMMAND_ACQUIRE);
    c.acquire.lease = (struct id){77, world.gateway.index};
    c.acquire.client = slice_of("curl");
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = slice_of(name);
    c.acquire.ttl_ms = 30000;
    fake_gateway_apply(&world.gateway, &c, &r);
    assert_int_equal(r.outcome, OUTCOME_GRANTED);
    return r.token;
}

/* Its holder, whoever that is, renews it: what was read of it has changed, its deadline. */
static inline void renew_elsewhere(const char *name)
{
    struct command c;
    struct result r;
    struct key_view view;
    view_key(world.gateway.core, 0, slice_of(name), &view);
    command_init(&c, COMMAND_RENEW);
    c.renew.name = slice_of(name);
    c.renew.token = view.token;
    c.renew.client = view.client;
    fake_gateway_pass(&world.gateway, 10);
    fake_gateway_apply(&world.gateway, &c, &r);
    assert_int_equal(r.outcome, OUTCOME_DONE);
}

static inline void count_audit(void *ctx, const struct audit_view *record)
{
    (void)record;
    (*(unsigned *)ctx)++;
}

/* How many records the trail holds. */
static inline unsigned audited(void)
{
    unsigned count = 0;
    view_audit(world.gateway.core, 0, 0, 1000, count_audit, &count);
    return count;
}

#endif
