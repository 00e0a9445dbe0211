/* The locks of Terraform's HTTP backend, and the Basic credentials that it sends. */
#include "http_testing.h"

#include "service/auth/auth.h"

#define PATH "/integrations/terraform/prod/network"
#define INFO(id) "{\"ID\":\"" id "\",\"Who\":\"ana@laptop\",\"Created\":\"2026-03-02T09:15:04Z\"}"

static void a_run_has_one_lock_however_often_it_sends_the_request(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "LOCK", PATH, INFO("a"), 200,
           "acquired=true fencing_token=2048 expires_in_ms=86400000");
    expect(c, "LOCK", PATH, INFO("a"), 200, "acquired=true fencing_token=2048");
    expect(c, "LOCK", PATH, INFO("b"), 423, "ID=\"a\" Who=\"ana@laptop\"");
    expect(c, "UNLOCK", PATH, INFO("a"), 200, "released=true");
    expect(c, "UNLOCK", PATH, INFO("a"), 200, "released=true");
    expect(c, "LOCK", PATH, INFO("b"), 200, "acquired=true");
}

static void the_end_of_a_run_takes_no_lock_of_another(void **state)
{
    struct http_client *c = world_client(&world, true);
    expect(c, "LOCK", PATH, INFO("a"), 200, "acquired=true");
    expect(c, "UNLOCK", PATH, INFO("b"), 409, "error.code=\"lock_id_mismatch\"");
    expect(c, "UNLOCK", PATH "/too", INFO("a"), 409, "error.code=\"lock_id_mismatch\"");
    world_pass(&world, LIMIT_TTL_MAX_MS);
    c = world_client(&world, true); /* the idle connection was closed */
    expect(c, "UNLOCK", PATH, INFO("a"), 409, "error.code=\"lock_id_mismatch\"");
    expect(c, "LOCK", PATH, INFO("a"), 409, "error.code=\"lock_id_mismatch\"");
    expect(c, "LOCK", PATH, INFO("b"), 200, "acquired=true");
    expect(c, "UNLOCK", PATH, INFO("a"), 409, "error.code=\"lock_id_mismatch\"");
    expect(c, "GET", "/api/v1/locks/prod/network", NULL, 200, "holders.0.owner=\"b\"");
}

static void without_an_id_only_an_operator_unlocks(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct http_client *admin = world_client(&world, true);
    expect(c, "LOCK", PATH, INFO("a"), 200, "acquired=true");
    expect(c, "UNLOCK", PATH, "", 403, "error.code=\"denied\"");
    expect(admin, "UNLOCK", PATH, "", 200, "released=true holders=1");
    expect(admin, "UNLOCK", PATH, "", 404, "error.code=\"not_held\"");
}

/* "": refused. */
static void expect_token(const char *authorization, const char *token)
{
    uint8_t bytes[AUTH_BASIC_MAX];
    struct slice got = slice_make(NULL, 0);
    bool is = auth_basic(slice_of(authorization), bytes, &got);
    assert_true(is == (token[0] != '\0') && slice_equal(got, is ? slice_of(token) : got));
}

static void the_password_of_basic_credentials_is_the_token(void **state)
{
    char long_one[1000];
    expect_token("Basic dTp0b2tlbg==", "token");   /* u:token */
    expect_token("basic  dTp0bzprZW4=", "to:ken"); /* u:to:ken; the user has no colon */
    expect_token("Basic Onh5eg==", "xyz");         /* :xyz */
    expect_token("Basic dTp+Pz4/", "~?>?");        /* the digits + and / */
    expect_token("Basic", "");
    expect_token("Basic ", "");
    expect_token("Basicd dTp0", "");
    expect_token("Bearer dTp0b2tlbg==", "");
    expect_token("Basic dTp0b2tlbg=", "");   /* padding */
    expect_token("Basic dTp0b2tlbg", "");    /* ... */
    expect_token("Basic dTp0b2tlbg===", ""); /* ... */
    expect_token("Basic dTp0b2tl!g==", "");
    expect_token("Basic dTp0b2tl bg==", "");
    expect_token("Basic dXNlcg==", ""); /* user, without a colon */
    expect_token("Basic dXNlcjo=", ""); /* user:, without a password */
    (void)snprintf(long_one, sizeof(long_one), "Basic OnR0%0*d", (AUTH_BASIC_MAX - 2) / 3 * 4, 0);
    expect_token(long_one, "");
    long_one[10 + (AUTH_BASIC_MAX - 3) / 3 * 4] = '\0';
    uint8_t bytes[AUTH_BASIC_MAX];
    struct slice token;
    assert_true(auth_basic(slice_of(long_one), bytes, &token));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_run_has_one_lock_however_often_it_sends_the_request,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_end_of_a_run_takes_no_lock_of_another, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_an_id_only_an_operator_unlocks, set_up, tear_down),
        cmocka_unit_test(the_password_of_basic_credentials_is_the_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
