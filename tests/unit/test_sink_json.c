/* Events and audit records as JSON, and the signature of a webhook. With the argument `print`: a line of
 * each type, which tests/scripts/test_events_schema.py validates. */
#include "base_testing.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "../support/sink_world.h"
#include "sinks/signature.h"

static const struct event_json json = {.cluster = {(const uint8_t *)"prod", 4},
                                       .tenant_name = fake_tenant_name};

static struct slice lease_text(void)
{
    return slice_of("4242424242424242");
}

/* Every field that its type may have, and the ids that must not be shown. */
static struct logged_event rich(enum event_type type)
{
    bool has_wait = type == EVENT_GRANTED || type == EVENT_WAIT_ENDED;
    return (struct logged_event){
        .kind = LOGGED_EVENT,
        .id = {1234, 5},
        .event = {.type = type,
                  .index = 1234,
                  .ordinal = 5,
                  .part = 1,
                  .parts = 2,
                  .node = 3,
                  .at_ms = 90000,
                  .wall_ms = 1731660577123,
                  .token = 7 * TIER_TOKENS,
                  .deadline_ms = 120000,
                  .reason = REASON_TIMEOUT,
                  .ended = type == EVENT_EXPIRED ? ENDED_EXPIRED : ENDED_NOT,
                  .session = {0x4242424242424242, 0x4242424242424242},
                  .lease = {0x4242424242424242, 0x4242424242424242},
                  .name = slice_of("orders/\"42\"\n"),
                  .client = slice_of("worker-1"),
                  .owner = slice_of("thread-9"),
                  .actor = type == EVENT_FORCED ? slice_of("alice") : slice_make(NULL, 0),
                  .text = type == EVENT_FORCED ? slice_of("stuck") : slice_make(NULL, 0),
                  .ttl_ms = type == EVENT_GRANTED ? 60000 : 0,
                  .since_ms = 60000,
                  .waited_ms = has_wait ? 250 : 0,
                  .trace = slice_of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
    };
}

static struct logged_event lossy(uint64_t at_ms)
{
    struct logged_event r = rich(EVENT_RELEASED);
    r.event.tier = TIER_EFFICIENCY;
    r.event.token++;
    r.event.at_ms = at_ms;
    return r;
}

static struct logged_event audit(bool is_fence_reset)
{
    return (struct logged_event){.kind = LOGGED_AUDIT,
                                 .id = {1234, 5},
                                 .audit = {.number = 17,
                                           .index = 1235,
                                           .wall_ms = 1731660577123,
                                           .tenant = 2,
                                           .action = slice_of("FENCE_RESET"),
                                           .resource = slice_of("orders/42"),
                                           .actor = slice_of("alice"),
                                           .reason = slice_of("restored from backup"),
                                           .trace = slice_make(NULL, 0),
                                           .count = 1,
                                           .is_fence_reset = is_fence_reset,
                                           .mark_before = 1024,
                                           .mark_after = 2048}};
}

/* The line is freed by the next call. */
static const char *line_of(const struct logged_event *record)
{
    static char text[EVENT_JSON_MAX + 1];
    struct buffer out;
    buffer_init(&out, memory_system(), EVENT_JSON_MAX);
    text[0] = '\0';
    if (event_json_write(&json, record, &out)) {
        struct slice bytes = buffer_bytes(&out);
        assert_true(bytes.len < sizeof(text) && !out.overflowed);
        memcpy(text, bytes.data, bytes.len);
        text[bytes.len] = '\0';
    }
    buffer_close(&out);
    return text;
}

static void assert_has(const char *line, const char *part)
{
    if (strstr(line, part) == NULL) {
        fail_msg("%s is not in %s", part, line);
    }
}

static void a_grant_has_what_a_consumer_needs(void **state)
{
    (void)state;
    struct logged_event r = rich(EVENT_GRANTED);
    assert_string_equal(
        line_of(&r),
        "{\"id\":\"1234-5\",\"schema\":1,\"type\":\"granted\",\"time\":\"2024-11-15T08:49:37."
        "123Z\","
        "\"cluster\":\"prod\",\"tenant\":\"default\",\"tenant_id\":0,\"tier\":\"CORRECTNESS\","
        "\"lossy\":false,\"name\":\"orders/\\\"42\\\"\\n\",\"mode\":\"exclusive\",\"token\":7168,"
        "\"client_id\":\"worker-1\",\"owner\":\"thread-9\",\"part\":1,\"parts\":2,"
        "\"expires_at\":\"2024-11-15T08:50:07.123Z\",\"ttl_ms\":60000,\"waited_ms\":250,"
        "\"trace\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"}");
}

static void an_end_says_how_long_it_was_held_and_who_ended_it(void **state)
{
    (void)state;
    struct logged_event r = rich(EVENT_FORCED);
    const char *line = line_of(&r);
    assert_has(line, "\"type\":\"forced\"");
    assert_has(line, "\"held_ms\":30000");
    assert_has(line, "\"actor\":\"alice\",\"reason\":\"stuck\"");
    r = rich(EVENT_WAIT_ENDED);
    line = line_of(&r);
    assert_has(line, "\"reason\":\"timeout\"");
    assert_has(line, "\"waited_ms\":250");
}

static void no_event_shows_a_session_or_a_lease(void **state)
{
    (void)state;
    for (unsigned type = EVENT_NONE + 1; type < EVENT_COUNT; type++) {
        struct logged_event r = rich((enum event_type)type);
        assert_null(strstr(line_of(&r), (const char *)lease_text().data));
    }
}

static void what_only_sessions_and_nodes_need_is_left_out(void **state)
{
    (void)state;
    const enum event_type types[] = {EVENT_LOST, EVENT_SUPERSEDED, EVENT_PUBLISHED, EVENT_LINGERS};
    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct logged_event r = rich(types[i]);
        assert_string_equal(line_of(&r), "");
    }
}

static void an_event_of_efficiency_is_lossy_and_keeps_its_id(void **state)
{
    (void)state;
    char first[EVENT_JSON_MAX];
    struct logged_event r = lossy(90000);
    snprintf(first, sizeof(first), "%s", line_of(&r));
    assert_has(first, "\"tier\":\"EFFICIENCY\",\"lossy\":true");
    assert_true(strncmp(first, "{\"id\":\"1234-5-", 14) == 0);
    assert_string_equal(first, line_of(&r));
    r = lossy(90001);
    assert_string_not_equal(first, line_of(&r));
}

static void an_audit_record_has_its_own_number(void **state)
{
    (void)state;
    struct logged_event r = audit(true);
    assert_string_equal(
        line_of(&r),
        "{\"id\":\"audit-2-17\",\"schema\":1,\"type\":\"audit\",\"time\":\"2024-11-15T08:49:37."
        "123Z\",\"cluster\":\"prod\",\"tenant\":null,\"tenant_id\":2,\"tier\":\"CORRECTNESS\","
        "\"lossy\":false,\"name\":\"orders/42\",\"number\":17,\"action\":\"FENCE_RESET\","
        "\"actor\":\"alice\",\"reason\":\"restored from backup\",\"holders\":1,\"slot\":0,"
        "\"previous\":1024,\"highest\":2048}");
}

static void the_longest_event_fits_into_a_line(void **state)
{
    (void)state;
    char nasty[EVENT_TEXT_MAX];
    memset(nasty, 1, sizeof(nasty)); /* six bytes each */
    struct logged_event r = rich(EVENT_PROCLAIMED);
    r.event.name = slice_make(nasty, LIMIT_NAME);
    r.event.client = slice_make(nasty, LIMIT_CLIENT);
    r.event.owner = slice_make(nasty, LIMIT_OWNER);
    r.event.actor = slice_make(nasty, LIMIT_ACTOR);
    r.event.trace = slice_make(nasty, LIMIT_TRACE);
    r.event.text = slice_make(nasty, EVENT_TEXT_MAX);
    r.event.token = r.event.at_ms = UINT64_MAX / 2;
    assert_true(strlen(line_of(&r)) > 6 * EVENT_TEXT_MAX);
}

/* ---- the signature ---- */

static void the_signature_is_that_of_a_known_vector(void **state)
{
    (void)state;
    /* printf '%s' '1700000000.[{"id":"1-0"}]' | openssl dgst -sha256 -hmac 'whsec_0123456789abcdef' */
    struct signature_secrets secrets = {.count = 1, .len = {22}};
    char text[SIGNATURE_TEXT];
    memcpy(secrets.bytes[0], "whsec_0123456789abcdef", 22);
    signature_write(&secrets, 1700000000, slice_of("[{\"id\":\"1-0\"}]"), text);
    assert_string_equal(
        text, "t=1700000000,v1=2d7d0c75426de65c3c746aaf738215027dc2ecc1c4078c87a5c7ddfb3b793e08");
}

static void write_secret(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void secrets_are_read_and_weak_ones_refused(void **state)
{
    (void)state;
    char folder[] = "/tmp/holdfast-sink-XXXXXX";
    char path[64];
    char problem[SIGNATURE_PROBLEM] = "";
    char text[SIGNATURE_TEXT];
    struct signature_secrets secrets;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/secret", folder);
    assert_false(signature_load(&secrets, path, problem));
    write_secret(path, "0123456789abcdef\n\nfedcba9876543210\r\n", 0600);
    assert_true(signature_load(&secrets, path, problem));
    assert_int_equal(secrets.count, 2);
    signature_write(&secrets, 1, slice_of(""), text);
    assert_int_equal(strlen(text), strlen("t=1") + 2 * (4 + 64));
    const struct {
        const char *text;
        mode_t mode;
        const char *problem;
    } wrong[] = {{"0123456789abcdef\n", 0640, "chmod 600"},
                 {"short\n", 0600, "16 to 256 bytes"},
                 {"\n\n", 0600, "no secret"},
                 {"0123456789abcdef\n0123456789abcdef\n0123456789abcdef\n", 0600, "at most two"}};
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        write_secret(path, wrong[i].text, wrong[i].mode);
        assert_false(signature_load(&secrets, path, problem));
        assert_has(problem, wrong[i].problem);
        assert_int_equal(secrets.count, 2);
    }
    unlink(path);
    rmdir(folder);
}

/* ---- for the schema ---- */

static int print_lines(void)
{
    struct buffer out;
    for (unsigned type = EVENT_NONE + 1; type < EVENT_COUNT; type++) {
        struct logged_event r = rich((enum event_type)type);
        const char *line = line_of(&r);
        if (line[0] != '\0') {
            puts(line);
        }
    }
    struct logged_event more[] = {lossy(90000), audit(true), audit(false)};
    for (unsigned i = 0; i < 3; i++) {
        puts(line_of(&more[i]));
    }
    buffer_init(&out, memory_system(), EVENT_JSON_MAX);
    event_json_write_gap(&json, 5, 40, 1731660577123, &out);
    printf("%.*s\n", (int)buffer_len(&out), (const char *)buffer_bytes(&out).data);
    buffer_close(&out);
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "print") == 0) {
        return print_lines();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grant_has_what_a_consumer_needs),
        cmocka_unit_test(an_end_says_how_long_it_was_held_and_who_ended_it),
        cmocka_unit_test(no_event_shows_a_session_or_a_lease),
        cmocka_unit_test(what_only_sessions_and_nodes_need_is_left_out),
        cmocka_unit_test(an_event_of_efficiency_is_lossy_and_keeps_its_id),
        cmocka_unit_test(an_audit_record_has_its_own_number),
        cmocka_unit_test(the_longest_event_fits_into_a_line),
        cmocka_unit_test(the_signature_is_that_of_a_known_vector),
        cmocka_unit_test(secrets_are_read_and_weak_ones_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
