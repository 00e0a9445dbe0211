/* The HTTP API by table: what is asked, and what is answered. */
#include "base_testing.h"

#include "http_world.h"

static struct world world;
static struct counted counted;

static int set_up(void **state)
{
    counted_init(&counted);
    world_open(&world, &counted.memory, NULL);
    return 0;
}

static int tear_down(void **state)
{
    const char *broken = core_check_invariants(world.gateway.core);
    if (broken != NULL) {
        fail_msg("%s", broken);
    }
    world_close(&world);
    assert_all_given_back(&counted);
    return 0;
}

/* ---- locks ---- */

static void acquire_release_and_renew_speak_as_in_seed_002(void **state)
{
    struct client *c = world_client(&world, false);
    struct reply r =
        client_ask(c, "POST", "/api/v1/locks/payment-processor/acquire",
                   "{\"client_id\":\"worker-7\",\"ttl_ms\":30000,\"wait_timeout_ms\":5000}");
    assert_int_equal(r.status, 200);
    expect_json(r.body, "acquired=true fencing_token=2048 lease_id=* expires_in_ms=30000 "
                        "expires_at=\"2024-11-15T08:50:07.123Z\" tier=\"CORRECTNESS\" reason=-");
    assert_non_null(strstr(r.head, "Holdfast-Leader: 127.0.0.1:4653\r\n"));
    assert_non_null(strstr(r.head, "Content-Type: application/json\r\n"));
    assert_non_null(strstr(r.head, "Date: Fri, 15 Nov 2024 08:49:37 GMT\r\n"));
    reply_free(&r);
    world_pass(&world, 1500);
    expect(c, "POST", "/api/v1/locks/payment-processor/acquire",
           "{\"client_id\":\"b\",\"metadata\":{\"pid\":7}}", 200,
           "acquired=false reason=\"held\" holder.client_id=\"worker-7\" holder.mode=\"exclusive\" "
           "holder.since=\"2024-11-15T08:49:37.123Z\" holder.expires_in_ms=28500 "
           "holder.expires_at=\"2024-11-15T08:50:07.123Z\" holder.metadata=- queue_length=0 "
           "delayed_until=- fencing_token=- holder.lease_id=- holder.fencing_token=-");
    expect(c, "POST", "/api/v1/locks/payment-processor/renew",
           "{\"client_id\":\"worker-7\",\"fencing_token\":2048,\"ttl_ms\":60000}", 200,
           "renewed=true new_expires_at=\"2024-11-15T08:50:38.623Z\" expires_in_ms=60000 "
           "reason=\"ok\"");
    expect(c, "POST", "/api/v1/locks/payment-processor/release",
           "{\"client_id\":\"worker-7\",\"fencing_token\":2048}", 200,
           "released=true reason=\"ok\"");
}

static void the_four_reasons_of_a_release_are_told_apart(void **state)
{
    struct client *c = world_client(&world, true);
    const char *release = "{\"client_id\":\"a\",\"fencing_token\":2048}";
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"ttl_ms\":1000}", 200,
           "acquired=true fencing_token=2048");
    expect(c, "POST", "/api/v1/locks/n/release", "{\"client_id\":\"b\",\"fencing_token\":2048}",
           200, "released=false reason=\"not_owner\"");
    expect(c, "POST", "/api/v1/locks/n/release", release, 200, "released=true reason=\"ok\"");
    expect(c, "POST", "/api/v1/locks/n/release", release, 200,
           "released=false reason=\"already_released\" ended=\"released\"");
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"ttl_ms\":1000}", 200,
           "acquired=true fencing_token=3072");
    world_pass(&world, 1000);
    expect(c, "POST", "/api/v1/locks/n/release", "{\"client_id\":\"a\",\"fencing_token\":3072}",
           200, "released=false reason=\"expired\"");
    expect(c, "POST", "/api/v1/locks/n/renew", "{\"client_id\":\"a\",\"fencing_token\":3072}", 200,
           "renewed=false reason=\"expired\" new_expires_at=-");
    expect(c, "POST", "/api/v1/locks/n/release", "{\"client_id\":\"a\",\"fencing_token\":99}", 200,
           "released=false reason=\"not_owner\"");
}

static void defaults_are_30_seconds_and_no_wait(void **state)
{
    struct client *c = world_client(&world, false);
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"a\"}", 200,
           "acquired=true expires_in_ms=30000");
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"b\"}", 200,
           "acquired=false reason=\"held\"");
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"b\",\"wait_timeout_ms\":0}", 200,
           "acquired=false reason=\"held\"");
}

static void modes_and_their_refusals(void **state)
{
    struct client *c = world_client(&world, false);
#define ACQUIRE(name, body, expected)                                                          \
    expect(c, "POST", "/api/v1/locks/" name "/acquire", "{\"client_id\":\"a\"," body "}", 200, \
           expected)
    ACQUIRE("s", "\"mode\":\"shared\"", "acquired=true");
    ACQUIRE("s", "\"mode\":\"shared\"", "acquired=true");
    ACQUIRE("s", "\"mode\":\"exclusive\"", "acquired=false reason=\"held\" holder.mode=\"shared\"");
    ACQUIRE("s", "\"mode\":\"semaphore\",\"limit\":2", "acquired=false reason=\"mode_mismatch\"");
    ACQUIRE("p", "\"mode\":\"semaphore\",\"limit\":3,\"permits\":2", "acquired=true slot=0");
    ACQUIRE("p", "\"mode\":\"semaphore\",\"limit\":3", "acquired=true slot=1");
    ACQUIRE("p", "\"mode\":\"semaphore\",\"limit\":3", "acquired=false reason=\"held\"");
    ACQUIRE("p", "\"mode\":\"semaphore\",\"limit\":4", "acquired=false reason=\"limit_mismatch\"");
    ACQUIRE("p", "\"mode\":\"semaphore\",\"limit\":3,\"permits\":4",
            "acquired=false reason=\"permits_exceed_limit\"");
    ACQUIRE("d", "\"lock_delay_ms\":5000,\"ttl_ms\":1000", "acquired=true");
    world_pass(&world, 2000);
    ACQUIRE(
        "d", "\"owner\":\"x\"",
        "acquired=false reason=\"delayed\" delayed_until=\"2024-11-15T08:49:43.123Z\" holder=-");
#undef ACQUIRE
}

static void names_may_hold_slashes_in_either_form(void **state)
{
    struct client *c = world_client(&world, false);
    expect(c, "POST", "/api/v1/locks/a/b/acquire", "{\"client_id\":\"a\"}", 200, "acquired=true");
    expect(c, "POST", "/api/v1/locks/a%2Fb/acquire", "{\"client_id\":\"b\"}", 200,
           "acquired=false name=\"a/b\"");
    expect(c, "GET", "/api/v1/locks/a%2fb", NULL, 200, "name=\"a/b\" held=true");
    expect(c, "GET", "/api/v1/locks/a/b", NULL, 200, "name=\"a/b\" held=true");
    expect(c, "POST", "/api/v1/locks/%C3%A9t%C3%A9/acquire", "{\"client_id\":\"a\"}", 200,
           "acquired=true");
    expect(c, "POST", "/api/v1/locks/acquire/acquire", "{\"client_id\":\"a\"}", 200,
           "acquired=true");
    expect(c, "GET", "/api/v1/locks/acquire", NULL, 200, "name=\"acquire\" held=true");
    expect(c, "GET", "/api/v1/locks/nobody", NULL, 200,
           "held=false holders=[] waiters=[] queue_length=0");
    static const char *const bad[] = {"//",      "/a//b/",  "/./",     "/../",
                                      "/a%00b/", "/a%0ab/", "/a/../b/"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char target[100];
        (void)snprintf(target, sizeof(target), "/api/v1/locks%sacquire", bad[i]);
        expect(c, "POST", target, "{\"client_id\":\"a\"}", 400, "error.code=\"invalid_name\"");
    }
    expect(c, "POST", "/api/v1/locks/a%/acquire", "{\"client_id\":\"a\"}", 400,
           "error.code=\"uri_escape\"");
    expect(c, "POST", "/api/v1/locks/%ff/acquire", "{\"client_id\":\"a\"}", 400,
           "error.code=\"invalid_name\"");
}

static void a_multi_lock_is_one_token(void **state)
{
    struct client *c = world_client(&world, false);
    expect(c, "POST", "/api/v1/multilock/acquire", "{\"client_id\":\"a\",\"names\":[\"x\",\"y\"]}",
           200, "acquired=true fencing_token=2048");
    expect(c, "POST", "/api/v1/multilock/acquire", "{\"client_id\":\"b\",\"names\":[\"z\",\"y\"]}",
           200, "acquired=false reason=\"held\" name=\"y\" holder.client_id=\"a\"");
    expect(c, "GET", "/api/v1/locks/z", NULL, 200, "held=false");
    expect(c, "POST", "/api/v1/multilock/renew",
           "{\"client_id\":\"a\",\"fencing_token\":2048,\"ttl_ms\":5000}", 200,
           "renewed=true expires_in_ms=5000");
    expect(c, "POST", "/api/v1/multilock/release", "{\"client_id\":\"a\",\"fencing_token\":2048}",
           200, "released=true");
    expect(c, "GET", "/api/v1/locks/y", NULL, 200, "held=false");
    expect(c, "POST", "/api/v1/multilock/acquire", "{\"client_id\":\"a\",\"names\":[\"x\",\"x\"]}",
           400, "error.code=\"duplicate_name\"");
    expect(c, "POST", "/api/v1/multilock/acquire", "{\"client_id\":\"a\",\"names\":[]}", 400,
           "error.code=\"field_range\"");
    expect(c, "POST", "/api/v1/multilock/acquire", "{\"client_id\":\"a\",\"names\":[\"x\",7]}", 400,
           "error.code=\"field_type\"");
    expect(c, "POST", "/api/v1/multilock/acquire", "{\"client_id\":\"a\",\"names\":[\"..\"]}", 400,
           "error.code=\"invalid_name\"");
}

static void a_multi_lock_of_one_name_is_released_by_its_name_or_lease(void **state)
{
    struct client *c = world_client(&world, false);
    struct reply r = client_ask(c, "POST", "/api/v1/multilock/acquire",
                                "{\"client_id\":\"a\",\"names\":[\"x\"]}");
    char *lease = json_text_at(r.body, "lease_id");
    reply_free(&r);
    char body[200];
    (void)snprintf(body, sizeof(body), "{\"client_id\":\"a\",\"lease_id\":\"%s\"}", lease);
    expect(c, "POST", "/api/v1/multilock/renew", body, 200, "renewed=true");
    expect(c, "POST", "/api/v1/multilock/release",
           "{\"client_id\":\"a\",\"fencing_token\":2048,\"names\":[\"x\"]}", 200, "released=true");
    free(lease);
}

static void the_dialect_of_seed_001_is_spoken_as_written(void **state)
{
    struct client *c = world_client(&world, false);
    struct reply r = client_ask(c, "POST", "/v1/locks/acquire",
                                "{\"resource\":\"tenant_123:billing-close:2026-04\","
                                "\"ownerId\":\"worker-7\",\"ttlSeconds\":60}");
    assert_int_equal(r.status, 200);
    expect_json(r.body, "acquired=true leaseId=* fencingToken=2048 "
                        "expiresAt=\"2024-11-15T08:50:37.123Z\" lease_id=-");
    char *lease = json_text_at(r.body, "leaseId");
    reply_free(&r);
    expect(
        c, "POST", "/v1/locks/acquire",
        "{\"resource\":\"tenant_123:billing-close:2026-04\",\"ownerId\":\"b\",\"ttlSeconds\":60}",
        200,
        "acquired=false reason=\"held\" holder.ownerId=\"worker-7\" holder.leaseId=- "
        "fencingToken=- leaseId=-");
    char target[100];
    (void)snprintf(target, sizeof(target), "/v1/locks/%s/renew", lease);
    world_pass(&world, 1000);
    expect(c, "POST", target, NULL, 200,
           "renewed=true expiresAt=\"2024-11-15T08:50:38.123Z\" reason=\"ok\"");
    expect(c, "POST", target, "{\"ttlSeconds\":5}", 200,
           "renewed=true expiresAt=\"2024-11-15T08:49:43.123Z\"");
    (void)snprintf(target, sizeof(target), "/v1/locks/%s", lease);
    expect(c, "DELETE", target, NULL, 200, "released=true reason=\"ok\"");
    expect(c, "DELETE", target, NULL, 200, "released=false reason=\"already_released\"");
    expect(c, "DELETE", "/v1/locks/0123456789abcdef0123456789abcdef", NULL, 200,
           "released=false reason=\"not_owner\"");
    expect(c, "DELETE", "/v1/locks/lease_abc", NULL, 400, "error.code=\"invalid_id\"");
    expect(c, "POST", "/v1/locks/acquire",
           "{\"resource\":\"x\",\"ownerId\":\"b\",\"ttlSeconds\":0}", 400,
           "error.code=\"field_range\"");
    expect(c, "POST", "/v1/locks/acquire", "{\"resource\":\"x\",\"ttlSeconds\":1}", 400,
           "error.code=\"field_missing\"");
    free(lease);
}

/* ---- sessions, elections, fences ---- */

static char *open_session(struct client *c, const char *body)
{
    struct reply r = client_ask(c, "POST", "/api/v1/sessions", body);
    assert_int_equal(r.status, 200);
    char *id = json_text_at(r.body, "session_id");
    reply_free(&r);
    return id;
}

static void a_session_carries_its_locks(void **state)
{
    struct client *c = world_client(&world, true);
    expect(c, "POST", "/api/v1/sessions", "{\"client_id\":\"s\",\"ttl_ms\":9000}", 200,
           "session_id=* ttl_ms=9000 expires_in_ms=9000 keepalive_ms=3000 epoch=1");
    char *id = open_session(c, "{\"client_id\":\"s\",\"ttl_ms\":9000,\"metadata\":[1,2]}");
    char body[200];
    char target[100];
    (void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\",\"reentrant\":true}", id);
    expect(c, "POST", "/api/v1/locks/n/acquire", body, 200, "acquired=true expires_in_ms=9000");
    expect(c, "POST", "/api/v1/locks/n/acquire", body, 200, "acquired=true depth=2");
    (void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\",\"fencing_token\":2048}", id);
    expect(c, "POST", "/api/v1/locks/n/release", body, 200, "released=true depth=1");
    (void)snprintf(target, sizeof(target), "/api/v1/sessions/%s/keepalive", id);
    world_pass(&world, 5000);
    struct reply r = client_ask(c, "POST", target, NULL);
    assert_int_equal(r.status, 0); /* it waits for company */
    world_pass(&world, 100);
    r = client_reply(c);
    assert_int_equal(r.status, 200);
    expect_json(r.body, "alive=true expires_in_ms=9000 epoch=1");
    reply_free(&r);
    (void)snprintf(target, sizeof(target), "/api/v1/sessions/%s", id);
    expect(c, "GET", target, NULL, 200, "client_id=\"s\" entries=1 metadata=[1,2] private=false");
    expect(c, "GET", "/api/v1/sessions", NULL, 200, "sessions.0.client_id=\"s\" next_cursor=-");
    expect(c, "DELETE", target, NULL, 200, "closed=true replayed=-");
    expect(c, "DELETE", target, NULL, 200, "closed=true replayed=true");
    expect(c, "GET", "/api/v1/locks/n", NULL, 200, "held=false");
    expect(c, "GET", target, NULL, 404, "error.code=\"session_not_found\"");
    (void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\"}", id);
    expect(c, "POST", "/api/v1/locks/n/acquire", body, 410, "error.code=\"session_expired\"");
    expect(c, "POST", "/api/v1/locks/n/acquire",
           "{\"session_id\":\"0123456789abcdef0123456789abcdef\"}", 404,
           "error.code=\"session_not_found\"");
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"session_id\":\"x\"}", 400,
           "error.code=\"invalid_id\"");
    free(id);
}

static void keepalives_ride_together(void **state)
{
    enum { MANY = 20 };
    struct client *c[MANY];
    char *ids[MANY];
    for (size_t i = 0; i < MANY; i++) {
        c[i] = world_client(&world, false);
        ids[i] = open_session(c[i], "{\"client_id\":\"s\",\"ttl_ms\":2000}");
    }
    uint64_t entries = world.gateway.entries;
    for (size_t i = 0; i < MANY; i++) {
        char target[100];
        (void)snprintf(target, sizeof(target), "/api/v1/sessions/%s/keepalive",
                       i == 7 ? "0123456789abcdef0123456789abcdef" : ids[i]);
        struct reply r = client_ask(c[i], "POST", target, "{}");
        assert_int_equal(r.status, 0);
    }
    world_pass(&world, 5); /* one of them is not known here, and might be a short one */
    assert_int_equal(world.gateway.submitted[COMMAND_KEEPALIVE], 1);
    assert_int_equal(world.gateway.entries, entries + 1);
    for (size_t i = 0; i < MANY; i++) {
        struct reply r = client_reply(c[i]);
        assert_int_equal(r.status, i == 7 ? 404 : 200);
        reply_free(&r);
        free(ids[i]);
    }
}

static void an_election_has_one_leader_and_its_word(void **state)
{
    struct client *c = world_client(&world, false);
    expect(c, "GET", "/api/v1/elections/db", NULL, 200, "leader=- candidates=0");
    expect(c, "POST", "/api/v1/elections/db/campaign",
           "{\"client_id\":\"a\",\"value\":\"host-a:1\"}", 200,
           "elected=true epoch=2048 fencing_token=2048 lease_id=*");
    expect(c, "POST", "/api/v1/elections/db/campaign", "{\"client_id\":\"b\"}", 200,
           "elected=false reason=\"held\" holder.client_id=\"a\" epoch=- fencing_token=-");
    expect(c, "POST", "/api/v1/elections/db/proclaim",
           "{\"client_id\":\"a\",\"fencing_token\":2048,\"value\":\"host-a:2\"}", 200,
           "proclaimed=true");
    expect(c, "GET", "/api/v1/elections/db", NULL, 200,
           "leader.client_id=\"a\" leader.value=\"host-a:2\" leader.fencing_token=-");
    expect(c, "POST", "/api/v1/elections/db/proclaim",
           "{\"client_id\":\"b\",\"fencing_token\":2048,\"value\":\"x\"}", 200,
           "proclaimed=false reason=\"not_owner\"");
    expect(c, "POST", "/api/v1/elections/db/resign", "{\"client_id\":\"a\",\"fencing_token\":2048}",
           200, "resigned=true");
    expect(c, "GET", "/api/v1/elections/db", NULL, 200, "leader=-");
}

static void a_fence_check_rejects_the_stale_token(void **state)
{
    struct client *c = world_client(&world, false);
    expect(c, "POST", "/api/v1/fence/check", "{\"resource\":\"r\",\"fencing_token\":10}", 200,
           "accepted=true highest=10 advisory=true reason=\"ok\"");
    expect(c, "POST", "/api/v1/fence/check", "{\"resource\":\"r\",\"fencing_token\":9}", 200,
           "accepted=false highest=10 advisory=true reason=\"stale_token\"");
    expect(c, "POST", "/api/v1/fence/check", "{\"resource\":\"r\",\"fencing_token\":9,\"slot\":1}",
           200, "accepted=true");
    expect(c, "POST", "/api/v1/fence/check", "{\"resource\":\"r\",\"fencing_token\":0}", 400,
           "error.code=\"field_range\"");
}

/* ---- operators ---- */

static void force_unlock_is_audited(void **state)
{
    struct client *c = world_client(&world, true);
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

static void only_operators_force_and_read_the_trail(void **state)
{
    struct client *c = world_client(&world, false);
    const char *body = "{\"actor_id\":\"x\",\"reason\":\"y\"}";
    expect(c, "POST", "/api/v1/locks/n/force-unlock", body, 403, "error.code=\"denied\"");
    expect(c, "POST", "/api/v1/locks/n/revoke", body, 403, "error.code=\"denied\"");
    expect(c, "GET", "/api/v1/audit", NULL, 403, "error.code=\"denied\"");
}

/* S4.4 */
static void nobodys_token_or_id_leaks(void **state)
{
    struct client *a = world_client(&world, false);
    struct client *b = world_client(&world, false);
    struct client *w = world_client(&world, false);
    struct client *boss = world_client(&world, true);
    struct client *stream = world_client(&world, false);
    client_send(stream, "GET /api/v1/watch HTTP/1.1\r\nHost: t\r\n\r\n");
    char *session = open_session(a, "{\"client_id\":\"a\"}");
    char body[200];
    (void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\"}", session);
    struct reply r = client_ask(a, "POST", "/api/v1/locks/n/acquire", body);
    char *lease = json_text_at(r.body, "lease_id");
    uint64_t token = json_number_at(r.body, "fencing_token");
    char number[32];
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)token);
    reply_free(&r);
    client_ask(w, "POST", "/api/v1/locks/n/acquire",
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
        r = client_ask(b, questions[i][0], questions[i][1], questions[i][2]);
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
    r = client_ask(boss, "GET", "/api/v1/locks/n", NULL);
    expect_json(r.body, "holders.0.fencing_token=* holders.0.lease_id=*");
    reply_free(&r);
    r = client_ask(boss, "GET", "/api/v1/locks", NULL); /* not even to operators */
    assert_null(strstr(r.body, "1d1d1d1d"));
    reply_free(&r);
    free(session);
    free(lease);
}

/* ---- lists ---- */

static void a_list_has_prefixes_and_pages(void **state)
{
    struct client *c = world_client(&world, false);
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
        struct reply r = client_ask(c, "GET", target, NULL);
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
    struct client *c = world_client(&world, true);
    struct client *w1 = world_client(&world, true);
    struct client *w2 = world_client(&world, true);
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"owner\":\"t1\"}", 200,
           NULL);
    (void)client_ask(w1, "POST", "/api/v1/locks/n/acquire",
                     "{\"client_id\":\"w1\",\"wait_timeout_ms\":60000}");
    (void)client_ask(w2, "POST", "/api/v1/locks/n/acquire",
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
    struct client *c = world_client(&world, false);
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
    struct client *c = world_client(&world, false);
    expect(c, "GET", "/api/v1/cluster", NULL, 200,
           "node=1 leader=1 term=3 epoch=1 serving=true members.0.id=1 members.0.role=\"leader\" "
           "members.0.client_address=\"127.0.0.1:4653\" members.1.role=\"follower\" "
           "members.1.lag=7 members.2.role=\"learner\" members.2.lag=- members.2.healthy=false "
           "members.2.client_address=-");
    expect(c, "GET", "/api/v1/members", NULL, 200, "members.1.peer_address=\"127.0.0.1:4664\"");
    world.gateway.status.leader = 0;
    world.gateway.status.serving = false;
    world.gateway.status.leader_client_address = "";
    struct reply r = client_ask(c, "GET", "/api/v1/cluster", NULL);
    expect_json(r.body, "leader=null serving=false");
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
    struct client *c = world_client(&world, true);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        for (int refused = 0; refused < 2; refused++) {
            struct reply r = client_ask(c, table[i].method, table[i].target, table[i].body);
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
    struct client *stranger = world_client(&world, false);
    expect(stranger, "DELETE", "/api/v1/members/4", NULL, 403, "error.code=\"denied\"");
    /* Who goes before the answer came does no harm, and neither does an answer that never comes. */
    (void)client_ask(c, "DELETE", "/api/v1/members/4", NULL);
    client_close(c);
    struct gateway_change_call *call = g->change;
    g->change = NULL;
    call->done(call, HF_OK, NULL);
    c = world_client(&world, true);
    (void)client_ask(c, "DELETE", "/api/v1/members/4", NULL);
}

static void probes_and_the_description(void **state)
{
    struct client *c = world_client(&world, false);
    struct reply r = client_ask(c, "GET", "/livez", NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "ok\n");
    reply_free(&r);
    r = client_ask(c, "GET", "/readyz?verbose", NULL);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body, "[+]leader ok\n"));
    reply_free(&r);
    world.gateway.status.serving = false;
    r = client_ask(c, "GET", "/readyz?verbose", NULL);
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.body, "[-]serving failed\n"));
    reply_free(&r);
    r = client_ask(c, "GET", "/openapi.yaml", NULL);
    assert_int_equal(r.status, 200);
    assert_int_equal(strncmp(r.body, "openapi: 3.1", 12), 0);
    reply_free(&r);
    r = client_ask(c, "HEAD", "/livez", NULL);
    assert_int_equal(r.status, 0); /* its length is told, its body is not sent */
    assert_non_null(strstr((char *)c->got, "Content-Length: 3\r\n\r\n"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(acquire_release_and_renew_speak_as_in_seed_002),
        T(the_four_reasons_of_a_release_are_told_apart),
        T(defaults_are_30_seconds_and_no_wait),
        T(modes_and_their_refusals),
        T(names_may_hold_slashes_in_either_form),
        T(a_multi_lock_is_one_token),
        T(a_multi_lock_of_one_name_is_released_by_its_name_or_lease),
        T(the_dialect_of_seed_001_is_spoken_as_written),
        T(a_session_carries_its_locks),
        T(keepalives_ride_together),
        T(an_election_has_one_leader_and_its_word),
        T(a_fence_check_rejects_the_stale_token),
        T(force_unlock_is_audited),
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
