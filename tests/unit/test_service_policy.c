/* The policy as a document (src/service/auth/document.c): its form, and its difference to the policy
 * in force. */
#include "http_testing.h"

#include "auth_testing.h"
#include "service/auth/document.h"

static const char whole[] =
    "{\"tenants\":[{\"name\":\"default\"},{\"name\":\"red\",\"quotas\":{\"locks\":10}}],"
    "\"principals\":[{\"tenant\":\"default\",\"name\":\"root\",\"description\":\"the first\","
    "\"grants\":[{\"tenant\":\"*\",\"prefix\":\"*\",\"rights\":[\"admin\",\"read\"]}]},"
    "{\"tenant\":\"red\",\"name\":\"ci\",\"grants\":[{\"tenant\":\"red\",\"prefix\":\"app/\","
    "\"rights\":[\"lock\"]},{\"tenant\":\"red\",\"prefix\":\"one\",\"rights\":[\"read\"]}]}],"
    "\"barred_serials\":[\"1a\",\"2b\"]}";

static const struct policy *policy(void)
{
    return core_policy(world.gateway.core);
}

static struct policy_document *document(const char *text)
{
    struct fault fault;
    struct policy_document *d = document_new(&counted.memory, slice_of(text), &fault);
    if (d == NULL) {
        fail_msg("%s", fault.text);
    }
    return d;
}

/* The lines of the difference, with '|' between them. */
static void differs_by(const char *text, const char *expected)
{
    struct policy_document *d = document(text);
    struct packed changes;
    struct buffer texts;
    struct fault fault;
    buffer_init(&texts, &counted.memory, 1 << 20);
    assert_int_equal(document_compare(d, policy(), &changes, &texts, &fault), HF_OK);
    uint32_t lines = 0;
    for (size_t i = 0; i < buffer_len(&texts); i++) {
        uint8_t *c = texts.data + texts.start + i;
        lines += *c == '\n';
        *c = *c == '\n' ? '|' : *c;
    }
    buffer_append_byte(&texts, '\0');
    assert_string_equal(buffer_bytes(&texts).data, expected);
    assert_int_equal(lines, changes.count);
    buffer_close(&texts);
    document_free(d);
}

static void apply(struct http_client *c, const char *text, int status, const char *expected)
{
    expect(c, "PUT", "/api/v1/auth/policy", text, status, expected);
}

static void the_difference_leads_to_the_document(void **state)
{
    struct http_client *c = world_client(&world, true);
    differs_by(whole, "add tenant red|add principal default/root|add principal red/ci|"
                      "bar serial 1a|bar serial 2b|");
    apply(c, whole, 200, "version=1 changes.0=\"add\\u0020tenant\\u0020red\" changes.5=-");
    differs_by(whole, "");
    apply(c, whole, 200, "version=1 changes.0=-");
    struct reply shown = client_request_to(c, "GET", "/api/v1/auth/policy", NULL);
    assert_int_equal(shown.status, 200);
    expect_json(shown.body, "version=1 tenants.1.quotas.locks=10 principals.1.name=\"ci\" "
                            "principals.1.grants.0.prefix=\"app/\" barred_serials.1=\"2b\"");
    differs_by(shown.body, ""); /* what is shown can be applied */
    reply_free(&shown);
    differs_by(
        "{\"tenants\":[{\"name\":\"red\",\"quotas\":{\"locks\":11}}],"
        "\"principals\":[{\"tenant\":\"red\",\"name\":\"new\"}],\"barred_serials\":[\"2b\"]}",
        "change tenant red|remove principal default/root|remove principal red/ci|"
        "add principal red/new|allow serial 1a|");
    differs_by("{}", "remove principal default/root|remove principal red/ci|remove tenant red|"
                     "allow serial 1a|allow serial 2b|");
    apply(c, "{}", 400, "error.code=\"invalid_policy\""); /* no administrator would remain */
    static const char root[] =
        "{\"principals\":[{\"tenant\":\"default\",\"name\":\"root\",\"description\":\"the first\","
        "\"grants\":[{\"tenant\":\"*\",\"prefix\":\"*\",\"rights\":[\"admin\",\"read\"]}]}]}";
    differs_by(root, "remove principal red/ci|remove tenant red|allow serial 1a|allow serial 2b|");
    apply(c, root, 200, "version=2");
    differs_by(root, "");
    assert_int_equal(policy_tenants(policy()), 1);
}

static void a_dry_run_changes_nothing(void **state)
{
    struct http_client *c = world_client(&world, true);
    expect(c, "PUT", "/api/v1/auth/policy?dry_run=true", whole, 200,
           "version=0 dry_run=true changes.4=\"bar\\u0020serial\\u00202b\"");
    assert_int_equal(policy_version(policy()), 0);
    assert_int_equal(world.gateway.submitted[COMMAND_POLICY_CHANGE], 0);
}

static void a_document_of_another_version_conflicts(void **state)
{
    struct http_client *c = world_client(&world, true);
    apply(c, "{\"version\":3}", 409, "error.code=\"policy_conflict\"");
    apply(c, "{\"version\":0,\"tenants\":[{\"name\":\"red\"}]}", 200, "version=1");
    apply(c, "{\"version\":0,\"tenants\":[{\"name\":\"red\"}]}", 409,
          "error.code=\"policy_conflict\"");
}

static void several_changes_on_one_connection(void **state)
{
    struct http_client *c = world_client(&world, true);
    for (unsigned i = 0; i < 3; i++) {
        apply(c, whole, 200, "version=1");
        expect(c, "POST", "/api/v1/auth/tokens", "{\"principal\":\"red/nobody\"}", 404,
               "error.code=\"policy_not_found\"");
    }
    expect(c, "POST", "/api/v1/auth/tokens", "{\"principal\":\"red/ci\",\"ttl_seconds\":60}", 200,
           "number=1 version=2 token=* expires_at=*");
    expect(c, "POST", "/api/v1/auth/tokens", "{\"principal\":\"red/ci\"}", 200,
           "number=2 expires_at=-");
    expect(c, "GET", "/api/v1/auth/tokens?principal=red/ci", NULL, 200,
           "tokens.1.number=2 tokens.1.token=- tokens.1.sha256=- tokens.2=-");
    expect(c, "DELETE", "/api/v1/auth/tokens/1", NULL, 200, "number=1 version=4");
    expect(c, "DELETE", "/api/v1/auth/tokens/1", NULL, 404, "error.code=\"policy_not_found\"");
}

/* Each error names what is wrong. */
static void the_form_is_checked(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"[]", "must be an object"},
        {"{\"tenant\":[]}", "no member tenant"},
        {"{\"version\":\"1\"}", "version: must be a whole number"},
        {"{\"version\":-1}", "version: must be a whole number"},
        {"{\"tenants\":{}}", "tenants: must be an array"},
        {"{\"tenants\":[1]}", "tenants: must be an object"},
        {"{\"tenants\":[{\"name\":\"a b\"}]}", "no valid name"},
        {"{\"tenants\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"a\"}]}", "there twice"},
        {"{\"tenants\":[{\"name\":\"a\",\"quotas\":{\"lock\":1}}]}", "no member lock"},
        {"{\"tenants\":[{\"name\":\"a\",\"quotas\":{\"locks\":\"1\"}}]}", "locks: must be a whole"},
        {"{\"tenants\":[{\"name\":\"a\",\"quotas\":{\"locks\":-1}}]}", "locks: must be a whole"},
        {"{\"principals\":[{\"tenant\":\"default\",\"name\":\"\"}]}", "no valid tenant and name"},
        {"{\"principals\":[{\"tenant\":\"red\",\"name\":\"a\"}]}", "no tenant red"},
        {"{\"principals\":[{\"tenant\":\"default\",\"name\":\"a\"},"
         "{\"tenant\":\"default\",\"name\":\"a\"}]}",
         "there twice"},
        {"{\"principals\":[{\"tenant\":\"default\",\"name\":\"a\",\"description\":1}]}",
         "description"},
        {"{\"principals\":[{\"tenant\":\"default\",\"name\":\"a\",\"grants\":[{\"tenant\":\"red\","
         "\"prefix\":\"*\",\"rights\":[\"lock\"]}]}]}",
         "no tenant red"},
        {"{\"principals\":[{\"tenant\":\"default\",\"name\":\"a\",\"grants\":[{\"tenant\":\"*\","
         "\"prefix\":\"*\",\"rights\":[\"look\"]}]}]}",
         "some of lock, read, operate, admin"},
        {"{\"principals\":[{\"tenant\":\"default\",\"name\":\"a\",\"grants\":[{\"tenant\":\"*\","
         "\"prefix\":\"*\",\"rights\":[]}]}]}",
         "some of lock, read, operate, admin"},
        {"{\"principals\":[{\"tenant\":\"default\",\"name\":\"a\",\"grants\":[{\"tenant\":\"*\","
         "\"rights\":[\"lock\"]}]}]}",
         "a prefix that ends"},
        {"{\"principals\":[{\"tenant\":\"default\",\"name\":\"a\",\"grants\":[{\"tenant\":\"*\","
         "\"prefix\":\"a//\",\"rights\":[\"lock\"]}]}]}",
         "a prefix that ends"},
        {"{\"barred_serials\":[\"1A\"]}", "lower-case hexadecimal"},
        {"{\"barred_serials\":[\"1a\",\"1a\"]}", "is there once"},
        {"{\"barred_serials\":[1]}", "lower-case hexadecimal"},
        {"{\"barred_serials\":", "not JSON"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fault fault;
        struct policy_document *d = document_new(&counted.memory, slice_of(wrong[i].text), &fault);
        if (d != NULL) {
            fail_msg("accepted: %s", wrong[i].text);
        }
        assert_int_equal(fault.code, HF_INVALID_POLICY);
        if (strstr(fault.text, wrong[i].says) == NULL) {
            fail_msg("%s: %s", wrong[i].text, fault.text);
        }
    }
}

static void a_difference_that_is_too_large_is_refused(void **state)
{
    static char text[64 << 10];
    size_t len = (size_t)snprintf(text, sizeof(text), "{\"principals\":[");
    for (unsigned i = 0; i <= LIMIT_POLICY_CHANGES; i++) {
        len +=
            (size_t)snprintf(text + len, sizeof(text) - len,
                             "%s{\"tenant\":\"default\",\"name\":\"p%u\"}", i == 0 ? "" : ",", i);
    }
    (void)snprintf(text + len, sizeof(text) - len, "]}");
    apply(world_client(&world, true), text, 429, "error.code=\"limit_policy\"");
    assert_int_equal(policy_version(policy()), 0);
}

static void an_administrator_remains(void **state)
{
    static const char *const without[] = {
        "{}",
        "{\"principals\":[{\"tenant\":\"default\",\"name\":\"root\",\"grants\":[{\"tenant\":\"*\","
        "\"prefix\":\"app/\",\"rights\":[\"admin\"]}]}]}",
        "{\"principals\":[{\"tenant\":\"default\",\"name\":\"root\",\"grants\":[{\"tenant\":"
        "\"default\",\"prefix\":\"*\",\"rights\":[\"admin\"]}]}]}",
        "{\"principals\":[{\"tenant\":\"default\",\"name\":\"root\",\"grants\":[{\"tenant\":\"*\","
        "\"prefix\":\"*\",\"rights\":[\"read\"]}]}]}",
    };
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
        struct policy_document *d = document(without[i]);
        assert_false(document_has_administrator(d));
        document_free(d);
    }
    struct policy_document *d = document(whole);
    assert_true(document_has_administrator(d));
    document_free(d);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(the_difference_leads_to_the_document),
        T(a_dry_run_changes_nothing),
        T(a_document_of_another_version_conflicts),
        T(several_changes_on_one_connection),
        T(the_form_is_checked),
        T(a_difference_that_is_too_large_is_refused),
        T(an_administrator_remains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
