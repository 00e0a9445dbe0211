/* Who a command of the Redis protocol comes from (src/service/resp/auth.c), and what it sees of
 * others. */
#include "resp_testing.h"

#include "auth_testing.h"

#define FAR_S 4000000000

static int set_up_auth(void **state)
{
    set_up_with(&with_auth);
    put_policy(&world.gateway);
    resp_world_run(&world);
    return 0;
}

static struct resp_client *client_as(const char *user, const char *token)
{
    char line[200];
    struct resp_client *c = client();
    (void)snprintf(line, sizeof(line), "AUTH %s %s", user, token);
    resp_request(c, line, "+OK|");
    return c;
}

static struct resp_client *client_with(const struct peer_identity *peer)
{
    struct resp_client *c = client();
    resp_conn_set_peer(c->conn, peer);
    return c;
}

/* The error comes after the shared barrier, and perhaps a delay. */
static void refused(struct resp_client *c, const char *line, const char *start)
{
    resp_say(c, line);
    resp_world_pass(&world, 10000);
    resp_expect_start(c, start);
}

static void a_connection_needs_a_caller(void **state)
{
    struct resp_client *c = client();
    resp_say(c, "PING");
    resp_expect_start(c, "-NOAUTH");
    resp_say(c, "NO.SUCH.COMMAND");
    resp_expect_start(c, "-NOAUTH");
    resp_request(c, "AUTH red/lock t-red-lock", "+OK|");
    resp_request(c, "PING", "+PONG|");
    resp_request(c, "RESET", "+RESET|");
    resp_say(c, "PING");
    resp_expect_start(c, "-NOAUTH");
    assert_int_equal(world.gateway.barriers, 0);
}

static void a_token_has_one_user(void **state)
{
    refused(client(), "AUTH blue/lock t-red-lock", "-WRONGPASS");
    refused(client(), "AUTH red/lock t-wrong", "-WRONGPASS");
    refused(client(), "HELLO 3 AUTH red/read t-red-lock", "-WRONGPASS");
    resp_request(client(), "AUTH t-red-lock", "+OK|");
    resp_request(client(), "AUTH default t-red-lock", "+OK|");
    assert_int_equal(world.gateway.barriers, 3);
}

static void each_unknown_token_of_a_connection_waits_for_the_policy(void **state)
{
    struct resp_client *c = client();
    refused(c, "AUTH t-one", "-WRONGPASS");
    refused(c, "AUTH t-two", "-WRONGPASS");
    refused(c, "HELLO 9 AUTH default t-three", "-NOPROTO");
    refused(c, "AUTH t-four", "-WRONGPASS");
    assert_int_equal(world.gateway.barriers, 4);
}

static void a_token_that_this_node_does_not_know_yet_passes_after_the_barrier(void **state)
{
    struct resp_client *c = client();
    world.gateway.is_held = true;
    resp_say(c, "AUTH red/lock t-new");
    resp_say(c, "PING");
    resp_expect(c, "");
    put_token(&world.gateway, "red", "lock", "t-new", 0);
    world.gateway.is_held = false;
    resp_world_run(&world);
    resp_expect(c, "+OK|+PONG|");
}

static void a_user_chooses_among_its_tenants(void **state)
{
    struct resp_client *root = client_as("blue:default/root", "t-default-root");
    struct resp_client *blue = client_as("blue/lock", "t-blue-lock");
    resp_request(blue, "SET app/a 1 NX EX 30", "+OK|");
    resp_request(root, "GET app/a", "$1|1|");
    refused(client(), "AUTH blue:red/lock t-red-lock",
            "-NOPERM principal red/lock has no right in");
    refused(client(), "AUTH green:red/lock t-red-lock",
            "-NOPERM principal red/lock has no right in");
}

/* A follower whose policy may be old denies after a barrier only. */
static void a_right_that_this_node_does_not_know_yet_counts(void **state)
{
    static const char *const lines[] = {"EVAL \"return redis.call('get','new/a')\" 0",
                                        "EXPIRE new/a 60", "GET new/a", "SUBSCRIBE new/a"};
    static const char *const answers[] = {"$-1|", ":0|", "$-1|", "*3|$9|subscribe|$5|new/a|:1|"};
    world.gateway.status.leader = 2;
    for (size_t i = 0; i < 4; i++) {
        struct resp_client *c = client_as("red/none", "t-red-none");
        world.gateway.is_held = true;
        resp_say(c, lines[i]);
        resp_expect(c, "");
        put_principal(&world.gateway, "red", "none", "red", "new/", RIGHT_LOCK);
        world.gateway.is_held = false;
        resp_world_pass(&world, 200);
        resp_expect(c, answers[i]);
        put_principal(&world.gateway, "red", "none", "red", "", 0);
        resp_world_run(&world);
        refused(client_as("red/none", "t-red-none"), lines[i], "-NOPERM");
    }
}

static void a_certificate_is_a_caller(void **state)
{
    struct peer_identity peer = certificate("holdfast:red/lock", "1a", FAR_S);
    struct resp_client *c = client_with(&peer);
    resp_request(c, "PING", "+PONG|");
    resp_request(c, "AUTH blue/lock t-blue-lock", "+OK|");
    resp_request(c, "PING", "+PONG|");
    resp_say(client_with(&peer), "HELLO 3");
    assert_int_equal(world.gateway.barriers, 0);
}

static void a_certificate_that_this_node_does_not_know_yet_passes_after_the_barrier(void **state)
{
    struct peer_identity peer = certificate("holdfast:red/new", "1a", FAR_S);
    struct resp_client *c = client_with(&peer);
    struct resp_client *hello = client_with(&peer);
    world.gateway.is_held = true;
    resp_say(c, "PING");
    resp_say(hello, "HELLO 2");
    resp_expect(c, "");
    put_principal(&world.gateway, "red", "new", "red", "", 0);
    world.gateway.is_held = false;
    resp_world_pass(&world, 200); /* the second waits for the next barrier */
    resp_expect(c, "+PONG|");
    resp_expect_start(hello, "*");
}

static void a_barred_certificate_is_refused_with_the_reason(void **state)
{
    struct peer_identity peer = certificate("holdfast:red/lock", "1a", FAR_S);
    struct resp_client *c = client_with(&peer);
    resp_request(c, "PING", "+PONG|");
    bar_serial(&world.gateway, "1a");
    resp_world_run(&world);
    resp_expect_start(c, "-NOPERM the client certificate was barred");
    assert_null(c->conn);
    refused(client_with(&peer), "PING", "-NOAUTH the client certificate is barred");
}

static void a_revoked_token_closes_the_connection(void **state)
{
    struct resp_client *c = client_as("red/lock", "t-red-lock");
    struct resp_client *waits = client_as("red/lock", "t-red-lock");
    struct resp_client *holds = client_as("red/admin", "t-red-admin");
    struct resp_client *other = client_as("red/read", "t-red-read");
    resp_request(holds, "SET app/a 1 NX EX 30", "+OK|");
    resp_request(c, "SUBSCRIBE app/chan", "*3|$9|subscribe|$8|app/chan|:1|");
    resp_say(waits, "HF.ACQUIRE app/a v PX 30000 WAIT 30000");
    remove_token(&world.gateway, "t-red-lock");
    resp_world_run(&world);
    resp_expect_start(c, "-NOPERM the token was revoked");
    assert_null(c->conn);
    resp_expect_start(waits, "-NOPERM the token was revoked");
    assert_null(waits->conn);
    resp_request(other, "PING", "+PONG|");
}

static void rights_decide(void **state)
{
    struct resp_client *lock = client_as("red/lock", "t-red-lock");
    struct resp_client *read = client_as("red/read", "t-red-read");
    struct resp_client *none = client_as("red/none", "t-red-none");
    resp_request(lock, "SET app/a 1 NX EX 30", "+OK|");
    resp_request(read, "GET app/a", "$1|1|");
    resp_request(none, "GET app/a",
                 "-NOPERM principal red/none has no right read on app/a in tenant red|");
    resp_request(lock, "SET other 1 NX EX 30",
                 "-NOPERM principal red/lock has no right lock on other in tenant red|");
    resp_say(none, "EVAL \"return redis.call('get','app/a')\" 0");
    resp_expect_start(none, "-NOPERM principal red/none has no right read on app/a in tenant red");
}

/* ---- other tenants ---- */

static void a_message_stays_in_its_tenant(void **state)
{
    struct resp_client *red = client_as("red/lock", "t-red-lock");
    struct resp_client *reds = client_as("red/lock", "t-red-lock");
    struct resp_client *blue = client_as("blue/lock", "t-blue-lock");
    resp_request(red, "SUBSCRIBE app/chan", "*3|$9|subscribe|$8|app/chan|:1|");
    resp_request(reds, "PSUBSCRIBE app/*", "*3|$10|psubscribe|$5|app/*|:1|");
    resp_request(blue, "PUBLISH app/chan secret", ":0|");
    resp_expect(red, "");
    resp_expect(reds, "");
    resp_request(blue, "PUBSUB NUMSUB app/chan", "*2|$8|app/chan|:0|");
    resp_request(blue, "PUBSUB NUMPAT", ":0|");
    struct resp_client *speaker = client_as("red/lock", "t-red-lock");
    resp_request(speaker, "PUBSUB NUMSUB app/chan", "*2|$8|app/chan|:1|");
    resp_request(speaker, "PUBSUB NUMPAT", ":1|");
    resp_request(speaker, "PUBLISH app/chan hello", ":2|");
    resp_expect(red, "*3|$7|message|$8|app/chan|$5|hello|");
    resp_expect(reds, "*4|$8|pmessage|$5|app/*|$8|app/chan|$5|hello|");
}

static void a_channel_needs_the_right_to_read_it(void **state)
{
    struct resp_client *none = client_as("red/none", "t-red-none");
    struct resp_client *read = client_as("red/read", "t-red-read");
    refused(none, "SUBSCRIBE app/chan", "-NOPERM");
    refused(none, "PSUBSCRIBE *", "-NOPERM");
    resp_request(read, "PSUBSCRIBE *", "*3|$10|psubscribe|$1|*|:1|");
    struct resp_client *admin = client_as("red/admin", "t-red-admin");
    resp_request(admin, "PUBLISH hidden x", ":1|");
    resp_expect(read, "");
    resp_request(admin, "PUBLISH app/n x", ":1|");
    resp_expect(read, "*4|$8|pmessage|$1|*|$5|app/n|$1|x|");
}

static void a_client_list_has_the_own_connections(void **state)
{
    struct resp_client *red = client_as("red/lock", "t-red-lock");
    struct resp_client *again = client_as("red/lock", "t-red-lock");
    struct resp_client *blue = client_as("blue/lock", "t-blue-lock");
    struct resp_client *root = client_as("default/root", "t-default-root");
    resp_request(red, "CLIENT SETNAME first", "+OK|");
    resp_request(again, "CLIENT SETNAME second", "+OK|");
    resp_request(blue, "CLIENT SETNAME third", "+OK|");
    resp_say(red, "CLIENT LIST");
    assert_non_null(strstr(red->got, "name=first"));
    assert_non_null(strstr(red->got, "name=second"));
    assert_non_null(strstr(red->got, "user=red/lock"));
    assert_null(strstr(red->got, "third"));
    assert_null(strstr(red->got, "blue"));
    resp_say(root, "CLIENT LIST");
    assert_non_null(strstr(root->got, "name=third"));
    resp_say(blue, "INFO");
    assert_null(strstr(blue->got, "connected_clients"));
    assert_null(strstr(blue->got, "used_memory"));
    assert_null(strstr(blue->got, "total_commands_processed"));
    resp_say(root, "INFO");
    assert_non_null(strstr(root->got, "connected_clients"));
}

static void count_forced(void *ctx, const struct audit_view *record)
{
    *(unsigned *)ctx += slice_equal(record->action, slice_of("FORCE_UNLOCK"));
}

/* Locks of red that somebody else gave up. */
static unsigned forced(void)
{
    unsigned count = 0;
    struct tenant_view red;
    assert_true(policy_find_tenant(core_policy(world.gateway.core), slice_of("red"), &red));
    view_audit(world.gateway.core, red.number, 0, 1000, count_forced, &count);
    return count;
}

static void own_means_the_same_principal(void **state)
{
    struct resp_client *a = client_as("red/admin", "t-red-admin");
    struct resp_client *b = client_as("red/admin", "t-red-admin");
    struct resp_client *c = client_as("red/lock", "t-red-lock");
    resp_request(a, "SET app/a 1 NX EX 30", "+OK|");
    resp_request(b, "PEXPIRE app/a 60000", ":1|");
    resp_request(b, "DEL app/a", ":1|");
    assert_int_equal(forced(), 0);
    resp_request(a, "SET app/a 1 NX EX 30", "+OK|");
    resp_request(c, "DEL app/a",
                 "-NOPERM principal red/lock has no right operate on app/a in tenant red|");
    resp_request(a, "GET app/a", "$1|1|");
    resp_request(c, "SET app/c 1 NX EX 30", "+OK|");
    resp_request(a, "DEL app/c", ":1|");
    assert_int_equal(forced(), 1);
}

/* The leader refuses a denied command before the log, so no entry follows. */
static void a_refused_command_blocks_no_other(void **state)
{
    struct resp_client *red = client_as("red/admin", "t-red-admin");
    struct resp_client *blue = client_as("blue/lock", "t-blue-lock");
    resp_request(red, "SET app/a 1 NX EX 30", "+OK|");
    resp_request(blue, "SET app/a 1 NX EX 30", "+OK|");
    world.gateway.fails = HF_DENIED;
    resp_say(red, "DEL app/a");
    resp_expect_start(red, "-NOPERM");
    world.gateway.fails = HF_OK;
    resp_request(blue, "DEL app/a", ":1|");
    resp_request(red, "DEL app/a", ":1|");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up_auth, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_connection_needs_a_caller),
        T(a_token_has_one_user),
        T(each_unknown_token_of_a_connection_waits_for_the_policy),
        T(a_token_that_this_node_does_not_know_yet_passes_after_the_barrier),
        T(a_user_chooses_among_its_tenants),
        T(a_right_that_this_node_does_not_know_yet_counts),
        T(a_certificate_is_a_caller),
        T(a_certificate_that_this_node_does_not_know_yet_passes_after_the_barrier),
        T(a_barred_certificate_is_refused_with_the_reason),
        T(a_revoked_token_closes_the_connection),
        T(rights_decide),
        T(a_message_stays_in_its_tenant),
        T(a_channel_needs_the_right_to_read_it),
        T(a_client_list_has_the_own_connections),
        T(own_means_the_same_principal),
        T(a_refused_command_blocks_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
