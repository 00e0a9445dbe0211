/* Who a call of gRPC or a stream of HTTP/2 comes from: its message may arrive while it waits for the
 * policy, and after its caller was revoked. */
#include "base_testing.h"

#include "h2_world.h"

#include <holdfast/v1/lock.pb-c.h>

#include "auth_testing.h"
#include "service/auth/state.h"

#define LOCK "/holdfast.v1.LockService/"

static struct http_world world;
static struct h2_client h;
static struct counted counted;

static int open_world(void **state)
{
    counted_init(&counted);
    world_open(&world, &counted.memory, &with_auth);
    put_policy(&world.gateway);
    world_run(&world);
    h2_open(&h, &world, true);
    return 0;
}

static int close_world(void **state)
{
    h2_close(&h);
    world_run(&world);
    assert_int_equal(world.service->auth->waits, 0);
    world_close(&world);
    assert_all_given_back(&counted);
    return 0;
}

static struct h2_call *start(const char *method, const char *token, const char *tenant)
{
    char path[100];
    char headers[400];
    (void)snprintf(path, sizeof(path), LOCK "%s", method);
    (void)snprintf(headers, sizeof(headers),
                   "content-type: application/grpc\nte: trailers\nauthorization: Bearer %s%s%s",
                   token,
                   tenant == NULL ? "" : "\nholdfast-tenant: ", tenant == NULL ? "" : tenant);
    return h2_request(&h, "POST", path, headers, NULL, 0, false);
}

static void put_lock(struct h2_call *call, const char *name, bool is_last)
{
    Holdfast__V1__LockRequest m = HOLDFAST__V1__LOCK_REQUEST__INIT;
    m.resource_id = (char *)(uintptr_t)name;
    m.client_id = (char *)(uintptr_t) "c";
    h2_put(&h, call, &m.base, is_last);
}

static bool is_granted(struct h2_call *call)
{
    Holdfast__V1__LockResponse *m = h2_message(call, &holdfast__v1__lock_response__descriptor);
    bool is_acquired = m != NULL && m->acquired;
    if (m != NULL) {
        holdfast__v1__lock_response__free_unpacked(m, NULL);
    }
    return is_acquired;
}

static void a_call_has_the_caller_of_its_metadata(void **state)
{
    struct h2_call *red = start("Lock", "t-red-lock", NULL);
    put_lock(red, "app/a", true);
    assert_true(is_granted(red));
    struct h2_call *blue = start("Lock", "t-default-root", "blue");
    put_lock(blue, "app/a", true);
    assert_true(is_granted(blue));
    struct h2_call *denied = start("Lock", "t-red-lock", NULL);
    put_lock(denied, "other", true);
    h2_expect(denied, GRPC_PERMISSION_DENIED, "denied");
    assert_non_null(strstr(h2_header(denied, "grpc-message"), "red/lock"));
    assert_int_equal(world.gateway.barriers, 0);
}

static void a_message_waits_with_its_call_for_the_policy(void **state)
{
    world.gateway.is_held = true;
    struct h2_call *call = start("Lock", "t-new", NULL);
    put_lock(call, "app/a", true);
    assert_false(call->is_closed);
    put_token(&world.gateway, "red", "lock", "t-new", 0);
    world.gateway.is_held = false;
    h2_run(&h);
    assert_true(is_granted(call));
    h2_expect(call, GRPC_OK, "");
}

static void a_message_may_come_after_the_wait(void **state)
{
    world.gateway.is_held = true;
    struct h2_call *call = start("Lock", "t-new", NULL);
    put_token(&world.gateway, "red", "lock", "t-new", 0);
    world.gateway.is_held = false;
    h2_run(&h);
    assert_false(call->is_closed);
    put_lock(call, "app/a", true);
    assert_true(is_granted(call));
}

static void an_unknown_token_is_refused_after_the_barrier(void **state)
{
    struct h2_call *call = start("Lock", "t-unknown", NULL);
    put_lock(call, "app/a", true);
    h2_pass(&h, 1000);
    h2_expect(call, GRPC_UNAUTHENTICATED, "unauthenticated");
    assert_int_equal(world.gateway.barriers, 1);
    assert_int_equal(world.gateway.submitted[COMMAND_ACQUIRE], 0);
}

static void a_call_whose_caller_is_revoked_before_its_message_is_denied(void **state)
{
    struct h2_call *call = start("Lock", "t-red-lock", NULL);
    struct h2_call *other = start("Lock", "t-red-admin", NULL);
    remove_token(&world.gateway, "t-red-lock");
    h2_run(&h);
    h2_expect(call, GRPC_PERMISSION_DENIED, "denied");
    put_lock(other, "app/b", true);
    assert_true(is_granted(other));
    assert_int_equal(world.gateway.submitted[COMMAND_ACQUIRE], 1);
}

static void a_call_that_is_cancelled_waits_no_more(void **state)
{
    world.gateway.is_held = true;
    struct h2_call *call = start("Lock", "t-unknown", NULL);
    assert_int_equal(world.service->auth->waits, 1);
    h2_cancel(&h, call);
    assert_int_equal(world.service->auth->waits, 0);
    world.gateway.is_held = false;
    h2_run(&h);
}

/* It is answered once, though its wait ends later. */
static void a_message_that_is_too_large_ends_the_wait(void **state)
{
    static uint8_t large[LIMIT_HTTP_BODY + 100];
    world.gateway.is_held = true;
    struct h2_call *call = start("Lock", "t-unknown", NULL);
    grpc_write_prefix(large, sizeof(large) - GRPC_PREFIX);
    h2_send(&h, call, large, sizeof(large), true);
    assert_int_equal(world.service->auth->waits, 0);
    world.gateway.is_held = false;
    h2_pass(&h, 1000);
    assert_true(call->is_closed);
}

static void a_deadline_ends_the_wait(void **state)
{
    world.gateway.is_held = true;
    struct h2_call *call = h2_request(&h, "POST", LOCK "Lock",
                                      "content-type: application/grpc\nte: trailers\n"
                                      "authorization: Bearer t-unknown\ngrpc-timeout: 500m",
                                      NULL, 0, false);
    put_lock(call, "app/a", true);
    h2_pass(&h, 600);
    h2_expect(call, GRPC_DEADLINE_EXCEEDED, "deadline_exceeded");
    world.gateway.is_held = false;
    h2_pass(&h, 1000);
}

static void a_request_of_http2_waits_with_its_body(void **state)
{
    static const char body[] = "{\"client_id\":\"c\"}";
    world.gateway.is_held = true;
    struct h2_call *call = h2_request(&h, "POST", "/api/v1/locks/app%2Fa/acquire",
                                      "authorization: Bearer t-new", body, sizeof(body) - 1, true);
    assert_false(call->is_closed);
    put_token(&world.gateway, "red", "lock", "t-new", 0);
    world.gateway.is_held = false;
    h2_run(&h);
    assert_true(call->is_closed);
    assert_string_equal(h2_header(call, ":status"), "200");
}

static void a_refusal_over_http2_names_the_scheme(void **state)
{
    struct h2_call *call = h2_request(&h, "GET", "/api/v1/locks", "accept: */*", NULL, 0, true);
    h2_run(&h);
    assert_string_equal(h2_header(call, ":status"), "401");
    assert_string_equal(h2_header(call, "www-authenticate"), "Bearer realm=\"holdfast\"");
}

static void a_revoked_connection_takes_no_new_stream(void **state)
{
    struct h2_call *call = start("Watch", "t-red-lock", NULL);
    Holdfast__V1__WatchRequest m = HOLDFAST__V1__WATCH_REQUEST__INIT;
    h2_put(&h, call, &m.base, true);
    assert_false(call->is_closed);
    remove_token(&world.gateway, "t-red-lock");
    h2_run(&h);
    h2_expect(call, GRPC_PERMISSION_DENIED, "denied");
    assert_true(h.has_goaway);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        T(a_call_has_the_caller_of_its_metadata),
        T(a_message_waits_with_its_call_for_the_policy),
        T(a_message_may_come_after_the_wait),
        T(an_unknown_token_is_refused_after_the_barrier),
        T(a_call_whose_caller_is_revoked_before_its_message_is_denied),
        T(a_call_that_is_cancelled_waits_no_more),
        T(a_message_that_is_too_large_ends_the_wait),
        T(a_deadline_ends_the_wait),
        T(a_request_of_http2_waits_with_its_body),
        T(a_refusal_over_http2_names_the_scheme),
        T(a_revoked_connection_takes_no_new_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
