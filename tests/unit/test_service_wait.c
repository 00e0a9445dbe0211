/* Waits that are held open, and what becomes of them when the client goes (S7). */
#include "service_waiting.h"

/* ---- waiting ---- */

static void a_wait_is_held_open_until_the_grant(void **state)
{
    struct http_client *a = holder("a");
    struct http_client *b =
        waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":60000,\"ttl_ms\":7000}");
    struct http_client *d = waiter("{\"client_id\":\"d\",\"wait_timeout_ms\":-1}");
    world_pass(&world, 5000);
    expect_nothing(b);
    release(a, "a", 2048);
    expect_reply(b, 200, "acquired=true fencing_token=3072 lease_id=* expires_in_ms=7000 tier=*");
    expect_nothing(d);
    release(b, "b", 3072);
    expect_reply(d, 200, "acquired=true fencing_token=4096");
}

static void a_wait_ends_in_time_and_says_who_is_in_the_way(void **state)
{
    (void)holder("a");
    struct http_client *b = waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":5000}");
    struct http_client *d = waiter("{\"client_id\":\"d\",\"wait_timeout_ms\":9000}");
    world_pass(&world, 4999);
    expect_nothing(b);
    world_pass(&world, 1);
    expect_reply(b, 200,
                 "acquired=false reason=\"timeout\" holder.client_id=\"a\" "
                 "holder.expires_in_ms=25000 queue_length=1 fencing_token=-");
    expect_nothing(d);
    expect(b, "GET", "/livez", NULL, 200, NULL); /* the connection goes on */
}

static void a_wait_of_hours_works(void **state)
{
    struct http_client *a = holder("a");
    struct http_client *b = waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":36000000}");
    for (int i = 0; i < 1000; i++) {
        world_pass(&world, 20000);
        expect(a, "POST", "/api/v1/locks/n/renew", "{\"client_id\":\"a\",\"fencing_token\":2048}",
               200, "renewed=true");
    }
    expect_nothing(b);
    release(a, "a", 2048);
    expect_reply(b, 200, "acquired=true");
}

static void a_multi_lock_waits_for_all_its_names(void **state)
{
    struct http_client *a = holder("a");
    struct http_client *b = world_client(&world, false);
    (void)client_request_to(
        b, "POST", "/api/v1/multilock/acquire",
        "{\"client_id\":\"b\",\"names\":[\"m\",\"n\"],\"wait_timeout_ms\":1000}");
    expect_nothing(b);
    release(a, "a", 2048);
    expect_reply(b, 200, "acquired=true fencing_token=3072");
    expect(a, "POST", "/api/v1/multilock/release", "{\"client_id\":\"b\",\"fencing_token\":3072}",
           200, "released=true");
}

static void the_end_of_the_session_ends_its_waits(void **state)
{
    (void)holder("a");
    struct http_client *b = world_client(&world, false);
    struct reply r =
        client_request_to(b, "POST", "/api/v1/sessions", "{\"client_id\":\"b\",\"ttl_ms\":2000}");
    char *id = json_text_at(r.body, "session_id");
    char body[200];
    (void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\",\"wait_timeout_ms\":60000}", id);
    reply_free(&r);
    (void)client_request_to(b, "POST", TARGET, body);
    world_pass(&world, 2000);
    expect_reply(b, 410, "error.code=\"session_expired\"");
    free(id);
}

static void a_deadlock_is_explained(void **state)
{
    struct http_client *c[2] = {world_client(&world, false), world_client(&world, false)};
    char *ids[2];
    char body[300];
    for (int i = 0; i < 2; i++) {
        struct reply r =
            client_request_to(c[i], "POST", "/api/v1/sessions",
                              i == 0 ? "{\"client_id\":\"a\"}" : "{\"client_id\":\"b\"}");
        ids[i] = json_text_at(r.body, "session_id");
        reply_free(&r);
        (void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\"}", ids[i]);
        expect(c[i], "POST", i == 0 ? TARGET : "/api/v1/locks/m/acquire", body, 200,
               "acquired=true");
    }
    (void)snprintf(body, sizeof(body),
                   "{\"session_id\":\"%s\",\"wait_timeout_ms\":-1,\"detect_deadlock\":true}",
                   ids[0]);
    (void)client_request_to(c[0], "POST", "/api/v1/locks/m/acquire", body);
    expect_nothing(c[0]);
    (void)snprintf(body, sizeof(body),
                   "{\"session_id\":\"%s\",\"wait_timeout_ms\":-1,\"detect_deadlock\":true}",
                   ids[1]);
    expect(c[1], "POST", TARGET, body, 200,
           "acquired=false reason=\"deadlock\" cycle.0.client_id=\"b\" cycle.0.waits_for=\"n\" "
           "cycle.1.client_id=\"a\" cycle.1.waits_for=\"m\" cycle.2=-");
    free(ids[0]);
    free(ids[1]);
}

/* ---- the client goes (S7.2, S7.3) ---- */

static void who_closes_without_an_id_leaves_the_queue_at_once(void **state)
{
    struct http_client *a = holder("a");
    struct http_client *b = waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":-1}");
    struct http_client *d = waiter("{\"client_id\":\"d\",\"wait_timeout_ms\":-1}");
    assert_int_equal(look().queue_length, 2);
    client_close(b);
    world_run(&world);
    assert_int_equal(look().queue_length, 1);
    release(a, "a", 2048);
    expect_reply(d, 200, "acquired=true");
}

static void the_end_of_input_counts_as_closing_for_one_who_waits(void **state)
{
    (void)holder("a");
    struct http_client *b = waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":-1}");
    http_conn_end(b->conn);
    world_run(&world);
    assert_null(b->conn);
    assert_int_equal(look().queue_length, 0);
    struct http_client *d = world_client(&world, false);
    const char *text = "POST " TARGET " HTTP/1.1\r\nHost: t\r\nContent-Length: 17\r\n\r\n"
                       "{\"client_id\":\"d\"}";
    client_send_only(d, text, strlen(text));
    http_conn_end(d->conn); /* printf ... | nc */
    world_run(&world);
    expect_reply(d, 200, "acquired=false");
    assert_null(d->conn);
}

static void who_closes_with_an_id_keeps_the_place(void **state)
{
    struct http_client *a = holder("a");
    const char *body = "{\"client_id\":\"b\",\"wait_timeout_ms\":60000,\"request_id\":\"r1\"}";
    struct http_client *b = waiter(body);
    struct http_client *d = waiter("{\"client_id\":\"d\",\"wait_timeout_ms\":-1}");
    client_close(b);
    world_run(&world);
    assert_int_equal(world.gateway.submitted[COMMAND_DETACH], 1);
    assert_int_equal(look().queue_length, 2);
    world_pass(&world, 9000);
    struct http_client *again = waiter(body);
    release(a, "a", 2048);
    expect_reply(again, 200, "acquired=true fencing_token=3072");
    expect_nothing(d);
    expect(again, "POST", TARGET, body, 200, "acquired=true fencing_token=3072 replayed=true");
}

static void the_header_is_a_synonym_for_the_id(void **state)
{
    (void)holder("a");
    struct http_client *b = world_client(&world, false);
    client_send(b, "POST " TARGET " HTTP/1.1\r\nHost: t\r\nIdempotency-Key: r1\r\n"
                   "Content-Length: 38\r\n\r\n{\"client_id\":\"b\",\"wait_timeout_ms\":-1}");
    expect_nothing(b);
    client_close(b);
    world_run(&world);
    assert_int_equal(world.gateway.submitted[COMMAND_DETACH], 1);
    world_pass(&world, 10000);
    assert_int_equal(look().queue_length, 0); /* it did not come back */
    struct http_client *d = world_client(&world, false);
    client_send(d, "POST " TARGET " HTTP/1.1\r\nHost: t\r\nIdempotency-Key: r1\r\n"
                   "Content-Length: 37\r\n\r\n{\"client_id\":\"b\",\"request_id\":\"else\"}");
    expect_reply(d, 400, "error.code=\"invalid_request_id\"");
}

static void the_newer_connection_counts(void **state)
{
    struct http_client *a = holder("a");
    const char *body = "{\"client_id\":\"b\",\"wait_timeout_ms\":60000,\"request_id\":\"r1\"}";
    struct http_client *b = waiter(body);
    struct http_client *again = waiter(body);
    expect_reply(b, 200, "acquired=false reason=\"superseded\"");
    client_close(b);
    world_run(&world);
    assert_int_equal(look().queue_length, 1);
    release(a, "a", 2048);
    expect_reply(again, 200, "acquired=true");
}

static void an_id_with_another_body_is_refused(void **state)
{
    struct http_client *a = holder("a");
    expect(a, "POST", "/api/v1/locks/m/acquire", "{\"client_id\":\"a\",\"request_id\":\"r\"}", 200,
           "acquired=true");
    expect(a, "POST", "/api/v1/locks/m/acquire",
           "{\"client_id\":\"a\",\"request_id\":\"r\",\"ttl_ms\":5000}", 409,
           "error.code=\"request_id_reused\"");
    expect(a, "POST", "/api/v1/locks/m/release",
           "{\"client_id\":\"a\",\"fencing_token\":3072,\"request_id\":\"r\"}", 200,
           "released=true");
    expect(a, "POST", "/api/v1/locks/m/release",
           "{\"client_id\":\"a\",\"fencing_token\":3072,\"request_id\":\"r\"}", 200,
           "released=true");
    /* What was granted then is not held now, and must not be taken for it. */
    expect(a, "POST", "/api/v1/locks/m/acquire", "{\"client_id\":\"a\",\"request_id\":\"r\"}", 200,
           "acquired=false reason=\"already_released\" ended=\"released\" replayed=true");
}

static void a_grant_whose_answer_is_not_written_is_released(void **state)
{
    struct http_client *b = world_client(&world, false);
    b->is_deaf = true;
    (void)client_request_to(b, "POST", TARGET, "{\"client_id\":\"b\"}");
    assert_int_equal(look().holders, 1);
    client_close(b);
    world_run(&world);
    assert_int_equal(look().holders, 0);
    /* The same after a wait. */
    struct http_client *a = holder("a");
    struct http_client *d = waiter("{\"client_id\":\"d\",\"wait_timeout_ms\":-1}");
    d->is_deaf = true;
    release(a, "a", 3072);
    assert_int_equal(look().holders, 1);
    client_close(d);
    world_run(&world);
    assert_int_equal(look().holders, 0);
}

static void a_grant_whose_answer_is_written_stays(void **state)
{
    struct http_client *b = world_client(&world, false);
    expect(b, "POST", TARGET, "{\"client_id\":\"b\"}", 200, "acquired=true");
    client_close(b);
    world_run(&world);
    assert_int_equal(look().holders, 1);
    /* Partly written is not written. */
    struct http_client *c = world_client(&world, false);
    c->is_deaf = true;
    (void)client_request_to(c, "POST", "/api/v1/locks/m/acquire", "{\"client_id\":\"c\"}");
    http_conn_written(c->conn, http_conn_output(c->conn).len - 1);
    client_close(c);
    world_run(&world);
    struct lock_view lock;
    assert_false(view_lock(world.gateway.core, 0, slice_of("m"), &lock));
}

static void a_grant_that_can_be_requested_again_is_kept(void **state)
{
    struct http_client *b = world_client(&world, false);
    const char *body = "{\"client_id\":\"b\",\"request_id\":\"r\"}";
    b->is_deaf = true;
    (void)client_request_to(b, "POST", TARGET, body);
    client_close(b);
    world_run(&world);
    assert_int_equal(look().holders, 1);
    struct http_client *again = world_client(&world, false);
    expect(again, "POST", TARGET, body, 200, "acquired=true fencing_token=2048 replayed=true");
}

static void who_goes_while_the_answer_is_under_way_leaves_nothing_behind(void **state)
{
    struct http_client *b = world_client(&world, false);
    world.gateway.is_held = true;
    (void)client_request_to(b, "POST", TARGET, "{\"client_id\":\"b\"}"); /* will be granted */
    client_close(b);
    world.gateway.is_held = false;
    world_run(&world);
    assert_int_equal(world.gateway.submitted[COMMAND_RELEASE], 1);
    assert_int_equal(look().holders, 0);
    (void)holder("a");
    struct http_client *d = world_client(&world, false);
    world.gateway.is_held = true;
    (void)client_request_to(d, "POST", TARGET, "{\"client_id\":\"d\",\"wait_timeout_ms\":-1}");
    client_close(d);
    world.gateway.is_held = false;
    world_run(&world);
    assert_int_equal(world.gateway.submitted[COMMAND_CANCEL], 1);
    assert_int_equal(look().queue_length, 0);
}

static void a_cancel_that_comes_too_late_becomes_a_release(void **state)
{
    (void)holder("a");
    struct http_client *b = waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":-1}");
    world.gateway.is_held = true;
    client_close(b);
    world_run(&world);
    struct command c;
    struct result r;
    command_init(&c, COMMAND_RELEASE);
    c.release.name = slice_of("n");
    c.release.token = 2048;
    fake_gateway_apply(&world.gateway, &c, &r); /* the holder goes first */
    assert_int_equal(look().holders, 1);
    world.gateway.is_held = false;
    world_run(&world);
    assert_int_equal(look().holders, 0);
}

static void cleanups_are_tried_until_they_are_done(void **state)
{
    (void)holder("a");
    struct http_client *b = waiter("{\"client_id\":\"b\",\"wait_timeout_ms\":-1}");
    world.gateway.fails = HF_UNAVAILABLE;
    client_close(b);
    world_pass(&world, 5000);
    assert_int_equal(look().queue_length, 1);
    assert_in_range(world.gateway.submitted[COMMAND_CANCEL], 5, 12);
    world.gateway.fails = HF_OK;
    world_pass(&world, 500);
    assert_int_equal(look().queue_length, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_wait_is_held_open_until_the_grant),
        T(a_wait_ends_in_time_and_says_who_is_in_the_way),
        T(a_wait_of_hours_works),
        T(a_multi_lock_waits_for_all_its_names),
        T(the_end_of_the_session_ends_its_waits),
        T(a_deadlock_is_explained),
        T(who_closes_without_an_id_leaves_the_queue_at_once),
        T(the_end_of_input_counts_as_closing_for_one_who_waits),
        T(who_closes_with_an_id_keeps_the_place),
        T(the_header_is_a_synonym_for_the_id),
        T(the_newer_connection_counts),
        T(an_id_with_another_body_is_refused),
        T(a_grant_whose_answer_is_not_written_is_released),
        T(a_grant_whose_answer_is_written_stays),
        T(a_grant_that_can_be_requested_again_is_kept),
        T(who_goes_while_the_answer_is_under_way_leaves_nothing_behind),
        T(a_cancel_that_comes_too_late_becomes_a_release),
        T(cleanups_are_tried_until_they_are_done),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
