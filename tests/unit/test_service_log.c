/* The log's levels through the API: seen and changed by operators, one node at a time. */
#include "base_testing.h"

#include "http_world.h"

static struct http_world world;
static struct counted counted;
static char node_level[256];

static void each(void *ctx, void (*visit)(void *to, const char *subsystem, const char *level),
                 void *to)
{
    visit(to, "node", ctx);
    visit(to, "raft", "info");
}

static const char *set(void *ctx, const char *text)
{
    if (strcmp(text, "debug") != 0 && strcmp(text, "warn") != 0) {
        return "a level must be one of debug, info, warn, error, off";
    }
    snprintf(ctx, sizeof(node_level), "%s", text);
    return NULL;
}

static int set_up(void **state)
{
    struct service_options options = {.log = {.ctx = node_level, .each = each, .set = set}};
    snprintf(node_level, sizeof(node_level), "info");
    counted_init(&counted);
    world_open(&world, &counted.memory, &options);
    return 0;
}

static int tear_down(void **state)
{
    world_close(&world);
    assert_all_given_back(&counted);
    return 0;
}

#define PATH "/api/v1/log-level"

static void an_operator_sees_and_changes_the_levels(void **state)
{
    struct http_client *c = world_client(&world, true);
    expect(c, "GET", PATH, NULL, 200, "node=1 levels.node=\"info\" levels.raft=\"info\"");
    expect(c, "PUT", PATH, "{\"log_level\":\"debug\"}", 200,
           "node=1 levels.node=\"debug\" levels.raft=\"info\"");
    expect(c, "GET", PATH, NULL, 200, "levels.node=\"debug\"");
}

static void others_are_refused_and_nothing_is_changed(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "GET", PATH, NULL, 403, "error.code=\"denied\"");
    expect(c, "PUT", PATH, "{\"log_level\":\"debug\"}", 403, "error.code=\"denied\"");
    assert_string_equal(node_level, "info");
}

static void what_is_no_level_is_refused_with_the_words_that_are(void **state)
{
    struct http_client *c = world_client(&world, true);
    struct reply r = client_request_to(c, "PUT", PATH, "{\"log_level\":\"loud\"}");
    assert_int_equal(r.status, 400);
    expect_json(r.body, "error.code=\"field_range\"");
    assert_non_null(strstr(r.body, "log_level: a level must be one of debug, info"));
    reply_free(&r);
    expect(c, "PUT", PATH, "{\"log_level\":\"\"}", 400, "error.code=\"field_range\"");
    expect(c, "PUT", PATH, "{\"log_level\":7}", 400, "error.code=\"field_type\"");
    expect(c, "PUT", PATH, "{\"level\":\"debug\"}", 400, "error.code=\"field_unknown\"");
    expect(c, "PUT", PATH, "{}", 400, "error.code=\"field_missing\"");
    expect(c, "PUT", PATH, "", 400, "error.code=\"json_malformed\"");
    assert_string_equal(node_level, "info");
}

static void the_path_says_which_methods_it_has(void **state)
{
    struct http_client *c = world_client(&world, true);
    struct reply r = client_request_to(c, "POST", PATH, "{}");
    assert_int_equal(r.status, 405);
    assert_non_null(strstr(r.head, "Allow: GET, HEAD, PUT, OPTIONS\r\n"));
    reply_free(&r);
}

static void where_levels_are_fixed_there_is_no_such_thing(void **state)
{
    world_close(&world);
    world_open(&world, &counted.memory, NULL);
    struct http_client *c = world_client(&world, true);
    expect(c, "GET", PATH, NULL, 404, "error.code=\"not_found\"");
    expect(c, "PUT", PATH, "{\"log_level\":\"debug\"}", 404, "error.code=\"not_found\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_operator_sees_and_changes_the_levels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(others_are_refused_and_nothing_is_changed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_level_is_refused_with_the_words_that_are, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_path_says_which_methods_it_has, set_up, tear_down),
        cmocka_unit_test_setup_teardown(where_levels_are_fixed_there_is_no_such_thing, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
