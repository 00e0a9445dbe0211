/* Tests of searches in the event log on threads: order, refusals, deadlines, cancelling, and the end, with
 * a page that the test reads when it wants to. */
#include "base_testing.h"

#include <pthread.h>

#include "node/events/scan_threads.h"

static uv_loop_t loop;
static struct scan_threads *scans;

/* What the threads do, under `lock`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint32_t begun;   /* pages */
static uint32_t allowed; /* pages that may end */
static uint32_t ended;
static uint32_t closed;
static bool fails;
static uint64_t seen[64]; /* `token` of the scans, in the order of their begin */
static char seen_name[LIMIT_NAME + 1];

enum hf_error event_scan_page(struct event_log *log, const struct event_scan *scan,
                              struct event_page *out, struct problem *problem)
{
    assert_ptr_equal(log, &loop);
    pthread_mutex_lock(&lock);
    snprintf(seen_name, sizeof(seen_name), "%.*s", (int)scan->name.len,
             (const char *)scan->name.data);
    seen[begun++] = scan->token;
    pthread_cond_broadcast(&changed);
    while (ended >= allowed) {
        pthread_cond_wait(&changed, &lock);
    }
    ended++;
    pthread_cond_broadcast(&changed);
    bool fine = !fails;
    pthread_mutex_unlock(&lock);
    if (!fine) {
        problem_set(problem, STORAGE_IO, "the disk is gone");
        return HF_EVENT_LOG;
    }
    *out = (struct event_page){.count = 0, .read_to = scan->token};
    return HF_OK;
}

void event_page_close(struct event_log *log, struct event_page *page)
{
    (void)page;
    assert_ptr_equal(log, &loop);
    closed++;
}

static void wait_for(const uint32_t *count, uint32_t value)
{
    pthread_mutex_lock(&lock);
    while (*count < value) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void allow(uint32_t pages)
{
    pthread_mutex_lock(&lock);
    allowed += pages;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

struct caller {
    struct gateway_scan_call call;
    uint32_t done;
    enum hf_error error;
    uint64_t read_to;
    char why[256];
    uint32_t again; /* searches that `done` begins */
};

static void begin(struct caller *c, uint64_t token);

static void on_done(struct gateway_scan_call *call, enum hf_error error,
                    const struct event_page *page, const char *why)
{
    struct caller *c = call->owner;
    assert_int_equal(error == HF_OK, page != NULL);
    assert_int_equal(error == HF_OK, why == NULL);
    c->done++;
    c->error = error;
    c->read_to = page == NULL ? 0 : page->read_to;
    snprintf(c->why, sizeof(c->why), "%s", why == NULL ? "" : why);
    if (c->again > 0) {
        c->again--;
        begin(c, 99);
    }
}

static void begin(struct caller *c, uint64_t token)
{
    char name[] = "a/name";
    struct event_scan scan = {.token = token, .limit = 1, .name = slice_of(name)};
    c->call.done = on_done;
    c->call.owner = c;
    uint32_t before = c->done;
    scan_threads_begin(scans, &scan, &c->call, 1000);
    assert_int_equal(c->done, before); /* never inside */
    memset(name, 'x', sizeof(name) - 1);
}

static void run_until(const struct caller *c, uint32_t done)
{
    while (c->done < done) {
        uv_run(&loop, UV_RUN_ONCE);
        scan_threads_run(scans, 1000);
    }
}

static void open_scans(bool has_log)
{
    begun = allowed = ended = closed = 0;
    fails = false;
    uv_loop_init(&loop);
    struct scan_threads_options options = {.loop = &loop,
                                           .memory = memory_system(),
                                           .log =
                                               has_log ? (struct event_log *)(void *)&loop : NULL,
                                           .why = "no log here"};
    scans = scan_threads_new(&options);
}

static void close_scans(void)
{
    allow(1000);
    scan_threads_stop(scans);
    uv_run(&loop, UV_RUN_DEFAULT);
    scan_threads_free(scans);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void a_page_is_reported_on_the_loop_and_closed(void **state)
{
    (void)state;
    struct caller c = {.again = 1};
    open_scans(true);
    begin(&c, 7);
    allow(1);
    run_until(&c, 1);
    assert_int_equal(c.error, HF_OK);
    assert_int_equal(c.read_to, 7);
    assert_string_equal(seen_name, "a/name"); /* the texts were copied */
    allow(1);
    run_until(&c, 2); /* begun inside `done` */
    assert_int_equal(c.read_to, 99);
    assert_int_equal(closed, 2);
    assert_true(scan_threads_next_ms(scans) == UINT64_MAX);
    close_scans();
}

static void a_failure_is_reported_with_its_reason(void **state)
{
    (void)state;
    struct caller c = {0};
    open_scans(true);
    fails = true;
    begin(&c, 7);
    allow(1);
    run_until(&c, 1);
    assert_int_equal(c.error, HF_EVENT_LOG);
    assert_string_equal(c.why, "the disk is gone");
    assert_int_equal(closed, 0);
    close_scans();
}

static void without_a_log_every_search_is_refused(void **state)
{
    (void)state;
    struct caller c = {0};
    open_scans(false);
    begin(&c, 7);
    run_until(&c, 1);
    assert_int_equal(c.error, HF_EVENT_LOG);
    assert_string_equal(c.why, "no log here");
    close_scans();
}

static void searches_wait_in_order_and_too_many_are_refused(void **state)
{
    (void)state;
    struct caller c[GATEWAY_SCANS + 3] = {0};
    c[GATEWAY_SCANS].again = 1; /* refused, and at once again */
    open_scans(true);
    begin(&c[0], 1);
    wait_for(&begun, 1);
    begin(&c[1], 2);
    wait_for(&begun, 2);
    for (uint32_t i = 2; i < GATEWAY_SCANS + 3; i++) {
        begin(&c[i], i + 1);
    }
    scan_threads_cancel(scans, &c[GATEWAY_SCANS + 1].call); /* of the refused ones */
    scan_threads_run(scans, 1000);
    assert_int_equal(c[GATEWAY_SCANS].done, 1);
    assert_int_equal(c[GATEWAY_SCANS].error, HF_BUSY);
    assert_int_equal(c[GATEWAY_SCANS + 1].done, 0);
    assert_int_equal(c[GATEWAY_SCANS + 2].done, 1);
    scan_threads_run(scans, 1000);
    assert_int_equal(c[GATEWAY_SCANS].done, 2);
    for (uint32_t i = 3; i <= GATEWAY_SCANS; i++) {
        allow(1);
        wait_for(&begun, i);
    }
    allow(2);
    for (uint32_t i = 0; i < GATEWAY_SCANS; i++) {
        run_until(&c[i], 1);
        assert_int_equal(c[i].error, HF_OK);
        assert_int_equal(c[i].read_to, i + 1);
        assert_int_equal(seen[i], i + 1);
    }
    close_scans();
}

static void a_search_that_is_late_ends_and_its_slot_follows(void **state)
{
    (void)state;
    struct caller c[GATEWAY_SCANS + 1] = {0};
    open_scans(true);
    for (uint32_t i = 0; i < GATEWAY_SCANS; i++) {
        begin(&c[i], i + 1);
    }
    wait_for(&begun, SCAN_THREADS);
    assert_int_equal(scan_threads_next_ms(scans), 1000 + GATEWAY_SCAN_MS);
    scan_threads_run(scans, 1000 + GATEWAY_SCAN_MS - 1);
    assert_int_equal(c[0].done, 0);
    scan_threads_run(scans, 1000 + GATEWAY_SCAN_MS);
    for (uint32_t i = 0; i < GATEWAY_SCANS; i++) {
        assert_int_equal(c[i].done, 1);
        assert_int_equal(c[i].error, HF_DEADLINE);
    }
    /* Those that waited never begin; those that are read end unseen. */
    allow(SCAN_THREADS);
    wait_for(&ended, SCAN_THREADS);
    begin(&c[GATEWAY_SCANS], 77);
    allow(1);
    run_until(&c[GATEWAY_SCANS], 1);
    assert_int_equal(c[GATEWAY_SCANS].read_to, 77);
    assert_int_equal(begun, SCAN_THREADS + 1);
    for (uint32_t i = 0; i < GATEWAY_SCANS; i++) {
        assert_int_equal(c[i].done, 1);
    }
    close_scans();
    assert_int_equal(closed, SCAN_THREADS + 1);
}

static void a_cancelled_search_is_not_reported(void **state)
{
    (void)state;
    struct caller c[4] = {0};
    open_scans(true);
    for (uint32_t i = 0; i < 4; i++) {
        begin(&c[i], i + 1);
    }
    wait_for(&begun, SCAN_THREADS);
    scan_threads_cancel(scans, &c[0].call);
    scan_threads_cancel(scans, &c[2].call);
    allow(3);
    run_until(&c[1], 1);
    run_until(&c[3], 1);
    assert_int_equal(c[0].done + c[2].done, 0);
    assert_int_equal(begun, 3);
    close_scans();
    assert_int_equal(closed, 3);
}

static void the_end_reports_nothing_and_frees_everything(void **state)
{
    (void)state;
    struct caller c[4] = {0};
    open_scans(true);
    for (uint32_t i = 0; i < 3; i++) {
        begin(&c[i], i + 1);
    }
    wait_for(&begun, SCAN_THREADS);
    allow(1000);
    scan_threads_stop(scans);
    begin(&c[3], 4);
    scan_threads_run(scans, 1000000);
    scan_threads_cancel(scans, &c[0].call);
    scan_threads_cancel(scans, &c[3].call);
    uv_run(&loop, UV_RUN_DEFAULT);
    scan_threads_free(scans);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(c[0].done + c[1].done + c[2].done + c[3].done, 0);
    assert_int_equal(closed, ended);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_reported_on_the_loop_and_closed),
        cmocka_unit_test(a_failure_is_reported_with_its_reason),
        cmocka_unit_test(without_a_log_every_search_is_refused),
        cmocka_unit_test(searches_wait_in_order_and_too_many_are_refused),
        cmocka_unit_test(a_search_that_is_late_ends_and_its_slot_follows),
        cmocka_unit_test(a_cancelled_search_is_not_reported),
        cmocka_unit_test(the_end_reports_nothing_and_frees_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
