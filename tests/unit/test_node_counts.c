/* Unit tests of node/counts/: what counts where, and the measure of cluster time. */
#include "base_testing.h"

#include "node/counts/counts.h"

static struct node_counts c;
static struct cluster_time t;

enum { BOOT_US = 1000000000, CLUSTER_MS = 5000 };

static int empty_it(void **state)
{
    (void)state;
    memset(&c, 0, sizeof(c));
    memset(&t, 0, sizeof(t));
    return 0;
}

static void entry_begins(bool is_own)
{
    struct replica_applying entry = {.is_own = is_own};
    counts_begin_entry(&c, &entry, 1);
}

static void events_of_other_leaders_do_not_count(void **state)
{
    (void)state;
    struct event e = {.type = EVENT_GRANTED, .part = 1, .parts = 1};
    entry_begins(false);
    counts_event(&c, &e);
    counts_end_entry(&c, 2);
    counts_event(&c, &e);
    assert_int_equal(c.tiers[0].grants, 0);
    entry_begins(true);
    counts_event(&c, &e);
    counts_end_entry(&c, 2);
    assert_int_equal(c.tiers[0].grants, 1);
    counts_tier_event(&c, &e);
    assert_int_equal(c.tiers[1].grants, 1);
    assert_int_equal(c.apply_us.count, 2);
}

static void a_repeated_answer_does_not_count(void **state)
{
    (void)state;
    struct result r = {.type = COMMAND_ACQUIRE, .outcome = OUTCOME_REFUSED, .reason = REASON_HELD};
    counts_result(&c, TIER_CORRECTNESS, 0, &r, 10);
    r.replayed = true;
    counts_result(&c, TIER_CORRECTNESS, 0, &r, 10);
    assert_int_equal(c.tiers[0].acquires[ACQUIRED_REFUSED], 1);
    assert_int_equal(c.tiers[0].refused[REASON_HELD], 1);
    assert_int_equal(c.tiers[0].contended, 1);
    assert_int_equal(c.requests, 2);
}

static void an_expired_lease_shows_how_late_it_ended(void **state)
{
    (void)state;
    struct event e = {.type = EVENT_EXPIRED,
                      .part = 1,
                      .parts = 1,
                      .since_ms = 1000,
                      .life_ms = 2000,
                      .due_ms = 4000,
                      .at_ms = 4070};
    counts_tier_event(&c, &e);
    assert_int_equal(c.tiers[1].expired, 1);
    assert_int_equal(c.tiers[1].overrun_us.count, 1);
    assert_int_equal(c.tiers[1].overrun_us.sum, 70000);
    assert_int_equal(c.tiers[1].overrun_worst_us, 70000);
    assert_int_equal(c.tiers[1].hold_us.sum, 3070000);
    /* 400 ms without a leader while it ran */
    cluster_time_note(&c.time, 1, 0, 1000, BOOT_US);
    cluster_time_note(&c.time, 2, 0, 3000, BOOT_US + 2400000);
    counts_tier_event(&c, &e);
    assert_int_equal(c.tiers[1].overrun_worst_us, 470000);
    e.life_ms = 3000; /* by the old leader, at the last moment */
    counts_tier_event(&c, &e);
    assert_int_equal(c.tiers[1].overrun_us.sum, 70000 + 2 * 470000);
    e.life_ms = 3001; /* renewed at the new leader */
    counts_tier_event(&c, &e);
    assert_int_equal(c.tiers[1].overrun_us.sum, 2 * 70000 + 2 * 470000);
}

/* A leader's clock of the same rate, seen every 100 ms with a delay that varies. */
static void follow(uint64_t term, uint64_t seconds, uint64_t *cluster_ms, uint64_t *boot_us)
{
    for (uint64_t i = 0; i < seconds * 10; i++) {
        cluster_time_note(&t, term, 0, *cluster_ms, *boot_us + 1000 * (i * 7 % 45));
        *cluster_ms += 100;
        *boot_us += 100000;
    }
}

static void delays_of_messages_are_not_lost_time(void **state)
{
    (void)state;
    uint64_t cluster_ms = CLUSTER_MS;
    uint64_t boot_us = BOOT_US;
    assert_int_equal(cluster_time_behind_us(&t), 0);
    follow(1, 60, &cluster_ms, &boot_us);
    assert_int_equal(cluster_time_behind_us(&t), 0);
    assert_int_equal(cluster_time_lost_us(&t, CLUSTER_MS, cluster_ms), 0);
}

static void time_without_a_leader_is_lost_once(void **state)
{
    (void)state;
    uint64_t cluster_ms = CLUSTER_MS;
    uint64_t boot_us = BOOT_US;
    follow(1, 10, &cluster_ms, &boot_us);
    uint64_t first_end_ms = cluster_ms;
    boot_us += 350000;
    follow(2, 10, &cluster_ms, &boot_us);
    assert_int_equal(cluster_time_behind_us(&t), 350000);
    boot_us += 150000;
    follow(3, 10, &cluster_ms, &boot_us);
    assert_int_equal(cluster_time_behind_us(&t), 500000);
    assert_int_equal(cluster_time_lost_us(&t, CLUSTER_MS, cluster_ms), 500000);
    assert_int_equal(cluster_time_lost_us(&t, first_end_ms - 1000, first_end_ms + 1000), 350000);
    assert_int_equal(cluster_time_lost_us(&t, first_end_ms + 1000, cluster_ms), 150000);
    assert_int_equal(cluster_time_lost_us(&t, first_end_ms + 1000, first_end_ms + 9000), 0);
}

static void a_slow_clock_of_the_leader_shows_as_falling_behind(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 3600; s++) { /* 0.1 % slower */
        cluster_time_note(&t, 1, 0, CLUSTER_MS + s * 999, BOOT_US + s * 1000000);
    }
    int64_t behind_us = cluster_time_behind_us(&t);
    assert_true(behind_us > 3570000 && behind_us <= 3600000);
}

static void old_terms_are_forgotten(void **state)
{
    (void)state;
    for (uint64_t term = 1; term <= 3 * CLUSTER_TIME_TERMS; term++) {
        cluster_time_note(&t, term, 0, CLUSTER_MS + term * 1000, BOOT_US + term * 1100000);
    }
    assert_int_equal(t.count, CLUSTER_TIME_TERMS);
    assert_int_equal(cluster_time_behind_us(&t), (3 * CLUSTER_TIME_TERMS - 1) * 100000);
    /* at least what is remembered */
    assert_int_equal(cluster_time_lost_us(&t, 0, UINT64_MAX / 2000),
                     (CLUSTER_TIME_TERMS - 1) * 100000);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup(test, empty_it)
    const struct CMUnitTest tests[] = {
        T(events_of_other_leaders_do_not_count),
        T(a_repeated_answer_does_not_count),
        T(an_expired_lease_shows_how_late_it_ended),
        T(delays_of_messages_are_not_lost_time),
        T(time_without_a_leader_is_lost_once),
        T(a_slow_clock_of_the_leader_shows_as_falling_behind),
        T(old_terms_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
