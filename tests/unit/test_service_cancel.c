/* An acquire is withdrawn by its request id (S7.5), whatever has become of it. */
#include "service_waiting.h"

#define WAIT "\"client_id\":\"b\",\"wait_timeout_ms\":60000,\"request_id\":\"r1\""
#define CANCELLED "acquired=false reason=\"cancelled\""

static const char wait_body[] = "{" WAIT "}";
static const char cancel_body[] = "{" WAIT ",\"cancel\":true}";

/* Another client, or another node, does this to the lock `n`. */
static void release_elsewhere(uint64_t token)
{
    struct command c;
    struct result r;
    command_init(&c, COMMAND_RELEASE);
    c.release.name = slice_of("n");
    c.release.token = token;
    fake_gateway_apply(&world.gateway, &c, &r);
    assert_int_equal(r.outcome, OUTCOME_DONE);
}

static void attach_elsewhere(void)
{
    struct command c;
    struct result r;
    command_init(&c, COMMAND_ACQUIRE);
    c.acquire.node = 2;
    c.acquire.client = slice_of("b");
    c.acquire.lease = (struct id){7, 7};
    c.acquire.ttl_ms = 30000;
    c.acquire.wait_ms = 60000;
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = slice_of("n");
    c.request_id = slice_of("r1");
    fake_gateway_apply(&world.gateway, &c, &r);
    assert_int_equal(r.outcome, OUTCOME_QUEUED);
}

/* The cluster answers what was submitted, and holds what the service submits then. */
static void deliver_one_step(void)
{
    world.gateway.is_held = false;
    assert_true(fake_gateway_deliver(&world.gateway));
    world.gateway.is_held = true;
    world_run(&world);
}

static void a_wait_leaves_the_queue_and_its_connection_is_answered(void **state)
{
    struct http_client *a = holder("a");
    struct http_client *b = waiter(wait_body);
    struct http_client *d = waiter("{\"client_id\":\"d\",\"wait_timeout_ms\":-1}");
    struct http_client *c = world_client(&world, false);
    assert_int_equal(look().queue_length, 2);
    expect(c, "POST", TARGET, cancel_body, 200, CANCELLED);
    assert_int_equal(look().queue_length, 1);
    expect_reply(b, 200, "acquired=false");
    expect(c, "POST", TARGET, cancel_body, 200, CANCELLED); /* however often */
    /* A copy that was on its way gets no lock. */
    expect(c, "POST", TARGET, wait_body, 200, CANCELLED);
    release(a, "a", 2048);
    expect_reply(d, 200, "acquired=true");
    assert_int_equal(look().queue_length, 0);
}

static void a_grant_is_released(void **state)
{
    struct http_client *b = world_client(&world, false);
    expect(b, "POST", TARGET, wait_body, 200, "acquired=true fencing_token=2048");
    expect(b, "POST", TARGET, cancel_body, 200, CANCELLED);
    assert_int_equal(look().holders, 0);
    expect(b, "POST", TARGET, cancel_body, 200, "acquired=false reason=\"already_released\"");
    expect(b, "POST", TARGET, wait_body, 200, "acquired=false reason=\"already_released\"");
}

static void a_grant_that_comes_before_the_cancel_is_released(void **state)
{
    (void)holder("a");
    struct http_client *b = waiter(wait_body);
    client_close(b);
    world_run(&world);
    struct http_client *c = world_client(&world, false);
    world.gateway.is_held = true;
    (void)client_request_to(c, "POST", TARGET, cancel_body);
    deliver_one_step(); /* the acquire, which waits; the cancel is submitted */
    release_elsewhere(2048);
    assert_int_equal(look().holders, 1);
    world.gateway.is_held = false;
    world_run(&world);
    expect_reply(c, 200, CANCELLED);
    assert_int_equal(look().holders, 0);
    assert_int_equal(look().queue_length, 0);
}

/* An earlier attempt arrives between the two steps, and the number of the cancel is not the latest. */
static void a_wait_that_is_attached_anew_meanwhile_leaves_too(void **state)
{
    (void)holder("a");
    struct http_client *b = waiter(wait_body);
    client_close(b);
    world_run(&world);
    struct http_client *c = world_client(&world, false);
    world.gateway.is_held = true;
    (void)client_request_to(c, "POST", TARGET, cancel_body);
    deliver_one_step();
    attach_elsewhere();
    world.gateway.is_held = false;
    world_run(&world);
    expect_reply(c, 200, CANCELLED);
    assert_int_equal(look().queue_length, 0);
}

static void a_request_that_never_arrived_gets_no_lock_later(void **state)
{
    struct http_client *a = holder("a");
    struct http_client *c = world_client(&world, false);
    expect(c, "POST", TARGET, cancel_body, 200, CANCELLED);
    assert_int_equal(look().queue_length, 0);
    release(a, "a", 2048);
    expect(c, "POST", TARGET, wait_body, 200, CANCELLED);
    assert_int_equal(look().holders, 0);
}

static void who_goes_while_it_cancels_leaves_the_queue_all_the_same(void **state)
{
    (void)holder("a");
    for (int steps = 0; steps < 2; steps++) {
        struct http_client *b = waiter(wait_body);
        client_close(b);
        world_run(&world);
        assert_int_equal(look().queue_length, 1);
        struct http_client *c = world_client(&world, false);
        world.gateway.is_held = true;
        (void)client_request_to(c, "POST", TARGET, cancel_body);
        if (steps == 1) {
            deliver_one_step();
        }
        client_close(c);
        world.gateway.is_held = false;
        world.gateway.fails = HF_UNAVAILABLE;
        world_run(&world);
        world.gateway.fails = HF_OK;
        world_pass(&world, 600);
        assert_int_equal(look().queue_length, 0);
        world_close(&world);
        world_open(&world, &counted.memory, NULL);
        (void)holder("a");
    }
}

static void without_a_cluster_it_is_not_done_and_says_so(void **state)
{
    (void)holder("a");
    struct http_client *b = waiter(wait_body);
    struct http_client *c = world_client(&world, false);
    world.gateway.fails = HF_UNAVAILABLE;
    expect(c, "POST", TARGET, cancel_body, 503, "error.code=\"unavailable\"");
    world.gateway.fails = HF_OUTCOME_UNKNOWN;
    expect(c, "POST", TARGET, cancel_body, 504, "error.code=\"outcome_unknown\"");
    world.gateway.fails = HF_OK;
    expect_nothing(b);
    expect(c, "POST", TARGET, cancel_body, 200, CANCELLED);
    assert_int_equal(look().queue_length, 0);
}

static void a_cancel_names_its_request(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "POST", TARGET, "{\"client_id\":\"b\",\"cancel\":true}", 400,
           "error.code=\"field_missing\"");
    assert_int_equal(look().holders, 0);
}

/* One level each, however often it is sent. */
static void a_cancel_of_one_level_keeps_the_others(void **state)
{
    struct http_client *a = world_client(&world, false);
    struct reply r = client_request_to(a, "POST", "/api/v1/sessions", "{\"client_id\":\"a\"}");
    char *id = json_text_at(r.body, "session_id");
    char body[300];
    reply_free(&r);
    for (int i = 1; i <= 3; i++) {
        (void)snprintf(body, sizeof(body),
                       "{\"session_id\":\"%s\",\"reentrant\":true,\"request_id\":\"r%d\"}", id, i);
        expect(a, "POST", TARGET, body, 200, "acquired=true");
    }
    assert_int_equal(look().first.depth, 3);
    (void)snprintf(
        body, sizeof(body),
        "{\"session_id\":\"%s\",\"reentrant\":true,\"request_id\":\"r3\",\"cancel\":true}", id);
    for (int i = 0; i < 3; i++) {
        expect(a, "POST", TARGET, body, 200, CANCELLED);
        assert_int_equal(look().first.depth, 2);
    }
    free(id);
}

static void a_campaign_is_withdrawn_likewise(void **state)
{
    struct http_client *a = world_client(&world, false);
    struct http_client *b = world_client(&world, false);
    const char *target = "/api/v1/elections/n/campaign";
    expect(a, "POST", target, "{\"client_id\":\"a\",\"value\":\"x\"}", 200, "elected=true");
    (void)client_request_to(b, "POST", target, wait_body);
    assert_int_equal(look().queue_length, 1);
    expect(a, "POST", target, cancel_body, 200, "elected=false reason=\"cancelled\"");
    assert_int_equal(look().queue_length, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_wait_leaves_the_queue_and_its_connection_is_answered),
        T(a_grant_is_released),
        T(a_grant_that_comes_before_the_cancel_is_released),
        T(a_wait_that_is_attached_anew_meanwhile_leaves_too),
        T(a_request_that_never_arrived_gets_no_lock_later),
        T(who_goes_while_it_cancels_leaves_the_queue_all_the_same),
        T(without_a_cluster_it_is_not_done_and_says_so),
        T(a_cancel_names_its_request),
        T(a_cancel_of_one_level_keeps_the_others),
        T(a_campaign_is_withdrawn_likewise),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
