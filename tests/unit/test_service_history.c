/* The history of a lock over HTTP and gRPC, on a real core whose events the test keeps. */
#include "http_testing.h"

#include <holdfast/v1/admin.pb-c.h>

#include "fake_event_log.h"
#include "h2_world.h"

#define ADMIN "/holdfast.v1.AdminService/"
#define NAME "n"
#define HISTORY "/api/v1/locks/" NAME "/history"
/* The clock begins at 2024-11-15T08:49:37.123Z. */
#define AT(seconds) "2024-11-15T08:49:" seconds ".123Z"

static struct fake_event_log event_log;

static int set_up_with_log(void **state)
{
    (void)set_up(state);
    event_log.count = event_log.first = 0;
    event_log.text_len = 0;
    world.gateway.on_event = fake_log_on_event;
    world.gateway.on_event_ctx = &event_log;
    return 0;
}

/* The answer after all searches. */
static void expect_history(struct http_client *c, const char *target, int status,
                           const char *expected)
{
    char text[400];
    (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: t\r\n\r\n", target);
    client_send(c, text);
    world_run(&world);
    while (fake_log_answer(&event_log, &world.gateway, slice_of(NAME))) {
        world_run(&world);
    }
    struct reply r = client_reply(c);
    if (r.status != status) {
        fail_msg("%s: %d instead of %d: %s", target, r.status, status,
                 r.body == NULL ? "" : r.body);
    }
    expect_json(r.body, expected);
    reply_free(&r);
}

static uint64_t take(struct http_client *c, const char *client, const char *more)
{
    char body[300];
    (void)snprintf(body, sizeof(body), "{\"client_id\":\"%s\"%s}", client, more);
    struct reply r = client_request_to(c, "POST", "/api/v1/locks/" NAME "/acquire", body);
    assert_int_equal(r.status, 200);
    uint64_t token = json_number_at(r.body, "fencing_token");
    reply_free(&r);
    return token;
}

static void give_back(struct http_client *c, const char *client, uint64_t token)
{
    char body[200];
    (void)snprintf(body, sizeof(body), "{\"client_id\":\"%s\",\"fencing_token\":%llu}", client,
                   (unsigned long long)token);
    expect(c, "POST", "/api/v1/locks/" NAME "/release", body, 200, "released=true");
}

static void operate(struct http_client *c, const char *verb, const char *more)
{
    char path[100];
    char body[200];
    (void)snprintf(path, sizeof(path), "/api/v1/locks/" NAME "/%s", verb);
    (void)snprintf(body, sizeof(body), "{\"actor_id\":\"olga\",\"reason\":\"hangs\"%s}", more);
    expect(c, "POST", path, body, 200, "holders=1");
}

/* One hold of each end, from second 37; the last is still held at second 56. */
static void each_end(struct http_client *c)
{
    give_back(c, "released", take(c, "released", ""));
    (void)take(c, "expired", ",\"ttl_ms\":2000");
    world_pass(&world, 3000);
    (void)take(c, "forced", "");
    world_pass(&world, 1000);
    operate(c, "force-unlock", ",\"now\":true");
    (void)take(c, "revoked", "");
    operate(c, "revoke", ",\"deadline_ms\":3000");
    world_pass(&world, 4000);
    (void)take(c, "long", ",\"max_hold_ms\":2000");
    world_pass(&world, 3000);
    char *session = open_session(c, "{\"client_id\":\"closed\"}");
    char more[100];
    (void)snprintf(more, sizeof(more), "{\"session_id\":\"%s\"}", session);
    expect(c, "POST", "/api/v1/locks/" NAME "/acquire", more, 200, "acquired=true");
    char path[100];
    (void)snprintf(path, sizeof(path), "/api/v1/sessions/%s", session);
    expect(c, "DELETE", path, NULL, 200, NULL);
    free(session);
    session = open_session(c, "{\"client_id\":\"dead\",\"ttl_ms\":4000}");
    (void)snprintf(more, sizeof(more), "{\"session_id\":\"%s\"}", session);
    free(session);
    expect(c, "POST", "/api/v1/locks/" NAME "/acquire", more, 200, "acquired=true");
    world_pass(&world, 5000);
    (void)take(c, "holder", ",\"owner\":\"o\",\"ttl_ms\":60000");
    world_pass(&world, 3000);
}

static void a_list_tells_how_each_hold_ended(void **state)
{
    struct http_client *c = world_client(&world, true);
    (void)state;
    each_end(c);
    expect_history(
        c, HISTORY, 200,
        "name=\"n\" node=1 next_cursor=- complete_since=- gaps.0=- "
        "holds.0.client_id=\"holder\" holds.0.owner=\"o\" holds.0.held=true holds.0.ended=- "
        "holds.0.ended_at=- holds.0.held_ms=3000 holds.0.waited_ms=0 holds.0.fencing_token=* "
        "holds.0.lease_id=* holds.0.mode=\"exclusive\" holds.0.tier=\"CORRECTNESS\" "
        "holds.1.client_id=\"dead\" holds.1.ended=\"session_expired\" holds.1.held=false "
        "holds.1.session_id=* "
        "holds.2.client_id=\"closed\" holds.2.ended=\"session_closed\" "
        "holds.3.client_id=\"long\" holds.3.ended=\"max_hold\" "
        "holds.4.client_id=\"revoked\" holds.4.ended=\"revoked\" holds.4.actor_id=\"olga\" "
        "holds.4.reason=\"hangs\" "
        "holds.5.client_id=\"forced\" holds.5.ended=\"forced\" holds.5.actor_id=\"olga\" "
        "holds.5.reason=\"hangs\" holds.5.held_ms=1000 "
        "holds.6.client_id=\"expired\" holds.6.ended=\"expired\" "
        "holds.7.client_id=\"released\" holds.7.ended=\"released\" holds.7.held_ms=0 "
        "holds.7.acquired_at=\"" AT("37") "\" holds.7.ended_at=\"" AT("37") "\" holds.8=-");
}

static void a_list_has_pages_and_a_range(void **state)
{
    struct http_client *c = world_client(&world, true);
    (void)state;
    each_end(c);
    char target[200] = HISTORY "?limit=3";
    static const char *const pages[] = {
        "holds.0.client_id=\"holder\" holds.3.client_id=\"long\" holds.4=- next_cursor=*",
        "holds.0.client_id=\"revoked\" holds.2.client_id=\"expired\" holds.3=- next_cursor=*",
        "holds.0.client_id=\"released\" holds.1=- next_cursor=-",
    };
    for (unsigned i = 0; i < 3; i++) {
        (void)snprintf(target, sizeof(target),
                       "GET " HISTORY "?limit=3%s%s HTTP/1.1\r\nHost: t\r\n\r\n",
                       i == 0 ? "" : "&cursor=", i == 0 ? "" : target + 150);
        client_send(c, target);
        world_run(&world);
        while (fake_log_answer(&event_log, &world.gateway, slice_of(NAME))) {
            world_run(&world);
        }
        struct reply r = client_reply(c);
        expect_json(r.body, pages[i]);
        if (i < 2) {
            char *cursor = json_text_at(r.body, "next_cursor");
            (void)snprintf(target + 150, sizeof(target) - 150, "%s", cursor);
            free(cursor);
        }
        reply_free(&r);
    }
    expect_history(c, HISTORY "?since=" AT("41") "&until=" AT("44"), 200,
                   "holds.0.client_id=\"revoked\" holds.1.client_id=\"forced\" holds.2=-");
    expect_history(c, HISTORY "?since=4s", 200,
                   "holds.0.client_id=\"holder\" holds.1.client_id=\"dead\" holds.2=-");
}

static void a_moment_has_its_holder_up_to_its_edges(void **state)
{
    struct http_client *c = world_client(&world, true);
    (void)state;
    uint64_t first = take(c, "a", "");
    world_pass(&world, 5000);
    give_back(c, "a", first);
    world_pass(&world, 5000);
    uint64_t second = take(c, "b", "");
    world_pass(&world, 5000);
    expect_history(c, HISTORY "?at=2024-11-15T08:49:37.122Z", 200,
                   "answer=\"free\" certain=true holds.0=- previous=-");
    expect_history(c, HISTORY "?at=2024-11-15T08:49:37.123Z", 200,
                   "answer=\"held\" certain=true holds.0.client_id=\"a\" holds.1=- previous=-");
    expect_history(c, HISTORY "?at=2024-11-15T08:49:42.122Z", 200,
                   "answer=\"held\" holds.0.client_id=\"a\" holds.0.ended=\"released\"");
    expect_history(c, HISTORY "?at=2024-11-15T08:49:42.123Z", 200,
                   "answer=\"free\" certain=true holds.0=- previous.client_id=\"a\" "
                   "previous.ended_at=\"2024-11-15T08:49:42.123Z\"");
    expect_history(c, HISTORY "?at=2024-11-15T08:49:47.122Z", 200, "answer=\"free\"");
    expect_history(c, HISTORY "?at=5s", 200,
                   "answer=\"held\" holds.0.client_id=\"b\" holds.0.held=true "
                   "holds.0.held_ms=5000 at=\"2024-11-15T08:49:47.123Z\"");
    give_back(c, "b", second);
    expect_history(c, HISTORY "?at=0s", 200, "answer=\"free\" previous.client_id=\"b\"");
    event_log.first = event_log.count; /* the log of this node begins now */
    event_log.events[event_log.first].wall_ms = world.gateway.wall_ms;
    expect_history(c, HISTORY "?at=5s", 200, "answer=\"unknown\" certain=false complete_since=*");
    expect_history(c, HISTORY, 200, "holds.0=- complete_since=*");
}

static void a_moment_may_have_several_holders(void **state)
{
    struct http_client *c = world_client(&world, true);
    (void)state;
    uint64_t a = take(c, "a", ",\"mode\":\"shared\"");
    world_pass(&world, 1000);
    (void)take(c, "b", ",\"mode\":\"shared\",\"ttl_ms\":60000");
    world_pass(&world, 1000);
    give_back(c, "a", a);
    world_pass(&world, 1000);
    expect_history(c, HISTORY "?at=2s", 200,
                   "answer=\"held\" certain=true holds.0.client_id=\"a\" "
                   "holds.1.client_id=\"b\" holds.2=-");
    expect_history(c, HISTORY "?at=1s", 200, "holds.0.client_id=\"b\" holds.1=-");
}

static void the_wait_of_a_holder_is_shown(void **state)
{
    struct http_client *c = world_client(&world, true);
    struct http_client *w = world_client(&world, true);
    (void)state;
    uint64_t first = take(c, "a", "");
    client_send(w, "POST /api/v1/locks/" NAME "/acquire HTTP/1.1\r\nHost: t\r\nContent-Length: "
                   "40\r\n\r\n{\"client_id\":\"w\",\"wait_timeout_ms\":9000}");
    world_run(&world);
    world_pass(&world, 4000);
    give_back(c, "a", first);
    world_run(&world);
    struct reply r = client_reply(w);
    expect_json(r.body, "acquired=true");
    reply_free(&r);
    expect_history(c, HISTORY, 200,
                   "holds.0.client_id=\"w\" holds.0.waited_ms=4000 holds.1.client_id=\"a\"");
}

/* S4.4 */
static void only_operators_see_tokens_and_ids(void **state)
{
    struct http_client *boss = world_client(&world, true);
    struct http_client *c = world_client(&world, false);
    (void)state;
    each_end(boss);
    expect_history(c, HISTORY, 200,
                   "holds.0.fencing_token=- holds.0.session_id=- holds.0.lease_id=- "
                   "holds.1.fencing_token=- holds.1.session_id=- holds.1.lease_id=- "
                   "holds.1.client_id=*");
    expect_history(c, HISTORY "?at=1s", 200,
                   "holds.0.client_id=* holds.0.fencing_token=- holds.0.lease_id=-");
}

static void invalid_queries_are_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"at=noon", "field_type"},
        {"at=", "field_type"},
        {"at=2999-01-01T00:00:00Z", "field_range"},
        {"at=1h&since=2h", "field_range"},
        {"at=1h&until=2h", "field_range"},
        {"at=1h&cursor=1-2-3", "field_range"},
        {"since=1h&until=2h", "field_range"},
        {"cursor=12", "field_range"},
        {"cursor=x", "field_range"},
        {"limit=0", "field_range"},
        {"limit=1001", "field_range"},
        {"prefix=a", "field_unknown"},
    };
    struct http_client *c = world_client(&world, true);
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char target[200];
        char error[100];
        (void)snprintf(target, sizeof(target), HISTORY "?%s", wrong[i][0]);
        (void)snprintf(error, sizeof(error), "error.code=\"%s\"", wrong[i][1]);
        expect(c, "GET", target, NULL, 400, error);
    }
    expect(c, "GET", "/api/v1/locks/a/../history", NULL, 400, "error.code=\"invalid_name\"");
    assert_int_equal(world.gateway.scans, 0);
    /* A lock whose name ends so: with the slash escaped. */
    expect(c, "GET", "/api/v1/locks/n%2Fhistory", NULL, 200, "name=\"n/history\" held=false");
}

static void without_a_log_there_is_no_history(void **state)
{
    struct http_client *c = world_client(&world, true);
    (void)state;
    client_send(c, "GET " HISTORY " HTTP/1.1\r\nHost: t\r\n\r\n");
    world_run(&world);
    struct gateway_scan_call *call = world.gateway.scan;
    assert_non_null(call);
    world.gateway.scan = NULL;
    call->done(call, HF_EVENT_LOG, NULL, "the log is broken");
    world_run(&world);
    struct reply r = client_reply(c);
    assert_int_equal(r.status, 503);
    expect_json(r.body, "error.code=\"event_log_unavailable\"");
    reply_free(&r);
    client_send(c, "GET " HISTORY " HTTP/1.1\r\nHost: t\r\n\r\n");
    world_run(&world);
    assert_non_null(world.gateway.scan);
    client_close(c);
    assert_null(world.gateway.scan);
}

/* What was found is answered when the time is over. */
static void a_long_search_ends_in_time(void **state)
{
    struct http_client *c = world_client(&world, true);
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        client_send(c, i == 0 ? "GET " HISTORY " HTTP/1.1\r\nHost: t\r\n\r\n"
                              : "GET " HISTORY "?at=1s HTTP/1.1\r\nHost: t\r\n\r\n");
        for (unsigned pages = 0; world.gateway.scan != NULL; pages++) {
            struct gateway_scan_call *call = world.gateway.scan;
            struct event_page page = {.more = true, .next = {100 - pages, 0, 0}};
            assert_true(pages < 8);
            world.gateway.scan = NULL;
            call->done(call, HF_OK, &page, NULL);
            world_pass(&world, 1000);
        }
        struct reply r = client_reply(c);
        assert_int_equal(r.status, 200);
        expect_json(r.body, i == 0 ? "next_cursor=*" : "answer=\"unknown\" certain=false");
        reply_free(&r);
    }
}

static char *text_of(const char *text)
{
    return (char *)(uintptr_t)text;
}

static Holdfast__V1__HistoryResponse *over_grpc(struct h2_client *h,
                                                const Holdfast__V1__HistoryRequest *request)
{
    struct h2_call *call = h2_unary(h, ADMIN "History", &request->base);
    while (fake_log_answer(&event_log, &world.gateway, slice_of(NAME))) {
        h2_run(h);
    }
    h2_expect(call, GRPC_OK, "");
    return h2_message(call, &holdfast__v1__history_response__descriptor);
}

static void grpc_has_the_same_history(void **state)
{
    static struct h2_client h;
    struct http_client *c = world_client(&world, true);
    Google__Protobuf__Timestamp at = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    Holdfast__V1__HistoryRequest q = HOLDFAST__V1__HISTORY_REQUEST__INIT;
    (void)state;
    each_end(c);
    h2_open(&h, &world, true);
    q.resource_id = text_of(NAME);
    q.limit = 5;
    Holdfast__V1__HistoryResponse *r = over_grpc(&h, &q);
    assert_int_equal(r->n_holds, 6);
    assert_true(r->holds[0]->held && r->holds[0]->fence_token != 0);
    assert_string_equal(r->holds[0]->ended, "");
    assert_string_equal(r->holds[5]->ended, "forced");
    assert_string_equal(r->holds[5]->actor_id, "olga");
    assert_int_equal(r->holds[5]->held_for->seconds, 1);
    assert_int_equal(r->answer, HOLDFAST__V1__HISTORY_ANSWER__HISTORY_ANSWER_UNSPECIFIED);
    assert_null(r->complete_since);
    char cursor[100];
    (void)snprintf(cursor, sizeof(cursor), "%s", r->next_cursor);
    holdfast__v1__history_response__free_unpacked(r, NULL);
    q.cursor = cursor;
    r = over_grpc(&h, &q);
    assert_int_equal(r->n_holds, 2);
    assert_string_equal(r->next_cursor, "");
    holdfast__v1__history_response__free_unpacked(r, NULL);
    q.cursor = text_of("");
    at.seconds = INT64_C(1731660577) + 4;
    at.nanos = 122000000;
    q.at = &at;
    r = over_grpc(&h, &q);
    assert_int_equal(r->answer, HOLDFAST__V1__HISTORY_ANSWER__HISTORY_HELD);
    assert_string_equal(r->holds[0]->client_id, "forced");
    assert_true(r->certain && r->previous == NULL);
    holdfast__v1__history_response__free_unpacked(r, NULL);
    q.cursor = text_of("1-2-3");
    h2_expect(h2_unary(&h, ADMIN "History", &q.base), GRPC_INVALID_ARGUMENT, "field_range");
    q.cursor = text_of("");
    at.seconds = INT64_C(32472144000);
    h2_expect(h2_unary(&h, ADMIN "History", &q.base), GRPC_INVALID_ARGUMENT, "field_range");
    q.at = NULL;
    q.resource_id = text_of("");
    h2_expect(h2_unary(&h, ADMIN "History", &q.base), GRPC_INVALID_ARGUMENT, "invalid_name");
    h2_close(&h);
}

#define HISTORY_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_with_log, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY_TEST(a_list_tells_how_each_hold_ended),
        HISTORY_TEST(a_list_has_pages_and_a_range),
        HISTORY_TEST(a_moment_has_its_holder_up_to_its_edges),
        HISTORY_TEST(a_moment_may_have_several_holders),
        HISTORY_TEST(the_wait_of_a_holder_is_shown),
        HISTORY_TEST(only_operators_see_tokens_and_ids),
        HISTORY_TEST(invalid_queries_are_refused),
        HISTORY_TEST(without_a_log_there_is_no_history),
        HISTORY_TEST(a_long_search_ends_in_time),
        HISTORY_TEST(grpc_has_the_same_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
