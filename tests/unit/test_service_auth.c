/* Who a request comes from (src/service/auth): tokens, certificates, back-off, the shared barrier,
 * denials. */
#include "http_testing.h"

#include "auth_testing.h"
#include "service/auth/state.h"
#include "service/http/http_conn.h"

#define WHOAMI "/api/v1/auth/whoami"
#define FAR_S 4000000000

static int set_up_auth(void **state)
{
    counted_init(&counted);
    world_open(&world, &counted.memory, &with_auth);
    put_policy(&world.gateway);
    world_run(&world);
    return 0;
}

static struct http_client *client_at(const char *address)
{
    world.address = address;
    return world_client(&world, false);
}

static struct http_client *client(void)
{
    return client_at("10.1.1.1:999");
}

static struct http_client *client_with(const struct peer_identity *peer)
{
    struct http_client *c = client();
    http_conn_set_peer(c->conn, peer);
    return c;
}

static void send_as(struct http_client *c, const char *token, const char *headers,
                    const char *method, const char *target, const char *body)
{
    char text[1500];
    int len = snprintf(
        text, sizeof(text), "%s %s HTTP/1.1\r\nHost: t\r\n%s%s%s%sContent-Length: %zu\r\n\r\n%s",
        method, target, token == NULL ? "" : "Authorization: Bearer ", token == NULL ? "" : token,
        token == NULL ? "" : "\r\n", headers, strlen(body), body);
    assert_in_range(len, 1, sizeof(text) - 1);
    client_send(c, text);
}

static void answered(struct http_client *c, int status, const char *expected)
{
    struct reply r = client_reply(c);
    if (r.status != status) {
        fail_msg("status %d, not %d: %s", r.status, status, r.body);
    }
    assert_int_equal(strstr(r.head, "WWW-Authenticate: Bearer") != NULL, status == 401);
    expect_json(r.body, expected);
    reply_free(&r);
}

static void as(struct http_client *c, const char *token, const char *target, int status,
               const char *expected)
{
    send_as(c, token, "", "GET", target, "");
    answered(c, status, expected);
}

static void has_no_answer(struct http_client *c)
{
    assert_int_equal(client_reply(c).status, 0);
}

/* After the waits that a refusal may need. */
static void is_refused(struct http_client *c, const char *token)
{
    send_as(c, token, "", "GET", WHOAMI, "");
    world_pass(&world, 10000);
    answered(c, 401, "error.code=\"unauthenticated\"");
}

/* ---- tokens ---- */

static void a_token_names_its_principal(void **state)
{
    struct http_client *c = client();
    as(c, "t-red-lock", WHOAMI, 200, "principal=\"red/lock\" tenant=\"red\" by=\"token\"");
    as(c, "t-blue-lock", WHOAMI, 200, "principal=\"blue/lock\" tenant=\"blue\"");
    as(c, "t-red-lock", WHOAMI, 200, "principal=\"red/lock\"");
    assert_int_equal(world.gateway.barriers, 0);
}

static void a_request_without_credentials_is_refused_without_a_barrier(void **state)
{
    as(client(), NULL, WHOAMI, 401, "error.code=\"unauthenticated\"");
    struct http_client *c = client();
    send_as(c, NULL, "Authorization: Basic cm9vdDo=\r\n", "GET", WHOAMI, "");
    answered(c, 401, "error.code=\"unauthenticated\"");
    char longer[AUTH_TOKEN_MAX + 2];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    as(c, longer, WHOAMI, 401, "error.code=\"unauthenticated\"");
    assert_int_equal(world.gateway.barriers, 0);
}

static void probes_need_no_credentials(void **state)
{
    struct http_client *c = client();
    send_as(c, NULL, "", "GET", "/livez", "");
    struct reply r = client_reply(c);
    assert_int_equal(r.status, 200);
    reply_free(&r);
}

static void a_token_that_this_node_does_not_know_yet_passes_after_the_barrier(void **state)
{
    struct http_client *c = client();
    world.gateway.is_held = true;
    send_as(c, "t-new", "", "GET", WHOAMI, "");
    has_no_answer(c);
    assert_int_equal(world.gateway.barriers, 1);
    put_token(&world.gateway, "red", "lock", "t-new", 0);
    world.gateway.is_held = false;
    world_run(&world);
    answered(c, 200, "principal=\"red/lock\"");
    is_refused(c, "t-unknown"); /* the wait of an earlier request does not count for this one */
    assert_int_equal(world.gateway.barriers, 2);
}

static void no_leader_is_no_refusal(void **state)
{
    struct http_client *c = client();
    world.gateway.fails = HF_UNAVAILABLE;
    send_as(c, "t-unknown", "", "GET", WHOAMI, "");
    world_run(&world);
    answered(c, 503, "error.code=\"unavailable\"");
}

static void a_change_of_the_policy_disturbs_no_other_token(void **state)
{
    struct http_client *c = client();
    as(c, "t-red-lock", WHOAMI, 200, "principal=\"red/lock\"");
    put_principal(&world.gateway, "blue", "other", "blue", "", 0);
    remove_token(&world.gateway, "t-blue-lock");
    world_run(&world);
    as(c, "t-red-lock", WHOAMI, 200, "principal=\"red/lock\"");
    assert_int_equal(world.gateway.barriers, 0);
}

static void a_revoked_token_closes_its_connection(void **state)
{
    struct http_client *c = client();
    struct http_client *other = client();
    as(c, "t-red-lock", WHOAMI, 200, "principal=\"red/lock\"");
    as(other, "t-red-read", WHOAMI, 200, "principal=\"red/read\"");
    remove_token(&world.gateway, "t-red-lock");
    world_run(&world);
    assert_null(c->conn);
    assert_non_null(other->conn);
    is_refused(client(), "t-red-lock");
}

static void a_revoked_token_closes_its_connection_after_the_request_that_it_receives(void **state)
{
    struct http_client *c = client();
    as(c, "t-red-lock", WHOAMI, 200, "principal=\"red/lock\"");
    client_send(c, "POST /api/v1/locks/app%2Fa/acquire HTTP/1.1\r\nHost: t\r\n"
                   "Authorization: Bearer t-red-lock\r\nContent-Length: 17\r\n\r\n{");
    remove_token(&world.gateway, "t-red-lock");
    world_run(&world);
    assert_non_null(c->conn);
    client_send(c, "\"client_id\":\"c\"}");
    world_pass(&world, 1000);
    answered(c, 401, "error.code=\"unauthenticated\"");
    assert_null(c->conn);
}

static void a_revoked_token_ends_its_wait_and_its_watch(void **state)
{
    struct http_client *waits = client();
    struct http_client *watches = client();
    struct http_client *holds = client();
    send_as(holds, "t-red-admin", "", "POST", "/api/v1/locks/app%2Fa/acquire",
            "{\"client_id\":\"h\"}");
    answered(holds, 200, "acquired=true");
    send_as(waits, "t-red-lock", "", "POST", "/api/v1/locks/app%2Fa/acquire",
            "{\"client_id\":\"w\",\"wait_timeout_ms\":60000}");
    send_as(watches, "t-red-lock", "", "GET", "/api/v1/watch", "");
    has_no_answer(waits);
    free(client_stream(watches));
    remove_token(&world.gateway, "t-red-lock");
    world_run(&world);
    answered(waits, 403,
             "error.code=\"denied\" error.message=\"the\\u0020token\\u0020was\\u0020revoked\"");
    assert_null(waits->conn);
    assert_null(watches->conn);
    as(holds, "t-red-admin", "/api/v1/locks/app%2Fa", 200, "queue_length=0");
}

static void an_expired_token_is_refused_at_once(void **state)
{
    struct http_client *c = client();
    put_token(&world.gateway, "red", "lock", "t-short", world.gateway.wall_ms + 5000);
    world_run(&world);
    as(c, "t-short", WHOAMI, 200, "principal=\"red/lock\" expires_at=*");
    world_pass(&world, 4900);
    as(c, "t-short", WHOAMI, 200, "principal=\"red/lock\"");
    world_pass(&world, 200);
    assert_null(c->conn); /* within a second */
    as(client(), "t-short", WHOAMI, 401, "error.code=\"unauthenticated\"");
    assert_int_equal(world.gateway.barriers, 0);
}

/* ---- certificates ---- */

static void a_certificate_names_its_principal(void **state)
{
    struct peer_identity peer = certificate("holdfast:red/lock", "1a", FAR_S);
    struct http_client *c = client_with(&peer);
    as(c, NULL, WHOAMI, 200,
       "principal=\"red/lock\" tenant=\"red\" by=\"certificate\" expires_at=*");
    as(c, "t-blue-lock", WHOAMI, 200, "principal=\"blue/lock\" by=\"token\"");
    as(c, NULL, WHOAMI, 200, "principal=\"red/lock\" by=\"certificate\"");
    assert_int_equal(world.gateway.barriers, 0);
}

static void a_certificate_of_two_principals_names_none(void **state)
{
    struct peer_identity peer = certificate("holdfast:red/lock", "1a", FAR_S);
    (void)snprintf(peer.uris[1], sizeof(peer.uris[1]), "holdfast:default/root");
    peer.uri_count = 2;
    is_refused(client_with(&peer), NULL);
    (void)snprintf(peer.uris[1], sizeof(peer.uris[1]), "holdfast-node:c/1");
    as(client_with(&peer), NULL, WHOAMI, 200, "principal=\"red/lock\"");
}

static void a_certificate_of_a_node_or_of_nobody_names_no_principal(void **state)
{
    struct peer_identity peer = certificate("holdfast-node:c/1", "1a", FAR_S);
    is_refused(client_with(&peer), NULL);
    peer = certificate("holdfast:red/nobody", "1a", FAR_S);
    is_refused(client_with(&peer), NULL);
    peer = certificate("holdfast:red", "1a", FAR_S);
    is_refused(client_with(&peer), NULL);
    peer.uri_count = 0; /* all that a common name would be */
    as(client_with(&peer), NULL, WHOAMI, 401, "error.code=\"unauthenticated\"");
}

static void a_barred_serial_is_refused_and_its_connection_closed(void **state)
{
    struct peer_identity peer = certificate("holdfast:red/lock", "1a2b", FAR_S);
    struct peer_identity same = certificate("holdfast:red/lock", "1a2c", FAR_S);
    struct http_client *c = client_with(&peer);
    struct http_client *other = client_with(&same);
    as(c, NULL, WHOAMI, 200, "principal=\"red/lock\"");
    as(other, NULL, WHOAMI, 200, "principal=\"red/lock\"");
    bar_serial(&world.gateway, "1a2b");
    world_run(&world);
    assert_null(c->conn);
    is_refused(client_with(&peer), NULL);
    as(other, NULL, WHOAMI, 200, "principal=\"red/lock\"");
}

static void a_certificate_expires_while_connected(void **state)
{
    struct peer_identity peer =
        certificate("holdfast:red/lock", "1a", (int64_t)(world.gateway.wall_ms / 1000) + 3);
    struct http_client *c = client_with(&peer);
    as(c, NULL, WHOAMI, 200, "principal=\"red/lock\"");
    world_pass(&world, 4000);
    assert_null(c->conn);
    as(client_with(&peer), NULL, WHOAMI, 401, "error.code=\"unauthenticated\"");
}

/* ---- tenants ---- */

static void a_principal_chooses_among_its_tenants(void **state)
{
    struct http_client *c = client();
    send_as(c, "t-default-root", "Holdfast-Tenant: blue\r\n", "GET", WHOAMI, "");
    answered(c, 200, "principal=\"default/root\" tenant=\"blue\"");
    as(c, "t-default-root", WHOAMI, 200, "tenant=\"default\"");
    static const char *const tenants[] = {"blue", "green"}; /* one exists */
    for (size_t i = 0; i < 2; i++) {
        char header[64];
        (void)snprintf(header, sizeof(header), "Holdfast-Tenant: %s\r\n", tenants[i]);
        send_as(c, "t-red-lock", header, "GET", WHOAMI, "");
        world_pass(&world, 1000);
        answered(c, 403, "error.code=\"denied\"");
    }
}

/* ---- the shared barrier ---- */

static void requests_that_wait_share_one_barrier(void **state)
{
    struct http_client *clients[30];
    as(client(), "t-red-lock", WHOAMI, 200, "principal=\"red/lock\"");
    for (size_t i = 0; i < 30; i++) {
        clients[i] = client_at("10.1.1.1:1");
        send_as(clients[i], "t-unknown", "", "GET", WHOAMI, "");
    }
    world_pass(&world, 200);
    for (size_t i = 0; i < 30; i++) {
        answered(clients[i], 401, "error.code=\"unauthenticated\"");
    }
    assert_in_range(world.gateway.barriers, 1, 2); /* the first one was alone */
}

static void there_are_at_most_ten_barriers_a_second(void **state)
{
    char address[32];
    uint64_t refused = 0;
    for (unsigned i = 0; i < 300; i++) { /* of many addresses: none is delayed */
        (void)snprintf(address, sizeof(address), "10.1.%u.%u:5", i / 200, i % 200);
        struct http_client *c = client_at(address);
        send_as(c, "t-unknown", "", "GET", WHOAMI, "");
        uint64_t before_ms = world.gateway.boot_ms;
        struct reply r = client_reply(c);
        while (r.status == 0) {
            world_pass(&world, 10);
            r = client_reply(c);
        }
        assert_int_equal(r.status, 401);
        assert_true(world.gateway.boot_ms - before_ms <= AUTH_BARRIER_MS + 10);
        refused++;
        reply_free(&r);
        client_close(c);
        c->world = NULL; /* its place is free */
    }
    uint64_t passed_ms = world.gateway.boot_ms - 5000;
    assert_int_equal(refused, 300);
    assert_true(world.gateway.barriers <= passed_ms / AUTH_BARRIER_MS + 1);
}

/* ---- back-off ---- */

/* How long the refusal of a wrong token takes. */
static uint64_t refusal_ms(const char *address)
{
    struct http_client *c = client_at(address);
    world_pass(&world, AUTH_BARRIER_MS); /* the last barrier does not count */
    uint64_t began_ms = world.gateway.boot_ms;
    send_as(c, "t-unknown", "", "GET", WHOAMI, "");
    struct reply r = client_reply(c);
    while (r.status == 0) {
        world_pass(&world, 1);
        r = client_reply(c);
    }
    assert_int_equal(r.status, 401);
    reply_free(&r);
    client_close(c);
    c->world = NULL;
    return world.gateway.boot_ms - began_ms;
}

static void further_failures_of_an_address_are_delayed(void **state)
{
    static const uint64_t delays_ms[] = {0, 0, 0, 100, 200, 400, 800, 1600, 3200, 6400, 6400, 6400};
    char address[32];
    for (unsigned i = 0; i < sizeof(delays_ms) / sizeof(delays_ms[0]); i++) {
        (void)snprintf(address, sizeof(address), "10.1.1.1:%u", 100 + i); /* ports do not count */
        assert_in_range(refusal_ms(address), delays_ms[i], delays_ms[i] + 2);
    }
    assert_int_equal(refusal_ms("10.1.1.2:100"), 0);
    as(client_at("10.1.1.1:7"), "t-red-lock", WHOAMI, 200, "principal=\"red/lock\"");
    world_pass(&world, AUTH_FORGET_MS + 1);
    assert_int_equal(refusal_ms("10.1.1.1:100"), 0);
}

static void an_ipv6_network_is_one_address(void **state)
{
    char address[64];
    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(address, sizeof(address), "[2001:db8:1:2:%u::1]:100", i);
        assert_in_range(refusal_ms(address), i < 3 ? 0 : 100, i < 3 ? 2 : 102);
    }
    assert_int_equal(refusal_ms("[2001:db8:1:3::1]:100"), 0);
}

static void one_address_does_not_take_all_waits(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        (void)refusal_ms("10.1.1.1:1"); /* the next ones are delayed */
    }
    struct http_client *c = client();
    struct auth_state *a = world.service->auth;
    struct auth_address *slot = &a->addresses[c->conn->auth.address % AUTH_ADDRESSES];
    assert_int_equal(slot->failures, 4);
    send_as(c, "t-unknown", "", "GET", WHOAMI, "");
    assert_int_equal(slot->waits, 1);
    slot->waits = AUTH_ADDRESS_WAITS; /* of others behind the same address */
    struct http_client *one_more = client();
    send_as(one_more, "t-unknown", "", "GET", WHOAMI, "");
    answered(one_more, 503, "error.code=\"busy\"");
    slot->waits = 1;
    struct http_client *other = client_at("10.1.1.2:1");
    send_as(other, "t-unknown", "", "GET", WHOAMI, "");
    world_pass(&world, 100);
    answered(other, 401, "error.code=\"unauthenticated\"");
    client_close(c);
    assert_int_equal(slot->waits, 0);
    assert_int_equal(a->waits, 0);
}

/* ---- the policy is old ---- */

static void a_node_without_a_leader_is_stale_after_ten_seconds(void **state)
{
    struct http_client *c = client();
    world.gateway.status.leader = 0;
    world.gateway.status.serving = false;
    world_pass(&world, 9000);
    as(c, "t-red-lock", WHOAMI, 200, "principal=\"red/lock\"");
    world_pass(&world, 1100);
    as(c, "t-red-lock", WHOAMI, 503, "error.code=\"policy_stale\"");
    as(c, NULL, WHOAMI, 503, "error.code=\"policy_stale\"");
    world.gateway.status.leader = 1;
    world.gateway.status.serving = true;
    world_run(&world);
    as(c, "t-red-lock", WHOAMI, 200, "principal=\"red/lock\"");
}

static void an_older_state_has_no_principals(void **state)
{
    struct http_client *c = client();
    fake_gateway_start_over(&world.gateway, 5);
    /* It may be that of a node that has just joined, until a barrier has passed. */
    as(c, "t-red-lock", WHOAMI, 503, "error.code=\"unavailable\"");
    world_pass(&world, 200);
    as(c, "t-red-lock", WHOAMI, 503, "error.code=\"not_upgraded\"");
    as(c, "t-red-lock", WHOAMI, 503, "error.code=\"not_upgraded\"");
    assert_int_equal(world.gateway.barriers, 1);
}

/* ---- denials ---- */

static void denial(struct caller_id who, enum right right, const char *name, const char *expected)
{
    char text[AUTH_TEXT];
    auth_denial(core_policy(world.gateway.core), who, right, slice_of(name), text);
    assert_string_equal(text, expected);
}

static struct caller_id id_of(const char *tenant, const char *name)
{
    const struct policy *p = core_policy(world.gateway.core);
    struct tenant_view t;
    struct principal_view v;
    assert_true(policy_find_tenant(p, slice_of(tenant), &t));
    assert_true(policy_find_principal(p, t.number, slice_of(name), &v));
    return (struct caller_id){t.number, v.number};
}

static void a_denial_names_principal_right_and_name(void **state)
{
    struct caller_id who = id_of("red", "read");
    denial(who, RIGHT_LOCK, "app/a", "principal red/read has no right lock on app/a in tenant red");
    denial(who, RIGHT_READ, "", "principal red/read has no right read in tenant red");
    struct command c;
    char text[AUTH_TEXT];
    uint8_t bytes[64];
    struct packer changes = packer_make(bytes, sizeof(bytes));
    assert_true(pack_policy_change(
        &changes, &(struct policy_change){.kind = POLICY_SERIAL_BAR, .serial = slice_of("1a")}));
    command_init(&c, COMMAND_POLICY_CHANGE);
    c.policy_change.changes = packer_list(&changes);
    caller_sign(&c, who);
    auth_denial_of(core_policy(world.gateway.core), &c, text);
    assert_string_equal(text, "principal red/read has no right admin on the cluster");
    command_init(&c, COMMAND_ACQUIRE);
    c.acquire.names.count = 2;
    c.acquire.names.at[0] = slice_of("app/a");
    c.acquire.names.at[1] = slice_of("b");
    caller_sign(&c, id_of("red", "lock"));
    auth_denial_of(core_policy(world.gateway.core), &c, text);
    assert_string_equal(text, "principal red/lock has no right lock on b in tenant red");
    c.acquire.names.count = 1;
    auth_denial_of(core_policy(world.gateway.core), &c, text);
    assert_string_equal(text, "");
}

struct denials {
    unsigned records;
    uint32_t count;
};

static void count_denial(void *ctx, const struct audit_view *a)
{
    struct denials *d = ctx;
    if (slice_equal(a->action, slice_of("DENIED"))) {
        assert_true(slice_equal(a->actor, slice_of("red/read")));
        assert_true(slice_starts_with(a->reason, slice_of("principal red/read has no right lock")));
        assert_false(a->is_note);
        d->records++;
        d->count += a->count;
    }
}

static struct denials denied(void)
{
    struct denials d = {0, 0};
    struct caller_id red = id_of("red", "read");
    view_audit(world.gateway.core, red.tenant, 0, 1000, count_denial, &d);
    return d;
}

static void fence_check(struct http_client *c, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        send_as(c, "t-red-read", "", "POST", "/api/v1/fence/check",
                "{\"resource\":\"app/r\",\"fencing_token\":1}");
        answered(c, 403, "error.code=\"denied\"");
    }
}

static void denied_calls_of_a_principal_make_one_record_a_minute(void **state)
{
    struct http_client *c = client();
    fence_check(c, 20);
    world_run(&world);
    assert_int_equal(denied().records, 1);
    world_pass(&world, 59000);
    assert_int_equal(denied().records, 1);
    world_pass(&world, 2000);
    assert_int_equal(denied().records, 2);
    assert_int_equal(denied().count, 20);
    world_pass(&world, 200000);
    assert_int_equal(denied().records, 2);
    assert_int_equal(world.service->auth->denial_count, 0);
    uint64_t notes = world.gateway.submitted[COMMAND_NOTE];
    fence_check(c, 1);
    world_run(&world);
    assert_int_equal(world.gateway.submitted[COMMAND_NOTE], notes + 1);
    assert_int_equal(denied().records, 3);
}

static void denials_that_several_nodes_note_are_added_up(void **state)
{
    struct command c;
    struct result r;
    command_init(&c, COMMAND_NOTE);
    caller_sign(&c, id_of("red", "read"));
    c.note.action = NOTE_DENIED;
    c.note.name = slice_of("*");
    c.note.actor = slice_of("not me");
    c.note.reason = slice_of("principal red/read has no right lock on x");
    for (unsigned i = 0; i < 5; i++) {
        c.note.count = i + 1;
        fake_gateway_apply(&world.gateway, &c, &r);
        assert_int_equal(r.error, HF_OK);
        world_pass(&world, 1000);
    }
    assert_int_equal(denied().records, 1);
    assert_int_equal(denied().count, 15);
    world_pass(&world, 60000);
    fake_gateway_apply(&world.gateway, &c, &r);
    assert_int_equal(denied().records, 2);
}

static void denials_without_a_leader_are_noted_later(void **state)
{
    struct http_client *c = client();
    send_as(c, "t-red-read", "Holdfast-Tenant: red\r\n", "POST", "/api/v1/locks/app%2Fa/acquire",
            "{\"client_id\":\"c\"}");
    struct reply r = client_reply(c);
    assert_int_equal(r.status, 403);
    reply_free(&r);
    assert_int_equal(denied().records, 1);
    world_pass(&world, LIMIT_DENIED_MS);
    fence_check(c, 1);
    world.gateway.fails = HF_UNAVAILABLE;
    auth_denied(world.service, id_of("red", "read"), "principal red/read has no right lock on x");
    world_pass(&world, LIMIT_DENIED_MS);
    world.gateway.fails = HF_OK;
    world_pass(&world, 2 * LIMIT_DENIED_MS);
    assert_int_equal(denied().count, 3);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up_auth, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_token_names_its_principal),
        T(a_request_without_credentials_is_refused_without_a_barrier),
        T(probes_need_no_credentials),
        T(a_token_that_this_node_does_not_know_yet_passes_after_the_barrier),
        T(no_leader_is_no_refusal),
        T(a_change_of_the_policy_disturbs_no_other_token),
        T(a_revoked_token_closes_its_connection),
        T(a_revoked_token_closes_its_connection_after_the_request_that_it_receives),
        T(a_revoked_token_ends_its_wait_and_its_watch),
        T(an_expired_token_is_refused_at_once),
        T(a_certificate_names_its_principal),
        T(a_certificate_of_two_principals_names_none),
        T(a_certificate_of_a_node_or_of_nobody_names_no_principal),
        T(a_barred_serial_is_refused_and_its_connection_closed),
        T(a_certificate_expires_while_connected),
        T(a_principal_chooses_among_its_tenants),
        T(requests_that_wait_share_one_barrier),
        T(there_are_at_most_ten_barriers_a_second),
        T(further_failures_of_an_address_are_delayed),
        T(an_ipv6_network_is_one_address),
        T(one_address_does_not_take_all_waits),
        T(a_node_without_a_leader_is_stale_after_ten_seconds),
        T(an_older_state_has_no_principals),
        T(a_denial_names_principal_right_and_name),
        T(denied_calls_of_a_principal_make_one_record_a_minute),
        T(denials_that_several_nodes_note_are_added_up),
        T(denials_without_a_leader_are_noted_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
