/* The thread of a sink, on a fake log and a fake driver: what is delivered, and when the position
 * moves. */
#include "base_testing.h"

#include <time.h>

#include "../support/sink_world.h"

struct sink_test {
    struct fake_log log;
    struct fake_driver driver;
    struct event_sink *sink;
};

/* Long enough for a machine that has others to serve. */
enum { PATIENCE_MS = 20000 };

static void open_test(struct sink_test *t)
{
    fake_log_init(&t->log);
    fake_driver_init(&t->driver);
    t->sink = NULL;
}

static void start_sink(struct sink_test *t, const char *prefix)
{
    const struct sink_options options = {
        .memory = memory_system(),
        .name = "fake",
        .driver = &t->driver.driver,
        .source = fake_log_source(&t->log),
        .json = {.cluster = slice_of("c"), .tenant_name = fake_tenant_name},
        .prefix = slice_of(prefix),
        .backoff_min_ms = 2,
        .backoff_max_ms = 20,
        .gap_wait_ms = 30,
    };
    t->sink = sink_new(&options);
    t->driver.sink = t->sink;
}

static void close_test(struct sink_test *t)
{
    sink_free(t->sink);
    free(t);
}

static struct sink_test *new_test(const char *prefix)
{
    struct sink_test *t = calloc(1, sizeof(*t));
    open_test(t);
    start_sink(t, prefix);
    return t;
}

static void await_count(struct sink_test *t, uint32_t count)
{
    for (int i = 0; i < PATIENCE_MS && fake_driver_count(&t->driver) < count; i++) {
        usleep(1000);
    }
    assert_int_equal(fake_driver_count(&t->driver), count);
}

static struct sink_status await_position(struct sink_test *t, uint64_t index)
{
    struct sink_status status = {0};
    for (int i = 0; i < PATIENCE_MS; i++) {
        sink_status(t->sink, &status);
        if (status.position.index >= index) {
            return status;
        }
        usleep(1000);
    }
    fail_msg("the position stays at %llu", (unsigned long long)status.position.index);
    return status;
}

static void fill(struct sink_test *t, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i <= to; i++) {
        fake_log_add(&t->log, i, 0);
        fake_log_add(&t->log, i, 1);
    }
    sink_notify(t->sink);
}

static void assert_id(struct sink_test *t, uint32_t at, const char *id)
{
    pthread_mutex_lock(&t->driver.lock);
    assert_string_equal(t->driver.ids[at], id);
    pthread_mutex_unlock(&t->driver.lock);
}

static void everything_arrives_in_order(void **state)
{
    (void)state;
    struct sink_test *t = new_test("");
    fill(t, 1, 1000);
    sink_lead(t->sink, (struct event_id){0, 0});
    await_count(t, 2000);
    fill(t, 1001, 2000); /* while it follows */
    await_count(t, 4000);
    for (uint32_t i = 0; i < 4000; i++) {
        char id[FAKE_ID_TEXT];
        snprintf(id, sizeof(id), "%u-%u", 1 + i / 2, i % 2);
        assert_id(t, i, id);
    }
    struct sink_status status = await_position(t, 2000);
    assert_int_equal(status.position.ordinal, 1);
    assert_int_equal(status.delivered, 4000);
    assert_int_equal(status.failures, 0);
    assert_false(status.is_failing);
    assert_true(t->driver.attempts <= 20); /* batches */
    close_test(t);
}

static void a_node_that_does_not_lead_sends_nothing(void **state)
{
    (void)state;
    struct sink_test *t = new_test("");
    fill(t, 1, 10);
    usleep(50000);
    assert_int_equal(fake_driver_count(&t->driver), 0);
    assert_int_equal(t->driver.opens, 0);
    sink_lead(t->sink, (struct event_id){0, 0});
    await_count(t, 20);
    sink_halt(t->sink);
    struct sink_status status;
    sink_status(t->sink, &status);
    assert_false(status.leads);
    for (int i = 0; i < PATIENCE_MS && t->driver.closes < t->driver.opens; i++) {
        usleep(1000);
    }
    fill(t, 11, 20);
    usleep(50000);
    assert_int_equal(fake_driver_count(&t->driver), 20);
    close_test(t);
}

static void it_begins_after_the_given_position(void **state)
{
    (void)state;
    struct sink_test *t = new_test("");
    fill(t, 1, 100);
    fake_log_add_audit(&t->log, (struct event_id){100, 1}, 7);
    sink_lead(t->sink, (struct event_id){50, 0});
    await_count(t, 102);
    assert_id(t, 0, "50-1");
    assert_id(t, 101, "audit-0-7");
    close_test(t);
}

static void the_position_waits_for_the_delivery(void **state)
{
    (void)state;
    struct sink_test *t = new_test("");
    t->driver.failures = 5;
    fill(t, 1, 300);
    sink_lead(t->sink, (struct event_id){0, 0});
    await_count(t, 600);
    struct sink_status status = await_position(t, 300);
    assert_true(status.failures >= 5);
    assert_string_equal(status.trouble, "refused");
    /* At the delivery of the last batch, it was not yet in the position. */
    assert_true(t->driver.position.index < 300);
    close_test(t);
}

static void a_delivery_that_is_stuck_keeps_the_position_and_ends_with_the_leadership(void **state)
{
    (void)state;
    struct sink_test *t = new_test("");
    t->driver.is_stuck = true;
    fill(t, 1, 10);
    sink_lead(t->sink, (struct event_id){3, 1});
    struct sink_status status = {0};
    for (int i = 0; i < PATIENCE_MS && !status.is_failing; i++) {
        usleep(1000);
        sink_status(t->sink, &status);
    }
    assert_true(status.is_failing);
    assert_string_equal(status.trouble, "no answer");
    assert_int_equal(status.position.index, 3);
    assert_int_equal(status.oldest_ms, 1700000000000 + 4);
    sink_halt(t->sink);
    for (int i = 0; i < PATIENCE_MS && t->driver.closes == 0; i++) {
        usleep(1000);
    }
    assert_int_equal(t->driver.closes, 1);
    assert_int_equal(fake_driver_count(&t->driver), 0);
    /* Leads again. */
    pthread_mutex_lock(&t->driver.lock);
    t->driver.is_stuck = false;
    pthread_mutex_unlock(&t->driver.lock);
    sink_lead(t->sink, (struct event_id){3, 1});
    await_count(t, 14);
    assert_id(t, 0, "4-0");
    close_test(t);
}

static void a_receiver_that_is_away_is_tried_again(void **state)
{
    (void)state;
    struct sink_test *t = new_test("");
    t->driver.is_away = true;
    fill(t, 1, 10);
    sink_lead(t->sink, (struct event_id){0, 0});
    struct sink_status status = {0};
    for (int i = 0; i < PATIENCE_MS && status.failures < 3; i++) {
        usleep(1000);
        sink_status(t->sink, &status);
    }
    assert_true(status.failures >= 3);
    assert_string_equal(status.trouble, "the receiver is away");
    pthread_mutex_lock(&t->driver.lock);
    t->driver.is_away = false;
    pthread_mutex_unlock(&t->driver.lock);
    await_count(t, 20);
    close_test(t);
}

static void a_batch_that_is_too_large_is_sent_in_parts(void **state)
{
    (void)state;
    struct sink_test *t = new_test("");
    t->driver.too_large = 30;
    fill(t, 1, 200);
    sink_lead(t->sink, (struct event_id){0, 0});
    await_count(t, 400);
    assert_id(t, 0, "1-0");
    assert_id(t, 399, "200-1");
    (void)await_position(t, 200);
    close_test(t);
}

static void a_gap_is_declared_with_both_numbers(void **state)
{
    (void)state;
    struct sink_test *t = new_test("");
    fill(t, 1, 5);
    fake_log_set_gap(&t->log, 5, 40);
    fill(t, 41, 45);
    sink_lead(t->sink, (struct event_id){0, 0});
    await_count(t, 21);
    assert_id(t, 9, "5-1");
    assert_id(t, 10, "gap-5-40");
    assert_id(t, 11, "41-0");
    struct sink_status status = await_position(t, 45);
    assert_int_equal(status.gaps, 1);
    assert_int_equal(status.gap_from, 5);
    assert_int_equal(status.gap_to, 40);
    close_test(t);
}

static void a_gap_that_is_filled_in_time_is_not_declared(void **state)
{
    (void)state;
    struct sink_test *t = calloc(1, sizeof(*t));
    open_test(t);
    fake_log_set_gap(&t->log, 5, 40);
    const struct sink_options options = {
        .memory = memory_system(),
        .name = "fake",
        .driver = &t->driver.driver,
        .source = fake_log_source(&t->log),
        .json = {.cluster = slice_of("c"), .tenant_name = fake_tenant_name},
        .backoff_min_ms = 2,
        .backoff_max_ms = 20,
        .gap_wait_ms = 3600000,
    };
    t->sink = sink_new(&options);
    fill(t, 1, 5);
    sink_lead(t->sink, (struct event_id){0, 0});
    await_count(t, 10);
    fill(t, 6, 45);
    fake_log_set_gap(&t->log, 0, 0);
    await_count(t, 90);
    struct sink_status status = await_position(t, 45);
    assert_int_equal(status.gaps, 0);
    close_test(t);
}

static void a_failed_read_is_repeated(void **state)
{
    (void)state;
    struct sink_test *t = new_test("");
    t->log.reads_failing = 3;
    fill(t, 1, 10);
    sink_lead(t->sink, (struct event_id){0, 0});
    await_count(t, 20);
    struct sink_status status = await_position(t, 10);
    assert_string_equal(status.trouble, "the disk failed");
    assert_false(status.is_failing);
    close_test(t);
}

static void a_filter_moves_the_position_past_other_names(void **state)
{
    (void)state;
    struct sink_test *t = new_test("name-1");
    fill(t, 1, 29);
    sink_lead(t->sink, (struct event_id){0, 0});
    (void)await_position(t, 29);
    assert_int_equal(fake_driver_count(&t->driver), 2 * 11); /* 1, 10 to 19 */
    assert_id(t, 0, "1-0");
    assert_id(t, 2, "10-0");
    close_test(t);
}

static void a_reload_opens_the_driver_again(void **state)
{
    (void)state;
    struct sink_test *t = new_test("");
    fill(t, 1, 1);
    sink_lead(t->sink, (struct event_id){0, 0});
    await_count(t, 2);
    sink_reload(t->sink);
    for (int i = 0; i < PATIENCE_MS && t->driver.opens < 2; i++) {
        usleep(1000);
    }
    assert_int_equal(t->driver.opens, 2);
    fill(t, 2, 2);
    await_count(t, 4);
    close_test(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_arrives_in_order),
        cmocka_unit_test(a_node_that_does_not_lead_sends_nothing),
        cmocka_unit_test(it_begins_after_the_given_position),
        cmocka_unit_test(the_position_waits_for_the_delivery),
        cmocka_unit_test(a_delivery_that_is_stuck_keeps_the_position_and_ends_with_the_leadership),
        cmocka_unit_test(a_receiver_that_is_away_is_tried_again),
        cmocka_unit_test(a_batch_that_is_too_large_is_sent_in_parts),
        cmocka_unit_test(a_gap_is_declared_with_both_numbers),
        cmocka_unit_test(a_gap_that_is_filled_in_time_is_not_declared),
        cmocka_unit_test(a_failed_read_is_repeated),
        cmocka_unit_test(a_filter_moves_the_position_past_other_names),
        cmocka_unit_test(a_reload_opens_the_driver_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
