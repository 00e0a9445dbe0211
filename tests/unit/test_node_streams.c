/* Tests of the walk over the streams that a gone node carried (S4.6), on a real core; the replica is
 * the test's. */
#include "base_testing.h"

#include "core/view.h"
#include "node/node_state.h"

enum { GONE = 2, OTHER = 3 };

static struct {
    struct core *core;
    struct node *node;
    uint64_t index;
    uint64_t now_ms;
    enum hf_error refuses; /* what replica_submit answers after `space` more commands */
    uint32_t space;
    uint32_t submitted;
} world;

const struct core *replica_core(const struct replica *r)
{
    (void)r;
    return world.core;
}

void *forward_no_cookie(void)
{
    return &world;
}

static struct result apply(const struct command *command)
{
    struct result result;
    core_begin(world.core, ++world.index, world.now_ms, 0);
    core_apply(world.core, command, &result);
    return result;
}

enum hf_error replica_submit(struct replica *r, const struct command *command, void *cookie,
                             struct replica_time now)
{
    (void)r;
    (void)now;
    assert_non_null(cookie);
    assert_int_equal(command->type, COMMAND_STREAM_DOWN);
    if (world.space == 0) {
        return world.refuses;
    }
    world.space--;
    world.submitted++;
    assert_int_equal(apply(command).error, HF_OK);
    return HF_OK;
}

static int set_up(void **state)
{
    (void)state;
    memset(&world, 0, sizeof(world));
    struct core_options options = {
        .memory = memory_system(), .hash_key = 3, .version = CORE_VERSION};
    world.core = core_new(&options);
    world.node = calloc(1, sizeof(*world.node));
    world.node->serving = true;
    world.now_ms = 1000;
    world.space = UINT32_MAX;
    world.refuses = HF_BUSY;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    core_free(world.core);
    free(world.node);
    return 0;
}

static struct id id_of(uint64_t number)
{
    return (struct id){7, number};
}

static void raise_stream(uint64_t session, uint32_t node)
{
    struct command c;
    command_init(&c, COMMAND_STREAM_THROUGH);
    c.session = id_of(session);
    c.stream_through.node = node;
    assert_int_equal(apply(&c).error, HF_OK);
}

static void open_session(uint64_t session, uint32_t linger_ms, uint32_t node)
{
    struct command c;
    command_init(&c, COMMAND_SESSION_OPEN);
    c.session_open.id = id_of(session);
    c.session_open.client = slice_of("client");
    c.session_open.ttl_ms = 60000;
    c.session_open.linger_ms = linger_ms;
    assert_int_equal(apply(&c).error, HF_OK);
    raise_stream(session, node);
}

static bool lingers(uint64_t session)
{
    struct session_view view;
    assert_true(view_session(world.core, id_of(session), &view));
    return view.lingers;
}

static void run_steps(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        node_step_streams(world.node, (struct replica_time){0, 0});
    }
}

static void the_streams_of_a_gone_node_are_broken_and_no_others(void **state)
{
    (void)state;
    open_session(1, 500, GONE);
    open_session(2, 500, OTHER);
    open_session(3, 0, GONE); /* it did not request a linger */
    node_streams_gone(world.node, GONE);
    run_steps(10);
    assert_true(lingers(1));
    assert_false(lingers(2));
    assert_int_equal(world.submitted, 1);
    world.now_ms += 501;
    struct command tick;
    command_init(&tick, COMMAND_TICK);
    (void)apply(&tick);
    struct session_view view;
    assert_false(view_session(world.core, id_of(1), &view)); /* long before its TTL */
    assert_true(view_session(world.core, id_of(2), &view));
}

static void a_stream_that_was_resumed_is_left_alone(void **state)
{
    (void)state;
    open_session(1, 500, GONE);
    open_session(2, 500, GONE);
    node_streams_gone(world.node, GONE);
    raise_stream(1, OTHER);
    raise_stream(2, GONE); /* by the node itself, which was not gone or is back */
    run_steps(10);
    assert_false(lingers(1));
    assert_false(lingers(2));
    assert_int_equal(world.submitted, 0);
}

static void many_streams_are_broken_in_bounded_steps(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    for (uint64_t i = 1; i <= MANY; i++) {
        open_session(i, 500, GONE);
    }
    node_streams_gone(world.node, GONE);
    run_steps(1);
    assert_in_range(world.submitted, 1, 1100);
    world.space = 10; /* the batch is full for a while */
    run_steps(3);
    world.space = UINT32_MAX;
    run_steps(20);
    for (uint64_t i = 1; i <= MANY; i++) {
        assert_true(lingers(i));
    }
    assert_int_equal(world.submitted, MANY);
}

static void who_leads_no_more_stops(void **state)
{
    (void)state;
    open_session(1, 500, GONE);
    node_streams_gone(world.node, GONE);
    world.node->serving = false;
    run_steps(1);
    world.node->serving = true;
    run_steps(10);
    assert_int_equal(world.submitted, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_streams_of_a_gone_node_are_broken_and_no_others, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_stream_that_was_resumed_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_streams_are_broken_in_bounded_steps, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_leads_no_more_stops, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
