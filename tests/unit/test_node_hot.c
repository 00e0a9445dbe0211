/* Unit tests of node/counts/hot.h: prefixes of names; counters against exact counts of random streams. */
#include <stdio.h>
#include <stdlib.h>

#include "base_testing.h"

#include "node/counts/hot.h"

enum { NAMES = 20000, EVENTS = 200000 };

static struct hot *hot;
static struct leader_hot top;
static uint64_t exact[NAMES];
static uint64_t seed = 1;

static int set_up(void **state)
{
    (void)state;
    hot = hot_new(memory_system(), 12345);
    hot_reset(hot, 1000, 77);
    memset(exact, 0, sizeof(exact));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hot_free(hot);
    return 0;
}

static void assert_prefix(const char *name, const char *prefix)
{
    struct slice found = hot_prefix(slice_of(name));
    assert_int_equal(found.len, strlen(prefix));
    assert_memory_equal(found.data, prefix, found.len);
}

static void a_prefix_ends_with_the_last_separator(void **state)
{
    (void)state;
    assert_prefix("orders/17", "orders/");
    assert_prefix("eu/orders/17", "eu/orders/");
    assert_prefix("queue:mail:4", "queue:mail:");
    assert_prefix("a/b:c", "a/b:");
    assert_prefix("a:b/c", "a:b/");
    assert_prefix("backup", "backup");
    assert_prefix("a:", "a:");
    char name[301];
    char prefix[301];
    memset(name, 'x', 300);
    name[300] = '\0';
    snprintf(prefix, sizeof(prefix), "%.*s", HOT_PREFIX_MAX, name);
    assert_prefix(name, prefix);
    name[200] = '/'; /* behind what is kept */
    assert_prefix(name, prefix);
    name[50] = '/';
    snprintf(prefix, sizeof(prefix), "%.*s", 51, name);
    assert_prefix(name, prefix);
    name[50] = 'x';
    memcpy(name + HOT_PREFIX_MAX - 1, "\xc3\xa4", 2); /* not within a character */
    snprintf(prefix, sizeof(prefix), "%.*s", HOT_PREFIX_MAX - 1, name);
    assert_prefix(name, prefix);
}

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Zipf with exponent 1, by a table of the sums. */
static double sums[NAMES];

static uint32_t zipf(void)
{
    if (sums[0] == 0) {
        double sum = 0;
        for (uint32_t i = 0; i < NAMES; i++) {
            sum += 1.0 / (i + 1);
            sums[i] = sum;
        }
    }
    double at = (double)(next_random() >> 11) / (double)(UINT64_C(1) << 53) * sums[NAMES - 1];
    uint32_t low = 0;
    uint32_t high = NAMES - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (sums[middle] < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint32_t number_of(const struct hot_row *row)
{
    char text[HOT_PREFIX_MAX + 1];
    memcpy(text, row->prefix, row->prefix_len);
    text[row->prefix_len] = '\0';
    assert_int_equal(text[row->prefix_len - 1], '/');
    return (uint32_t)strtoul(text + 1, NULL, 10);
}

/* Every bound that hot.h promises, for the rows of one answer. */
static void assert_bounds(uint64_t total)
{
    hot_top(hot, HOT_RATE, HOT_ROWS_MAX, 1000, &top);
    assert_int_equal(top.count, HOT_ROWS_MAX);
    assert_true(top.total <= total + 100 && total <= top.total + 100);
    for (uint32_t i = 0; i < top.count; i++) {
        const struct hot_row *row = &top.rows[i];
        uint64_t is = exact[number_of(row)];
        assert_true(i == 0 || top.rows[i - 1].weight >= row->weight);
        assert_true(row->weight >= is);
        assert_true(row->weight - row->error <= is);
        assert_true(row->error <= total / HOT_PREFIXES + 100);
    }
    for (uint32_t i = 0; i < NAMES; i++) {
        bool is_there = exact[i] <= top.rows[HOT_ROWS_MAX - 1].weight;
        for (uint32_t j = 0; j < top.count && !is_there; j++) {
            is_there = number_of(&top.rows[j]) == i;
        }
        assert_true(is_there);
    }
}

static void add(uint32_t number, uint64_t weight)
{
    char name[32];
    snprintf(name, sizeof(name), "p%u/%u", number, (unsigned)(next_random() % 100));
    hot_add(hot, HOT_RATE, 0, slice_of(name), weight);
    exact[number] += weight;
}

static void the_heaviest_of_a_zipf_stream_are_found_within_the_error(void **state)
{
    (void)state;
    for (seed = 1; seed < 5; seed = seed % 1000 + 1) {
        uint64_t stream = seed;
        uint64_t total = 0;
        seed = seed * 7919 + 1;
        hot_reset(hot, 1000, 77);
        memset(exact, 0, sizeof(exact));
        for (uint32_t i = 0; i < EVENTS; i++) {
            uint64_t weight = HOT_EVENT + next_random() % 3000;
            add(zipf(), weight);
            total += weight;
        }
        assert_bounds(total);
        seed = stream;
    }
}

static void few_prefixes_are_counted_exactly(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < EVENTS; i++) {
        add((uint32_t)(next_random() % HOT_PREFIXES), HOT_EVENT);
    }
    hot_top(hot, HOT_RATE, HOT_ROWS_MAX, 1000, &top);
    for (uint32_t i = 0; i < top.count; i++) {
        assert_int_equal(top.rows[i].weight, exact[number_of(&top.rows[i])]);
        assert_int_equal(top.rows[i].error, 0);
    }
}

static void old_weight_fades_and_bounds_stay(void **state)
{
    (void)state;
    uint64_t total = 0;
    uint64_t now_us = 1000;
    seed = 99;
    for (uint32_t step = 0; step < 40; step++) {
        for (uint32_t i = 0; i < EVENTS / 20; i++) {
            add(zipf(), HOT_EVENT);
            total += HOT_EVENT;
        }
        now_us += HOT_FADE_US;
        hot_tick(hot, now_us);
        hot_tick(hot, now_us); /* once only */
        total -= total / 15;
        for (uint32_t i = 0; i < NAMES; i++) {
            exact[i] -= exact[i] / 15;
        }
    }
    assert_bounds(total);
    /* A constant rate is shown as it is. */
    hot_top(hot, HOT_RATE, 1, now_us, &top);
    uint64_t each_s = EVENTS / 20 / (HOT_FADE_US / 1000000);
    uint64_t shown_s = top.total / HOT_EVENT * 1000000 / top.window_us;
    assert_true(shown_s + 2 >= each_s && shown_s <= each_s + 2);
}

/* A reset takes the present time, a tick that of the iteration of the loop, which began before it. */
static void a_tick_from_before_the_reset_changes_nothing(void **state)
{
    (void)state;
    hot_reset(hot, 5000000, 77);
    hot_add(hot, HOT_RATE, 0, slice_of("a/1"), HOT_EVENT);
    hot_tick(hot, 4999999);
    hot_top(hot, HOT_RATE, HOT_ROWS_MAX, 5000002, &top);
    assert_int_equal(top.window_us, 2);
    assert_int_equal(top.rows[0].weight, HOT_EVENT);
}

static void tenants_and_measures_are_separate(void **state)
{
    (void)state;
    for (uint32_t tenant = 0; tenant < 2 * HOT_TENANTS; tenant++) {
        hot_add(hot, HOT_HOLD, tenant, slice_of("a/1"), 1000 + tenant);
        hot_add(hot, HOT_HOLD, tenant, slice_of("a/2"), 1);
    }
    hot_add(hot, HOT_WAIT, 0, slice_of("a/1"), 5);
    hot_top(hot, HOT_HOLD, HOT_ROWS_MAX, 1000, &top);
    assert_int_equal(top.count, 2 * HOT_TENANTS);
    for (uint32_t i = 0; i < top.count; i++) {
        uint32_t tenant = 2 * HOT_TENANTS - 1 - i;
        assert_int_equal(top.rows[i].tenant, tenant);
        assert_int_equal(top.rows[i].weight, 1001 + tenant);
    }
    hot_top(hot, HOT_WAIT, 7, 1000, &top);
    assert_int_equal(top.count, 1);
    assert_int_equal(top.rows[0].weight, 5);
    hot_top(hot, HOT_CONTENTION, 7, 1000, &top);
    assert_int_equal(top.count, 0);
    assert_int_equal(top.since_wall_ms, 77);
    hot_reset(hot, 2000, 78);
    hot_top(hot, HOT_HOLD, 7, 3000, &top);
    assert_int_equal(top.count, 0);
    assert_int_equal(top.total, 0);
    assert_int_equal(top.since_wall_ms, 78);
    assert_int_equal(top.window_us, 1000);
}

static void an_answer_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct buffer out;
    buffer_init(&out, memory_system(), 1 << 20);
    for (unsigned i = 0; i < 2 * HOT_ROWS_MAX; i++) {
        char name[200];
        snprintf(name, sizeof(name), "%0*u/x", 1 + (int)(i % 94), i);
        hot_add(hot, HOT_HOLD, i % 3, slice_of(name), i + 1);
    }
    hot_top(hot, HOT_HOLD, HOT_ROWS_MAX, 5000, &top);
    top.node = 3;
    top.term = 9;
    uint8_t query[LEADER_HOT_QUERY];
    size_t len = leader_hot_query(HOT_HOLD, 55, query);
    enum hot_by by;
    uint32_t limit;
    assert_true(leader_hot_requested(slice_make(query, len), &by, &limit));
    assert_int_equal(by, HOT_HOLD);
    assert_int_equal(limit, 55);
    assert_true(leader_hot_answer(&top, slice_make(query, len), &out));
    static struct leader_hot read;
    assert_true(leader_hot_read(buffer_bytes(&out), &read));
    assert_int_equal(read.count, HOT_ROWS_MAX);
    assert_int_equal(read.window_us, 4000);
    for (uint32_t i = 0; i < read.count; i++) {
        assert_int_equal(read.rows[i].weight, top.rows[i].weight);
        assert_int_equal(read.rows[i].tenant, top.rows[i].tenant);
        assert_int_equal(read.rows[i].prefix_len, top.rows[i].prefix_len);
        assert_memory_equal(read.rows[i].prefix, top.rows[i].prefix, top.rows[i].prefix_len);
    }
    for (size_t cut = 0; cut < buffer_len(&out); cut++) {
        assert_false(leader_hot_read(slice_make(buffer_bytes(&out).data, cut), &read));
    }
    assert_false(leader_hot_requested(slice_make(query, len - 1), &by, &limit));
    query[2] = HOT_BY_COUNT;
    assert_false(leader_hot_requested(slice_make(query, len), &by, &limit));
    query[0] = 0xff;
    assert_false(leader_hot_answer(&top, slice_make(query, len), &out));
    buffer_close(&out);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_prefix_ends_with_the_last_separator),
        T(the_heaviest_of_a_zipf_stream_are_found_within_the_error),
        T(few_prefixes_are_counted_exactly),
        T(old_weight_fades_and_bounds_stay),
        T(a_tick_from_before_the_reset_changes_nothing),
        T(tenants_and_measures_are_separate),
        T(an_answer_is_read_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
