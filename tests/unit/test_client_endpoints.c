/* Addresses as people write them, and the circuit breaker. */
#include "base_testing.h"

#include "client/deadline.h"
#include "client/endpoints.h"

static void addresses_are_read_as_people_write_them(void **state)
{
    struct endpoints e;
    assert_null(endpoints_init(&e, "10.0.0.1:4653, db.example.com:1,[::1]:65535,10.0.0.1:4653", 1));
    assert_int_equal(e.count, 3); /* the last was there already */
    assert_string_equal(e.at[0].address.host, "10.0.0.1");
    assert_string_equal(e.at[0].address.port, "4653");
    assert_string_equal(e.at[1].text, "db.example.com:1");
    assert_string_equal(e.at[2].address.host, "::1");
    assert_string_equal(e.at[2].address.port, "65535");
}

static void what_is_no_address_is_refused(void **state)
{
    static const char *const wrong[] = {"",        "host", ":1",       "host:",    "host:0",
                                        "a:65536", "a:1,", "a:1,,b:1", "a b:1",    "::1:4653",
                                        "[]:1",    "a:1x", "a:-1",     "a:000001", "a:1\n"};
    struct endpoints e;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_non_null(endpoints_init(&e, wrong[i], 1));
    }
}

static void more_than_32_are_refused(void **state)
{
    char list[1024] = "";
    struct endpoints e;
    for (unsigned i = 0; i < ENDPOINT_MAX + 1; i++) {
        size_t len = strlen(list);
        snprintf(list + len, sizeof(list) - len, "%sh%u:1", i == 0 ? "" : ",", i);
    }
    assert_non_null(endpoints_init(&e, list, 1));
}

static void the_one_tried_longest_ago_is_next_and_the_leader_before_all(void **state)
{
    struct endpoints e;
    int64_t next_ms;
    assert_null(endpoints_init(&e, "a:1,b:1,c:1", 1));
    assert_int_equal(endpoints_pick(&e, -1, 0, &next_ms), 0);
    endpoints_begun(&e, 0);
    assert_int_equal(endpoints_pick(&e, -1, 0, &next_ms), 1);
    endpoints_begun(&e, 1);
    assert_int_equal(endpoints_pick(&e, 2, 0, &next_ms), 0);
    assert_int_equal(endpoints_learn_leader(&e, "b:1"), 1);
    assert_int_equal(endpoints_pick(&e, -1, 0, &next_ms), 1);
    assert_int_equal(endpoints_learn_leader(&e, "d:1"), 3); /* it was not known */
    assert_int_equal(endpoints_pick(&e, -1, 0, &next_ms), 3);
    assert_int_equal(endpoints_learn_leader(&e, "no address"), -1);
}

static void the_circuit_opens_after_three_failures_and_is_probed_once_at_a_time(void **state)
{
    struct endpoints e;
    int64_t next_ms = 0;
    int64_t now_ms = 1000;
    assert_null(endpoints_init(&e, "a:1", 7));
    for (int i = 0; i < 3; i++) {
        assert_false(endpoints_all_open(&e));
        assert_int_equal(endpoints_pick(&e, -1, now_ms, &next_ms), 0);
        endpoints_begun(&e, 0);
        endpoints_failed(&e, 0, "refused", now_ms);
        assert_int_equal(endpoints_pick(&e, -1, now_ms, &next_ms), -1);
        assert_true(next_ms > now_ms);
        now_ms = next_ms;
    }
    assert_true(endpoints_all_open(&e));
    endpoints_begun(&e, 0); /* the probe */
    assert_int_equal(e.at[0].circuit, CIRCUIT_HALF_OPEN);
    assert_int_equal(endpoints_pick(&e, -1, now_ms + 100000, &next_ms), -1);
    assert_int_equal(next_ms, NEVER_MS);
    endpoints_failed(&e, 0, "refused", now_ms);
    assert_int_equal(e.at[0].circuit, CIRCUIT_OPEN);
    endpoints_begun(&e, 0);
    endpoints_succeeded(&e, 0);
    assert_false(endpoints_all_open(&e));
    assert_int_equal(endpoints_pick(&e, -1, now_ms, &next_ms), 0);
}

static void an_open_circuit_waits_longer_each_time_up_to_two_seconds(void **state)
{
    struct endpoints e;
    assert_null(endpoints_init(&e, "a:1", 7));
    for (unsigned i = 1; i <= 40; i++) {
        endpoints_failed(&e, 0, "refused", 0);
        int64_t most_ms = i < 3 ? 25 : i > 6 ? 2000 : 250 << (i - 3);
        assert_in_range(e.at[0].not_before_ms, most_ms / 2, most_ms);
    }
}

static void a_leader_that_fails_is_a_leader_no_more(void **state)
{
    struct endpoints e;
    assert_null(endpoints_init(&e, "a:1,b:1", 7));
    (void)endpoints_learn_leader(&e, "b:1");
    endpoints_failed(&e, 0, "refused", 0);
    assert_int_equal(e.leader, 1);
    endpoints_failed(&e, 1, "refused", 0);
    assert_int_equal(e.leader, -1);
}

static void what_was_tried_is_described_and_cut_where_there_is_no_space(void **state)
{
    struct endpoints e;
    char text[64];
    assert_null(endpoints_init(&e, "a:1,b:1", 7));
    endpoints_failed(&e, 0, "connection refused", 0);
    endpoints_describe(&e, text, sizeof(text));
    assert_string_equal(text, "a:1 (connection refused), b:1");
    endpoints_describe(&e, text, 10);
    assert_string_equal(text, "a:1 (conn");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_as_people_write_them),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(more_than_32_are_refused),
        cmocka_unit_test(the_one_tried_longest_ago_is_next_and_the_leader_before_all),
        cmocka_unit_test(the_circuit_opens_after_three_failures_and_is_probed_once_at_a_time),
        cmocka_unit_test(an_open_circuit_waits_longer_each_time_up_to_two_seconds),
        cmocka_unit_test(a_leader_that_fails_is_a_leader_no_more),
        cmocka_unit_test(what_was_tried_is_described_and_cut_where_there_is_no_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
