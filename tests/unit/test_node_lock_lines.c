/* The lines of the log about locks: fields that are true, and only those. */
#include "base_testing.h"

#include "node/lines/lock_lines.h"
#include "node/lines/recent_ends.h"
#include "server/log.h"

static struct {
    struct counted counted;
    struct log_sink sink;
    struct journal journal;
    struct lock_lines *lines;
    int pipe[2];
    char text[1 << 16];
} w;

static int set_up(void **state)
{
    counted_init(&w.counted);
    assert_int_equal(pipe(w.pipe), 0);
    log_sink_init(&w.sink, w.pipe[1], LOG_JSON, 1);
    assert_null(log_levels_parse("info", &w.sink.levels));
    w.journal = log_sink_journal(&w.sink);
    w.lines = lock_lines_new(&w.counted.memory, &w.journal);
    return 0;
}

static int tear_down(void **state)
{
    lock_lines_free(w.lines);
    assert_all_given_back(&w.counted);
    log_sink_close(&w.sink);
    close(w.pipe[0]);
    close(w.pipe[1]);
    return 0;
}

/* The lines since the last call. */
static const char *lines(void)
{
    assert_int_equal(write(w.pipe[1], ".", 1), 1); /* something to read, always */
    ssize_t len = read(w.pipe[0], w.text, sizeof(w.text) - 1);
    assert_true(len >= 1);
    w.text[len - 1] = '\0';
    return w.text;
}

#define says(line, part) assert_non_null(strstr((line), (part)))
#define does_not_say(line, part) assert_null(strstr((line), (part)))

static struct event about(enum event_type type, uint64_t token)
{
    return (struct event){.type = type,
                          .index = 9,
                          .at_ms = 100000,
                          .since_ms = 97500,
                          .token = token,
                          .lease = {1, token},
                          .name = slice_of("disk/7"),
                          .client = slice_of("worker"),
                          .owner = slice_of("job-3")};
}

static void note(struct event e)
{
    lock_lines_note(w.lines, &e, true);
}

static void a_grant_has_the_ttl_that_was_requested(void **state)
{
    struct event e = about(EVENT_GRANTED, 1024);
    e.ttl_ms = 60000;
    e.deadline_ms = 159999; /* what is left of it */
    e.waited_ms = 1250;
    note(e);
    const char *line = lines();
    says(line, "\"level\":\"info\",\"subsystem\":\"lock\",\"event\":\"lock_acquired\"");
    says(line, "\"resource\":\"disk/7\",\"clientId\":\"worker\",\"ownerId\":\"job-3\"");
    says(line, "\"leaseId\":\"00000000000000010000000000000400\",\"fencingToken\":1024,");
    says(line, "\"ttlSeconds\":60,\"waitedSeconds\":1.25,\"tier\":\"CORRECTNESS\"");
    e.ttl_ms = 100;
    e.waited_ms = 0;
    e.owner = slice_make(NULL, 0);
    e.tier = TIER_EFFICIENCY;
    note(e);
    line = lines();
    says(line, "\"ownerId\":\"worker\"");
    says(line, "\"ttlSeconds\":0.1,\"tier\":\"EFFICIENCY\"");
}

static void an_end_has_no_ttl_but_how_long_it_was_held(void **state)
{
    struct event e = about(EVENT_EXPIRED, 1024);
    e.ended = ENDED_SESSION_EXPIRED;
    e.trace = slice_of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    note(e);
    const char *line = lines();
    says(line, "\"event\":\"lock_expired\"");
    says(line, "\"heldSeconds\":2.5,");
    says(line, "\"ended\":\"session_expired\"");
    says(line, "\"trace\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"");
    does_not_say(line, "ttlSeconds");
}

static void a_long_hold_is_a_warning_with_its_rule(void **state)
{
    struct event e = about(EVENT_LONG_HELD, 1024);
    e.text = slice_of("disk/");
    note(e);
    const char *line = lines();
    says(line, "\"level\":\"warn\",\"subsystem\":\"lock\",\"event\":\"lock_long_held\"");
    says(line, "\"resource\":\"disk/7\",\"clientId\":\"worker\",\"ownerId\":\"job-3\"");
    says(line, "\"heldSeconds\":2.5,");
    says(line, "\"rule\":\"disk/\"");
}

static void what_an_operator_does_is_a_warning(void **state)
{
    assert_null(log_levels_parse("info,lock=warn", &w.sink.levels));
    note(about(EVENT_GRANTED, 1024));
    note(about(EVENT_RELEASED, 1024));
    assert_string_equal(lines(), "");
    struct event e = about(EVENT_FORCED, 2048);
    e.ended = ENDED_FORCED;
    e.actor = slice_of("ann@desk");
    e.text = slice_of("the machine is gone");
    note(e);
    const char *line = lines();
    says(line, "\"level\":\"warn\",\"subsystem\":\"lock\",\"event\":\"lock_forced\"");
    says(line, "\"resource\":\"disk/7\"");
    says(line, "\"fencingToken\":2048");
    says(line, "\"actorId\":\"ann@desk\",\"reason\":\"the machine is gone\"");
    e.type = EVENT_REVOKE_REQUESTED;
    e.ended = ENDED_NOT;
    e.deadline_ms = e.at_ms + 30000;
    note(e);
    line = lines();
    says(line, "\"level\":\"warn\",\"subsystem\":\"lock\",\"event\":\"revoke_requested\"");
    says(line, "\"graceSeconds\":30,");
    says(line, "\"actorId\":\"ann@desk\",\"reason\":\"the machine is gone\"");
    does_not_say(line, "heldSeconds");
    e.type = EVENT_REVOKED;
    e.ended = ENDED_REVOKED;
    note(e);
    says(lines(), "\"event\":\"lock_revoked\"");
}

static void one_action_on_many_holders_is_few_lines(void **state)
{
    for (uint64_t i = 1; i <= 100; i++) {
        struct event e = about(EVENT_FORCED, 1024 * i);
        e.actor = slice_of("ann");
        note(e);
    }
    const char *text = lines();
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, "lock_forced")) != NULL; at++) {
        count++;
    }
    assert_int_equal(count, LOCK_LINES_FORCED_MAX);
    says(text, "\"event\":\"more_holders_forced\",\"node\":1,\"term\":0,\"resource\":\"disk/"
               "7\",\"logged\":16,");
    struct event e = about(EVENT_FORCED, 7);
    e.index++; /* another action */
    note(e);
    says(lines(), "\"fencingToken\":7");
}

static void a_failed_renewal_names_resource_owner_and_lease(void **state)
{
    struct event end = about(EVENT_EXPIRED, 1025);
    end.tier = TIER_EFFICIENCY;
    end.ended = ENDED_EXPIRED;
    lock_lines_note(w.lines, &end, false); /* also on a follower: it may lead later */
    assert_string_equal(lines(), "");
    struct event late = {.type = EVENT_RENEWAL_FAILED,
                         .token = 1025,
                         .reason = REASON_EXPIRED,
                         .ended = ENDED_EXPIRED,
                         .tier = TIER_EFFICIENCY,
                         .parts = 1};
    note(late);
    const char *line = lines();
    says(line, "\"event\":\"renewal_failed\"");
    says(line, "\"resource\":\"disk/7\",\"clientId\":\"worker\",\"ownerId\":\"job-3\"");
    says(line, "\"leaseId\":\"00000000000000010000000000000401\",\"fencingToken\":1025");
    says(line, "\"tier\":\"EFFICIENCY\",\"reason\":\"expired\",\"ended\":\"expired\"");
    late.token = 0;
    late.lease = end.lease;
    note(late);
    says(lines(), "\"resource\":\"disk/7\",\"clientId\":\"worker\",\"ownerId\":\"job-3\"");
    late.tenant = 1; /* the same numbers of another tenant */
    late.ended = ENDED_NOT;
    late.reason = REASON_NOT_OWNER;
    note(late);
    does_not_say(lines(), "disk/7");
}

static void the_tier_of_an_unknown_token_is_left_out(void **state)
{
    struct event e = {.type = EVENT_RENEWAL_FAILED,
                      .tier = TIER_EFFICIENCY, /* every token that is no multiple of 1,024 */
                      .token = 999999999,
                      .name = slice_of("disk/7"),
                      .client = slice_of("worker"),
                      .reason = REASON_NOT_OWNER,
                      .parts = 1};
    note(e);
    const char *line = lines();
    says(line, "\"resource\":\"disk/7\",\"clientId\":\"worker\",\"fencingToken\":999999999");
    does_not_say(line, "tier");
    does_not_say(line, "leaseId");
    does_not_say(line, "ownerId");
    e.type = EVENT_FENCE_REJECTED;
    note(e);
    does_not_say(lines(), "tier");
}

static void followers_and_quiet_logs_write_nothing(void **state)
{
    struct event e = about(EVENT_FORCED, 1024);
    lock_lines_note(w.lines, &e, false);
    assert_string_equal(lines(), "");
    assert_null(log_levels_parse("info,lock=error", &w.sink.levels));
    note(e);
    assert_string_equal(lines(), "");
}

static void old_ends_are_replaced_by_newer_ones(void **state)
{
    struct recent_ends *ends = recent_ends_new(&w.counted.memory);
    struct recent_end found;
    unsigned kept = 0;
    for (uint64_t i = 1; i <= 3 * RECENT_ENDS; i++) {
        struct event e = about(EVENT_EXPIRED, 1024 * i);
        recent_ends_add(ends, &e);
        assert_true(recent_ends_find(ends, 0, 1024 * i, (struct id){0, 0}, &found));
        assert_true(recent_ends_find(ends, 0, 0, (struct id){1, 1024 * i}, &found));
        assert_int_equal(found.token, 1024 * i);
    }
    for (uint64_t i = 1; i <= 3 * RECENT_ENDS; i++) {
        bool is_there = recent_ends_find(ends, 0, 1024 * i, (struct id){0, 0}, &found);
        assert_true(!is_there || (found.token == 1024 * i && i > 2 * RECENT_ENDS));
        kept += is_there;
    }
    assert_true(kept > RECENT_ENDS / 2);
    recent_ends_free(ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_grant_has_the_ttl_that_was_requested, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_end_has_no_ttl_but_how_long_it_was_held, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_long_hold_is_a_warning_with_its_rule, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_an_operator_does_is_a_warning, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_action_on_many_holders_is_few_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_renewal_names_resource_owner_and_lease, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_tier_of_an_unknown_token_is_left_out, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(followers_and_quiet_logs_write_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(old_ends_are_replaced_by_newer_ones, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
