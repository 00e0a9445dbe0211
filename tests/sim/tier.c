/* The production tier on a simulated node, see tier.h. What src/node adds to it is added here: it
 * begins and ends with the lead, receives what is proposed, applied and ended in the log, gets the
 * time, and is not served while the node catches up with its sockets after a stall (S1.5). */
#include "tier.h"

#include "calls.h"

enum {
    STALL_US = 1000000,
    RETRY_US = 10000,
    RESERVES_AFTER = 16, /* commands; no world lasts for the 512 tokens after which the tier does */
};

/* What the command that is being submitted was answered. */
static struct reported {
    bool is_there;
    struct result result;
} reported;

/* Whatever came during a pause comes at the moment in which it ends (world.c). */
static bool is_late(const struct sim_node *n)
{
    return n->paused_until_us == world.now_us && n->paused_for_us > STALL_US;
}

static struct tier_time now_of(struct sim_node *n)
{
    struct replica_time now = node_time(n);
    return (struct tier_time){.cluster_ms = replica_cluster_ms(n->replica, now),
                              .wall_ms = now.wall_ms,
                              .majority = !is_late(n) && replica_has_majority(n->replica, now)};
}

/* ---- what the tier requests ---- */

static const struct core *replicated(void *ctx)
{
    const struct sim_node *n = ctx;
    return replica_core(n->replica);
}

static struct tier_time now(void *ctx)
{
    return now_of(ctx);
}

static void on_result(void *ctx, void *cookie, const struct result *result)
{
    struct sim_node *n = ctx;
    if (result == NULL) {
        violation("node %d: the tier knows no outcome, and has no backend", n->id);
    }
    reported = (struct reported){true, *result};
    clients_tier_result(n, cookie, result);
}

static void on_again(void *ctx, void *cookie)
{
    const struct sim_node *n = ctx;
    (void)cookie;
    violation("node %d: the tier wants to be called again, and has no backend", n->id);
}

static void on_event(void *ctx, const struct event *event)
{
    const struct sim_node *n = ctx;
    tier_truth_event(n, event);
    clients_tier_event(n, event);
}

static bool propose(void *ctx, const struct command *command)
{
    struct sim_node *n = ctx;
    n->tier_proposed = replica_submit(n->replica, command, calls_nobody(), node_time(n)) == HF_OK;
    return n->tier_proposed;
}

void tier_open(struct sim_node *n)
{
    struct memory_tier_options options = {.memory = memory_system(),
                                          .ctx = n,
                                          .replicated = replicated,
                                          .now = now,
                                          .on_result = on_result,
                                          .on_again = on_again,
                                          .on_event = on_event,
                                          .propose = propose};
    n->tier = memory_tier_new(&options);
    n->tier_term = 0;
}

void tier_close(struct sim_node *n)
{
    memory_tier_free(n->tier);
    n->tier = NULL;
    tier_truth_end(n->tier_truth);
    n->tier_truth = NULL;
}

/* ---- the lead ---- */

void tier_follow(struct sim_node *n)
{
    struct replica_status s;
    if (n->replica == NULL || n->tier == NULL) {
        return;
    }
    replica_status(n->replica, node_time(n), &s);
    if (!s.serving) {
        memory_tier_end(n->tier);
        tier_truth_end(n->tier_truth);
        n->tier_truth = NULL;
    } else if (!memory_tier_is_on(n->tier) || n->tier_term != s.term) {
        n->tier_term = s.term;
        memory_tier_begin(n->tier, (uint64_t)n->id);
        tier_truth_end(n->tier_truth);
        n->tier_truth = tier_truth_begin(n);
    }
}

/* ---- time ---- */

/* What the tier proposed is on its way without delay. */
static void flush(struct sim_node *n)
{
    if (n->tier_proposed) {
        n->tier_proposed = false;
        replica_flush(n->replica, node_time(n));
    }
}

void tier_run(struct sim_node *n)
{
    if (memory_tier_is_on(n->tier) && !is_late(n)) {
        memory_tier_run(n->tier, now_of(n));
        flush(n);
    }
}

uint64_t tier_next_us(const struct sim_node *n)
{
    uint64_t due_ms = memory_tier_next_ms(n->tier);
    if (due_ms == UINT64_MAX) {
        return UINT64_MAX;
    }
    uint64_t now_us = node_time(n).boot_us;
    uint64_t at_us = replica_when_us(n->replica, due_ms);
    return at_us <= now_us ? now_us + RETRY_US : at_us; /* it could not be done now */
}

void tier_node_gone(struct sim_node *n, const struct command *gone)
{
    struct tier_time time = now_of(n);
    time.majority = true; /* or it would not have been declared */
    (void)memory_tier_submit(n->tier, TIER_CORRECTNESS, gone, calls_nobody(), time);
}

/* ---- commands ---- */

enum tier_taken tier_submit(struct sim_node *n, enum tier requested, const struct command *command,
                            void *cookie)
{
    bool held = tier_truth_holds(n, command);
    reported.is_there = false;
    bool is_for_log = memory_tier_is_for_log(n->tier, requested, command);
    enum tier_taken taken = memory_tier_submit(n->tier, requested, command, cookie, now_of(n));
    hf_assert(!is_for_log || taken == TIER_PROPOSE);
    if (reported.is_there != (taken == TIER_TAKEN)) {
        violation("node %d: the tier %s", n->id,
                  reported.is_there ? "answered what it did not take"
                                    : "took a command in silence");
    }
    if (taken == TIER_TAKEN) {
        tier_truth_result(n, requested, command, held, &reported.result);
        if (++n->tier_taken % RESERVES_AFTER == 0) {
            struct command advance;
            command_init(&advance, COMMAND_ADVANCE);
            world.counts.tier_reserved += propose(n, &advance);
        }
    }
    flush(n);
    return taken;
}
