/* A leading node with nothing but its state in both tiers (tier_world.h) and a clock of the test, for tests of
 * what a leader looks for in its steps. It defines the functions of the replica that such a step calls; to be
 * included by one file of a program, after base_testing.h. */
#ifndef HOLDFAST_TESTS_LEADER_WORLD_H
#define HOLDFAST_TESTS_LEADER_WORLD_H

#include "core/view.h"
#include "node/node_state.h"
#include "tier_world.h"

static struct node *node;
static uint64_t boot_us;

const struct core *replica_core(const struct replica *r)
{
    (void)r;
    return world.core;
}

uint64_t replica_cluster_ms(const struct replica *r, struct replica_time now)
{
    (void)r;
    (void)now;
    return world.now_ms;
}

static void leader_world_open(void)
{
    tier_world_open();
    node = calloc(1, sizeof(*node));
    node->serving = true;
    node->tier = world.tier;
    boot_us = 5000000;
}

static int leader_world_close(void **state)
{
    (void)state;
    tier_world_close();
    free(node);
    return 0;
}

static void leader_world_pass(uint32_t ms)
{
    boot_us += (uint64_t)ms * 1000;
    world.now_ms += ms;
}

/* For an hour; returns the token. */
static uint64_t take_in_log(const char *name)
{
    struct command c;
    tier_make_acquire(&c, name, 0);
    c.acquire.ttl_ms = 3600000;
    struct result result = tier_replicate(&c);
    assert_int_equal(result.outcome, OUTCOME_GRANTED);
    return result.token;
}

static uint64_t take_in_memory(const char *name)
{
    struct command c;
    tier_make_acquire(&c, name, 0);
    c.acquire.ttl_ms = 3600000;
    enum tier_taken taken = tier_submit(TIER_EFFICIENCY, &c);
    while (taken == TIER_LATER) {
        tier_replicate_plain(COMMAND_ADVANCE);
        taken = tier_submit(TIER_EFFICIENCY, &c);
    }
    assert_int_equal(taken, TIER_TAKEN);
    assert_int_equal(world.last.outcome, OUTCOME_GRANTED);
    return world.last.token;
}

#endif
