/* The event log with its thread, on a real disk: one writes, others read. */
#include "event_log_world.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "events/log_state.h"
#include "temporary.h"

enum { ENTRIES = 20000, READERS = 2 };

struct rig {
    struct event_log *log;
    const char *path;
    pthread_mutex_t lock;
    pthread_cond_t readable;
    uint64_t notified;
};

static uint64_t rig_wall(void *ctx)
{
    return 1700000000000;
}

static void on_readable(void *ctx)
{
    struct rig *rig = ctx;
    pthread_mutex_lock(&rig->lock);
    rig->notified++;
    pthread_cond_broadcast(&rig->readable);
    pthread_mutex_unlock(&rig->lock);
}

static struct rig *rig_new(uint64_t max_bytes)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    pthread_mutex_init(&rig->lock, NULL);
    pthread_cond_init(&rig->readable, NULL);
    rig->path = temporary_folder(NULL);
    const struct event_log_options options = {.memory = memory_system(),
                                              .path = rig->path,
                                              .cluster = world_cluster,
                                              .node = 1,
                                              .max_bytes = max_bytes,
                                              .wall_ms = rig_wall};
    struct problem problem = {.text = ""};
    rig->log = event_log_open(&options, &problem);
    if (rig->log == NULL)
        fail_msg("%s", problem.text);
    event_log_listen(rig->log, on_readable, rig);
    return rig;
}

static void rig_free(struct rig *rig)
{
    event_log_unlisten(rig->log, on_readable, rig);
    event_log_close(rig->log);
    temporary_remove(rig->path);
    free(rig);
}

static void append_entry(struct rig *rig, uint64_t index)
{
    struct world_texts texts;
    struct known_record k = {
        .kind = LOGGED_EVENT, .id = {index, 0}, .seed = index, .wall_ms = 1700000000000 + index};
    struct event event = world_event(&k, &texts);
    event_log_append(rig->log, &event, CORE_VERSION);
    event_log_applied(rig->log, index, k.wall_ms);
}

/* Reads all entries, or gaps, up to the last; returns the number of records
 * plus 1, 0 after an error. */
static void *follow(void *ctx)
{
    struct rig *rig = ctx;
    struct event_cursor *c = event_cursor_open(rig->log, (struct event_id){0, UINT32_MAX});
    struct event_step step;
    uint64_t next = 1;
    uintptr_t records = 1;
    while (next <= ENTRIES) {
        pthread_mutex_lock(&rig->lock);
        uint64_t notified = rig->notified;
        pthread_mutex_unlock(&rig->lock);
        enum event_read read = event_cursor_next(c, &step);
        struct known_record k = {
            .kind = LOGGED_EVENT, .id = {next, 0}, .seed = next, .wall_ms = 1700000000000 + next};
        if (read == EVENT_READ_RECORD && same_record(&step.record, &k)) {
            records++;
            next++;
        } else if (read == EVENT_READ_GAP && step.gap_from == next - 1) {
            next = step.gap_to + 1;
        } else if (read == EVENT_READ_END) {
            pthread_mutex_lock(&rig->lock);
            while (rig->notified == notified)
                pthread_cond_wait(&rig->readable, &rig->lock);
            pthread_mutex_unlock(&rig->lock);
        } else if (read != EVENT_READ_MORE) {
            records = 0;
            break;
        }
    }
    event_cursor_close(c);
    return (void *)records;
}

static void *search(void *ctx)
{
    struct rig *rig = ctx;
    uintptr_t pages = 0;
    for (bool is_over = false; !is_over; pages++) {
        struct event_scan scan = {
            .kinds = SCAN_EVENTS, .all_tenants = true, .newest_first = true, .limit = 100};
        struct event_page page;
        struct problem problem;
        if (event_scan_page(rig->log, &scan, &page, &problem) != HF_OK)
            return NULL;
        for (uint32_t i = 1; i < page.count; i++) {
            if (page.records[i].id.index + 1 != page.records[i - 1].id.index)
                return NULL;
        }
        is_over = page.count > 0 && page.records[0].id.index == ENTRIES;
        event_page_close(rig->log, &page);
    }
    return (void *)pages;
}

static void readers_follow_the_writer(void **state)
{
    struct rig *rig = rig_new(64 << 20);
    pthread_t readers[READERS + 1];
    void *results[READERS + 1];
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, follow, rig), 0);
    assert_int_equal(pthread_create(&readers[READERS], NULL, search, rig), 0);
    for (uint64_t i = 1; i <= ENTRIES; i++)
        append_entry(rig, i);
    for (int i = 0; i <= READERS; i++)
        pthread_join(readers[i], &results[i]);
    struct event_log_stats stats;
    event_log_stats(rig->log, &stats);
    assert_int_equal(stats.dropped, 0);
    assert_int_equal(stats.appended, ENTRIES);
    for (int i = 0; i < READERS; i++)
        assert_int_equal((uintptr_t)results[i], ENTRIES + 1);
    assert_non_null(results[READERS]);
    rig_free(rig);
}

/* The oldest segments are removed while they are read. */
static void readers_survive_removal(void **state)
{
    struct rig *rig = rig_new(300 << 10);
    pthread_t readers[READERS + 1];
    void *results[READERS + 1];
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, follow, rig), 0);
    assert_int_equal(pthread_create(&readers[READERS], NULL, search, rig), 0);
    for (uint64_t i = 1; i <= ENTRIES; i++)
        append_entry(rig, i);
    for (int i = 0; i <= READERS; i++)
        pthread_join(readers[i], &results[i]);
    for (int i = 0; i <= READERS; i++)
        assert_non_null(results[i]);
    struct event_log_stats stats;
    event_log_stats(rig->log, &stats);
    assert_true(stats.bytes <= 300 << 10);
    assert_true(stats.first_index > 0);
    rig_free(rig);
}

static void a_scan_waits_for_what_was_applied(void **state)
{
    struct rig *rig = rig_new(64 << 20);
    for (uint64_t i = 1; i <= 200; i++) {
        append_entry(rig, i);
        struct event_scan scan = {.kinds = SCAN_EVENTS,
                                  .all_tenants = true,
                                  .newest_first = true,
                                  .limit = 1,
                                  .written_to = i};
        struct event_page page;
        struct problem problem;
        assert_int_equal(event_scan_page(rig->log, &scan, &page, &problem), HF_OK);
        assert_int_equal(page.count, 1);
        assert_int_equal(page.records[0].id.index, i);
        assert_int_equal(page.read_to, i);
        event_page_close(rig->log, &page);
        event_log_applied(rig->log, ++i, 1700000000000); /* without records */
        scan.written_to = i;
        assert_int_equal(event_scan_page(rig->log, &scan, &page, &problem), HF_OK);
        assert_int_equal(page.read_to, i);
        event_page_close(rig->log, &page);
    }
    rig_free(rig);
}

/* What was applied is in the files after event_log_close. */
static void close_writes_all(void **state)
{
    struct rig *rig = rig_new(64 << 20);
    for (uint64_t i = 1; i <= 1000; i++)
        append_entry(rig, i);
    event_log_applied(rig->log, 1005, 1700000000000);
    event_log_unlisten(rig->log, on_readable, rig);
    event_log_close(rig->log);
    const struct event_log_options options = {.memory = memory_system(),
                                              .path = rig->path,
                                              .cluster = world_cluster,
                                              .node = 1,
                                              .max_bytes = 64 << 20,
                                              .wall_ms = rig_wall};
    struct problem problem;
    rig->log = event_log_open(&options, &problem);
    assert_non_null(rig->log);
    struct event_log_stats stats;
    event_log_stats(rig->log, &stats);
    assert_int_equal(stats.last_index, 1005);
    assert_int_equal(stats.newest.index, 1000);
    rig_free(rig);
}

/* The writer has written all, and pauses. */
static bool is_at_rest(struct event_log *log)
{
    pthread_mutex_lock(&log->lock);
    bool rests = (log->shared.rests || log->shared.sleeps) &&
                 atomic_load(&log->intake.tail) == log->intake.head;
    pthread_mutex_unlock(&log->lock);
    return rests;
}

/* More than the buffer has, in bursts that are written before the next one begins. */
static void an_empty_buffer_begins_again_at_its_start(void **state)
{
    enum { BURST = 2000, BURST_BYTES_MAX = 1 << 20 };
    struct rig *rig = rig_new(64 << 20);
    struct event_log *log = rig->log;
    struct event_log_stats stats;
    uint64_t from = log->intake.head;
    uint64_t index = 0;
    while (log->intake.head - from <= 2 * log->intake.size) {
        for (uint32_t i = 0; i < BURST; i++)
            append_entry(rig, ++index);
        assert_true(log->intake.head % log->intake.size <= BURST_BYTES_MAX);
        while (!is_at_rest(log))
            sched_yield();
    }
    struct event_cursor *c = event_cursor_open(log, (struct event_id){0, UINT32_MAX});
    struct event_step step;
    for (uint64_t next = 1; next <= index;) {
        enum event_read read = event_cursor_next(c, &step);
        struct known_record k = {
            .kind = LOGGED_EVENT, .id = {next, 0}, .seed = next, .wall_ms = 1700000000000 + next};
        assert_true(read == EVENT_READ_MORE || read == EVENT_READ_RECORD);
        if (read == EVENT_READ_RECORD) {
            assert_true(same_record(&step.record, &k));
            next++;
        }
    }
    event_cursor_close(c);
    event_log_stats(log, &stats);
    assert_int_equal(stats.dropped, 0);
    rig_free(rig);
}

static void a_folder_that_cannot_be_used_is_a_problem(void **state)
{
    const struct event_log_options options = {.memory = memory_system(),
                                              .path = "/dev/null/events",
                                              .cluster = world_cluster,
                                              .max_bytes = 1 << 20,
                                              .wall_ms = rig_wall};
    struct problem problem = {.text = ""};
    assert_null(event_log_open(&options, &problem));
    assert_text(problem.text, "/dev/null/events");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_follow_the_writer),
        cmocka_unit_test(readers_survive_removal),
        cmocka_unit_test(a_scan_waits_for_what_was_applied),
        cmocka_unit_test(close_writes_all),
        cmocka_unit_test(an_empty_buffer_begins_again_at_its_start),
        cmocka_unit_test(a_folder_that_cannot_be_used_is_a_problem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
