/* Tests of gRPC, with nghttp2's own client and a real core, without sockets. */
#include "base_testing.h"

#include "h2_world.h"

#include <holdfast/v1/lock.pb-c.h>

#include "core/view.h"

#define LOCK "/holdfast.v1.LockService/"

static struct http_world world;
static struct h2_client h;

static int open_world(void **state)
{
    (void)state;
    world_open(&world, memory_system(), NULL);
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

/* ---- small helpers ---- */

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

static struct h2_call *lock_with(const char *name, const char *client, int64_t wait_ms,
                                 const char *request_id, const char *timeout)
{
    Holdfast__V1__LockRequest m = HOLDFAST__V1__LOCK_REQUEST__INIT;
    Google__Protobuf__Duration wait = ms(wait_ms);
    m.resource_id = (char *)(uintptr_t)name;
    m.client_id = (char *)(uintptr_t)client;
    m.request_id = (char *)(uintptr_t)request_id;
    m.wait_timeout = &wait;
    struct h2_call *call = h2_start(&h, LOCK "Lock", timeout);
    h2_put(&h, call, &m.base, true);
    return call;
}

static Holdfast__V1__LockResponse *lock_answer(struct h2_call *call)
{
    h2_expect(call, GRPC_OK, "");
    Holdfast__V1__LockResponse *m = h2_message(call, &holdfast__v1__lock_response__descriptor);
    assert_non_null(m);
    assert_null(h2_message(call, &holdfast__v1__lock_response__descriptor));
    return m;
}

static uint64_t lock(const char *name, const char *client)
{
    Holdfast__V1__LockResponse *m = lock_answer(lock_with(name, client, 0, "", NULL));
    assert_true(m->acquired);
    uint64_t token = m->lock_handle->fence_token;
    holdfast__v1__lock_response__free_unpacked(m, NULL);
    return token;
}

static bool unlock(const char *name, const char *client, uint64_t token)
{
    Holdfast__V1__UnlockRequest m = HOLDFAST__V1__UNLOCK_REQUEST__INIT;
    m.resource_id = (char *)(uintptr_t)name;
    m.client_id = (char *)(uintptr_t)client;
    m.fence_token = token;
    struct h2_call *call = h2_unary(&h, LOCK "Unlock", &m.base);
    h2_expect(call, GRPC_OK, "");
    Holdfast__V1__UnlockResponse *r = h2_message(call, &holdfast__v1__unlock_response__descriptor);
    bool is_released = r->released;
    assert_int_equal(r->reason, is_released ? HOLDFAST__V1__REASON__OK : r->reason);
    holdfast__v1__unlock_response__free_unpacked(r, NULL);
    return is_released;
}

static bool is_held(const char *name, uint32_t *queue_length)
{
    struct lock_view view;
    if (!view_lock(world.gateway.core, 0, slice_of(name), &view)) {
        *queue_length = 0;
        return false;
    }
    *queue_length = view.queue_length;
    return view.has_holder;
}

/* ---- one call, one answer ---- */

static void a_lock_is_taken_and_given_back(void **state)
{
    struct h2_call *call = lock_with("a/b", "me", 0, "", NULL);
    Holdfast__V1__LockResponse *m = lock_answer(call);
    assert_true(m->acquired);
    assert_string_equal(m->lock_handle->resource_id, "a/b");
    assert_int_equal(strlen(m->lock_handle->lease_id), 32);
    assert_int_equal(in_ms(m->lock_handle->expires_in), 30000);
    assert_int_equal(m->lock_handle->tier, HOLDFAST__V1__TIER__CORRECTNESS);
    assert_int_equal(m->lock_handle->mode, HOLDFAST__V1__MODE__EXCLUSIVE);
    assert_string_equal(h2_header(call, ":status"), "200");
    assert_string_equal(h2_header(call, "content-type"), "application/grpc+proto");
    uint64_t token = m->lock_handle->fence_token;
    holdfast__v1__lock_response__free_unpacked(m, NULL);
    m = lock_answer(lock_with("a/b", "you", 0, "", NULL));
    assert_false(m->acquired);
    assert_int_equal(m->reason, HOLDFAST__V1__REASON__HELD);
    assert_string_equal(m->holder->client_id, "me");
    holdfast__v1__lock_response__free_unpacked(m, NULL);
    assert_false(unlock("a/b", "me", token + 1));
    assert_true(unlock("a/b", "me", token));
}

static void an_error_has_its_status_and_its_code(void **state)
{
    h2_expect(lock_with("a//b", "me", 0, "", NULL), GRPC_INVALID_ARGUMENT, "invalid_name");
    h2_expect(lock_with("", "me", 0, "", NULL), GRPC_INVALID_ARGUMENT, "invalid_name");
    h2_expect(lock_with("a", "", 0, "", NULL), GRPC_INVALID_ARGUMENT, "field_missing");
    Holdfast__V1__LockRequest m = HOLDFAST__V1__LOCK_REQUEST__INIT;
    Google__Protobuf__Duration ttl = ms(5);
    m.resource_id = (char *)(uintptr_t) "a";
    m.client_id = (char *)(uintptr_t) "me";
    m.ttl = &ttl;
    h2_expect(h2_unary(&h, LOCK "Lock", &m.base), GRPC_INVALID_ARGUMENT, "field_range");
    ttl.seconds = -1;
    h2_expect(h2_unary(&h, LOCK "Lock", &m.base), GRPC_INVALID_ARGUMENT, "field_range");
    m.ttl = NULL;
    m.mode = (Holdfast__V1__Mode)77;
    h2_expect(h2_unary(&h, LOCK "Lock", &m.base), GRPC_INVALID_ARGUMENT, "invalid_mode");
    m.mode = HOLDFAST__V1__MODE__MODE_UNSPECIFIED;
    m.metadata = (char *)(uintptr_t) "1,\"x\":2";
    h2_expect(h2_unary(&h, LOCK "Lock", &m.base), GRPC_INVALID_ARGUMENT, "invalid_metadata");
    m.metadata = (char *)(uintptr_t) "";
    m.session_id = (char *)(uintptr_t) "0123456789abcdef0123456789abcdef";
    h2_expect(h2_unary(&h, LOCK "Lock", &m.base), GRPC_NOT_FOUND, "session_not_found");
    world.gateway.fails = HF_UNAVAILABLE;
    h2_expect(lock_with("a", "me", 0, "", NULL), GRPC_UNAVAILABLE, "unavailable");
    world.gateway.fails = HF_OUTCOME_UNKNOWN;
    struct h2_call *call = lock_with("a", "me", 0, "r1", NULL);
    h2_expect(call, GRPC_DEADLINE_EXCEEDED, "outcome_unknown");
    assert_string_equal(h2_header(call, "holdfast-request-id"), "r1");
}

static void metadata_is_kept_as_the_http_api_keeps_it(void **state)
{
    Holdfast__V1__LockRequest m = HOLDFAST__V1__LOCK_REQUEST__INIT;
    struct lock_view view;
    m.resource_id = (char *)(uintptr_t) "a";
    m.client_id = (char *)(uintptr_t) "me";
    m.metadata = (char *)(uintptr_t) "{ \"host\" : [1, 2.50] }";
    h2_expect(h2_unary(&h, LOCK "Lock", &m.base), GRPC_OK, "");
    assert_true(view_lock(world.gateway.core, 0, slice_of("a"), &view));
    assert_true(slice_equal(view.first.holder.metadata, slice_of("{\"host\":[1,2.50]}")));
}

static void raw(const char *path, const char *headers, const void *body, size_t len,
                enum grpc_status status, const char *code)
{
    char all[300];
    snprintf(all, sizeof(all), "content-type: application/grpc+proto\nte: trailers\n%s", headers);
    h2_expect(h2_request(&h, "POST", path, all, body, len, true), status, code);
}

static void bytes_that_are_no_call_are_refused(void **state)
{
    static const char one[] = "\0\0\0\0\2\22\0";
    raw(LOCK "Nothing", "", one, 7, GRPC_UNIMPLEMENTED, "grpc_method");
    raw("/x", "", one, 7, GRPC_UNIMPLEMENTED, "grpc_method");
    raw(LOCK "Lock", "grpc-encoding: gzip\n", one, 7, GRPC_UNIMPLEMENTED, "grpc_encoding");
    assert_string_equal(h2_header(&h.calls[h.count - 1], "grpc-accept-encoding"), "identity");
    raw(LOCK "Lock", "grpc-timeout: 5\n", one, 7, GRPC_INVALID_ARGUMENT, "grpc_timeout");
    raw(LOCK "Lock", "", "\1\0\0\0\2\22\0", 7, GRPC_UNIMPLEMENTED, "grpc_encoding");
    raw(LOCK "Lock", "", "\0\0\0\0", 4, GRPC_INTERNAL, "grpc_framing");
    raw(LOCK "Lock", "", "", 0, GRPC_INTERNAL, "grpc_framing");
    raw(LOCK "Lock", "", "\0\0\0\0\0\0\0\0\0\0", 10, GRPC_INTERNAL, "grpc_framing");
    raw(LOCK "Lock", "", "\0\0\4\0\1", 5, GRPC_RESOURCE_EXHAUSTED, "limit_message");
    raw(LOCK "Lock", "", "\0\0\0\0\1\22", 6, GRPC_INVALID_ARGUMENT, "proto_malformed");
    /* A name with a NUL is not the name before it, and one that is no UTF-8 is none. */
    raw(LOCK "Lock", "", "\0\0\0\0\11\22\3a\0b\62\2me", 14, GRPC_INVALID_ARGUMENT,
        "proto_malformed");
    raw(LOCK "Lock", "", "\0\0\0\0\11\22\3a\377b\62\2me", 14, GRPC_INVALID_ARGUMENT,
        "proto_malformed");
    uint32_t queue;
    assert_false(is_held("a", &queue));
}

static void fields_of_a_newer_version_are_passed_over(void **state)
{
    /* resource_id "a", client_id "me", and 200: "new", 201: 7 */
    static const char bytes[] = "\0\0\0\0\20\22\1a\62\2me\302\14\3new\310\14\7";
    raw(LOCK "Lock", "", bytes, 5 + 3 + 4 + 6 + 3, GRPC_OK, "");
    uint32_t queue;
    assert_true(is_held("a", &queue));
}

static void a_request_in_single_bytes_is_the_same(void **state)
{
    static const char bytes[] = "\0\0\0\0\7\22\1a\62\2me";
    struct h2_call *call = h2_start(&h, LOCK "Lock", NULL);
    for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
        h2_send(&h, call, bytes + i, 1, false);
        assert_false(call->is_closed);
    }
    h2_send(&h, call, NULL, 0, true);
    h2_expect(call, GRPC_OK, "");
}

/* ---- waiting ---- */

static void a_waiter_is_answered_when_its_turn_comes(void **state)
{
    uint64_t token = lock("n", "a");
    struct h2_call *waiter = lock_with("n", "b", -1, "", NULL);
    assert_false(waiter->is_closed);
    assert_true(unlock("n", "a", token));
    Holdfast__V1__LockResponse *m = lock_answer(waiter);
    assert_true(m->acquired && m->lock_handle->fence_token > token);
    holdfast__v1__lock_response__free_unpacked(m, NULL);
}

static void a_cancelled_waiter_leaves_its_queue(void **state)
{
    uint32_t queue;
    (void)lock("n", "a");
    struct h2_call *waiter = lock_with("n", "b", -1, "", NULL);
    struct h2_call *other = lock_with("n", "c", -1, "with-an-id", NULL);
    assert_true(is_held("n", &queue));
    assert_int_equal(queue, 2);
    h2_cancel(&h, waiter);
    assert_true(is_held("n", &queue));
    assert_int_equal(queue, 1);
    h2_cancel(&h, other); /* S7.3: one with an id keeps its place */
    assert_true(is_held("n", &queue));
    assert_int_equal(queue, 1);
    h2_pass(&h, 11000);
    assert_true(is_held("n", &queue));
    assert_int_equal(queue, 0);
}

static void a_grant_that_was_cancelled_on_its_way_is_given_back(void **state)
{
    uint32_t queue;
    world.gateway.is_held = true;
    struct h2_call *call = lock_with("n", "a", 0, "", NULL);
    h2_cancel(&h, call);
    world.gateway.is_held = false;
    h2_run(&h);
    assert_false(is_held("n", &queue));
    assert_int_equal(world.gateway.submitted[COMMAND_RELEASE], 1);
}

/* The answer is on its way when the client gives up: it never sees it. */
static void a_grant_whose_answer_was_not_taken_is_given_back(void **state)
{
    uint32_t queue;
    for (int is_written = 0; is_written < 2; is_written++) {
        h.client->is_deaf = true;
        world.gateway.is_held = true;
        struct h2_call *call = lock_with("n", "a", 0, "", NULL);
        struct h2_call *kept = lock_with("m", "a", 0, "id", NULL);
        world.gateway.is_held = false;
        world_run(&world);
        assert_true(is_held("n", &queue) && is_held("m", &queue));
        if (is_written) {
            h.client->is_deaf = false;
            world_run(&world); /* it has left the service, and waits in `got` */
        }
        assert_int_equal(nghttp2_submit_rst_stream(h.session, 0, call->id, NGHTTP2_CANCEL), 0);
        assert_int_equal(nghttp2_submit_rst_stream(h.session, 0, kept->id, NGHTTP2_CANCEL), 0);
        const uint8_t *data;
        for (ssize_t len; (len = nghttp2_session_mem_send(h.session, &data)) > 0;) {
            client_send_only(h.client, data, (size_t)len);
        }
        world_run(&world);
        assert_false(is_held("n", &queue));
        assert_true(is_held("m", &queue)); /* which can be requested again */
        h.client->is_deaf = false;
        h2_run(&h);
        assert_int_equal(world.gateway.submitted[COMMAND_RELEASE], 1 + is_written);
    }
}

static void a_client_that_vanished_loses_its_place(void **state)
{
    uint32_t queue;
    Holdfast__V1__LockRequest m = HOLDFAST__V1__LOCK_REQUEST__INIT;
    Google__Protobuf__Duration day = ms(86400000);
    m.resource_id = (char *)(uintptr_t) "n";
    m.client_id = (char *)(uintptr_t) "a";
    m.ttl = &day;
    h2_expect(h2_unary(&h, LOCK "Lock", &m.base), GRPC_OK, "");
    struct h2_call *waiter = lock_with("n", "b", -1, "", NULL);
    for (int i = 0; i < 30; i++) {
        h2_pass(&h, 10000); /* it answers pings */
    }
    assert_non_null(h.client->conn);
    assert_false(waiter->is_closed);
    world_pass(&world, 81000); /* nobody reads what is sent */
    assert_null(h.client->conn);
    world_run(&world);
    (void)is_held("n", &queue);
    assert_int_equal(queue, 0);
}

static void the_deadline_of_a_call_is_kept(void **state)
{
    uint32_t queue;
    (void)lock("n", "a");
    struct h2_call *waiter = lock_with("n", "b", -1, "", "500m");
    struct h2_call *named = lock_with("n", "c", -1, "id", "600m");
    h2_pass(&h, 499);
    assert_false(waiter->is_closed);
    h2_pass(&h, 2);
    h2_expect(waiter, GRPC_DEADLINE_EXCEEDED, "deadline_exceeded");
    h2_pass(&h, 100);
    h2_expect(named, GRPC_DEADLINE_EXCEEDED, "outcome_unknown");
    assert_string_equal(h2_header(named, "holdfast-request-id"), "id");
    assert_true(is_held("n", &queue));
    assert_int_equal(queue, 1); /* the one that can come back */
    h2_expect(lock_with("n", "d", 0, "", "0m"), GRPC_DEADLINE_EXCEEDED, "deadline_exceeded");
}

static void a_broken_connection_gives_back_what_was_not_written(void **state)
{
    uint32_t queue;
    h.client->is_deaf = true;
    (void)lock_with("n", "a", 0, "", NULL);
    (void)lock_with("m", "a", 0, "id", NULL);
    assert_true(is_held("n", &queue));
    client_close(h.client);
    world_run(&world);
    assert_false(is_held("n", &queue)); /* S7.2 */
    assert_true(is_held("m", &queue));
}

/* ---- the connection ---- */

static void the_settings_bound_what_a_client_may_do(void **state)
{
    assert_int_equal(h.settings[NGHTTP2_SETTINGS_HEADER_TABLE_SIZE], 512);
    assert_int_equal(h.settings[NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS], LIMIT_HTTP2_STREAMS);
    assert_int_equal(h.settings[NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE], LIMIT_HTTP_HEADER_BYTES);
}

static void draining_says_goaway_and_ends_the_waits(void **state)
{
    (void)lock("n", "a");
    struct h2_call *waiter = lock_with("n", "b", -1, "", NULL);
    service_drain(world.service);
    h2_run(&h);
    h2_expect(waiter, GRPC_UNAVAILABLE, "unavailable");
    assert_true(h.has_goaway);
    assert_int_equal(h.goaway_error, NGHTTP2_NO_ERROR);
    assert_int_equal(h.goaway_last, waiter->id);
    assert_null(h.client->conn); /* nothing is left to say */
}

static void draining_ends_requests_of_both_kinds_whatever_their_order(void **state)
{
    static const char wait[] = "{\"client_id\":\"w\",\"wait_timeout_ms\":-1}";
    struct h2_call *calls[12];
    (void)lock("n", "a");
    for (size_t i = 0; i < 12; i++) {
        calls[i] = i % 3 == 0 ? lock_with("n", "b", -1, "", NULL)
                              : h2_request(&h, "POST", "/api/v1/locks/n/acquire", "", wait,
                                           sizeof(wait) - 1, true);
    }
    service_drain(world.service);
    h2_run(&h);
    for (size_t i = 0; i < 12; i++) {
        assert_true(calls[i]->is_closed);
        assert_string_equal(h2_header(calls[i], ":status"), i % 3 == 0 ? "200" : "503");
    }
    assert_null(h.client->conn);
}

static void a_request_that_does_not_come_is_given_up(void **state)
{
    struct h2_call *call = h2_start(&h, LOCK "Lock", NULL);
    h2_send(&h, call, "\0\0", 2, false);
    h2_pass(&h, 9999);
    assert_false(call->is_closed);
    h2_pass(&h, 2);
    h2_expect(call, GRPC_DEADLINE_EXCEEDED, "request_timeout");
}

static void an_idle_connection_is_closed(void **state)
{
    h2_pass(&h, 299000);
    assert_false(h.has_goaway);
    h2_pass(&h, 2000);
    assert_true(h.has_goaway);
    assert_null(h.client->conn);
}

static void the_http_api_is_there_too(void **state)
{
    static const char body[] = "{\"client_id\":\"me\"}";
    struct h2_call *call = h2_request(&h, "POST", "/api/v1/locks/n/acquire",
                                      "content-type: application/json\n", body, 18, true);
    assert_string_equal(h2_header(call, ":status"), "200");
    assert_string_equal(h2_header(call, "content-type"), "application/json");
    expect_json((const char *)call->body, "acquired=true fencing_token=*");
    call = h2_request(&h, "GET", "/api/v1/locks/n?limit=x", "", NULL, 0, true);
    assert_string_equal(h2_header(call, ":status"), "400");
    expect_json((const char *)call->body, "error.code=\"field_type\"");
    call = h2_request(&h, "HEAD", "/livez", "", NULL, 0, true);
    assert_string_equal(h2_header(call, ":status"), "200");
    assert_string_equal(h2_header(call, "content-length"), "3");
    assert_int_equal(call->body_len, 0);
    call = h2_request(&h, "PROPFIND", "/livez", "", NULL, 0, true);
    assert_string_equal(h2_header(call, ":status"), "501");
    call = h2_request(&h, "GET", "/api/v1/watch", "", NULL, 0, true);
    assert_string_equal(h2_header(call, "content-type"), "text/event-stream");
    (void)lock("seen", "me");
    assert_non_null(strstr((const char *)call->body, "event: granted\n"));
    assert_false(call->is_closed);
}

static void headers_are_bounded(void **state)
{
    char many[80 * 12];
    size_t len = 0;
    for (int i = 0; i < 70; i++) {
        len += (size_t)snprintf(many + len, sizeof(many) - len, "x-%d: y\n", i);
    }
    struct h2_call *call = h2_request(&h, "GET", "/livez", many, NULL, 0, true);
    assert_string_equal(h2_header(call, ":status"), "431");
    expect_json((const char *)call->body, "error.code=\"limit_headers\"");
    char *large = malloc(20000);
    memset(large, 'y', 19999);
    memcpy(large, "x: ", 3);
    memcpy(large + 19998, "\n", 2);
    call = h2_request(&h, "GET", "/livez", large, NULL, 0, true);
    assert_string_equal(h2_header(call, ":status"), "431");
    expect_json((const char *)call->body, "error.code=\"limit_header_bytes\"");
    free(large);
}

static void bodies_that_do_not_end_are_bounded(void **state)
{
    uint8_t *piece = calloc(1, LIMIT_HTTP_BODY);
    size_t refused = 0;
    for (int i = 0; i < 5; i++) {
        struct h2_call *call = h2_request(&h, "POST", "/api/v1/locks/n/acquire", "", piece,
                                          LIMIT_HTTP_BODY - 1, false);
        if (call->is_closed) {
            assert_string_equal(h2_header(call, ":status"), "429");
            expect_json((const char *)call->body, "error.code=\"limit_bodies\"");
            refused++;
        }
    }
    assert_int_equal(refused, 1);
    free(piece);
}

static void resets_in_a_row_end_the_connection(void **state)
{
    (void)lock("n", "a");
    for (int i = 0; i <= LIMIT_HTTP2_RESETS; i++) {
        assert_false(h.has_goaway);
        h.count = 1; /* forget the calls, there is space for few */
        free(h.calls[1].body);
        free(h.calls[1].out);
        memset(&h.calls[1], 0, sizeof(h.calls[1]));
        h2_cancel(&h, lock_with("n", "b", -1, "", NULL));
    }
    assert_true(h.has_goaway);
    assert_int_equal(h.goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        TEST(a_lock_is_taken_and_given_back),
        TEST(an_error_has_its_status_and_its_code),
        TEST(metadata_is_kept_as_the_http_api_keeps_it),
        TEST(bytes_that_are_no_call_are_refused),
        TEST(fields_of_a_newer_version_are_passed_over),
        TEST(a_request_in_single_bytes_is_the_same),
        TEST(a_waiter_is_answered_when_its_turn_comes),
        TEST(a_cancelled_waiter_leaves_its_queue),
        TEST(a_grant_that_was_cancelled_on_its_way_is_given_back),
        TEST(a_grant_whose_answer_was_not_taken_is_given_back),
        TEST(a_client_that_vanished_loses_its_place),
        TEST(the_deadline_of_a_call_is_kept),
        TEST(a_broken_connection_gives_back_what_was_not_written),
        TEST(the_settings_bound_what_a_client_may_do),
        TEST(draining_says_goaway_and_ends_the_waits),
        TEST(draining_ends_requests_of_both_kinds_whatever_their_order),
        TEST(a_request_that_does_not_come_is_given_up),
        TEST(an_idle_connection_is_closed),
        TEST(the_http_api_is_there_too),
        TEST(headers_are_bounded),
        TEST(bodies_that_do_not_end_are_bounded),
        TEST(resets_in_a_row_end_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
