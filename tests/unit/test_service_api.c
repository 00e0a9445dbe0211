/* The HTTP API by table: what clients request of locks, sessions, elections and fences, and what is
 * answered. */
#include "http_testing.h"

/* ---- locks ---- */

static void acquire_release_and_renew_speak_as_in_seed_002(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct reply r =
        client_request_to(c, "POST", "/api/v1/locks/payment-processor/acquire",
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

static void the_four_reasons_of_a_release_are_distinguished(void **state)
{
    struct http_client *c = world_client(&world, true);
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
    struct http_client *c = world_client(&world, false);
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"a\"}", 200,
           "acquired=true expires_in_ms=30000");
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"b\"}", 200,
           "acquired=false reason=\"held\"");
    expect(c, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"b\",\"wait_timeout_ms\":0}", 200,
           "acquired=false reason=\"held\"");
}

static void modes_and_their_refusals(void **state)
{
    struct http_client *c = world_client(&world, false);
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
    struct http_client *c = world_client(&world, false);
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
    struct http_client *c = world_client(&world, false);
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
    struct http_client *c = world_client(&world, false);
    struct reply r = client_request_to(c, "POST", "/api/v1/multilock/acquire",
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
    struct http_client *c = world_client(&world, false);
    struct reply r = client_request_to(c, "POST", "/v1/locks/acquire",
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

static void a_session_carries_its_locks(void **state)
{
    struct http_client *c = world_client(&world, true);
    expect(c, "POST", "/api/v1/sessions", "{\"client_id\":\"s\",\"ttl_ms\":9000}", 200,
           "session_id=* ttl_ms=9000 expires_in_ms=9000 keepalive_ms=3000 leader_epoch=1 epoch=1");
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
    struct reply r = client_request_to(c, "POST", target, NULL);
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

static void keep_alive(struct http_client *c, const char *target, const char *body,
                       const char *expected)
{
    struct reply r = client_request_to(c, "POST", target, body);
    assert_int_equal(r.status, 0);
    world_pass(&world, 100);
    r = client_reply(c);
    assert_int_equal(r.status, 200);
    expect_json(r.body, expected);
    reply_free(&r);
}

static void a_keepalive_lists_the_locks_only_if_the_tokens_differ(void **state)
{
    struct http_client *c = world_client(&world, false);
    char *id = open_session(c, "{\"client_id\":\"s\",\"ttl_ms\":9000}");
    char target[100];
    char body[100];
    (void)snprintf(target, sizeof(target), "/api/v1/sessions/%s/keepalive", id);
    (void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\"}", id);
    expect(c, "POST", "/api/v1/locks/n/acquire", body, 200, "acquired=true fencing_token=2048");
    uint64_t barriers = world.gateway.barriers;
    const char *nothing = "alive=true locks=- next_cursor=-";
    keep_alive(c, target, "{\"lock_count\":1,\"lock_xor\":2048}", nothing);
    keep_alive(c, target, "{}", nothing);
    assert_int_equal(world.gateway.barriers, barriers); /* nothing was looked up */
    const char *list = "alive=true locks.0.name=\"n\" locks.0.tier=\"CORRECTNESS\" "
                       "locks.0.fencing_token=2048 next_cursor=null";
    keep_alive(c, target, "{\"lock_count\":0,\"lock_xor\":0}", list);
    assert_int_equal(world.gateway.barriers, barriers + 1);
    keep_alive(c, target, "{\"lock_count\":1,\"lock_xor\":2049}", list);
    world.gateway.is_older = true; /* a leader of an earlier version compares nothing */
    keep_alive(c, target, "{\"lock_count\":0,\"lock_xor\":0}", nothing);
    world.gateway.is_older = false;
    expect(c, "POST", target, "{\"lock_count\":0}", 400, "error.code=\"field_missing\"");
    free(id);
}

static void keepalives_ride_together(void **state)
{
    enum { MANY = 20 };
    struct http_client *c[MANY];
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
        struct reply r = client_request_to(c[i], "POST", target, "{}");
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
    struct http_client *c = world_client(&world, false);
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

static void an_election_takes_the_epoch_that_it_answered(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "POST", "/api/v1/elections/db/campaign", "{\"client_id\":\"a\"}", 200,
           "elected=true epoch=2048");
    expect(c, "POST", "/api/v1/elections/db/proclaim", "{\"client_id\":\"a\",\"value\":\"x\"}", 400,
           "error.code=\"field_missing\"");
    expect(c, "POST", "/api/v1/elections/db/proclaim",
           "{\"client_id\":\"a\",\"epoch\":2048,\"fencing_token\":2049,\"value\":\"x\"}", 400,
           "error.code=\"field_range\"");
    expect(c, "POST", "/api/v1/elections/db/proclaim",
           "{\"client_id\":\"a\",\"epoch\":2048,\"value\":\"x\"}", 200, "proclaimed=true");
    expect(c, "POST", "/api/v1/elections/db/resign", "{\"client_id\":\"a\",\"epoch\":2048}", 200,
           "resigned=true");
}

static void expect_message(struct reply r, const char *message)
{
    assert_int_equal(r.status, 400);
    if (strstr(r.body, message) == NULL) {
        fail_msg("%s", r.body);
    }
    reply_free(&r);
}

static void errors_name_the_range_of_a_ttl_that_is_in_force(void **state)
{
    struct http_client *c = world_client(&world, false);
    static const char *const wrong[] = {"0", "0.5", "-1", "86401", "9007199254740992", "\"5\""};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char body[128];
        (void)snprintf(body, sizeof(body),
                       "{\"resource\":\"x\",\"ownerId\":\"b\",\"ttlSeconds\":%s}", wrong[i]);
        expect_message(client_request_to(c, "POST", "/v1/locks/acquire", body),
                       "ttlSeconds: must be a whole number from 1 to 86400\"");
    }
    expect_message(client_request_to(c, "POST", "/api/v1/locks/x/acquire",
                                     "{\"client_id\":\"a\",\"ttl_ms\":0.5}"),
                   "ttl_ms: must be a whole number from 1000 to 86400000\"");
}

static void deadlocks_are_not_searched_for_without_a_session(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "POST", "/api/v1/locks/x/acquire", "{\"client_id\":\"a\",\"detect_deadlock\":true}",
           400, "error.code=\"field_missing\"");
    expect(c, "GET", "/api/v1/locks/x", NULL, 200, "held=false");
}

static void
a_fence_check_rejects_a_token_that_was_never_issued_and_an_operator_resets_the_mark(void **state)
{
    struct http_client *c = world_client(&world, true);
    expect(world_client(&world, false), "POST", "/api/v1/fence/reset",
           "{\"resource\":\"r\",\"actor_id\":\"op\",\"reason\":\"drill\"}", 403,
           "error.code=\"denied\"");
    expect(c, "POST", "/api/v1/fence/check",
           "{\"resource\":\"r\",\"fencing_token\":9007199254740991}", 200,
           "accepted=false highest=0 advisory=true reason=\"not_issued\"");
    expect(c, "POST", "/api/v1/fence/reset",
           "{\"resource\":\"r\",\"actor_id\":\"op\",\"reason\":\"drill\"}", 404,
           "error.code=\"fence_not_found\"");
    expect(c, "POST", "/api/v1/fence/check", "{\"resource\":\"r\",\"fencing_token\":1025}", 200,
           "accepted=true highest=1025");
    expect(c, "POST", "/api/v1/fence/reset", "{\"resource\":\"r\",\"actor_id\":\"op\"}", 400,
           "error.code=\"field_missing\"");
    expect(c, "POST", "/api/v1/fence/reset",
           "{\"resource\":\"r\",\"fencing_token\":99999999,\"actor_id\":\"op\",\"reason\":\"x\"}",
           400, "error.code=\"token_not_issued\"");
    expect(c, "POST", "/api/v1/fence/reset",
           "{\"resource\":\"r\",\"actor_id\":\"op\",\"reason\":\"drill\",\"request_id\":\"1\"}",
           200, "action=\"FENCE_RESET\" previous=1025 highest=2048 replayed=-");
    expect(c, "POST", "/api/v1/fence/reset",
           "{\"resource\":\"r\",\"actor_id\":\"op\",\"reason\":\"drill\",\"request_id\":\"1\"}",
           200, "previous=1025 highest=2048 replayed=true");
    expect(c, "POST", "/api/v1/fence/check", "{\"resource\":\"r\",\"fencing_token\":1026}", 200,
           "accepted=false highest=2048 reason=\"stale_token\"");
    expect(c, "GET", "/api/v1/audit", NULL, 200,
           "records.0.action=\"FENCE_RESET\" records.0.resource=\"r\" records.0.slot=0 "
           "records.0.previous=1025 records.0.highest=2048 records.0.reason=\"drill\" "
           "records.1=-");
}

static void a_fence_check_rejects_the_stale_token(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "POST", "/api/v1/fence/check", "{\"resource\":\"r\",\"fencing_token\":10}", 200,
           "accepted=true highest=10 advisory=true reason=\"ok\"");
    expect(c, "POST", "/api/v1/fence/check", "{\"resource\":\"r\",\"fencing_token\":9}", 200,
           "accepted=false highest=10 advisory=true reason=\"stale_token\"");
    expect(c, "POST", "/api/v1/fence/check", "{\"resource\":\"r\",\"fencing_token\":9,\"slot\":1}",
           200, "accepted=true");
    expect(c, "POST", "/api/v1/fence/check", "{\"resource\":\"r\",\"fencing_token\":0}", 400,
           "error.code=\"field_range\"");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(acquire_release_and_renew_speak_as_in_seed_002),
        T(the_four_reasons_of_a_release_are_distinguished),
        T(defaults_are_30_seconds_and_no_wait),
        T(modes_and_their_refusals),
        T(names_may_hold_slashes_in_either_form),
        T(a_multi_lock_is_one_token),
        T(a_multi_lock_of_one_name_is_released_by_its_name_or_lease),
        T(the_dialect_of_seed_001_is_spoken_as_written),
        T(a_session_carries_its_locks),
        T(a_keepalive_lists_the_locks_only_if_the_tokens_differ),
        T(keepalives_ride_together),
        T(an_election_has_one_leader_and_its_word),
        T(an_election_takes_the_epoch_that_it_answered),
        T(errors_name_the_range_of_a_ttl_that_is_in_force),
        T(deadlocks_are_not_searched_for_without_a_session),
        T(a_fence_check_rejects_the_stale_token),
        T(a_fence_check_rejects_a_token_that_was_never_issued_and_an_operator_resets_the_mark),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
