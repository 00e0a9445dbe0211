/* The public face with real threads and sockets, against a fake node: waiting calls, callbacks, a
 * caller's own loop, fork, close. */
#include "base_testing.h"

#include <holdfast.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "fake_listener.h"
#include "in_time.h"

static int start(void **state)
{
    struct fake_listener *l = malloc(sizeof(*l));
    fake_listener_start(l);
    *state = l;
    return 0;
}

static int stop(void **state)
{
    fake_listener_stop(*state);
    free(*state);
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static hf_client *open_client(struct fake_listener *l, const struct hf_options *options)
{
    hf_client *client = NULL;
    assert_int_equal(hf_client_open(&client, l->address, options), 0);
    return client;
}

/* ---- waiting calls ---- */

static void the_five_lines_of_the_header_work(void **state)
{
    struct fake_listener *l = *state;
    hf_lock *lock;
    hf_client *client = open_client(l, NULL);
    assert_int_equal(hf_acquire(client, "billing/close", NULL, &lock), 0);
    assert_true(hf_lock_token(lock) > 0);
    assert_string_equal(hf_lock_name(lock), "billing/close");
    assert_in_range(hf_lock_safe_for_ms(lock), 20000, 29965);
    assert_int_equal(hf_lock_check(lock), 0);
    assert_string_equal(hf_lock_loss(lock), "");
    assert_int_equal(hf_renew(lock, 0), 0);
    assert_int_equal(hf_release(lock), 0);
    hf_client_close(client);
    struct fake *f = fake_listener_lock(l);
    assert_int_equal(f->closed, 1);
    assert_int_equal(f->opened, 1);
    fake_listener_unlock(l);
}

static void a_refusal_has_its_words_and_its_holder(void **state)
{
    struct fake_listener *l = *state;
    hf_lock *lock = NULL;
    struct hf_holder holder = {.size = sizeof(holder)};
    hf_client *client = open_client(l, NULL);
    fake_hold(fake_listener_lock(l), "a");
    fake_listener_unlock(l);
    assert_int_equal(hf_acquire(client, "a", NULL, &lock), HF_ERR_HELD);
    assert_null(lock);
    assert_non_null(strstr(hf_last_error(), "held by somebody"));
    assert_int_equal(hf_last_holder(&holder), 0);
    assert_string_equal(holder.client_id, "somebody");
    assert_string_equal(holder.metadata, "{\"host\":\"there\"}");
    assert_string_equal(holder.trace, FAKE_TRACE);
    hf_client_close(client);
}

/* The first request of this method has the trace. */
static void expect_trace(struct fake_listener *l, const char *method)
{
    const struct fake *f = fake_listener_lock(l);
    const struct fake_request *found = NULL;
    for (unsigned i = 0; found == NULL && i < f->request_count; i++) {
        found = strcmp(f->requests[i].path, method) == 0 ? &f->requests[i] : NULL;
    }
    assert_non_null(found);
    assert_string_equal(found->trace, FAKE_TRACE);
    fake_listener_unlock(l);
}

static void every_kind_of_acquire_sends_its_trace(void **state)
{
    struct fake_listener *l = *state;
    hf_lock *locks[3];
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    const char *const names[] = {"b", "c"};
    hf_client *client = open_client(l, NULL);
    options.trace = FAKE_TRACE;
    assert_int_equal(hf_acquire(client, "a", &options, &locks[0]), 0);
    assert_int_equal(hf_acquire_many(client, names, 2, &options, &locks[1]), 0);
    assert_int_equal(hf_campaign(client, "e", "value", &options, &locks[2]), 0);
    expect_trace(l, "Lock");
    expect_trace(l, "MultiLock");
    expect_trace(l, "Campaign");
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(hf_release(locks[i]), 0);
    }
    hf_client_close(client);
}

static void wrong_arguments_are_refused_in_words(void **state)
{
    struct fake_listener *l = *state;
    hf_client *client = NULL;
    hf_lock *lock = NULL;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    assert_int_equal(hf_client_open(&client, "nowhere", NULL), HF_ERR_INVALID);
    assert_non_null(strstr(hf_last_error(), "HOST:PORT"));
    client = open_client(l, NULL);
    assert_int_equal(hf_acquire(client, "", NULL, &lock), HF_ERR_INVALID);
    assert_int_equal(hf_acquire(client, "a//b", NULL, &lock), HF_ERR_INVALID);
    options.ttl_ms = 5;
    assert_int_equal(hf_acquire(client, "a", &options, &lock), HF_ERR_INVALID);
    assert_non_null(strstr(hf_last_error(), "ttl_ms"));
    options.ttl_ms = 0;
    options.mode = HF_SEMAPHORE;
    assert_int_equal(hf_acquire(client, "a", &options, &lock), HF_ERR_INVALID);
    options.mode = HF_EXCLUSIVE;
    options.trace = "00-1-2-3";
    assert_int_equal(hf_acquire(client, "a", &options, &lock), HF_ERR_INVALID);
    assert_non_null(strstr(hf_last_error(), "trace"));
    options.size = 0;
    assert_int_equal(hf_acquire(client, "a", &options, &lock), HF_ERR_INVALID);
    assert_int_equal(hf_release_exported(client, "hf1.x.y"), HF_ERR_INVALID);
    hf_client_close(client);
}

static bool an_unreachable_cluster_is_reported(int scale)
{
    struct hf_options options = HF_OPTIONS;
    hf_client *client = NULL;
    hf_lock *lock = NULL;
    options.call_timeout_ms = 300;
    assert_int_equal(hf_client_open(&client, "127.0.0.1:1", &options), 0);
    int64_t begun_ms = now_ms();
    assert_int_equal(hf_client_wait_ready(client, 200 * (uint32_t)scale), HF_ERR_UNREACHABLE);
    int64_t took_ms = now_ms() - begun_ms;
    assert_true(took_ms >= 200 * scale - 1);
    assert_int_equal(hf_acquire(client, "a", NULL, &lock), HF_ERR_UNREACHABLE);
    assert_non_null(strstr(hf_last_error(), "127.0.0.1:1 (Connection refused)"));
    hf_client_close(client);
    return took_ms < 2000 * scale;
}

static void an_unreachable_cluster_is_reported_in_time(void **state)
{
    in_time(an_unreachable_cluster_is_reported);
}

struct pair {
    hf_client *client;
    hf_lock *lock;
    int error;
};

static void *acquire_waiting(void *arg)
{
    struct pair *p = arg;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.wait_ms = HF_WAIT_FOREVER;
    p->error = hf_acquire(p->client, "a", &options, &p->lock);
    return NULL;
}

static void two_threads_of_one_client_queue_like_two_clients(void **state)
{
    struct fake_listener *l = *state;
    struct pair p = {open_client(l, NULL), NULL, -1};
    hf_lock *mine;
    pthread_t thread;
    assert_int_equal(hf_acquire(p.client, "a", NULL, &mine), 0);
    assert_int_equal(pthread_create(&thread, NULL, acquire_waiting, &p), 0);
    fake_listener_await(l, "Lock", 2);
    uint64_t token = hf_lock_token(mine);
    assert_int_equal(hf_release(mine), 0);
    pthread_join(thread, NULL);
    assert_int_equal(p.error, 0);
    assert_true(hf_lock_token(p.lock) > token);
    assert_int_equal(hf_release(p.lock), 0);
    hf_client_close(p.client);
}

static void closing_ends_calls_that_wait(void **state)
{
    struct fake_listener *l = *state;
    struct pair p = {open_client(l, NULL), NULL, -1};
    pthread_t thread;
    fake_hold(fake_listener_lock(l), "a");
    fake_listener_unlock(l);
    assert_int_equal(pthread_create(&thread, NULL, acquire_waiting, &p), 0);
    fake_listener_await(l, "Lock", 1);
    hf_client_close(p.client);
    pthread_join(thread, NULL);
    assert_int_equal(p.error, HF_ERR_CANCELLED);
}

enum { THREADS = 8, ROUNDS = 50 };

static void *work(void *arg)
{
    struct pair *p = arg;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.wait_ms = 10000;
    for (int i = 0; i < ROUNDS && p->error == 0; i++) {
        hf_lock *lock;
        p->error = hf_acquire(p->client, "shared", &options, &lock);
        if (p->error == 0) {
            p->error = hf_release(lock);
        }
    }
    return NULL;
}

static void many_threads_use_one_client(void **state)
{
    struct fake_listener *l = *state;
    hf_client *client = open_client(l, NULL);
    struct pair pairs[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pairs[i] = (struct pair){client, NULL, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &pairs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(pairs[i].error, 0);
    }
    struct hf_client_stats stats = {.size = sizeof(stats)};
    assert_int_equal(hf_client_stats(client, &stats), 0);
    assert_int_equal(stats.calls, THREADS * ROUNDS * 2);
    assert_true(stats.is_connected);
    assert_int_equal(stats.locks, 0);
    assert_string_equal(stats.endpoint, l->address);
    hf_client_close(client);
}

/* ---- callbacks ---- */

struct heard {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned events[8];
    unsigned done;
    int error;
    int inner; /* of a call that waits, made within a callback */
    hf_lock *lock;
    char text[64];
};

static void heard_init(struct heard *h)
{
    memset(h, 0, sizeof(*h));
    pthread_mutex_init(&h->mutex, NULL);
    pthread_cond_init(&h->changed, NULL);
}

static void on_event(hf_client *client, const struct hf_event *event, void *arg)
{
    struct heard *h = arg;
    pthread_mutex_lock(&h->mutex);
    h->events[event->type]++;
    if (event->type == HF_EVENT_LOST) {
        snprintf(h->text, sizeof(h->text), "%s", event->text);
    }
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
}

static void on_done(hf_client *client, int error, hf_lock *lock, void *arg)
{
    struct heard *h = arg;
    hf_lock *other;
    int inner = hf_acquire(client, "other", NULL, &other);
    pthread_mutex_lock(&h->mutex);
    h->done++;
    h->error = error;
    h->inner = inner;
    h->lock = lock;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
}

/* A callback of an application that waits for something. It ends, so that a failure does not hang. */
static void on_lost_wait(hf_client *client, const struct hf_event *event, void *arg)
{
    struct heard *h = arg;
    struct timespec end;
    if (event->type != HF_EVENT_LOST) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20;
    pthread_mutex_lock(&h->mutex);
    h->events[HF_EVENT_LOST]++;
    pthread_cond_broadcast(&h->changed);
    while (h->inner == 0 && pthread_cond_timedwait(&h->changed, &h->mutex, &end) == 0) {
    }
    h->done++;
    pthread_mutex_unlock(&h->mutex);
}

static void await(struct heard *h, const unsigned *what, unsigned count)
{
    pthread_mutex_lock(&h->mutex);
    while (*what < count) {
        pthread_cond_wait(&h->changed, &h->mutex);
    }
    pthread_mutex_unlock(&h->mutex);
}

static void loss_is_reported_and_stays(void **state)
{
    struct fake_listener *l = *state;
    struct heard h;
    struct hf_options options = HF_OPTIONS;
    hf_lock *lock;
    heard_init(&h);
    options.on_event = on_event;
    options.arg = &h;
    hf_client *client = open_client(l, &options);
    assert_int_equal(hf_acquire(client, "a", NULL, &lock), 0);
    fake_lose(fake_listener_lock(l), hf_lock_token(lock), "forced");
    fake_listener_unlock(l);
    await(&h, &h.events[HF_EVENT_LOST], 1);
    assert_string_equal(h.text, "forced");
    assert_int_equal(hf_lock_check(lock), HF_ERR_LOST);
    assert_string_equal(hf_lock_loss(lock), "forced");
    assert_int_equal(hf_lock_safe_for_ms(lock), 0);
    assert_int_equal(hf_renew(lock, 0), HF_ERR_LOST);
    char text[HF_HANDLE_SIZE];
    assert_int_equal(hf_lock_export(lock, text, sizeof(text)), HF_ERR_LOST);
    assert_int_equal(hf_release(lock), HF_ERR_LOST);
    hf_client_close(client);
    assert_true(h.events[HF_EVENT_CONNECTED] >= 1);
}

static void a_callback_that_blocks_delays_no_call(void **state)
{
    struct fake_listener *l = *state;
    struct heard h;
    struct hf_options options = HF_OPTIONS;
    hf_lock *lock;
    hf_lock *other;
    heard_init(&h);
    options.on_event = on_lost_wait;
    options.arg = &h;
    hf_client *client = open_client(l, &options);
    assert_int_equal(hf_acquire(client, "a", NULL, &lock), 0);
    fake_lose(fake_listener_lock(l), hf_lock_token(lock), "forced");
    fake_listener_unlock(l);
    await(&h, &h.events[HF_EVENT_LOST], 1);
    assert_int_equal(hf_acquire(client, "b", NULL, &other), 0);
    assert_int_equal(hf_release(other), 0);
    pthread_mutex_lock(&h.mutex);
    assert_int_equal(h.done, 0); /* it is still in the callback */
    h.inner = 1;
    pthread_cond_broadcast(&h.changed);
    pthread_mutex_unlock(&h.mutex);
    hf_client_close(client);
    assert_int_equal(h.done, 1);
}

static struct fake_listener *cut_off;

static bool a_client_cut_off_hears_lost(int scale)
{
    struct heard h;
    struct hf_options options = HF_OPTIONS;
    hf_lock *lock;
    char name[8];
    snprintf(name, sizeof(name), "a%d", scale);
    heard_init(&h);
    options.on_event = on_event;
    options.arg = &h;
    options.session_ttl_ms = 1000 * (uint32_t)scale;
    options.call_timeout_ms = 200 * (uint32_t)scale;
    fake_listener_lock(cut_off)->is_stopped = false;
    fake_listener_unlock(cut_off);
    hf_client *client = open_client(cut_off, &options);
    if (hf_acquire(client, name, NULL, &lock) != 0) {
        hf_client_close(client);
        return false; /* not even that was done in its time */
    }
    fake_listener_lock(cut_off)->is_stopped = true;
    fake_listener_unlock(cut_off);
    int64_t safe_until_ms = now_ms() + hf_lock_safe_for_ms(lock);
    await(&h, &h.events[HF_EVENT_LOST], 1);
    int64_t late_ms = now_ms() - safe_until_ms;
    bool was_warned = h.events[HF_EVENT_JEOPARDY] >= 1;
    assert_int_equal(hf_lock_check(lock), HF_ERR_LOST);
    assert_string_equal(hf_lock_loss(lock), "unconfirmed");
    hf_client_close(client);
    /* A keep-alive may have been confirmed in between: then the deadline has moved by less than the
     * TTL. A second more would be a lie. */
    return was_warned && late_ms < 1000 * scale;
}

static void a_client_cut_off_hears_lost_no_later_than_its_deadline(void **state)
{
    cut_off = *state;
    in_time(a_client_cut_off_hears_lost);
}

static void without_waiting_it_is_reported_by_callback(void **state)
{
    struct fake_listener *l = *state;
    struct heard h;
    const char *names[] = {"a", "b"};
    heard_init(&h);
    hf_client *client = open_client(l, NULL);
    assert_int_equal(hf_acquire_async(client, names, 2, NULL, on_done, &h, NULL), 0);
    await(&h, &h.done, 1);
    assert_int_equal(h.error, 0);
    assert_int_equal(h.inner, HF_ERR_INVALID);
    assert_int_equal(hf_release_async(h.lock, on_done, &h), 0);
    await(&h, &h.done, 2);
    assert_int_equal(h.error, 0);
    hf_client_close(client);
}

static void a_call_is_withdrawn(void **state)
{
    struct fake_listener *l = *state;
    struct heard h;
    const char *name = "a";
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    hf_call *call;
    heard_init(&h);
    options.wait_ms = HF_WAIT_FOREVER;
    fake_hold(fake_listener_lock(l), "a");
    fake_listener_unlock(l);
    hf_client *client = open_client(l, NULL);
    assert_int_equal(hf_acquire_async(client, &name, 1, &options, on_done, &h, &call), 0);
    hf_call_cancel(call);
    await(&h, &h.done, 1);
    assert_int_equal(h.error, HF_ERR_CANCELLED);
    hf_client_close(client);
}

/* ---- elections, handles ---- */

static void on_leader(hf_client *client, const struct hf_leader *leader, void *arg)
{
    struct heard *h = arg;
    pthread_mutex_lock(&h->mutex);
    h->done++;
    snprintf(h->text, sizeof(h->text), "%s %s", leader->vacant ? "nobody" : leader->client_id,
             leader->value);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
}

static void an_election_is_won_proclaimed_and_watched(void **state)
{
    struct fake_listener *l = *state;
    struct heard h;
    hf_lock *reign;
    hf_call *call;
    heard_init(&h);
    hf_client *client = open_client(l, NULL);
    assert_int_equal(hf_observe(client, "chief", on_leader, &h, &call), 0);
    assert_int_equal(hf_campaign(client, "chief", "me", NULL, &reign), 0);
    assert_int_equal(hf_proclaim(reign, "me again"), 0);
    fake_elect(fake_listener_lock(l), "anna", "here");
    fake_listener_unlock(l);
    await(&h, &h.done, 1);
    assert_string_equal(h.text, "anna here");
    hf_call_cancel(call);
    assert_int_equal(hf_release(reign), 0);
    hf_client_close(client);
}

static void a_handle_is_passed_on_as_text(void **state)
{
    struct fake_listener *l = *state;
    hf_lock *lock;
    char text[HF_HANDLE_SIZE];
    int64_t left_ms = 0;
    hf_client *giver = open_client(l, NULL);
    hf_client *taker = open_client(l, NULL);
    assert_int_equal(hf_acquire(giver, "a", NULL, &lock), 0);
    assert_int_equal(hf_lock_export(lock, text, 8), HF_ERR_INVALID);
    assert_int_equal(hf_lock_export(lock, text, sizeof(text)), 0);
    hf_lock_free(lock);
    assert_int_equal(hf_renew_exported(taker, text, 0, &left_ms), 0);
    assert_int_equal(left_ms, 30000);
    assert_int_equal(hf_release_exported(taker, text), 0);
    assert_int_equal(fake_holder(fake_listener_lock(l), "a"), 0);
    fake_listener_unlock(l);
    hf_client_abandon(giver);
    hf_client_close(taker);
}

/* ---- the caller's own loop ---- */

static void a_caller_drives_it_by_its_own_loop(void **state)
{
    struct fake_listener *l = *state;
    struct heard h;
    struct hf_options options = HF_OPTIONS;
    const char *name = "a";
    heard_init(&h);
    options.own_loop = true;
    hf_client *client = open_client(l, &options);
    assert_int_equal(hf_acquire_async(client, &name, 1, NULL, on_done, &h, NULL), 0);
    while (h.done == 0) {
        struct pollfd fds[16];
        int timeout_ms;
        int count = hf_client_pollfds(client, fds, 16, &timeout_ms);
        assert_in_range(count, 1, 16);
        assert_true(poll(fds, (nfds_t)count, timeout_ms) >= 0);
        hf_client_process(client);
    }
    assert_int_equal(h.error, 0);
    int64_t begun_ms = now_ms();
    assert_int_equal(hf_release(h.lock), 0); /* waits, and drives the loop itself */
    assert_true(now_ms() - begun_ms < 5000); /* the next keep-alive would be later */
    hf_client_close(client);
    assert_int_equal(fake_listener_lock(l)->closed, 1);
    fake_listener_unlock(l);
}

/* ---- fork ---- */

static void a_forked_child_abandons_it_and_the_parent_goes_on(void **state)
{
    struct fake_listener *l = *state;
    hf_lock *lock;
    hf_client *client = open_client(l, NULL);
    assert_int_equal(hf_acquire(client, "a", NULL, &lock), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        hf_lock *other;
        bool is_refused = hf_acquire(client, "b", NULL, &other) == HF_ERR_INVALID &&
                          hf_lock_check(lock) == HF_ERR_INVALID && hf_lock_safe_for_ms(lock) == 0;
        hf_client_abandon(client);
        _exit(is_refused ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(hf_lock_check(lock), 0);
    assert_int_equal(hf_release(lock), 0);
    hf_client_close(client);
    assert_int_equal(fake_listener_lock(l)->opened, 1);
    fake_listener_unlock(l);
}

static void a_name_is_looked_up(void **state)
{
    struct fake_listener *l = *state;
    char address[64];
    hf_client *client;
    snprintf(address, sizeof(address), "localhost%s", strrchr(l->address, ':'));
    assert_int_equal(hf_client_open(&client, address, NULL), 0);
    assert_int_equal(hf_client_wait_ready(client, 5000), 0);
    hf_client_close(client);
}

#define listener_test(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        listener_test(the_five_lines_of_the_header_work),
        listener_test(a_refusal_has_its_words_and_its_holder),
        listener_test(every_kind_of_acquire_sends_its_trace),
        listener_test(wrong_arguments_are_refused_in_words),
        listener_test(an_unreachable_cluster_is_reported_in_time),
        listener_test(two_threads_of_one_client_queue_like_two_clients),
        listener_test(closing_ends_calls_that_wait),
        listener_test(many_threads_use_one_client),
        listener_test(loss_is_reported_and_stays),
        listener_test(a_callback_that_blocks_delays_no_call),
        listener_test(a_client_cut_off_hears_lost_no_later_than_its_deadline),
        listener_test(without_waiting_it_is_reported_by_callback),
        listener_test(a_call_is_withdrawn),
        listener_test(an_election_is_won_proclaimed_and_watched),
        listener_test(a_handle_is_passed_on_as_text),
        listener_test(a_caller_drives_it_by_its_own_loop),
        listener_test(a_forked_child_abandons_it_and_the_parent_goes_on),
        listener_test(a_name_is_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
