/* Tests of the rules of `holdfast status`: which problem is found in which answers, and how it reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cli/status_problems.h"

#define MEMBER(id, voter, healthy, lag, version)                                                \
    "{\"id\":" #id ",\"peer_address\":\"10.0.0." #id ":4654\",\"client_address\":\"10.0.0." #id \
    ":4653\",\"voter\":" #voter ",\"healthy\":" #healthy ",\"lag\":" #lag                       \
    ",\"state_version\":" #version "}"
#define SERVING "{\"node\":1,\"leader\":1,\"serving\":true,\"state_version\":7,\"members\":["
#define LOST "{\"node\":1,\"leader\":null,\"serving\":false,\"state_version\":7,\"members\":["
#define GOOD(id) MEMBER(id, true, true, 0, 7)
#define SILENT(id) MEMBER(id, true, false, null, 7)
#define THREE GOOD(1) "," GOOD(2) "," GOOD(3) "]"

static struct status_problems found;
static struct json_t *trees[32];
static size_t tree_count;

static struct json_t *tree(const char *text)
{
    struct fault fault;
    struct json_t *parsed = json_tree_parse(slice_of(text), &fault);
    assert_non_null(parsed);
    assert_true(tree_count < 32);
    trees[tree_count++] = parsed;
    return parsed;
}

static int forget(void **state)
{
    (void)state;
    while (tree_count > 0) {
        json_tree_free(trees[--tree_count]);
    }
    return 0;
}

static void find_in(const char *cluster)
{
    struct status_facts facts = {.cluster = tree(cluster)};
    status_problems_find(&facts, &found);
}

static const struct status_problem *expect(const char *code, enum status_severity severity,
                                           const char *words)
{
    for (size_t i = 0; i < found.count; i++) {
        const struct status_problem *p = &found.items[i];
        if (strcmp(p->code, code) == 0 && strstr(p->text, words) != NULL) {
            assert_int_equal(p->severity, severity);
            assert_true(p->action[0] != '\0' && strlen(p->action) + 1 < sizeof(p->action));
            return p;
        }
    }
    for (size_t i = 0; i < found.count; i++) {
        print_message("%s: %s\n", found.items[i].code, found.items[i].text);
    }
    fail_msg("no %s with: %s", code, words);
    return NULL;
}

static void expect_only(const char *code, enum status_severity severity, const char *words)
{
    (void)expect(code, severity, words);
    assert_int_equal(found.count, 1);
}

static void a_good_cluster_has_no_problem(void **state)
{
    find_in(SERVING THREE "}");
    assert_int_equal(found.count, 0);
    find_in(SERVING GOOD(1) "]}");
    assert_int_equal(found.count, 0);
    find_in("{}"); /* an answer of another program must do no harm */
    assert_int_equal(found.count, 1);
}

static void without_a_leader_it_says_who_does_not_answer(void **state)
{
    find_in(LOST GOOD(1) "," SILENT(2) "," SILENT(3) "]}");
    expect_only("no_leader", STATUS_CRITICAL,
                "1 of 3 voters answer and 2 are needed; no answer from 2 (10.0.0.2:4654), 3 "
                "(10.0.0.3:4654)");
    find_in(LOST THREE "}");
    expect_only("no_leader", STATUS_CRITICAL, "although 3 of 3 voters answer");
}

static void nodes_that_answer_us_but_not_each_other_are_a_network_problem(void **state)
{
    struct json_t *view = tree(LOST GOOD(1) "," SILENT(2) "," SILENT(3) "]}");
    struct status_node nodes[3] = {
        {.id = 1, .address = "a", .view = view, .problem = "", .clock_error_ms = UINT64_MAX},
        {.id = 2, .address = "b", .view = view, .problem = "", .clock_error_ms = UINT64_MAX},
        {.id = 3, .address = "c", .problem = "refused", .clock_error_ms = UINT64_MAX},
    };
    struct status_facts facts = {.cluster = view, .nodes = nodes, .node_count = 3};
    status_problems_find(&facts, &found);
    const struct status_problem *p =
        expect("no_leader", STATUS_CRITICAL,
               "2 of 3 voters answer this command, but node 1 does not reach 2");
    assert_non_null(strstr(p->action, "network between the nodes"));
}

static void a_node_that_does_not_reach_the_leader_is_named(void **state)
{
    find_in("{\"node\":3,\"leader\":1,\"serving\":false,\"members\":[" THREE "}");
    expect_only("not_serving", STATUS_CRITICAL, "node 3 does not reach the leader, node 1");
    find_in("{\"node\":1,\"leader\":1,\"serving\":false,\"members\":[" THREE "}");
    expect_only("not_serving", STATUS_CRITICAL, "node 1 was elected");
}

static void silent_voters_say_how_many_more_may_fail(void **state)
{
    find_in(SERVING GOOD(1) "," GOOD(2) "," SILENT(3) "]}");
    expect_only("member_unreachable", STATUS_WARNING,
                "no answer from 3 (10.0.0.3:4654); if one more");
    find_in(SERVING GOOD(1) "," GOOD(2) "," GOOD(3) "," GOOD(4) "," SILENT(5) "]}");
    expect_only("member_unreachable", STATUS_WARNING, "survives 1 more failure");
}

static void members_that_are_behind_or_old_are_named(void **state)
{
    find_in(SERVING GOOD(1) "," GOOD(2) "," MEMBER(3, true, true, 20000, 7) "]}");
    expect_only("member_lagging", STATUS_WARNING, "node 3 is 20000 log entries behind");
    find_in(SERVING THREE "}");
    assert_int_equal(found.count, 0);
    find_in(SERVING GOOD(1) "," GOOD(2) "," GOOD(3) "," MEMBER(4, false, true, 20000, 7) "]}");
    expect_only("member_lagging", STATUS_INFO, "the learner, node 4");
    find_in(SERVING GOOD(1) "," GOOD(2) "," GOOD(3) "," MEMBER(4, false, false, null, 7) "]}");
    expect_only("member_unreachable", STATUS_WARNING, "the learner, node 4");
    find_in("{\"node\":1,\"leader\":1,\"serving\":true,\"state_version\":6,\"members\":[" GOOD(
        1) "," GOOD(2) "," MEMBER(3, true, true, 0, 6) "]}");
    expect_only("version_mismatch", STATUS_INFO,
                "version 6 is in force; other members support 7, not yet: 3");
    find_in(SERVING GOOD(1) "," GOOD(2) "," MEMBER(3, true, true, 0, 6) "]}");
    (void)expect("version_mismatch", STATUS_CRITICAL, "node 3 supports state version 6");
    find_in(SERVING GOOD(1) "," GOOD(2) "," MEMBER(3, true, true, 0, null) "]}");
    assert_int_equal(found.count, 0); /* an older program that does not say */
}

static void the_worst_is_first(void **state)
{
    find_in("{\"node\":1,\"leader\":1,\"serving\":true,\"members_changing\":true,"
            "\"state\":{\"bytes\":99,\"max_bytes\":100},"
            "\"efficiency\":{\"backend\":\"redis\",\"healthy\":false,\"problem\":\"timeout\"},"
            "\"members\":[" GOOD(1) "," GOOD(2) "]}");
    assert_int_equal(found.count, 4);
    assert_string_equal(found.items[0].code, "state_nearly_full");
    assert_int_equal(found.items[0].severity, STATUS_CRITICAL);
    assert_string_equal(found.items[1].code, "efficiency_backend");
    assert_non_null(strstr(found.items[1].text, ": timeout"));
    assert_string_equal(found.items[2].code, "members_changing");
    assert_string_equal(found.items[3].code, "even_voters");
    find_in("{\"node\":1,\"leader\":1,\"serving\":true,\"state\":{\"bytes\":79,\"max_bytes\":100},"
            "\"members\":[" THREE "}");
    assert_int_equal(found.count, 0);
    find_in("{\"node\":1,\"leader\":1,\"serving\":true,\"state\":{\"bytes\":80,\"max_bytes\":100},"
            "\"members\":[" THREE "}");
    expect_only("state_nearly_full", STATUS_WARNING, "80 % of state-max");
}

/* What one node says about itself. */
static void find_at_node(const char *view)
{
    struct status_node node = {.id = 2,
                               .address = "10.0.0.2:4653",
                               .view = tree(view),
                               .problem = "",
                               .clock_error_ms = UINT64_MAX};
    struct status_facts facts = {
        .cluster = tree(SERVING THREE "}"), .nodes = &node, .node_count = 1};
    status_problems_find(&facts, &found);
}

static void disks_and_certificates_of_a_node(void **state)
{
    find_at_node(
        "{\"disk\":{\"full\":false,\"free_bytes\":50,\"total_bytes\":100,\"append_us\":900},"
        "\"certificate\":{\"expires_in_seconds\":9999999,\"ca_expires_in_seconds\":9999999}}");
    assert_int_equal(found.count, 0);
    find_at_node("{\"disk\":{\"full\":true,\"free_bytes\":0,\"total_bytes\":100}}");
    expect_only("disk_full", STATUS_CRITICAL, "node 2 is full");
    find_at_node(
        "{\"disk\":{\"full\":false,\"free_bytes\":1048576000,\"total_bytes\":20971520000}}");
    expect_only("disk_nearly_full", STATUS_WARNING, "1000 MiB left (5 %)");
    find_at_node("{\"disk\":{\"full\":false,\"free_bytes\":1,\"total_bytes\":100}}");
    expect_only("disk_nearly_full", STATUS_CRITICAL, "(1 %)");
    find_at_node("{\"disk\":{\"full\":false,\"append_us\":80000}}");
    expect_only("disk_slow", STATUS_WARNING, "takes 80 ms");
    find_at_node("{\"certificate\":{\"expires_in_seconds\":86400}}");
    expect_only("certificate_expiring", STATUS_WARNING, "certificate of node 2 expires in 1d00h");
    find_at_node("{\"certificate\":{\"expires_in_seconds\":0,\"ca_expires_in_seconds\":86400}}");
    (void)expect("certificate_expired", STATUS_CRITICAL, "certificate of node 2");
    (void)expect("certificate_expiring", STATUS_WARNING, "CA of node 2");
}

static void a_node_that_only_its_peers_reach_is_named(void **state)
{
    struct status_node node = {.id = 2,
                               .address = "10.0.0.2:4653",
                               .problem = "connection refused",
                               .clock_error_ms = UINT64_MAX};
    struct status_facts facts = {
        .cluster = tree(SERVING THREE "}"), .nodes = &node, .node_count = 1};
    status_problems_find(&facts, &found);
    expect_only("client_address_unreachable", STATUS_WARNING, "10.0.0.2:4653: connection refused");
    node.is_denied = true;
    status_problems_find(&facts, &found);
    assert_int_equal(found.count, 0);
}

static void clocks_are_compared_with_that_of_the_leader(void **state)
{
    struct status_node nodes[3] = {
        {.id = 2,
         .address = "",
         .problem = "",
         .is_denied = true,
         .clock_ms = 2400,
         .clock_error_ms = 10},
        {.id = 1,
         .address = "",
         .problem = "",
         .is_denied = true,
         .clock_ms = -100,
         .clock_error_ms = 10},
        {.id = 3,
         .address = "",
         .problem = "",
         .is_denied = true,
         .clock_ms = -900,
         .clock_error_ms = 10},
    };
    struct status_facts facts = {
        .cluster = tree(SERVING THREE "}"), .nodes = nodes, .node_count = 3};
    status_problems_find(&facts, &found);
    (void)expect("clock_skew", STATUS_WARNING, "node 2 is 2.5 s ahead of that of node 1");
    (void)expect("clock_skew", STATUS_WARNING, "node 3 is 0.8 s behind that of node 1");
    nodes[0].clock_error_ms = 3000; /* the answer took long: nothing is certain */
    nodes[2].clock_ms = -590;
    status_problems_find(&facts, &found);
    assert_int_equal(found.count, 0);
}

static void quotas_and_long_holds(void **state)
{
    struct status_facts facts = {
        .cluster = tree(SERVING THREE "}"),
        .stats = tree("{\"long_held\":2}"),
        .tenants = tree("{\"tenants\":[{\"name\":\"acme\",\"quotas\":{\"locks\":10,\"sessions\":0,"
                        "\"waiters\":10},"
                        "\"usage\":{\"locks\":9,\"sessions\":500,\"waiters\":8}}]}"),
    };
    status_problems_find(&facts, &found);
    assert_int_equal(found.count, 2);
    (void)expect("quota_nearly_full", STATUS_WARNING,
                 "tenant acme uses 9 of its quota of 10 locks");
    (void)expect("long_held", STATUS_WARNING, "2 holds last");
}

static void event_logs_and_sinks(void **state)
{
    struct status_facts facts = {
        .cluster = tree(SERVING THREE "}"),
        .sinks = tree(
            "{\"sinks\":[{\"name\":\"kafka\",\"state\":\"failing\",\"lag_entries\":70,"
            "\"last_error\":{\"message\":\"no broker\"}},{\"name\":\"file\",\"state\":\"idle\"}]}"),
    };
    status_problems_find(&facts, &found);
    expect_only("sink_failing", STATUS_WARNING,
                "sink kafka delivers nothing and is 70 entries behind: no broker");
    find_at_node("{\"event_log\":{\"gaps\":2,\"dropped\":0}}");
    expect_only("event_log_gap", STATUS_INFO, "node 2 has 2 gaps");
    find_at_node("{\"event_log\":{\"gaps\":1,\"gaps_stay\":false,\"dropped\":0}}");
    expect_only("event_log_gap", STATUS_INFO, "node 2 has 1 gap");
    find_at_node("{\"event_log\":{\"gaps\":1,\"gaps_stay\":true,\"dropped\":0}}");
    expect_only("event_log_gap_stays", STATUS_INFO, "1 gap that no node in reach can fill");
    find_at_node("{\"event_log\":{\"gaps\":2,\"dropped\":5}}");
    expect_only("event_log_dropped", STATUS_WARNING, "dropped 5 events");
    find_at_node("{\"event_log\":{\"gaps\":0,\"dropped\":0}}");
    assert_int_equal(found.count, 0);
}

static void many_problems_do_not_overflow(void **state)
{
    char text[65536] = SERVING;
    size_t len = strlen(text);
    for (unsigned i = 0; i < 100; i++) {
        len += (size_t)snprintf(
            text + len, sizeof(text) - len,
            "%s{\"id\":%u,\"peer_address\":\"host-%u.example:4654\",\"voter\":true,"
            "\"healthy\":false,\"lag\":99999}",
            i == 0 ? "" : ",", i, i);
    }
    (void)snprintf(text + len, sizeof(text) - len, "]}");
    find_in(text);
    assert_int_equal(found.count, STATUS_PROBLEMS_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, forget)
    const struct CMUnitTest tests[] = {
        TEST(a_good_cluster_has_no_problem),
        TEST(without_a_leader_it_says_who_does_not_answer),
        TEST(nodes_that_answer_us_but_not_each_other_are_a_network_problem),
        TEST(a_node_that_does_not_reach_the_leader_is_named),
        TEST(silent_voters_say_how_many_more_may_fail),
        TEST(members_that_are_behind_or_old_are_named),
        TEST(the_worst_is_first),
        TEST(disks_and_certificates_of_a_node),
        TEST(a_node_that_only_its_peers_reach_is_named),
        TEST(clocks_are_compared_with_that_of_the_leader),
        TEST(quotas_and_long_holds),
        TEST(event_logs_and_sinks),
        TEST(many_problems_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
