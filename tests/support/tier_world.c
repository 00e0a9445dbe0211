/* The world of tier_world.h. */
#include "base_testing.h"

#include "tier_world.h"

struct tier_world world;

static const struct core *replicated(void *ctx)
{
    (void)ctx;
    return world.core;
}

static void on_result(void *ctx, void *cookie, const struct result *result)
{
    (void)ctx;
    assert_ptr_equal(cookie, &world);
    world.results++;
    if (result == NULL) {
        world.unknown++;
    } else {
        world.last = *result;
        snprintf(world.last_holder, sizeof(world.last_holder), "%.*s",
                 (int)result->holder.client.len,
                 result->has_holder ? (const char *)result->holder.client.data : "");
    }
}

struct tier_time tier_at(void)
{
    return (struct tier_time){.cluster_ms = world.now_ms, .wall_ms = 5, .majority = world.majority};
}

static struct tier_time now(void *ctx)
{
    (void)ctx;
    return tier_at();
}

static void on_again(void *ctx, void *cookie)
{
    (void)ctx;
    assert_ptr_equal(cookie, &world);
    world.agains++;
}

static void on_event(void *ctx, const struct event *event)
{
    (void)ctx;
    assert_int_equal(event->tier, TIER_EFFICIENCY);
    world.events[world.event_count++ % TIER_WORLD_EVENTS] = *event;
}

static bool propose(void *ctx, const struct command *command)
{
    (void)ctx;
    if (command->type == COMMAND_NOTE) {
        struct result result;
        if (world.refuses) {
            return false;
        }
        core_begin(world.core, ++world.index, world.now_ms, 0);
        core_apply(world.core, command, &result);
        assert_int_equal(result.error, HF_OK);
        return true;
    }
    assert_int_equal(command->type, COMMAND_ADVANCE);
    world.advances += !world.refuses;
    return !world.refuses;
}

static void on_replicated_event(void *ctx, const struct event *event)
{
    (void)ctx;
    memory_tier_on_event(world.tier, event);
}

struct result tier_replicate(const struct command *command)
{
    struct result result;
    core_begin(world.core, ++world.index, world.now_ms, 0);
    core_apply(world.core, command, &result);
    memory_tier_on_replicated(world.tier, command, &result);
    return result;
}

void tier_replicate_plain(enum command_type type)
{
    struct command command;
    command_init(&command, type);
    command.lead.node = type == COMMAND_LEAD ? 1 : 0;
    (void)tier_replicate(&command);
}

void tier_world_open(void)
{
    tier_world_open_version(CORE_VERSION);
}

void tier_world_open_version(uint32_t version)
{
    memset(&world, 0, sizeof(world));
    counted_init(&world.counted);
    world.now_ms = 1000;
    world.majority = true;
    struct memory_tier_options options = {.memory = &world.counted.memory,
                                          .replicated = replicated,
                                          .on_result = on_result,
                                          .on_again = on_again,
                                          .now = now,
                                          .on_event = on_event,
                                          .propose = propose};
    world.tier = memory_tier_new(&options);
    struct core_options core = {.memory = &world.counted.memory,
                                .hash_key = 1,
                                .on_event = on_replicated_event,
                                .version = version};
    world.core = core_new(&core);
    tier_replicate_plain(COMMAND_LEAD);
    memory_tier_begin(world.tier, 1);
}

void tier_world_close(void)
{
    const struct core *core = memory_tier_core(world.tier);
    assert_null(core == NULL ? NULL : core_check_invariants(core));
    assert_null(core_check_invariants(world.core));
    memory_tier_free(world.tier);
    core_free(world.core);
    assert_all_given_back(&world.counted);
}

void tier_make_acquire(struct command *c, const char *name, uint64_t wait_ms)
{
    command_init(c, COMMAND_ACQUIRE);
    c->acquire.lease = (struct id){7, ++world.drawn};
    c->acquire.node = 1;
    c->acquire.client = slice_of("client");
    c->acquire.names.count = 1;
    c->acquire.names.at[0] = slice_of(name);
    c->acquire.ttl_ms = 1000;
    c->acquire.wait_ms = wait_ms;
}

enum tier_taken tier_submit(enum tier tier, const struct command *c)
{
    bool is_for_log = memory_tier_is_for_log(world.tier, tier, c);
    enum tier_taken taken = memory_tier_submit(world.tier, tier, c, &world, tier_at());
    assert_true(!is_for_log || taken == TIER_PROPOSE);
    return taken;
}

uint64_t tier_take(const char *name)
{
    struct command c;
    tier_make_acquire(&c, name, 0);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.error, HF_OK);
    assert_int_equal(world.last.outcome, OUTCOME_GRANTED);
    return world.last.token;
}

uint64_t tier_take_replicated(const char *name)
{
    struct command c;
    tier_make_acquire(&c, name, 0);
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_PROPOSE);
    uint64_t number = memory_tier_on_proposed(world.tier, &c);
    struct result r = tier_replicate(&c);
    memory_tier_on_settled(world.tier, number);
    assert_int_equal(r.outcome, OUTCOME_GRANTED);
    return r.token;
}

void tier_give(uint64_t token, const char *name)
{
    struct command c;
    command_init(&c, COMMAND_RELEASE);
    c.release.name = slice_of(name);
    c.release.client = slice_of("client");
    c.release.token = token;
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_TAKEN); /* the token tells */
    assert_int_equal(world.last.outcome, OUTCOME_DONE);
}
