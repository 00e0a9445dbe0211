/* Tests of the calls of gRPC that go on: sessions, watches, health, reflection; and of what they
 * share with the HTTP API. */
#include "base_testing.h"

#include "h2_world.h"

#include <grpc/health/v1/health.pb-c.h>
#include <holdfast/v1/admin.pb-c.h>
#include <holdfast/v1/lock.pb-c.h>

#include "core/view.h"
#include "service/http/reply.h"

#define LOCK "/holdfast.v1.LockService/"

typedef Holdfast__V1__SessionRequest Request;
typedef Holdfast__V1__SessionResponse Response;
#define ANSWER(word) HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_##word
#define NOTICE(word) HOLDFAST__V1__SESSION_RESPONSE__NEWS__##word

static struct http_world world;
static struct h2_client h;

static int open_world(void **state)
{
    (void)state;
    struct service_options options = {.event_bytes = 256 << 10};
    world_open(&world, memory_system(), &options);
    h2_open(&h, &world, true);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    h2_close(&h);
    world_run(&world);
    world_close(&world);
    return 0;
}

/* ---- helpers ---- */

static char *text(const char *words)
{
    return (char *)(uintptr_t)words;
}

static Google__Protobuf__Duration ms(int64_t value)
{
    Google__Protobuf__Duration d = GOOGLE__PROTOBUF__DURATION__INIT;
    d.seconds = value / 1000;
    d.nanos = (int32_t)(value % 1000) * 1000000;
    return d;
}

static uint64_t in_ms(const Google__Protobuf__Duration *d)
{
    return d == NULL ? UINT64_MAX : (uint64_t)d->seconds * 1000 + (uint64_t)d->nanos / 1000000;
}

static struct h2_call *open_session(int64_t ttl_ms, int64_t linger_ms)
{
    Request m = HOLDFAST__V1__SESSION_REQUEST__INIT;
    Holdfast__V1__SessionRequest__Open open = HOLDFAST__V1__SESSION_REQUEST__OPEN__INIT;
    Google__Protobuf__Duration ttl = ms(ttl_ms);
    Google__Protobuf__Duration linger = ms(linger_ms);
    open.client_id = text("me");
    open.ttl = &ttl;
    open.linger = linger_ms == 0 ? NULL : &linger;
    m.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_OPEN;
    m.open = &open;
    struct h2_call *call = h2_start(&h, LOCK "Session", NULL);
    h2_put(&h, call, &m.base, false);
    return call;
}

static struct h2_call *resume(const char *id)
{
    Request m = HOLDFAST__V1__SESSION_REQUEST__INIT;
    Holdfast__V1__SessionRequest__Resume again = HOLDFAST__V1__SESSION_REQUEST__RESUME__INIT;
    again.session_id = text(id);
    m.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_RESUME;
    m.resume = &again;
    struct h2_call *call = h2_start(&h, LOCK "Session", NULL);
    h2_put(&h, call, &m.base, false);
    return call;
}

static void keep_alive(struct h2_call *call, uint64_t number)
{
    Request m = HOLDFAST__V1__SESSION_REQUEST__INIT;
    Holdfast__V1__SessionRequest__KeepAlive alive = HOLDFAST__V1__SESSION_REQUEST__KEEP_ALIVE__INIT;
    alive.number = number;
    m.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_KEEP_ALIVE;
    m.keep_alive = &alive;
    h2_put(&h, call, &m.base, false);
}

static void say_close(struct h2_call *call)
{
    Request m = HOLDFAST__V1__SESSION_REQUEST__INIT;
    Holdfast__V1__SessionRequest__Close bye = HOLDFAST__V1__SESSION_REQUEST__CLOSE__INIT;
    m.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_CLOSE;
    m.close = &bye;
    h2_put(&h, call, &m.base, false);
}

static Response *hear(struct h2_call *call, unsigned kind)
{
    Response *m = h2_message(call, &holdfast__v1__session_response__descriptor);
    if (m == NULL) {
        fail_msg("no answer of kind %u: %s", kind, call->headers);
    }
    assert_int_equal(m->response_case, kind);
    return m;
}

static void no_more(struct h2_call *call)
{
    assert_null(h2_message(call, &holdfast__v1__session_response__descriptor));
}

/* The id of the session that was opened. */
static void hear_opened(struct h2_call *call, char id[33])
{
    Response *m = hear(call, ANSWER(OPENED));
    assert_int_equal(strlen(m->opened->session_id), 32);
    memcpy(id, m->opened->session_id, 33);
    holdfast__v1__session_response__free_unpacked(m, NULL);
}

static void hear_alive(struct h2_call *call, uint64_t number)
{
    Response *m = hear(call, ANSWER(ALIVE));
    assert_int_equal(m->alive->number, number);
    holdfast__v1__session_response__free_unpacked(m, NULL);
}

static void hear_closed(struct h2_call *call, const char *how)
{
    Response *m = hear(call, ANSWER(CLOSED));
    assert_string_equal(m->closed->how, how);
    holdfast__v1__session_response__free_unpacked(m, NULL);
    h2_expect(call, GRPC_OK, "");
}

static void expect_notice(struct h2_call *call, int kind)
{
    Response *m = hear(call, ANSWER(NOTICE));
    assert_int_equal(m->notice->news, kind);
    holdfast__v1__session_response__free_unpacked(m, NULL);
}

static void lock_in(const char *session, const char *name)
{
    Holdfast__V1__LockRequest m = HOLDFAST__V1__LOCK_REQUEST__INIT;
    m.resource_id = text(name);
    m.session_id = text(session);
    struct h2_call *call = h2_unary(&h, LOCK "Lock", &m.base);
    h2_expect(call, GRPC_OK, "");
    Holdfast__V1__LockResponse *r = h2_message(call, &holdfast__v1__lock_response__descriptor);
    assert_true(r->acquired);
    holdfast__v1__lock_response__free_unpacked(r, NULL);
}

static bool is_held(const char *name)
{
    struct lock_view view;
    return view_lock(world.gateway.core, 0, slice_of(name), &view) && view.has_holder;
}

/* ---- sessions ---- */

static void a_session_opens_and_says_how_often_to_keep_it_alive(void **state)
{
    struct h2_call *call = open_session(9000, 0);
    Response *m = hear(call, ANSWER(OPENED));
    assert_int_equal(in_ms(m->opened->ttl), 9000);
    assert_int_equal(in_ms(m->opened->keep_alive_every), 3000);
    assert_int_equal(in_ms(m->opened->expires_in), 9000);
    assert_false(m->opened->resumed);
    holdfast__v1__session_response__free_unpacked(m, NULL);
    no_more(call);
    assert_int_equal(world.gateway.submitted[COMMAND_STREAM_THROUGH], 0); /* it does not linger */
}

static void keep_alives_keep_it_and_ride_together(void **state)
{
    char id[33];
    struct h2_call *call = open_session(3000, 0);
    hear_opened(call, id);
    lock_in(id, "n");
    for (uint64_t i = 1; i <= 8; i++) {
        h2_pass(&h, 900);
        keep_alive(call, i);
        no_more(call); /* S4.5: it waits for company */
        h2_pass(&h, 100);
        hear_alive(call, i);
    }
    assert_true(is_held("n"));
    uint64_t before = world.gateway.submitted[COMMAND_KEEPALIVE];
    keep_alive(call, 20);
    keep_alive(call, 21);
    keep_alive(call, 22);
    h2_pass(&h, 100);
    hear_alive(call, 22);
    no_more(call);
    assert_int_equal(world.gateway.submitted[COMMAND_KEEPALIVE], before + 1);
}

static void a_keep_alive_behind_one_in_flight_is_sent_after_it(void **state)
{
    char id[33];
    struct h2_call *call = open_session(3000, 0);
    hear_opened(call, id);
    world.gateway.is_held = true;
    keep_alive(call, 1);
    h2_pass(&h, 100); /* it is on its way */
    keep_alive(call, 2);
    keep_alive(call, 3);
    world.gateway.is_held = false;
    h2_run(&h);
    hear_alive(call, 1);
    h2_pass(&h, 100);
    hear_alive(call, 3);
    no_more(call);
}

static void a_close_releases_everything_at_once(void **state)
{
    char id[33];
    struct h2_call *call = open_session(30000, 0);
    hear_opened(call, id);
    lock_in(id, "a");
    lock_in(id, "b");
    keep_alive(call, 1); /* and is not waited for */
    say_close(call);
    hear_closed(call, "session_closed");
    assert_false(is_held("a") || is_held("b"));
}

static void a_session_that_is_not_kept_alive_hears_of_its_end(void **state)
{
    char id[33];
    struct h2_call *call = open_session(2000, 0);
    hear_opened(call, id);
    lock_in(id, "n");
    h2_pass(&h, 2100);
    expect_notice(call, NOTICE(LOST));
    hear_closed(call, "session_expired");
}

static void a_broken_stream_does_not_end_the_session_before_its_time(void **state)
{
    char id[33];
    struct h2_call *call = open_session(5000, 0);
    hear_opened(call, id);
    lock_in(id, "n");
    h2_cancel(&h, call);
    h2_pass(&h, 4500);
    assert_true(is_held("n"));
    call = resume(id);
    Response *m = hear(call, ANSWER(OPENED));
    assert_true(m->opened->resumed);
    assert_string_equal(m->opened->session_id, id);
    assert_int_equal(in_ms(m->opened->ttl), 5000);
    holdfast__v1__session_response__free_unpacked(m, NULL);
    keep_alive(call, 1);
    h2_pass(&h, 4000);
    assert_true(is_held("n"));
}

static void a_session_that_lingers_ends_so_long_after_its_stream(void **state)
{
    char id[33];
    struct h2_call *call = open_session(60000, 1500);
    hear_opened(call, id);
    assert_int_equal(world.gateway.submitted[COMMAND_STREAM_THROUGH], 1);
    lock_in(id, "n");
    h2_pass(&h, 10000);
    assert_true(is_held("n"));
    h2_cancel(&h, call);
    assert_int_equal(world.gateway.submitted[COMMAND_STREAM_DOWN], 1);
    h2_pass(&h, 1000);
    call = resume(id); /* S4.6: in time */
    hear_opened(call, id);
    h2_pass(&h, 10000);
    assert_true(is_held("n"));
    h2_cancel(&h, call);
    h2_pass(&h, 1400);
    assert_true(is_held("n"));
    h2_pass(&h, 200);
    assert_false(is_held("n"));
    h2_expect(resume(id), GRPC_FAILED_PRECONDITION, "session_expired");
}

/* The leader took this node for gone, and it is not (S4.6). */
static void a_stream_that_was_taken_for_broken_is_raised_again(void **state)
{
    char id[33];
    struct session_view view;
    struct h2_call *call = open_session(60000, 1500);
    hear_opened(call, id);
    lock_in(id, "n");
    struct command down;
    struct result result;
    command_init(&down, COMMAND_STREAM_DOWN);
    assert_true(reply_parse_id(slice_of(id), &down.session));
    assert_true(view_session(world.gateway.core, down.session, &view));
    down.stream_down.stream = view.stream;
    fake_gateway_apply(&world.gateway, &down, &result);
    assert_int_equal(result.error, HF_OK);
    h2_pass(&h, 10000);
    assert_true(is_held("n"));
    assert_int_equal(world.gateway.submitted[COMMAND_STREAM_THROUGH], 2);
    h2_cancel(&h, call); /* it breaks under its new number */
    h2_pass(&h, 1600);
    assert_false(is_held("n"));
}

static void a_client_that_leaves_while_its_stream_is_raised_is_noticed(void **state)
{
    world.gateway.is_held = true;
    struct h2_call *call = open_session(60000, 500);
    h2_cancel(&h, call);
    world.gateway.is_held = false;
    h2_run(&h);
    call = open_session(60000, 500);
    char id[33];
    hear_opened(call, id);
    h2_cancel(&h, call);
    world.gateway.is_held = true;
    call = resume(id);
    h2_cancel(&h, call);
    world.gateway.is_held = false;
    h2_pass(&h, 1000);
    h2_expect(resume(id), GRPC_FAILED_PRECONDITION, "session_expired");
}

static void the_holder_is_requested_to_give_up_and_notified_of_loss(void **state)
{
    char id[33];
    struct h2_call *call = open_session(60000, 0);
    hear_opened(call, id);
    lock_in(id, "n");
    Holdfast__V1__RevokeRequest revoke = HOLDFAST__V1__REVOKE_REQUEST__INIT;
    Google__Protobuf__Duration grace = ms(3000);
    revoke.resource_id = text("n");
    revoke.actor_id = text("op");
    revoke.reason = text("repairs");
    revoke.deadline = &grace;
    h2_expect(h2_unary(&h, "/holdfast.v1.AdminService/Revoke", &revoke.base), GRPC_OK, "");
    Response *m = hear(call, ANSWER(NOTICE));
    assert_int_equal(m->notice->news, NOTICE(REVOKE_REQUESTED));
    assert_string_equal(m->notice->resource_id, "n");
    assert_string_equal(m->notice->reason, "repairs");
    assert_int_equal(in_ms(m->notice->deadline_in), 3000);
    holdfast__v1__session_response__free_unpacked(m, NULL);
    h2_pass(&h, 3100);
    m = hear(call, ANSWER(NOTICE));
    assert_int_equal(m->notice->news, NOTICE(LOST));
    assert_string_equal(m->notice->how, "revoked");
    assert_int_equal(strlen(m->notice->lease_id), 32);
    assert_true(m->notice->fence_token > 0);
    holdfast__v1__session_response__free_unpacked(m, NULL);
    no_more(call);
}

static void others_hear_nothing_of_it(void **state)
{
    char mine[33], theirs[33];
    struct h2_call *call = open_session(60000, 0);
    struct h2_call *other = open_session(60000, 0);
    hear_opened(call, mine);
    hear_opened(other, theirs);
    lock_in(mine, "n");
    struct command c;
    struct result r;
    command_init(&c, COMMAND_FORCE_UNLOCK);
    c.force_unlock.name = slice_of("n");
    c.force_unlock.actor = slice_of("op");
    c.force_unlock.reason = slice_of("why");
    fake_gateway_apply(&world.gateway, &c, &r);
    h2_run(&h);
    expect_notice(call, NOTICE(LOST));
    no_more(other);
}

static void without_a_leader_there_is_jeopardy(void **state)
{
    char id[33];
    struct h2_call *call = open_session(60000, 0);
    hear_opened(call, id);
    world.gateway.status.serving = false;
    h2_run(&h);
    expect_notice(call, NOTICE(JEOPARDY));
    h2_run(&h);
    no_more(call);
    world.gateway.fails = HF_UNAVAILABLE;
    keep_alive(call, 1);
    h2_pass(&h, 200);
    no_more(call); /* what is not confirmed is not said to be */
    world.gateway.fails = HF_OK;
    world.gateway.status.serving = true;
    h2_run(&h);
    expect_notice(call, NOTICE(SAFE));
    keep_alive(call, 2);
    h2_pass(&h, 200);
    hear_alive(call, 2);
}

static void a_stream_begins_with_open_or_resume(void **state)
{
    struct h2_call *call = h2_start(&h, LOCK "Session", NULL);
    keep_alive(call, 1);
    h2_expect(call, GRPC_INVALID_ARGUMENT, "field_range");
    call = h2_start(&h, LOCK "Session", NULL);
    Request nothing = HOLDFAST__V1__SESSION_REQUEST__INIT;
    h2_put(&h, call, &nothing.base, false);
    h2_expect(call, GRPC_INVALID_ARGUMENT, "field_missing");
    h2_expect(resume("0123456789abcdef0123456789abcdef"), GRPC_NOT_FOUND, "session_not_found");
    h2_expect(resume("?"), GRPC_INVALID_ARGUMENT, "invalid_id");
    h2_expect(open_session(5, 0), GRPC_INVALID_ARGUMENT, "field_range");
    call = h2_start(&h, LOCK "Session", NULL);
    h2_send(&h, call, NULL, 0, true);
    h2_expect(call, GRPC_OK, "");
}

static void a_draining_node_sends_its_sessions_elsewhere(void **state)
{
    char id[33];
    struct h2_call *call = open_session(60000, 0);
    hear_opened(call, id);
    lock_in(id, "n");
    service_drain(world.service);
    h2_run(&h);
    hear_closed(call, "draining");
    assert_true(h.has_goaway);
    assert_true(is_held("n"));
}

static void events_that_were_skipped_end_the_stream(void **state)
{
    char id[33];
    struct h2_call *call = open_session(60000, 0);
    hear_opened(call, id);
    service_state_replaced(world.service);
    h2_run(&h);
    h2_expect(call, GRPC_UNAVAILABLE, "unavailable");
}

static void a_session_of_one_who_does_not_read_is_dropped(void **state)
{
    char id[33];
    struct h2_call *call = open_session(60000, 0);
    hear_opened(call, id);
    h.client->is_deaf = true;
    for (int i = 0; i < 100000 && world.gateway.boot_ms > 0; i++) {
        world.gateway.status.serving = !world.gateway.status.serving;
        service_run(world.service);
        struct service_stats stats;
        service_stats(world.service, &stats);
        if (stats.dropped_streams > 0) {
            h.client->is_deaf = false;
            h2_run(&h);
            h2_expect(call, GRPC_UNAVAILABLE, "unavailable");
            return;
        }
    }
    fail_msg("it was not dropped");
}

/* ---- watches ---- */

static struct h2_call *watch(const char *prefix, const char *after)
{
    Holdfast__V1__WatchRequest m = HOLDFAST__V1__WATCH_REQUEST__INIT;
    m.prefix = text(prefix);
    m.after_id = text(after);
    return h2_unary(&h, LOCK "Watch", &m.base);
}

static void hear_event(struct h2_call *call, const char *type, const char *name, char id[32])
{
    Holdfast__V1__Event *e = h2_message(call, &holdfast__v1__event__descriptor);
    assert_non_null(e);
    assert_string_equal(e->type, type);
    assert_string_equal(e->resource_id, name);
    if (id != NULL) {
        snprintf(id, 32, "%s", e->id);
    }
    holdfast__v1__event__free_unpacked(e, NULL);
}

static void a_watch_shows_its_names_and_can_be_resumed(void **state)
{
    char session[33], id[32];
    hear_opened(open_session(60000, 0), session);
    struct h2_call *call = watch("w/", "");
    hear_event(call, "ready", "", NULL);
    lock_in(session, "w/a");
    lock_in(session, "x");
    lock_in(session, "w/b");
    hear_event(call, "granted", "w/a", id);
    hear_event(call, "granted", "w/b", NULL);
    assert_null(h2_message(call, &holdfast__v1__event__descriptor));
    h2_cancel(&h, call);
    call = watch("w/", id);
    hear_event(call, "ready", "", NULL);
    hear_event(call, "granted", "w/b", NULL);
    call = watch("w/", "1-0"); /* long gone: a listing, in no order */
    Holdfast__V1__Event *e = h2_message(call, &holdfast__v1__event__descriptor);
    assert_non_null(e);
    holdfast__v1__event__free_unpacked(e, NULL);
    h2_expect(watch("w/", "x"), GRPC_INVALID_ARGUMENT, "field_type");
}

static void a_limited_watch_reports_what_it_skipped(void **state)
{
    char session[33];
    Holdfast__V1__WatchRequest m = HOLDFAST__V1__WATCH_REQUEST__INIT;
    m.max_rate = 1;
    hear_opened(open_session(60000, 0), session);
    struct h2_call *call = h2_unary(&h, LOCK "Watch", &m.base);
    hear_event(call, "ready", "", NULL);
    lock_in(session, "w/a");
    lock_in(session, "w/b");
    lock_in(session, "w/c");
    hear_event(call, "granted", "w/a", NULL);
    assert_null(h2_message(call, &holdfast__v1__event__descriptor));
    h2_pass(&h, 1000);
    Holdfast__V1__Event *e = h2_message(call, &holdfast__v1__event__descriptor);
    assert_non_null(e);
    assert_string_equal(e->type, "skipped");
    assert_true(e->skipped == 2 && e->id[0] != '\0');
    holdfast__v1__event__free_unpacked(e, NULL);
    m.max_rate = 100001;
    h2_expect(h2_unary(&h, LOCK "Watch", &m.base), GRPC_INVALID_ARGUMENT, "field_range");
}

static void a_deadline_ends_a_watch(void **state)
{
    Holdfast__V1__WatchRequest m = HOLDFAST__V1__WATCH_REQUEST__INIT;
    struct h2_call *call = h2_start(&h, LOCK "Watch", "2S");
    h2_put(&h, call, &m.base, true);
    hear_event(call, "ready", "", NULL);
    h2_pass(&h, 2001);
    h2_expect(call, GRPC_DEADLINE_EXCEEDED, "deadline_exceeded");
}

static void a_watch_with_a_shut_window_is_dropped_with_a_word(void **state)
{
    char session[33];
    hear_opened(open_session(60000, 0), session);
    nghttp2_settings_entry shut = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 100};
    assert_int_equal(nghttp2_submit_settings(h.session, 0, &shut, 1), 0);
    struct h2_call *call = watch("", "");
    struct service_stats stats;
    /* It takes nothing, and half the ring goes by. */
    for (int i = 0; i < 20000; i++) {
        struct command c;
        struct result r;
        char name[500];
        memset(name, 'n', sizeof(name));
        command_init(&c, COMMAND_ACQUIRE);
        c.acquire.lease = (struct id){7, (uint64_t)i + 1};
        c.acquire.node = 1;
        c.acquire.client = slice_of("c");
        c.acquire.ttl_ms = 1000;
        c.acquire.names.count = 1;
        c.acquire.names.at[0] = slice_make(name, sizeof(name));
        fake_gateway_apply(&world.gateway, &c, &r);
        command_init(&c, COMMAND_RELEASE);
        c.release.lease = (struct id){7, (uint64_t)i + 1};
        fake_gateway_apply(&world.gateway, &c, &r);
        service_run(world.service);
        service_stats(world.service, &stats);
        if (stats.dropped_streams > 0) {
            break;
        }
    }
    assert_int_equal(stats.dropped_streams, 1);
    h2_run(&h);
    h2_expect(call, GRPC_UNAVAILABLE, "unavailable");
    const char *type = "";
    char last[32] = "";
    for (Holdfast__V1__Event *e;
         (e = h2_message(call, &holdfast__v1__event__descriptor)) != NULL;) {
        snprintf(last, sizeof(last), "%s", e->type);
        type = last;
        holdfast__v1__event__free_unpacked(e, NULL);
    }
    assert_string_equal(type, "dropped");
}

/* ---- what the node may close in favour of a new connection ---- */

static void a_connection_with_a_stream_is_not_idle_and_one_without_is_closed(void **state)
{
    (void)state;
    h2_run(&h);
    assert_true(http_conn_is_idle(h.client->conn));
    Grpc__Health__V1__HealthCheckRequest m = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    struct h2_call *call = h2_unary(&h, "/grpc.health.v1.Health/Watch", &m.base);
    assert_false(http_conn_is_idle(h.client->conn));
    h2_cancel(&h, call);
    assert_true(http_conn_is_idle(h.client->conn));
    assert_false(h.has_goaway);
    http_conn_retire(h.client->conn);
    world_run(&world);
    h2_run(&h);
    assert_true(h.has_goaway);
    assert_int_equal(h.goaway_error, 0);
}

/* ---- health ---- */

static void health_is_checked_and_watched(void **state)
{
    Grpc__Health__V1__HealthCheckRequest m = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    struct h2_call *call = h2_unary(&h, "/grpc.health.v1.Health/Watch", &m.base);
    static const int expected[] = {
        GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING,
        GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING};
    for (int i = 0; i < 4; i++) {
        Grpc__Health__V1__HealthCheckResponse *r =
            h2_message(call, &grpc__health__v1__health_check_response__descriptor);
        assert_non_null(r);
        assert_int_equal(r->status, expected[i % 2]);
        grpc__health__v1__health_check_response__free_unpacked(r, NULL);
        world.gateway.status.serving = !world.gateway.status.serving;
        h2_run(&h);
    }
    m.service = text("nothing");
    h2_expect(h2_unary(&h, "/grpc.health.v1.Health/Check", &m.base), GRPC_NOT_FOUND, "not_found");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        TEST(a_session_opens_and_says_how_often_to_keep_it_alive),
        TEST(keep_alives_keep_it_and_ride_together),
        TEST(a_keep_alive_behind_one_in_flight_is_sent_after_it),
        TEST(a_close_releases_everything_at_once),
        TEST(a_session_that_is_not_kept_alive_hears_of_its_end),
        TEST(a_broken_stream_does_not_end_the_session_before_its_time),
        TEST(a_session_that_lingers_ends_so_long_after_its_stream),
        TEST(a_stream_that_was_taken_for_broken_is_raised_again),
        TEST(a_client_that_leaves_while_its_stream_is_raised_is_noticed),
        TEST(the_holder_is_requested_to_give_up_and_notified_of_loss),
        TEST(others_hear_nothing_of_it),
        TEST(without_a_leader_there_is_jeopardy),
        TEST(a_stream_begins_with_open_or_resume),
        TEST(a_draining_node_sends_its_sessions_elsewhere),
        TEST(events_that_were_skipped_end_the_stream),
        TEST(a_session_of_one_who_does_not_read_is_dropped),
        TEST(a_watch_shows_its_names_and_can_be_resumed),
        TEST(a_limited_watch_reports_what_it_skipped),
        TEST(a_deadline_ends_a_watch),
        TEST(a_watch_with_a_shut_window_is_dropped_with_a_word),
        TEST(a_connection_with_a_stream_is_not_idle_and_one_without_is_closed),
        TEST(health_is_checked_and_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
