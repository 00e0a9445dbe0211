/* The HTTP API as operators and the curious use it: force-unlocks and who may make them, lists,
 * what nobody is shown, members, probes. */
#include <inttypes.h>

#include "http_testing.h"

/* ---- operators ---- */

static void force_unlock_is_audited(void **state)
{
    struct http_client *c = world_client(&world, true);
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"lock_delay_ms\":9000}",
           200, "acquired=true");
    expect(c, "POST", "/api/v1/locks/n/force-unlock", "{\"actor_id\":\"oncall_1\"}", 400,
           "error.code=\"field_missing\"");
    expect(c, "POST", "/api/v1/locks/n/force-unlock",
           "{\"actor_id\":\"oncall_1\",\"reason\":\"crashed\"}", 200,
           "action=\"FORCE_UNLOCK\" resource=\"n\" actorId=\"oncall_1\" reason=\"crashed\" "
           "createdAt=\"2024-11-15T08:49:37.123Z\" holders=1 more=false");
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"b\"}", 200,
           "acquired=false reason=\"delayed\" delayed_until=*");
    expect(c, "POST", "/api/v1/locks/n/force-unlock",
           "{\"actor_id\":\"oncall_1\",\"reason\":\"now!\",\"now\":true}", 200,
           "action=\"FORCE_UNLOCK_NOW\" holders=0");
    expect(c, "POST", "/api/v1/locks/n/force-unlock",
           "{\"actor_id\":\"oncall_1\",\"reason\":\"again\"}", 404, "error.code=\"not_held\"");
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"b\"}", 200, "acquired=true");
    expect(c, "POST", "/api/v1/locks/n/revoke",
           "{\"actor_id\":\"oncall_2\",\"reason\":\"please\",\"deadline_ms\":2000}", 200,
           "action=\"REVOKE\" revoked_in_ms=2000 holders=1");
    expect(c, "GET", "/api/v1/locks/n", NULL, 200,
           "holders.0.revoked_at=\"2024-11-15T08:49:39.123Z\"");
    world_pass(&world, 2000);
    expect(c, "GET", "/api/v1/locks/n", NULL, 200, "held=false");
    expect(c, "GET", "/api/v1/audit", NULL, 200,
           "records.0.action=\"FORCE_UNLOCK\" records.0.resource=\"n\" "
           "records.0.actorId=\"oncall_1\" records.0.reason=\"crashed\" "
           "records.0.createdAt=\"2024-11-15T08:49:37.123Z\" "
           "records.1.action=\"FORCE_UNLOCK_NOW\" records.2.action=\"REVOKE\" "
           "records.3.action=\"REVOKE_TAKEN\" next_cursor=-");
    expect(c, "GET", "/api/v1/audit?limit=2", NULL, 200, "records.1.number=2 next_cursor=\"3\"");
    expect(c, "GET", "/api/v1/audit?limit=2&cursor=3", NULL, 200, "records.0.number=3");
}

static uint64_t take_n(struct http_client *c, const char *more)
{
    char body[200];
    (void)snprintf(body, sizeof(body), "{\"client_id\":\"a\"%s}", more);
    expect(c, "POST", "/api/v1/locks/n/acquire", body, 200, "acquired=true");
    struct lock_view lock;
    assert_true(view_lock(world.gateway.core, 0, slice_of("n"), &lock));
    return lock.first.token;
}

static void an_operator_takes_only_the_lock_that_was_seen(void **state)
{
    struct http_client *c = world_client(&world, true);
    char body[200];
    uint64_t token = take_n(c, "");
    for (unsigned i = 0; i < 2; i++) {
        const char *path = i == 0 ? "/api/v1/locks/n/force-unlock" : "/api/v1/locks/n/revoke";
        (void)snprintf(body, sizeof(body),
                       "{\"actor_id\":\"o\",\"reason\":\"r\",\"if_token\":%" PRIu64 "}", token + 1);
        expect(c, "POST", path, body, 409, "error.code=\"token_mismatch\"");
        expect(c, "POST", path, "{\"actor_id\":\"o\",\"reason\":\"r\",\"if_token\":0}", 400,
               "error.code=\"field_range\"");
    }
    expect(c, "GET", "/api/v1/audit", NULL, 200, "records.0=-");
    (void)snprintf(body, sizeof(body),
                   "{\"actor_id\":\"o\",\"reason\":\"r\",\"if_token\":%" PRIu64 "}", token);
    expect(c, "POST", "/api/v1/locks/n/force-unlock", body, 200, "holders=1");
    expect(c, "POST", "/api/v1/locks/n/force-unlock", body, 409, "error.code=\"token_mismatch\"");
}

static void a_hold_ends_after_its_max_hold_although_it_is_renewed(void **state)
{
    struct http_client *c = world_client(&world, true);
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"max_hold_ms\":99}", 400,
           "error.code=\"invalid_max_hold\"");
    expect(c, "POST", "/api/v1/locks/n/acquire",
           "{\"client_id\":\"a\",\"max_hold_ms\":9000000000000}", 400,
           "error.code=\"invalid_max_hold\"");
    uint64_t token = take_n(c, ",\"ttl_ms\":5000,\"max_hold_ms\":8000");
    expect(c, "GET", "/api/v1/locks/n", NULL, 200,
           "holders.0.hold_until=\"2024-11-15T08:49:45.123Z\" holders.0.long_held=false");
    expect(c, "GET", "/api/v1/locks", NULL, 200,
           "locks.0.holder.hold_until=\"2024-11-15T08:49:45.123Z\" locks.0.long_held=false");
    char body[200];
    (void)snprintf(body, sizeof(body), "{\"client_id\":\"a\",\"fencing_token\":%" PRIu64 "}",
                   token);
    world_pass(&world, 4000);
    expect(c, "POST", "/api/v1/locks/n/renew", body, 200, "renewed=true expires_in_ms=4000");
    world_pass(&world, 4001);
    expect(c, "POST", "/api/v1/locks/n/renew", body, 200, "renewed=false ended=\"max_hold\"");
}

static void only_operators_force_and_read_the_trail(void **state)
{
    struct http_client *c = world_client(&world, false);
    const char *body = "{\"actor_id\":\"x\",\"reason\":\"y\"}";
    expect(c, "POST", "/api/v1/locks/n/force-unlock", body, 403, "error.code=\"denied\"");
    expect(c, "POST", "/api/v1/locks/n/revoke", body, 403, "error.code=\"denied\"");
    expect(c, "GET", "/api/v1/audit", NULL, 403, "error.code=\"denied\"");
}

/* S4.4 */
static void nobodys_token_or_id_leaks(void **state)
{
    struct http_client *a = world_client(&world, false);
    struct http_client *b = world_client(&world, false);
    struct http_client *w = world_client(&world, false);
    struct http_client *boss = world_client(&world, true);
    struct http_client *stream = world_client(&world, false);
    client_send(stream, "GET /api/v1/watch HTTP/1.1\r\nHost: t\r\n\r\n");
    char *session = open_session(a, "{\"client_id\":\"a\"}");
    char body[200];
    (void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\"}", session);
    struct reply r = client_request_to(a, "POST", "/api/v1/locks/n/acquire", body);
    char *lease = json_text_at(r.body, "lease_id");
    uint64_t token = json_number_at(r.body, "fencing_token");
    char number[32];
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)token);
    reply_free(&r);
    client_request_to(w, "POST", "/api/v1/locks/n/acquire",
                      "{\"client_id\":\"w\",\"wait_timeout_ms\":-1}");
    static const char *const questions[][3] = {
        {"POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"b\"}"},
        {"POST", "/api/v1/locks/n/release", "{\"client_id\":\"b\",\"fencing_token\":1}"},
        {"POST", "/api/v1/locks/n/renew", "{\"client_id\":\"b\",\"fencing_token\":1}"},
        {"POST", "/v1/locks/acquire", "{\"resource\":\"n\",\"ownerId\":\"b\"}"},
        {"POST", "/api/v1/multilock/acquire", "{\"client_id\":\"b\",\"names\":[\"n\",\"m\"]}"},
        {"POST", "/api/v1/elections/n/campaign", "{\"client_id\":\"b\"}"},
        {"GET", "/api/v1/locks", NULL},
        {"GET", "/api/v1/locks/n", NULL},
        {"GET", "/api/v1/elections/n", NULL},
        {"GET", "/api/v1/sessions?private=true", NULL},
        {"GET", "/api/v1/cluster", NULL},
    };
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        r = client_request_to(b, questions[i][0], questions[i][1], questions[i][2]);
        assert_int_equal(r.status, 200);
        assert_null(strstr(r.body, lease));
        assert_null(strstr(r.body, session));
        assert_null(strstr(r.body, number));
        assert_null(strstr(r.body, "1d1d1d1d")); /* how all ids begin here */
        reply_free(&r);
    }
    world_pass(&world, 40000); /* the session ends, the waiter gets it and loses it */
    char *events = client_stream(stream);
    assert_non_null(strstr(events, "event: expired\n"));
    assert_non_null(strstr(events, "event: session_expired\n"));
    assert_null(strstr(events, "1d1d1d1d"));
    assert_null(strstr(events, "token"));
    assert_null(strstr(events, "event: lost\n")); /* that is for the one who lost it */
    free(events);
    r = client_request_to(boss, "GET", "/api/v1/locks/n", NULL);
    expect_json(r.body, "holders.0.fencing_token=* holders.0.lease_id=*");
    reply_free(&r);
    r = client_request_to(boss, "GET", "/api/v1/locks", NULL); /* not even to operators */
    assert_null(strstr(r.body, "1d1d1d1d"));
    reply_free(&r);
    free(session);
    free(lease);
}

/* ---- lists ---- */

static void a_list_has_prefixes_and_pages(void **state)
{
    struct http_client *c = world_client(&world, false);
    for (int i = 0; i < 250; i++) {
        char target[100];
        (void)snprintf(target, sizeof(target), "/api/v1/locks/%s/%d/acquire", i % 5 ? "job" : "x",
                       i);
        expect(c, "POST", target, "{\"client_id\":\"a\",\"metadata\":\"m\"}", 200, "acquired=true");
    }
    int seen = 0;
    char cursor[32] = "0";
    for (int pages = 0; cursor[0] != '\0'; pages++) {
        assert_true(pages < 100);
        char target[100];
        (void)snprintf(target, sizeof(target), "/api/v1/locks?prefix=job%%2F&limit=20&cursor=%s",
                       cursor);
        struct reply r = client_request_to(c, "GET", target, NULL);
        assert_int_equal(r.status, 200);
        for (const char *at = r.body; (at = strstr(at, "\"name\":\"job/")) != NULL; at++) {
            seen++;
        }
        assert_null(strstr(r.body, "\"name\":\"x/"));
        cursor[0] = '\0';
        if (strstr(r.body, "\"next_cursor\":null") == NULL) {
            char *next = json_text_at(r.body, "next_cursor");
            (void)snprintf(cursor, sizeof(cursor), "%s", next);
            free(next);
        }
        reply_free(&r);
    }
    assert_int_equal(seen, 200);
    expect(c, "GET", "/api/v1/locks?limit=1", NULL, 200,
           "locks.0.name=* locks.0.held=true locks.0.holder.client_id=\"a\" "
           "locks.0.holder.metadata=\"m\" locks.0.queue_length=0 locks.0.mode=\"exclusive\" "
           "next_cursor=*");
    expect(c, "GET", "/api/v1/locks?limit=0", NULL, 400, "error.code=\"field_range\"");
    expect(c, "GET", "/api/v1/locks?limit=1001", NULL, 400, "error.code=\"field_range\"");
    expect(c, "GET", "/api/v1/locks?limit=x", NULL, 400, "error.code=\"field_type\"");
    expect(c, "GET", "/api/v1/locks?cursor=4294967296", NULL, 400, "error.code=\"field_range\"");
    expect(c, "GET", "/api/v1/locks?colour=red", NULL, 400, "error.code=\"field_unknown\"");
    expect(c, "GET", "/api/v1/locks?limit=1&limit=2", NULL, 400, "error.code=\"field_repeated\"");
}

static void a_show_has_holders_and_waiters_in_order(void **state)
{
    struct http_client *c = world_client(&world, true);
    struct http_client *w1 = world_client(&world, true);
    struct http_client *w2 = world_client(&world, true);
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"owner\":\"t1\"}", 200,
           NULL);
    (void)client_request_to(w1, "POST", "/api/v1/locks/n/acquire",
                            "{\"client_id\":\"w1\",\"wait_timeout_ms\":60000}");
    (void)client_request_to(w2, "POST", "/api/v1/locks/n/acquire",
                            "{\"client_id\":\"w2\",\"wait_timeout_ms\":-1,\"mode\":\"shared\"}");
    expect(c, "GET", "/api/v1/locks/n", NULL, 200,
           "held=true holder_count=1 queue_length=2 holders.0.client_id=\"a\" "
           "holders.0.owner=\"t1\" holders.0.fencing_token=2048 holders.0.session_id=- "
           "waiters.0.client_id=\"w1\" waiters.0.position=1 waiters.0.detached=false "
           "waiters.0.gives_up_at=\"2024-11-15T08:50:37.123Z\" waiters.1.client_id=\"w2\" "
           "waiters.1.mode=\"shared\" waiters.1.gives_up_at=- waiters.1.lease_id=* stale=-");
    expect(c, "GET", "/api/v1/locks/n?limit=1", NULL, 200,
           "waiters.0.client_id=\"w1\" waiters.1=-");
}

static void a_stale_read_says_so_and_needs_nobody(void **state)
{
    struct http_client *c = world_client(&world, false);
    world.gateway.is_held = true;
    expect(c, "GET", "/api/v1/locks?stale=true", NULL, 200, "stale=true locks=[]");
    expect(c, "GET", "/api/v1/locks/n?stale", NULL, 200, "stale=true held=false");
    expect(c, "GET", "/api/v1/locks?stale=perhaps", NULL, 400, "error.code=\"field_type\"");
    assert_int_equal(world.gateway.barriers, 0);
    world.gateway.is_held = false;
    expect(c, "GET", "/api/v1/locks?stale=false", NULL, 200, "stale=-");
    assert_int_equal(world.gateway.barriers, 1);
}

/* ---- the node ---- */

static void the_cluster_is_described(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "GET", "/api/v1/cluster", NULL, 200,
           "node=1 leader=1 term=3 epoch=1 serving=true members_changing=false members.0.id=1 "
           "members.0.role=\"leader\" "
           "members.0.client_address=\"127.0.0.1:4653\" members.1.role=\"follower\" "
           "members.1.lag=7 members.2.role=\"learner\" members.2.lag=- members.2.healthy=false "
           "members.2.client_address=-");
    expect(c, "GET", "/api/v1/members", NULL, 200, "members.1.peer_address=\"127.0.0.1:4664\"");
    world.gateway.status.leader = 0;
    world.gateway.status.serving = false;
    world.gateway.status.members_change = true;
    world.gateway.status.leader_client_address = "";
    struct reply r = client_request_to(c, "GET", "/api/v1/cluster", NULL);
    expect_json(r.body, "leader=null serving=false members_changing=true");
    assert_null(strstr(r.head, "Holdfast-Leader"));
    reply_free(&r);
}

static void members_are_changed_by_operators(void **state)
{
    static const struct {
        const char *method, *target, *body;
        enum gateway_change change;
        uint64_t id;
        const char *address, *expected;
    } table[] = {
        {"POST", "/api/v1/members", "{\"id\":4,\"address\":\"host:4654\"}", GATEWAY_ADD, 4,
         "host:4654", "started=true change=\"add\" id=4"},
        {"POST", "/api/v1/members/4/promote", NULL, GATEWAY_PROMOTE, 4, "", "change=\"promote\""},
        {"POST", "/api/v1/members/4/demote", "{}", GATEWAY_DEMOTE, 4, "", "change=\"demote\""},
        {"DELETE", "/api/v1/members/4", NULL, GATEWAY_REMOVE, 4, "", "change=\"remove\" id=4"},
        {"POST", "/api/v1/members/transfer", NULL, GATEWAY_TRANSFER, 0, "",
         "change=\"transfer\" id=-"},
        {"POST", "/api/v1/members/transfer", "{\"to\":2}", GATEWAY_TRANSFER, 2, "", "id=2"},
    };
    struct fake_gateway *g = &world.gateway;
    struct http_client *c = world_client(&world, true);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        for (int refused = 0; refused < 2; refused++) {
            struct reply r = client_request_to(c, table[i].method, table[i].target, table[i].body);
            assert_int_equal(r.status, 0);
            assert_int_equal(g->change_kind, table[i].change);
            assert_int_equal(g->change_id, table[i].id);
            assert_string_equal(g->change_address, table[i].address);
            struct gateway_change_call *call = g->change;
            g->change = NULL;
            call->done(call, refused ? HF_MEMBERSHIP : HF_OK, refused ? "not now" : NULL);
            world_run(&world);
            r = client_reply(c);
            assert_int_equal(r.status, refused ? 409 : 200);
            expect_json(r.body, refused ? "error.code=\"membership_refused\"" : table[i].expected);
            reply_free(&r);
        }
    }
    expect(c, "POST", "/api/v1/members", "{\"id\":4}", 400, "error.code=\"field_missing\"");
    expect(c, "DELETE", "/api/v1/members/0", NULL, 400, "error.code=\"invalid_id\"");
    expect(c, "DELETE", "/api/v1/members/x", NULL, 400, "error.code=\"invalid_id\"");
    expect(c, "DELETE", "/api/v1/members/4294967296", NULL, 400, "error.code=\"invalid_id\"");
    struct http_client *outsider = world_client(&world, false);
    expect(outsider, "DELETE", "/api/v1/members/4", NULL, 403, "error.code=\"denied\"");
    /* Who goes before the answer came does no harm, and neither does an answer that never comes. */
    (void)client_request_to(c, "DELETE", "/api/v1/members/4", NULL);
    client_close(c);
    struct gateway_change_call *call = g->change;
    g->change = NULL;
    call->done(call, HF_OK, NULL);
    c = world_client(&world, true);
    (void)client_request_to(c, "DELETE", "/api/v1/members/4", NULL);
}

static void probes_and_the_description(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct reply r = client_request_to(c, "GET", "/livez", NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "ok\n");
    reply_free(&r);
    r = client_request_to(c, "GET", "/readyz?verbose", NULL);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body, "[+]leader ok\n"));
    reply_free(&r);
    world.gateway.status.serving = false;
    r = client_request_to(c, "GET", "/readyz?verbose", NULL);
    assert_int_equal(r.status, 503);
    assert_non_null(
        strstr(r.body, "[-]serving failed: this node was elected and does not serve yet\n"));
    reply_free(&r);
    r = client_request_to(c, "GET", "/openapi.yaml", NULL);
    assert_int_equal(r.status, 200);
    assert_int_equal(strncmp(r.body, "openapi: 3.1", 12), 0);
    reply_free(&r);
    r = client_request_to(c, "HEAD", "/livez", NULL);
    assert_int_equal(r.status, 0); /* its length is reported, its body is not sent */
    assert_non_null(strstr((char *)c->got, "Content-Length: 3\r\n\r\n"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(force_unlock_is_audited),
        T(an_operator_takes_only_the_lock_that_was_seen),
        T(a_hold_ends_after_its_max_hold_although_it_is_renewed),
        T(only_operators_force_and_read_the_trail),
        T(nobodys_token_or_id_leaks),
        T(a_list_has_prefixes_and_pages),
        T(a_show_has_holders_and_waiters_in_order),
        T(a_stale_read_says_so_and_needs_nobody),
        T(the_cluster_is_described),
        T(members_are_changed_by_operators),
        T(probes_and_the_description),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
