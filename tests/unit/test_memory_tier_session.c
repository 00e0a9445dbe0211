/* Sessions in the tier EFFICIENCY: they live in the replicated core, and what they hold here lives
 * and ends with them (S4.2, S10). */
#include "base_testing.h"

#include "core/view.h"
#include "tier_world.h"

static void open_session(struct id id, uint32_t ttl_ms, uint32_t linger_ms)
{
    struct command c;
    command_init(&c, COMMAND_SESSION_OPEN);
    c.session_open.id = id;
    c.session_open.client = slice_of("client");
    c.session_open.ttl_ms = ttl_ms;
    c.session_open.linger_ms = linger_ms;
    assert_int_equal(tier_replicate(&c).error, HF_OK);
}

static uint64_t take_in(struct id session, const char *name)
{
    struct command c;
    tier_make_acquire(&c, name, 0);
    c.session = session;
    c.acquire.ttl_ms = 0;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    return world.last.error == HF_OK ? world.last.token : 0;
}

static void keep_alive(struct id id)
{
    struct command c;
    uint8_t packed[16];
    memcpy(packed, &id, 16);
    command_init(&c, COMMAND_KEEPALIVE);
    c.keepalive.sessions = (struct ids){1, packed};
    (void)tier_replicate(&c);
}

static void a_replicated_session_holds_here_as_long_as_it_lives_there(void **state)
{
    (void)state;
    tier_world_open();
    struct id id = {1, 2};
    struct session_view view;
    open_session(id, 1000, 0);
    world.now_ms += 400;
    assert_true(take_in(id, "n") != 0);
    assert_int_equal(world.last.deadline_ms,
                     2000); /* the session's own, not one from now on (S4.2) */
    world.now_ms += 400;
    keep_alive(id);
    assert_true(view_session(memory_tier_core(world.tier), id, &view));
    assert_int_equal(view.deadline_ms, world.now_ms + 1000);
    world.now_ms += 900;
    memory_tier_run(world.tier, tier_at());
    assert_int_equal(core_names(memory_tier_core(world.tier)), 1);
    world.now_ms += 200;
    tier_replicate_plain(COMMAND_TICK); /* it expires there, and takes its locks here with it */
    memory_tier_run(world.tier, tier_at());
    assert_int_equal(core_names(memory_tier_core(world.tier)), 0);
    bool is_lost = false;
    for (uint32_t i = 0; i < world.event_count; i++) {
        is_lost = is_lost || world.events[i].type == EVENT_LOST;
        assert_int_not_equal(world.events[i].type,
                             EVENT_SESSION_EXPIRED); /* that is reported there */
    }
    assert_true(is_lost);
    assert_int_equal(take_in(id, "n"), 0);
    assert_int_equal(world.last.error, HF_SESSION_EXPIRED);
    assert_int_equal(take_in((struct id){5, 5}, "n"), 0);
    assert_int_equal(world.last.error, HF_SESSION_NOT_FOUND);
    tier_world_close();
}

/* After a change of the leader, the node of the waiter submits the rest of the wait, and the client repeats
 * its request through another node. Either may be the first. */
static void the_rest_of_a_wait_is_the_same_request(void **state)
{
    (void)state;
    tier_world_open();
    struct id id = {1, 2};
    struct command c;
    open_session(id, 60000, 0);
    uint64_t token = take_in(id, "n");
    tier_make_acquire(&c, "n", 60000);
    c.session = id;
    c.acquire.owner = slice_of("second");
    c.request_id = slice_of("once");
    for (unsigned i = 0; i < 3; i++) {
        c.acquire.wait_ms = i == 0 ? 60000 : i == 1 ? 41234 : 0;
        assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
        assert_int_equal(world.last.error, HF_OK);
        assert_int_equal(world.last.outcome, OUTCOME_QUEUED);
        assert_int_equal(world.last.wait_deadline_ms, world.now_ms + 60000); /* S7.4 */
    }
    struct command other = c;
    other.acquire.owner = slice_of("third");
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &other), TIER_TAKEN);
    assert_int_equal(world.last.error, HF_REQUEST_ID_REUSED);
    tier_give(token, "n");
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.outcome, OUTCOME_GRANTED);
    tier_world_close();
}

static void a_session_whose_keep_alive_is_in_flight_at_its_deadline_lives_on(void **state)
{
    (void)state;
    tier_world_open();
    struct id id = {1, 2};
    struct session_view view;
    struct command c;
    open_session(id, 1000, 0);
    assert_true(take_in(id, "n") != 0);
    uint32_t events = world.event_count;
    world.now_ms += 1500; /* stamped before the deadline, and not committed for long */
    memory_tier_run(world.tier, tier_at());
    assert_int_equal(core_names(memory_tier_core(world.tier)), 1);
    assert_true(memory_tier_next_ms(world.tier) > world.now_ms); /* no busy waiting */
    assert_true(memory_tier_next_ms(world.tier) < world.now_ms + 100);
    tier_make_acquire(&c, "m", 0);
    c.session = id;
    uint32_t results = world.results;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_LATER);
    assert_int_equal(world.results, results);
    world.now_ms -= 600;
    keep_alive(id);
    world.now_ms += 600;
    memory_tier_run(world.tier, tier_at());
    assert_true(view_session(memory_tier_core(world.tier), id, &view));
    assert_int_equal(view.deadline_ms, world.now_ms + 400);
    assert_true(take_in(id, "m") != 0);
    for (; events < world.event_count; events++) {
        assert_int_equal(world.events[events].type, EVENT_GRANTED); /* nothing was lost */
    }
    /* It is not kept alive again: the log ends it, and then it is over here. */
    world.now_ms += 400;
    memory_tier_run(world.tier, tier_at());
    assert_int_equal(core_names(memory_tier_core(world.tier)), 2);
    tier_replicate_plain(COMMAND_TICK);
    memory_tier_run(world.tier, tier_at());
    assert_int_equal(core_names(memory_tier_core(world.tier)), 0);
    assert_int_equal(take_in(id, "m"), 0);
    assert_int_equal(world.last.error, HF_SESSION_EXPIRED);
    tier_world_close();
}

/* Commands that touch a lock end what is due of it when the sweep could not end all. A session that
 * the log has not ended keeps its locks then, too. */
static void a_backlog_of_deadlines_does_not_end_what_the_log_has_not_ended(void **state)
{
    (void)state;
    tier_world_open();
    struct id id = {1, 2};
    struct command c;
    char name[32];
    open_session(id, 2000, 0);
    assert_true(take_in(id, "n") != 0);
    tier_make_acquire(&c, "n", 60000);
    c.session = id;
    c.acquire.owner = slice_of("another thread");
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN); /* it waits for the same lock */
    uint32_t held = 2 * LIMIT_SWEEP_LOCKS + 1;
    for (uint32_t i = 0; i < held; i++) {
        (void)snprintf(name, sizeof(name), "lease-%u", i);
        tier_make_acquire(&c, name, 0);
        c.acquire.ttl_ms = 1000;
        enum tier_taken taken = tier_submit(TIER_EFFICIENCY, &c);
        while (taken == TIER_LATER) { /* tokens are requested in blocks */
            tier_replicate_plain(COMMAND_ADVANCE);
            taken = tier_submit(TIER_EFFICIENCY, &c);
        }
        assert_int_equal(world.last.error, HF_OK);
    }
    world.event_count = 0;
    world.now_ms += 5000;
    tier_make_acquire(&c, "n", 0);
    (void)tier_submit(TIER_EFFICIENCY, &c); /* one sweep goes before it */
    assert_true(core_names(memory_tier_core(world.tier)) > LIMIT_SWEEP_LOCKS / 2);
    assert_int_equal(world.last.outcome, OUTCOME_REFUSED);
    assert_int_equal(world.last.reason, REASON_HELD);
    tier_world_close();
}

static void a_session_that_is_closed_gives_its_locks_to_the_next(void **state)
{
    (void)state;
    tier_world_open();
    struct command c;
    struct id id = {1, 2};
    open_session(id, 10000, 0);
    assert_true(take_in(id, "n") != 0);
    tier_make_acquire(&c, "n", 60000);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    command_init(&c, COMMAND_SESSION_CLOSE);
    c.session = id;
    (void)tier_replicate(&c);
    assert_true(memory_tier_next_ms(world.tier) <= world.now_ms);
    memory_tier_run(world.tier, tier_at());
    assert_int_equal(world.events[world.event_count - 1].type, EVENT_GRANTED);
    tier_world_close();
}

static void a_broken_stream_that_lingers_shortens_the_session_here_too(void **state)
{
    (void)state;
    tier_world_open();
    struct command c;
    struct id id = {1, 2};
    struct session_view view;
    open_session(id, 10000, 500);
    assert_true(take_in(id, "n") != 0);
    command_init(&c, COMMAND_STREAM_UP);
    c.session = id;
    struct result up = tier_replicate(&c);
    command_init(&c, COMMAND_STREAM_DOWN);
    c.session = id;
    c.stream_down.stream = up.attachment;
    (void)tier_replicate(&c);
    assert_true(view_session(memory_tier_core(world.tier), id, &view));
    assert_int_equal(view.deadline_ms, world.now_ms + 500);
    tier_world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replicated_session_holds_here_as_long_as_it_lives_there),
        cmocka_unit_test(the_rest_of_a_wait_is_the_same_request),
        cmocka_unit_test(a_session_whose_keep_alive_is_in_flight_at_its_deadline_lives_on),
        cmocka_unit_test(a_backlog_of_deadlines_does_not_end_what_the_log_has_not_ended),
        cmocka_unit_test(a_session_that_is_closed_gives_its_locks_to_the_next),
        cmocka_unit_test(a_broken_stream_that_lingers_shortens_the_session_here_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
