/* Tests of requests to the admin socket (node/admin/admin_request.h) with a real core: what they make,
 * and that an attempt whose answer was lost is not made twice. */
#include "base_testing.h"

#include "core/policy.h"
#include "core/view.h"
#include "fake_gateway.h"
#include "node/admin/admin_request.h"

#define DIGEST_1 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define DIGEST_2 "100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define REQUEST(op, principal, digest) \
    "{\"op\":\"" op "\",\"principal\":\"" principal "\",\"sha256\":\"" digest "\"}"

static struct fake_gateway gateway;
static struct admin_request request;
static char answered[ADMIN_ANSWER_MAX];

static const struct policy *policy(void)
{
    return core_policy(gateway.core);
}

static void begin(const char *line)
{
    admin_request_begin(&request, &gateway.gateway, slice_of(line), 1000);
}

/* As a node: callbacks, then what is due. */
static void go_on(void)
{
    for (int i = 0; i < 20 && request.state != ADMIN_ANSWERED; i++) {
        (void)fake_gateway_deliver(&gateway);
        admin_request_run(&request);
    }
}

static const char *answer(void)
{
    struct buffer out;
    assert_int_equal(request.state, ADMIN_ANSWERED);
    buffer_init(&out, memory_system(), ADMIN_ANSWER_MAX);
    admin_request_answer(&request, &out);
    assert_false(out.overflowed);
    snprintf(answered, sizeof(answered), "%.*s", (int)buffer_len(&out),
             (const char *)buffer_bytes(&out).data);
    buffer_close(&out);
    return answered;
}

static const char *answer_to(const char *line)
{
    begin(line);
    go_on();
    return answer();
}

static void bootstrap_makes_tenant_principal_and_token(void **state)
{
    (void)state;
    struct principal_view principal;
    struct tenant_view tenant;
    struct token_view token;
    static const uint8_t digest[TOKEN_SHA_BYTES] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                                    11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                                    22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    fake_gateway_open(&gateway);
    assert_string_equal(answer_to(REQUEST("bootstrap", "ops/root", DIGEST_1)),
                        "{\"principal\":\"ops/root\",\"version\":1}\n");
    assert_true(policy_find_tenant(policy(), slice_of("ops"), &tenant));
    assert_true(policy_find_principal(policy(), tenant.number, slice_of("root"), &principal));
    assert_true(policy_allows_cluster(policy(), principal.number, RIGHT_ADMIN));
    assert_true(policy_find_token(policy(), digest, &token));
    assert_int_equal(token.principal, principal.number);
    /* Once. */
    assert_non_null(strstr(answer_to(REQUEST("bootstrap", "ops/root2", DIGEST_2)),
                           "\"error\":\"policy_exists\""));
    assert_int_equal(policy_version(policy()), 1);
    fake_gateway_close(&gateway);
}

static void rescue_replaces_the_administrators_and_keeps_the_quotas(void **state)
{
    (void)state;
    struct tenant_view tenant;
    uint8_t bytes[256];
    struct packer changes = packer_make(bytes, sizeof(bytes));
    struct policy_change put = {.kind = POLICY_TENANT_PUT, .tenant = slice_of("ops")};
    struct command c;
    struct result result;
    fake_gateway_open(&gateway);
    answer_to(REQUEST("bootstrap", "default/first", DIGEST_1));
    put.quotas.locks = 77;
    assert_true(pack_policy_change(&changes, &put));
    command_init(&c, COMMAND_POLICY_CHANGE);
    c.policy_change.expect = UINT64_MAX;
    c.policy_change.actor = c.policy_change.reason = slice_of("test");
    c.policy_change.changes = packer_list(&changes);
    fake_gateway_apply(&gateway, &c, &result);
    assert_int_equal(result.error, HF_OK);
    assert_string_equal(answer_to(REQUEST("rescue", "ops/second", DIGEST_2)),
                        "{\"principal\":\"ops/second\",\"version\":3}\n");
    assert_false(policy_find_principal(policy(), 0, slice_of("first"), NULL));
    assert_true(policy_find_tenant(policy(), slice_of("ops"), &tenant));
    assert_int_equal(tenant.quotas.locks, 77);
    fake_gateway_close(&gateway);
}

/* The first attempt was done, but its result never came. */
static void an_attempt_whose_result_was_lost_is_found_again(void **state)
{
    (void)state;
    fake_gateway_open(&gateway);
    begin(REQUEST("bootstrap", "default/admin", DIGEST_1));
    (void)fake_gateway_deliver(&gateway); /* the barrier */
    admin_request_run(&request);
    gateway.fails = HF_OUTCOME_UNKNOWN;
    gateway.does_before = true;
    (void)fake_gateway_deliver(&gateway);
    gateway.fails = HF_OK;
    gateway.does_before = false;
    go_on();
    assert_string_equal(answer(), "{\"principal\":\"default/admin\",\"version\":1}\n");
    assert_int_equal(gateway.submitted[COMMAND_POLICY_CHANGE], 1);
    assert_int_equal(policy_tokens(policy()), 1);
    fake_gateway_close(&gateway);
}

/* Somebody else changed the policy between the barrier and the change. */
static void a_conflict_is_tried_again_a_few_times(void **state)
{
    (void)state;
    uint8_t bytes[256];
    struct packer changes = packer_make(bytes, sizeof(bytes));
    struct policy_change put = {.kind = POLICY_TENANT_PUT, .tenant = slice_of("other")};
    struct command c;
    struct result result;
    fake_gateway_open(&gateway);
    assert_true(pack_policy_change(&changes, &put));
    command_init(&c, COMMAND_POLICY_CHANGE);
    c.policy_change.expect = UINT64_MAX;
    c.policy_change.actor = c.policy_change.reason = slice_of("test");
    c.policy_change.changes = packer_list(&changes);
    begin(REQUEST("rescue", "default/admin", DIGEST_1));
    (void)fake_gateway_deliver(&gateway);
    admin_request_run(&request);
    fake_gateway_apply(&gateway, &c, &result);
    go_on();
    assert_string_equal(answer(), "{\"principal\":\"default/admin\",\"version\":2}\n");
    assert_int_equal(gateway.submitted[COMMAND_POLICY_CHANGE], 2);
    /* Without end it would keep the caller from its answer. */
    begin(REQUEST("rescue", "default/admin", DIGEST_2));
    for (int i = 0; i < 50 && request.state != ADMIN_ANSWERED; i++) {
        if (request.state == ADMIN_CHANGE) {
            fake_gateway_apply(&gateway, &c, &result);
        }
        (void)fake_gateway_deliver(&gateway);
        admin_request_run(&request);
    }
    assert_non_null(strstr(answer(), "\"error\":\"policy_conflict\""));
    fake_gateway_close(&gateway);
}

static void what_the_cluster_refuses_is_said(void **state)
{
    (void)state;
    fake_gateway_open(&gateway);
    admin_request_begin(&request, NULL, slice_of(REQUEST("rescue", "a/b", DIGEST_1)), 0);
    assert_non_null(strstr(answer(), "\"error\":\"unavailable\""));
    gateway.fails = HF_UNAVAILABLE;
    assert_non_null(
        strstr(answer_to(REQUEST("rescue", "a/b", DIGEST_1)), "\"error\":\"unavailable\""));
    gateway.fails = HF_OK;
    fake_gateway_start_over(&gateway, 5);
    assert_non_null(
        strstr(answer_to(REQUEST("rescue", "a/b", DIGEST_1)), "\"error\":\"not_upgraded\""));
    assert_int_equal(gateway.submitted[COMMAND_POLICY_CHANGE], 0);
    fake_gateway_close(&gateway);
}

static void a_line_that_is_wrong_reaches_nobody(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "{",
        "[]",
        "7",
        "{}",
        REQUEST("apply", "a/b", DIGEST_1),
        REQUEST("rescue", "ab", DIGEST_1),
        REQUEST("rescue", "/b", DIGEST_1),
        REQUEST("rescue", "a/", DIGEST_1),
        REQUEST("rescue", "a/b/c", DIGEST_1),
        REQUEST("rescue", "a/b c", DIGEST_1),
        REQUEST("rescue", "a/b", DIGEST_1 "00"),
        REQUEST("rescue", "a/b", "0001"),
        REQUEST("rescue", "a/b", ""),
        "{\"op\":\"rescue\",\"principal\":\"a/b\",\"sha256\":\"" DIGEST_1 "\",\"x\":1}",
        "{\"op\":\"rescue\",\"principal\":\"a/b\",\"sha256\":\"" DIGEST_1
        "\",\"description\":\"a\\nb\"}",
    };
    fake_gateway_open(&gateway);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        begin(wrong[i]);
        assert_non_null(strstr(answer(), "\"error\":"));
        assert_non_null(strstr(answer(), "\"message\":\""));
    }
    assert_int_equal(gateway.barriers, 0);
    fake_gateway_close(&gateway);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bootstrap_makes_tenant_principal_and_token),
        cmocka_unit_test(rescue_replaces_the_administrators_and_keeps_the_quotas),
        cmocka_unit_test(an_attempt_whose_result_was_lost_is_found_again),
        cmocka_unit_test(a_conflict_is_tried_again_a_few_times),
        cmocka_unit_test(what_the_cluster_refuses_is_said),
        cmocka_unit_test(a_line_that_is_wrong_reaches_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
