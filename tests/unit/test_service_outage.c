/* What becomes of requests and waits when the cluster cannot be reached, when the node is out of
 * touch, and when it stops (S7.3, S8.4). */
#include "service_waiting.h"

/* ---- the cluster goes (S8.4) ---- */

static void unavailable_promises_that_nothing_was_done(void **state)
{
    struct http_client *c = world_client(&world, false);
    world.gateway.fails = HF_UNAVAILABLE;
    struct reply r = client_request_to(c, "POST", TARGET, "{\"client_id\":\"a\"}");
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.head, "Retry-After: 1\r\n"));
    expect_json(r.body, "error.code=\"unavailable\" error.message=*");
    reply_free(&r);
    expect(c, "GET", "/api/v1/locks", NULL, 503, "error.code=\"unavailable\"");
    world.gateway.fails = HF_BUSY;
    expect(c, "POST", TARGET, "{\"client_id\":\"a\"}", 503, "error.code=\"busy\"");
}

/* A request under conditions where nobody knows what happened; the answer names an id. */
static char *pending_in_the_dark(struct http_client *c, const char *target, const char *body)
{
    world.gateway.fails = HF_OUTCOME_UNKNOWN;
    struct reply r = client_request_to(c, "POST", target, body);
    world.gateway.fails = HF_OK;
    assert_int_equal(r.status, 504);
    expect_json(r.body, "error.code=\"outcome_unknown\" error.request_id=*");
    char *id = json_text_at(r.body, "error.request_id");
    reply_free(&r);
    return id;
}

static void an_unknown_outcome_can_be_requested_again(void **state)
{
    struct http_client *c = world_client(&world, false);
    char body[300];
    for (int done = 0; done < 2; done++) {
        world.gateway.does_before = done;
        char *id = pending_in_the_dark(c, TARGET, "{\"client_id\":\"a\",\"ttl_ms\":5000}");
        (void)snprintf(body, sizeof(body),
                       "{\"client_id\":\"a\",\"ttl_ms\":5000,\"request_id\":\"%s\"}", id);
        struct reply r = client_request_to(c, "POST", TARGET, body);
        expect_json(r.body, done ? "acquired=true replayed=true" : "acquired=true replayed=-");
        uint64_t token = json_number_at(r.body, "fencing_token");
        reply_free(&r);
        free(id);
        (void)snprintf(body, sizeof(body), "{\"client_id\":\"a\",\"fencing_token\":%llu}",
                       (unsigned long long)token);
        id = pending_in_the_dark(c, "/api/v1/locks/n/release", body);
        (void)snprintf(body, sizeof(body),
                       "{\"client_id\":\"a\",\"fencing_token\":%llu,\"request_id\":\"%s\"}",
                       (unsigned long long)token, id);
        expect(c, "POST", "/api/v1/locks/n/release", body, 200, "released=true reason=\"ok\"");
        free(id);
    }
    world.gateway.does_before = true;
    char *id = pending_in_the_dark(c, "/api/v1/sessions", "{\"client_id\":\"a\"}");
    (void)snprintf(body, sizeof(body), "{\"client_id\":\"a\",\"request_id\":\"%s\"}", id);
    expect(c, "POST", "/api/v1/sessions", body, 200, "session_id=* replayed=true");
    expect(c, "GET", "/api/v1/sessions", NULL, 200, "sessions.0=* sessions.1=-");
    free(id);
}

static void the_clients_own_id_is_named(void **state)
{
    struct http_client *c = world_client(&world, false);
    char *id = pending_in_the_dark(c, TARGET, "{\"client_id\":\"a\",\"request_id\":\"mine\"}");
    assert_string_equal(id, "mine");
    free(id);
}

static void a_wait_in_the_dark_keeps_its_place_for_a_while(void **state)
{
    struct http_client *a = holder("a");
    struct http_client *b = world_client(&world, false);
    char body[200];
    world.gateway.does_before = true;
    char *id = pending_in_the_dark(b, TARGET, "{\"client_id\":\"b\",\"wait_timeout_ms\":60000}");
    world_run(&world);
    world_pass(&world, 600);
    assert_int_equal(world.gateway.submitted[COMMAND_DETACH], 1);
    assert_int_equal(look().queue_length, 1);
    (void)snprintf(body, sizeof(body),
                   "{\"client_id\":\"b\",\"wait_timeout_ms\":60000,\"request_id\":\"%s\"}", id);
    (void)client_request_to(b, "POST", TARGET, body);
    expect_nothing(b);
    release(a, "a", 2048);
    expect_reply(b, 200, "acquired=true");
    free(id);
}

static void who_is_gone_in_the_dark_leaves_nothing_behind(void **state)
{
    for (int waits = 0; waits < 2; waits++) {
        struct http_client *b = world_client(&world, false);
        world.gateway.is_held = true;
        (void)client_request_to(b, "POST", TARGET,
                                waits ? "{\"client_id\":\"b\",\"wait_timeout_ms\":-1}"
                                      : "{\"client_id\":\"b\"}");
        client_close(b);
        world.gateway.is_held = false;
        world.gateway.fails = HF_OUTCOME_UNKNOWN;
        world.gateway.does_before = true;
        (void)fake_gateway_deliver(&world.gateway);
        world.gateway.fails = HF_OK;
        assert_int_equal(look().holders, 1);
        world_pass(&world, 600);
        assert_int_equal(look().holders, 0);
    }
}

static void a_wait_that_nobody_can_end_is_answered_within_bounds(void **state)
{
    (void)holder("a");
    struct http_client *b = waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":3000}");
    struct http_client *d = waiter("{\"client_id\":\"d\",\"wait_timeout_ms\":-1}");
    world.gateway.fails = HF_UNAVAILABLE;
    uint64_t stopped_ms = world.gateway.cluster_ms;
    for (int i = 0; i < 35; i++) { /* no leader, no time in the log */
        expect_nothing(b);
        world.gateway.boot_ms += 100;
        world_run(&world);
        world.gateway.cluster_ms = stopped_ms;
    }
    expect_reply(b, 504, "error.code=\"outcome_unknown\" error.request_id=*");
    expect_nothing(d); /* this one requested it */
}

/* The node requests the end of the wait shortly after it, and says how long that may take. */
static void a_wait_without_an_end_is_requested_with_a_limit(void **state)
{
    (void)holder("a");
    struct http_client *b = world_client(&world, false);
    world.gateway.is_held = true;
    (void)client_request_to(b, "POST", TARGET, "{\"client_id\":\"b\",\"wait_timeout_ms\":3000}");
    assert_int_equal(world.gateway.first->call->within_ms, 3500);
    world.gateway.is_held = false;
    world_run(&world);
    world.gateway.is_held = true;
    world.gateway.boot_ms += 3249;
    world_run(&world);
    assert_null(world.gateway.first);
    world.gateway.boot_ms += 1;
    world_run(&world);
    assert_non_null(world.gateway.first);
    assert_int_equal(world.gateway.first->call->within_ms, 250);
    expect_nothing(b);
    /* A short wait has time to find the next leader; one without a request to wait has all of it. */
    struct http_client *d = world_client(&world, false);
    (void)client_request_to(d, "POST", TARGET, "{\"client_id\":\"d\",\"wait_timeout_ms\":1}");
    assert_int_equal(world.gateway.last->call->within_ms, 2000);
    struct http_client *e = world_client(&world, false);
    (void)client_request_to(e, "POST", TARGET, "{\"client_id\":\"e\",\"wait_timeout_ms\":-1}");
    assert_int_equal(world.gateway.last->call->within_ms, 0);
    struct http_client *g = world_client(&world, false);
    (void)client_request_to(g, "POST", TARGET, "{\"client_id\":\"g\"}");
    assert_int_equal(world.gateway.last->call->within_ms, 0);
}

/* A level too many would free what the client still holds. */
static void a_level_of_a_re_entered_lock_is_given_back_once(void **state)
{
    struct http_client *a = world_client(&world, false);
    struct reply r = client_request_to(a, "POST", "/api/v1/sessions", "{\"client_id\":\"a\"}");
    char *id = json_text_at(r.body, "session_id");
    reply_free(&r);
    char body[200];
    (void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\",\"reentrant\":true}", id);
    expect(a, "POST", TARGET, body, 200, "acquired=true");
    expect(a, "POST", TARGET, body, 200, "acquired=true depth=2");
    struct http_client *b = world_client(&world, false);
    b->is_deaf = true;
    (void)client_request_to(b, "POST", TARGET, body);
    assert_int_equal(look().first.depth, 3);
    client_close(b);
    world.gateway.fails = HF_OUTCOME_UNKNOWN;
    world.gateway.does_before = true;
    world_pass(&world, 2000);
    world.gateway.fails = HF_OK;
    world_pass(&world, 1000);
    assert_int_equal(look().first.depth, 2);
    free(id);
}

/* Enters twice, and returns the body to enter again with, which the caller frees. */
static char *enter_twice(struct http_client *a)
{
    struct reply r = client_request_to(a, "POST", "/api/v1/sessions", "{\"client_id\":\"a\"}");
    char *id = json_text_at(r.body, "session_id");
    reply_free(&r);
    char *body = malloc(300);
    (void)snprintf(body, 300, "{\"session_id\":\"%s\",\"reentrant\":true}", id);
    expect(a, "POST", TARGET, body, 200, "acquired=true");
    expect(a, "POST", TARGET, body, 200, "acquired=true depth=2");
    free(id);
    return body;
}

/* The node sends it to the next leader when it does not know what became of it at the last. */
static void an_acquire_that_enters_again_is_counted_once_however_often_it_is_sent(void **state)
{
    struct http_client *a = world_client(&world, false);
    char *body = enter_twice(a);
    struct result first;
    world.gateway.is_held = true;
    (void)client_request_to(a, "POST", TARGET, body);
    fake_gateway_apply(&world.gateway, &world.gateway.first->command, &first);
    assert_int_equal(first.depth, 3);
    world.gateway.is_held = false;
    world_run(&world);
    expect_reply(a, 200, "acquired=true depth=3 replayed=true");
    assert_int_equal(look().first.depth, 3);
    free(body);
}

static void a_reentrant_acquire_with_an_unknown_outcome_can_be_requested_again(void **state)
{
    struct http_client *a = world_client(&world, false);
    char *body = enter_twice(a);
    for (int done = 0; done < 2; done++) {
        world.gateway.does_before = done;
        char *id = pending_in_the_dark(a, TARGET, body);
        char again[400];
        (void)snprintf(again, sizeof(again), "%.*s,\"request_id\":\"%s\"}", (int)strlen(body) - 1,
                       body, id);
        for (int i = 0; i < 2; i++) {
            expect(a, "POST", TARGET, again, 200,
                   done ? "acquired=true depth=4" : "acquired=true depth=3");
        }
        free(id);
    }
    free(body);
}

static void a_level_that_was_entered_in_the_dark_is_given_back_for_who_is_gone(void **state)
{
    struct http_client *a = world_client(&world, false);
    char *body = enter_twice(a);
    struct http_client *b = world_client(&world, false);
    world.gateway.is_held = true;
    (void)client_request_to(b, "POST", TARGET, body);
    client_close(b);
    world.gateway.is_held = false;
    world.gateway.fails = HF_OUTCOME_UNKNOWN;
    world.gateway.does_before = true;
    (void)fake_gateway_deliver(&world.gateway);
    world.gateway.fails = HF_OK;
    assert_int_equal(look().first.depth, 3);
    world_pass(&world, 600);
    assert_int_equal(look().first.depth, 2);
    free(body);
}

/* ---- the node is out of touch (S7.3) ---- */

static void a_node_that_was_taken_for_dead_attaches_its_waiters_again(void **state)
{
    struct http_client *a = holder("a");
    struct http_client *b = waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":60000}");
    struct http_client *d =
        waiter("{\"client_id\":\"d\",\"wait_timeout_ms\":60000,\"request_id\":\"r\"}");
    struct command c;
    struct result r;
    command_init(&c, COMMAND_NODE_GONE);
    c.node_gone.node = 1;
    fake_gateway_apply(&world.gateway, &c, &r);
    world_run(&world);
    world_pass(&world, 15000); /* longer than a detached one keeps its place */
    assert_int_equal(look().queue_length, 2);
    release(a, "a", 2048);
    expect_reply(b, 200, "acquired=true");
    release(b, "b", 3072);
    expect_reply(d, 200, "acquired=true");
}

static void a_new_state_is_queried_about_old_waits(void **state)
{
    (void)holder("a");
    struct http_client *b = waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":60000}");
    struct http_client *d = waiter("{\"client_id\":\"d\",\"wait_timeout_ms\":60000}");
    struct http_client *e =
        waiter("{\"client_id\":\"e\",\"wait_timeout_ms\":1000,\"request_id\":\"r\"}");
    world.gateway.service = NULL; /* the events of this are lost */
    struct command c;
    struct result r;
    command_init(&c, COMMAND_RELEASE);
    c.release.name = slice_of("n");
    c.release.token = 2048;
    fake_gateway_apply(&world.gateway, &c, &r);
    fake_gateway_pass(&world.gateway, 1000);
    world.gateway.service = world.service;
    service_state_replaced(world.service);
    world_run(&world);
    expect_reply(b, 200, "acquired=true fencing_token=3072");
    expect_nothing(d);
    expect_reply(e, 200, "acquired=false reason=\"timeout\"");
    release(b, "b", 3072);
    expect_reply(d, 200, "acquired=true");
}

static void a_repeated_wait_does_not_start_over(void **state)
{
    (void)holder("a");
    struct http_client *b = waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":5000}");
    world_pass(&world, 3000);
    service_state_replaced(world.service);
    world_run(&world);
    expect_nothing(b);
    world_pass(&world, 1999);
    expect_nothing(b);
    world_pass(&world, 1);
    expect_reply(b, 200, "acquired=false reason=\"timeout\"");
}

/* The wait was lost with the state, so it begins anew, with what is left of its time. */
static void a_lost_wait_gets_the_rest_of_its_time(void **state)
{
    (void)holder("a");
    struct http_client *b = waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":5000}");
    world_pass(&world, 3000);
    struct command c;
    struct result r;
    command_init(&c, COMMAND_CANCEL);
    uint64_t drawn = world.gateway.drawn; /* the waiter's lease was the last */
    c.cancel.lease =
        (struct id){UINT64_C(0x1d1d1d1d00000000) | drawn, drawn * UINT64_C(0x9e3779b97f4a7c15)};
    c.cancel.attachment = 1;
    world.gateway.service = NULL;
    fake_gateway_apply(&world.gateway, &c, &r);
    assert_int_equal(r.outcome, OUTCOME_DONE);
    world.gateway.service = world.service;
    service_state_replaced(world.service);
    world_run(&world);
    assert_int_equal(look().queue_length, 1);
    world_pass(&world, 1999);
    expect_nothing(b);
    world_pass(&world, 1);
    expect_reply(b, 200, "acquired=false reason=\"timeout\"");
}

/* On a follower the log may be ahead of the leader's answer. */
static void an_event_may_come_before_its_result(void **state)
{
    struct http_client *a = holder("a");
    struct http_client *b = world_client(&world, false);
    struct http_client *d = world_client(&world, false);
    (void)a;
    world.gateway.is_late = true;
    (void)client_request_to(b, "POST", TARGET, "{\"client_id\":\"b\",\"wait_timeout_ms\":60000}");
    (void)client_request_to(d, "POST", TARGET, "{\"client_id\":\"d\",\"wait_timeout_ms\":500}");
    fake_gateway_pass(&world.gateway, 500);
    struct command c;
    struct result r;
    command_init(&c, COMMAND_RELEASE);
    c.release.name = slice_of("n");
    c.release.token = 2048;
    fake_gateway_apply(&world.gateway, &c, &r);
    expect_nothing(b);
    world.gateway.is_late = false;
    fake_gateway_tell(&world.gateway); /* QUEUED, QUEUED */
    world_run(&world);
    expect_reply(b, 200, "acquired=true fencing_token=3072 expires_in_ms=30000");
    expect_reply(d, 200, "acquired=false reason=\"timeout\" holder.client_id=\"b\"");
}

static void an_early_event_that_was_pushed_out_is_requested(void **state)
{
    struct http_client *a = holder("a");
    struct http_client *b = world_client(&world, false);
    (void)a;
    world.gateway.is_late = true;
    (void)client_request_to(b, "POST", TARGET, "{\"client_id\":\"b\",\"wait_timeout_ms\":60000}");
    struct command c;
    struct result r;
    command_init(&c, COMMAND_RELEASE);
    c.release.name = slice_of("n");
    c.release.token = 2048;
    fake_gateway_apply(&world.gateway, &c, &r);
    /* Other waits through this node that nobody here knows of, and their ends. */
    struct command wait;
    command_init(&wait, COMMAND_ACQUIRE);
    wait.acquire.node = 1;
    wait.acquire.client = slice_of("x");
    wait.acquire.names.count = 1;
    wait.acquire.names.at[0] = slice_of("n");
    wait.acquire.ttl_ms = 1000;
    wait.acquire.wait_ms = 1;
    for (uint64_t i = 0; i < 5000; i++) {
        wait.acquire.lease = (struct id){7, i + 1};
        fake_gateway_apply(&world.gateway, &wait, &r);
        fake_gateway_pass(&world.gateway, 1);
    }
    world.gateway.is_late = false;
    fake_gateway_tell(&world.gateway);
    world_run(&world);
    expect_reply(b, 200, "acquired=true fencing_token=3072 expires_in_ms=25000");
}

/* ---- the end ---- */

static void a_draining_node_sends_everybody_elsewhere(void **state)
{
    struct http_client *a = holder("a");
    struct http_client *b = waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":-1}");
    struct http_client *d =
        waiter("{\"client_id\":\"d\",\"wait_timeout_ms\":-1,\"request_id\":\"r\"}");
    struct http_client *stream = world_client(&world, false);
    client_send(stream, "GET /api/v1/watch HTTP/1.1\r\nHost: t\r\n\r\n");
    struct http_client *busy = world_client(&world, false);
    world.gateway.is_held = true;
    (void)client_request_to(busy, "POST", "/api/v1/locks/m/acquire", "{\"client_id\":\"z\"}");
    service_drain(world.service);
    world.gateway.is_held = false;
    world_run(&world);
    expect_reply(b, 503, "error.code=\"unavailable\"");
    expect_reply(d, 503, "error.code=\"unavailable\"");
    struct reply r = client_reply(busy);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "Connection: close\r\n"));
    reply_free(&r);
    char *text = client_stream(stream);
    assert_non_null(strstr(text, "event: dropped\n"));
    free(text);
    assert_null(a->conn);
    assert_null(b->conn);
    assert_null(stream->conn);
    assert_int_equal(look().queue_length, 1); /* the place of the one with an id */
    struct http_client *late = world_client(&world, false);
    struct reply ready = client_request_to(late, "GET", "/readyz", NULL);
    assert_int_equal(ready.status, 503);
    reply_free(&ready);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(unavailable_promises_that_nothing_was_done),
        T(an_unknown_outcome_can_be_requested_again),
        T(the_clients_own_id_is_named),
        T(a_wait_in_the_dark_keeps_its_place_for_a_while),
        T(who_is_gone_in_the_dark_leaves_nothing_behind),
        T(a_wait_that_nobody_can_end_is_answered_within_bounds),
        T(a_wait_without_an_end_is_requested_with_a_limit),
        T(a_level_of_a_re_entered_lock_is_given_back_once),
        T(an_acquire_that_enters_again_is_counted_once_however_often_it_is_sent),
        T(a_reentrant_acquire_with_an_unknown_outcome_can_be_requested_again),
        T(a_level_that_was_entered_in_the_dark_is_given_back_for_who_is_gone),
        T(a_node_that_was_taken_for_dead_attaches_its_waiters_again),
        T(a_new_state_is_queried_about_old_waits),
        T(a_repeated_wait_does_not_start_over),
        T(a_lost_wait_gets_the_rest_of_its_time),
        T(an_event_may_come_before_its_result),
        T(an_early_event_that_was_pushed_out_is_requested),
        T(a_draining_node_sends_everybody_elsewhere),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
