/* The trace of an acquire over HTTP and gRPC: refusals, lists, watches and the audit trail show it;
 * an invalid one is refused; a state of version 4 drops it (S4.7). */
#include "http_testing.h"

#include "h2_world.h"

#include <holdfast/v1/admin.pb-c.h>
#include <holdfast/v1/election.pb-c.h>
#include <holdfast/v1/lock.pb-c.h>

#define A "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
#define B "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"
#define BODY(client, trace) "{\"client_id\":\"" client "\",\"trace\":\"" trace "\"}"
#define LOCK "/holdfast.v1.LockService/"
#define ADMIN "/holdfast.v1.AdminService/"
#define ELECTION "/holdfast.v1.ElectionService/"

static char *text_of(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* ---- HTTP ---- */

static void a_refusal_shows_the_trace_of_the_holder(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "POST", "/api/v1/locks/n/acquire", BODY("a", A), 200, "acquired=true");
    expect(c, "POST", "/api/v1/locks/n/acquire", BODY("b", B), 200,
           "acquired=false reason=\"held\" holder.trace=\"" A "\"");
    expect(c, "POST", "/api/v1/locks/m/acquire", "{\"client_id\":\"a\"}", 200, "acquired=true");
    expect(c, "POST", "/api/v1/locks/m/acquire", "{\"client_id\":\"b\"}", 200,
           "acquired=false holder.client_id=\"a\" holder.trace=-");
}

static void lists_show_the_traces_of_holders_and_waiters(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct http_client *waiter = world_client(&world, false);
    expect(c, "POST", "/api/v1/locks/n/acquire", BODY("a", A), 200, "acquired=true");
    struct reply r =
        client_request_to(waiter, "POST", "/api/v1/locks/n/acquire",
                          "{\"client_id\":\"b\",\"wait_timeout_ms\":9000,\"trace\":\"" B "\"}");
    assert_int_equal(r.status, 0); /* it waits */
    reply_free(&r);
    expect(c, "GET", "/api/v1/locks/n", NULL, 200,
           "holders.0.trace=\"" A "\" waiters.0.trace=\"" B "\"");
    expect(c, "GET", "/api/v1/locks", NULL, 200, "locks.0.holder.trace=\"" A "\"");
}

static void an_election_and_a_multi_lock_may_have_a_trace(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "POST", "/api/v1/elections/e/campaign",
           "{\"client_id\":\"a\",\"value\":\"x\",\"trace\":\"" A "\"}", 200, "elected=true");
    expect(c, "GET", "/api/v1/locks/e", NULL, 200, "holders.0.trace=\"" A "\"");
    expect(c, "POST", "/api/v1/multilock/acquire",
           "{\"client_id\":\"a\",\"names\":[\"x\",\"y\"],\"trace\":\"" B "\"}", 200,
           "acquired=true");
    expect(c, "GET", "/api/v1/locks/x", NULL, 200, "holders.0.trace=\"" B "\"");
    expect(c, "GET", "/api/v1/locks/y", NULL, 200, "holders.0.trace=\"" B "\"");
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        count++;
    }
    return count;
}

static void each_event_of_a_multi_lock_has_its_trace(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct http_client *w = world_client(&world, false);
    client_send(w, "GET /api/v1/watch HTTP/1.1\r\nHost: t\r\n\r\n");
    expect(c, "POST", "/api/v1/multilock/acquire",
           "{\"client_id\":\"a\",\"names\":[\"x\",\"y\",\"z\"],\"trace\":\"" A "\"}", 200,
           "acquired=true fencing_token=2048");
    expect(c, "POST", "/api/v1/multilock/release", "{\"client_id\":\"a\",\"fencing_token\":2048}",
           200, "released=true");
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"a\"}", 200, "acquired=true");
    char *text = client_stream(w);
    assert_int_equal(count_of(text, "event: granted"), 4);
    assert_int_equal(count_of(text, "event: released"), 3);
    assert_int_equal(count_of(text, "\"trace\":\"" A "\""), 6);
    assert_int_equal(count_of(text, "trace"), 6);
    free(text);
}

static void the_audit_trail_shows_the_trace_of_the_holder(void **state)
{
    struct http_client *c = world_client(&world, true);
    expect(c, "POST", "/api/v1/locks/n/acquire", BODY("a", A), 200, "acquired=true");
    expect(c, "POST", "/api/v1/locks/n/force-unlock", "{\"actor_id\":\"op\",\"reason\":\"stuck\"}",
           200, "");
    expect(c, "GET", "/api/v1/audit", NULL, 200, "records.0.trace=\"" A "\"");
}

static void an_invalid_trace_is_refused(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "POST", "/api/v1/locks/n/acquire", BODY("a", "00-1-2-3"), 400,
           "error.code=\"invalid_trace\"");
    expect(c, "POST", "/api/v1/locks/n/acquire", BODY("a", A "-0"), 400,
           "error.code=\"field_range\"");
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"trace\":7}", 400,
           "error.code=\"field_type\"");
    expect(c, "POST", "/api/v1/locks/n/acquire", BODY("a", ""), 200, "acquired=true");
}

static void a_retry_with_another_trace_gets_the_first_answer(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "POST", "/api/v1/locks/n/acquire",
           "{\"client_id\":\"a\",\"request_id\":\"r1\",\"trace\":\"" A "\"}", 200,
           "acquired=true fencing_token=2048");
    expect(c, "POST", "/api/v1/locks/n/acquire",
           "{\"client_id\":\"a\",\"request_id\":\"r1\",\"trace\":\"" B "\"}", 200,
           "acquired=true fencing_token=2048");
    expect(c, "POST", "/api/v1/locks/n/acquire",
           "{\"client_id\":\"a\",\"request_id\":\"r1\",\"ttl_ms\":5000,\"trace\":\"" A "\"}", 409,
           "error.code=\"request_id_reused\"");
    expect(c, "GET", "/api/v1/locks/n", NULL, 200, "holders.0.trace=\"" A "\"");
}

static void a_state_of_version_4_drops_the_trace(void **state)
{
    fake_gateway_start_over(&world.gateway, 4);
    struct http_client *c = world_client(&world, true);
    expect(c, "POST", "/api/v1/locks/n/acquire", BODY("a", A), 200, "acquired=true");
    expect(c, "POST", "/api/v1/locks/n/acquire", BODY("b", B), 200,
           "acquired=false reason=\"held\" holder.client_id=\"a\" holder.trace=-");
    expect(c, "POST", "/api/v1/locks/n/acquire", BODY("b", "00"), 400,
           "error.code=\"invalid_trace\"");
}

/* ---- gRPC ---- */

static struct h2_client h;

static int set_up_grpc(void **state)
{
    (void)set_up(state);
    h2_open(&h, &world, true);
    return 0;
}

static int tear_down_grpc(void **state)
{
    h2_close(&h);
    world_run(&world);
    return tear_down(state);
}

static struct h2_call *lock_over_grpc(const char *client, const char *trace)
{
    Holdfast__V1__LockRequest m = HOLDFAST__V1__LOCK_REQUEST__INIT;
    m.resource_id = text_of("n");
    m.client_id = text_of(client);
    m.trace = text_of(trace);
    return h2_unary(&h, LOCK "Lock", &m.base);
}

static void grpc_refusals_and_lists_show_traces(void **state)
{
    h2_expect(lock_over_grpc("a", A), GRPC_OK, "");
    struct h2_call *call = lock_over_grpc("b", B);
    h2_expect(call, GRPC_OK, "");
    Holdfast__V1__LockResponse *m = h2_message(call, &holdfast__v1__lock_response__descriptor);
    assert_false(m->acquired);
    assert_string_equal(m->holder->trace, A);
    holdfast__v1__lock_response__free_unpacked(m, NULL);

    Holdfast__V1__LockRequest wait = HOLDFAST__V1__LOCK_REQUEST__INIT;
    Google__Protobuf__Duration nine = GOOGLE__PROTOBUF__DURATION__INIT;
    nine.seconds = 9;
    wait.resource_id = text_of("n");
    wait.client_id = text_of("c");
    wait.trace = text_of(B);
    wait.wait_timeout = &nine;
    (void)h2_unary(&h, LOCK "Lock", &wait.base);
    Holdfast__V1__ShowRequest request = HOLDFAST__V1__SHOW_REQUEST__INIT;
    request.resource_id = text_of("n");
    call = h2_unary(&h, ADMIN "Show", &request.base);
    h2_expect(call, GRPC_OK, "");
    Holdfast__V1__ShowResponse *shown = h2_message(call, &holdfast__v1__show_response__descriptor);
    assert_int_equal(shown->n_holders, 1);
    assert_string_equal(shown->holders[0]->holder->trace, A);
    assert_int_equal(shown->n_waiters, 1);
    assert_string_equal(shown->waiters[0]->trace, B);
    holdfast__v1__show_response__free_unpacked(shown, NULL);
}

static void grpc_events_and_audit_records_show_traces(void **state)
{
    Holdfast__V1__WatchRequest watch = HOLDFAST__V1__WATCH_REQUEST__INIT;
    struct h2_call *stream = h2_start(&h, LOCK "Watch", NULL);
    h2_put(&h, stream, &watch.base, true);
    h2_expect(lock_over_grpc("a", A), GRPC_OK, "");
    Holdfast__V1__ForceUnlockRequest force = HOLDFAST__V1__FORCE_UNLOCK_REQUEST__INIT;
    force.resource_id = text_of("n");
    force.actor_id = text_of("op");
    force.reason = text_of("stuck");
    h2_expect(h2_unary(&h, ADMIN "ForceUnlock", &force.base), GRPC_OK, "");
    unsigned traced = 0;
    Holdfast__V1__Event *e;
    while ((e = h2_message(stream, &holdfast__v1__event__descriptor)) != NULL) {
        traced += strcmp(e->trace, A) == 0;
        holdfast__v1__event__free_unpacked(e, NULL);
    }
    assert_true(traced >= 2); /* granted, forced */
    Holdfast__V1__AuditRequest audit = HOLDFAST__V1__AUDIT_REQUEST__INIT;
    struct h2_call *call = h2_unary(&h, ADMIN "Audit", &audit.base);
    h2_expect(call, GRPC_OK, "");
    Holdfast__V1__AuditResponse *r = h2_message(call, &holdfast__v1__audit_response__descriptor);
    assert_int_equal(r->n_records, 1);
    assert_string_equal(r->records[0]->trace, A);
    holdfast__v1__audit_response__free_unpacked(r, NULL);
}

static void grpc_campaigns_and_multi_locks_have_traces(void **state)
{
    struct lock_view view;
    Holdfast__V1__CampaignRequest campaign = HOLDFAST__V1__CAMPAIGN_REQUEST__INIT;
    campaign.name = text_of("e");
    campaign.client_id = text_of("a");
    campaign.trace = text_of(A);
    h2_expect(h2_unary(&h, ELECTION "Campaign", &campaign.base), GRPC_OK, "");
    assert_true(view_lock(world.gateway.core, 0, slice_of("e"), &view));
    assert_true(slice_equal(view.first.holder.trace, slice_of(A)));
    Holdfast__V1__MultiLockRequest multi = HOLDFAST__V1__MULTI_LOCK_REQUEST__INIT;
    char *names[] = {text_of("x"), text_of("y")};
    multi.resource_ids = names;
    multi.n_resource_ids = 2;
    multi.client_id = text_of("a");
    multi.trace = text_of(B);
    h2_expect(h2_unary(&h, LOCK "MultiLock", &multi.base), GRPC_OK, "");
    assert_true(view_lock(world.gateway.core, 0, slice_of("y"), &view));
    assert_true(slice_equal(view.first.holder.trace, slice_of(B)));
}

static void grpc_refuses_an_invalid_trace(void **state)
{
    h2_expect(lock_over_grpc("a", "00-1-2-3"), GRPC_INVALID_ARGUMENT, "invalid_trace");
    h2_expect(lock_over_grpc("a", A "-0"), GRPC_INVALID_ARGUMENT, "invalid_trace");
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define G(name) cmocka_unit_test_setup_teardown(name, set_up_grpc, tear_down_grpc)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_refusal_shows_the_trace_of_the_holder),
        T(lists_show_the_traces_of_holders_and_waiters),
        T(an_election_and_a_multi_lock_may_have_a_trace),
        T(each_event_of_a_multi_lock_has_its_trace),
        T(the_audit_trail_shows_the_trace_of_the_holder),
        T(an_invalid_trace_is_refused),
        T(a_retry_with_another_trace_gets_the_first_answer),
        T(a_state_of_version_4_drops_the_trace),
        G(grpc_refusals_and_lists_show_traces),
        G(grpc_events_and_audit_records_show_traces),
        G(grpc_campaigns_and_multi_locks_have_traces),
        G(grpc_refuses_an_invalid_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
