/* Searches in the audit trail: filters, both orders, pages, and the part that only the event log has.
 * The test is the log. */
#include "http_testing.h"

#include <holdfast/v1/admin.pb-c.h>

#include "h2_world.h"

#define ADMIN "/holdfast.v1.AdminService/"
#define START UINT64_C(1731660577123) /* the wall clock of the fake gateway */

/* Somebody changes a setting; a second passes. */
static void note(const char *name, const char *actor)
{
    struct command c;
    struct result result;
    command_init(&c, COMMAND_NOTE);
    c.note.action = NOTE_SETTING;
    c.note.name = slice_of(name);
    c.note.actor = slice_of(actor);
    c.note.reason = slice_of("why");
    fake_gateway_apply(&world.gateway, &c, &result);
    assert_int_equal(result.error, HF_OK);
}

static void note_each_second(void)
{
    static const char *const rows[][2] = {{"a/1", "ann"}, {"a/2", "bob"}, {"b/1", "ann"},
                                          {"a/1", "bob"}, {"b/2", "ann"}, {"a/1", "ann"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        note(rows[i][0], rows[i][1]);
        world_pass(&world, 1000);
    }
}

#define AUDIT "/api/v1/audit"

static void records_are_filtered(void **state)
{
    struct http_client *c = world_client(&world, true);
    note_each_second();
    (void)state;
    expect(c, "GET", AUDIT "?name=a/1", NULL, 200,
           "records.0.number=1 records.1.number=4 records.2.number=6 records.3=- next_cursor=- "
           "complete_since=-");
    expect(c, "GET", AUDIT "?prefix=b/", NULL, 200,
           "records.0.number=3 records.1.number=5 records.2=-");
    expect(c, "GET", AUDIT "?actor=bob", NULL, 200,
           "records.0.number=2 records.1.number=4 records.2=-");
    expect(c, "GET", AUDIT "?actor=bob&name=a/1", NULL, 200, "records.0.number=4 records.1=-");
    expect(c, "GET", AUDIT "?action=setting", NULL, 200, "records.5.number=6 records.6=-");
    expect(c, "GET", AUDIT "?action=FORCE_UNLOCK", NULL, 200, "records.0=- next_cursor=-");
    expect(c, "GET", AUDIT "?since=2s", NULL, 200, "records.0.number=5 records.1.number=6");
    expect(c, "GET", AUDIT "?since=2024-11-15T08:49:38.123Z&until=2024-11-15T08:49:40.123Z", NULL,
           200, "records.0.number=2 records.1.number=3 records.2=-");
    assert_int_equal(world.gateway.scans, 0); /* the state has them all */
}

static void the_newest_come_first_on_request(void **state)
{
    struct http_client *c = world_client(&world, true);
    note_each_second();
    (void)state;
    expect(c, "GET", AUDIT "?order=newest", NULL, 200,
           "records.0.number=6 records.5.number=1 records.6=- next_cursor=-");
    expect(c, "GET", AUDIT "?order=newest&limit=2&actor=ann", NULL, 200,
           "records.0.number=6 records.1.number=5 records.2=- next_cursor=\"5\"");
    expect(c, "GET", AUDIT "?order=newest&limit=2&actor=ann&cursor=5", NULL, 200,
           "records.0.number=3 records.1.number=1 records.2=-");
    expect(c, "GET", AUDIT "?order=newest&limit=2&actor=ann&cursor=1", NULL, 200,
           "records.0=- next_cursor=-");
    expect(c, "GET", AUDIT "?order=oldest&limit=2&actor=ann", NULL, 200,
           "records.0.number=1 records.1.number=3 next_cursor=\"5\"");
    expect(c, "GET", AUDIT "?order=oldest&limit=2&actor=ann&cursor=5", NULL, 200,
           "records.0.number=5 records.1.number=6 records.2=- next_cursor=-");
    expect(c, "GET", AUDIT "?limit=2&actor=ann&cursor=5", NULL, 200, "records.1.number=6");
}

static void invalid_filters_are_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"since=yesterday", "field_type"},
        {"since=", "field_type"},
        {"until=2h&since=1h", "field_range"},
        {"until=1h&since=1h", "field_range"},
        {"order=newer", "field_range"},
        {"name=a&prefix=a", "field_range"},
        {"name=", "field_range"},
        {"actor=", "field_range"},
        {"action=FORCE", "field_range"},
        {"action=012345678901234567890123456789012", "field_range"},
        {"cursor=x", "field_range"},
        {"cursor=", "field_range"},
        {"cursor=1-2", "field_range"},
        {"cursor=9007199254740992", "field_range"},
        {"actor=ann&limit=0", "field_range"},
        {"actor=ann&limit=1001", "field_range"},
        {"actors=ann", "field_unknown"},
        {"actor=ann&actor=bob", "field_repeated"},
    };
    struct http_client *c = world_client(&world, true);
    struct http_client *nobody = world_client(&world, false);
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char target[200];
        char error[100];
        (void)snprintf(target, sizeof(target), AUDIT "?%s", wrong[i][0]);
        (void)snprintf(error, sizeof(error), "error.code=\"%s\"", wrong[i][1]);
        expect(c, "GET", target, NULL, 400, error);
    }
    expect(nobody, "GET", AUDIT "?actor=ann", NULL, 403, "error.code=\"denied\"");
}

/* ---- records that only the log has ---- */

enum { LOGGED = 12 };

static struct logged_event logged[LOGGED];

/* Twelve records more than the state keeps; it has those from number 13. Those of number 3, 6, 9, 12
 * are by bob. */
static void overflow(void)
{
    static const char *const actors[] = {"bob", "ann", "ann"};
    for (uint32_t i = 1; i <= LIMIT_AUDIT + LOGGED; i++) {
        note("a/1", actors[i % 3]);
        if (i <= LOGGED) {
            logged[i - 1] = (struct logged_event){.kind = LOGGED_AUDIT,
                                                  .audit = {.number = i,
                                                            .index = 100 + i,
                                                            .wall_ms = START,
                                                            .action = slice_of("SETTING"),
                                                            .is_of_cluster = true,
                                                            .resource = slice_of("a/1"),
                                                            .actor = slice_of(actors[i % 3]),
                                                            .reason = slice_of("why")}};
        }
    }
}

static void send(struct http_client *c, const char *target)
{
    char text[400];
    (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: t\r\n\r\n", target);
    client_send(c, text);
    world_run(&world);
}

static void give_page(const struct event_page *page, enum hf_error error)
{
    struct gateway_scan_call *call = world.gateway.scan;
    assert_non_null(call);
    world.gateway.scan = NULL;
    call->done(call, error, page, page == NULL ? "the log is broken" : NULL);
    world_run(&world);
}

/* The log finds bob's records from `from` to `to`, in the order of the search. */
static void give(uint32_t from, uint32_t to, bool more, uint64_t complete_since_ms)
{
    struct logged_event records[LOGGED];
    uint32_t count = 0;
    bool is_down = world.gateway.scanned.newest_first;
    for (uint32_t i = 0; i < LOGGED; i++) {
        uint32_t at = is_down ? LOGGED - 1 - i : i;
        if (at + 1 >= from && at + 1 <= to && (at + 1) % 3 == 0) {
            records[count++] = logged[at];
        }
    }
    assert_int_equal(world.gateway.scanned.kinds, SCAN_AUDIT);
    assert_true(count <= world.gateway.scanned.limit);
    give_page(&(struct event_page){.records = records,
                                   .count = count,
                                   .more = more,
                                   .next = {100 + (is_down ? from : to), EVENT_AUDIT, 1},
                                   .complete_since_ms = complete_since_ms,
                                   .complete_from_begin = complete_since_ms == 0},
              HF_OK);
}

static void answered(struct http_client *c, int status, const char *expected)
{
    struct reply r = client_reply(c);
    if (r.status != status) {
        fail_msg("%d instead of %d: %s", r.status, status, r.body == NULL ? "" : r.body);
    }
    expect_json(r.body, expected);
    reply_free(&r);
}

static void older_records_come_from_the_log(void **state)
{
    struct http_client *c = world_client(&world, true);
    (void)state;
    overflow();
    expect(c, "GET", AUDIT "?limit=1", NULL, 200, "records.0.number=13 next_cursor=\"14\"");
    assert_int_equal(world.gateway.scans, 0); /* as before there was a log */
    send(c, AUDIT "?actor=bob&limit=3");
    assert_false(world.gateway.scanned.is_continued);
    give(3, 3, true, START + 5);
    answered(c, 200,
             "records.0.number=3 records.1=- next_cursor=\"103-4294967295-1\" "
             "complete_since=*");
    send(c, AUDIT "?actor=bob&limit=3&cursor=103-4294967295-1");
    assert_true(world.gateway.scanned.is_continued && world.gateway.scanned.after.index == 103);
    give(6, 12, false, 0);
    answered(c, 200,
             "records.0.number=6 records.1.number=9 records.2.number=12 "
             "records.3=- next_cursor=\"15\" complete_since=-");
    send(c, AUDIT "?actor=bob&limit=3&cursor=15");
    answered(c, 200, "records.0.number=15 records.2.number=21 next_cursor=\"24\"");
}

/* The state gains records between two pages: those that it lost meanwhile are in the log. */
static void a_number_that_has_left_the_state_is_found_in_the_log(void **state)
{
    struct http_client *c = world_client(&world, true);
    (void)state;
    overflow();
    send(c, AUDIT "?actor=bob&limit=2&cursor=9");
    give(3, 6, true, 0);
    assert_int_equal(world.gateway.scans, 2); /* nothing yet: reads on */
    give(9, 9, true, 0);
    answered(c, 200, "records.0.number=9 records.1=- next_cursor=\"109-4294967295-1\"");
}

static void the_newest_first_end_in_the_log(void **state)
{
    struct http_client *c = world_client(&world, true);
    (void)state;
    overflow();
    char text[100];
    (void)snprintf(text, sizeof(text), AUDIT "?order=newest&actor=bob&limit=2&cursor=%u", 19);
    expect(c, "GET", text, NULL, 200,
           "records.0.number=18 records.1.number=15 records.2=- next_cursor=\"15\"");
    send(c, AUDIT "?order=newest&actor=bob&limit=2&cursor=15");
    assert_true(world.gateway.scanned.newest_first && world.gateway.scanned.is_continued);
    give(12, 12, true, START - 1000);
    answered(c, 200,
             "records.0.number=12 records.1=- next_cursor=\"112-4294967295-1\" "
             "complete_since=\"2024-11-15T08:49:36.123Z\"");
    send(c, AUDIT "?order=newest&actor=bob&limit=2&cursor=112-4294967295-1");
    give(3, 6, false, START + 1000); /* what is missing is not older than the state */
    answered(c, 200,
             "records.0.number=6 records.1.number=3 next_cursor=- "
             "complete_since=\"2024-11-15T08:49:37.123Z\"");
}

static void an_answer_does_not_wait_for_the_end_of_a_long_log(void **state)
{
    struct http_client *c = world_client(&world, true);
    (void)state;
    overflow();
    send(c, AUDIT "?actor=bob&name=x");
    give(1, 0, true, 0);
    world_pass(&world, 5000);
    give(1, 0, true, 0);
    answered(c, 200, "records.0=- next_cursor=\"100-4294967295-1\"");
}

static void without_a_log_the_state_answers(void **state)
{
    struct http_client *c = world_client(&world, true);
    (void)state;
    overflow();
    send(c, AUDIT "?actor=bob&limit=1");
    give_page(NULL, HF_EVENT_LOG);
    answered(c, 200,
             "records.0.number=15 next_cursor=\"18\" "
             "complete_since=\"2024-11-15T08:49:37.123Z\"");
    send(c, AUDIT "?actor=bob&cursor=103-4294967295-1");
    give_page(NULL, HF_EVENT_LOG);
    answered(c, 503, "error.code=\"event_log_unavailable\" error.message=*");
    send(c, AUDIT "?actor=bob&limit=1");
    give_page(NULL, HF_BUSY);
    answered(c, 503, "error.code=\"busy\"");
    send(c, AUDIT "?actor=bob");
    assert_non_null(world.gateway.scan);
    client_close(c);
    assert_null(world.gateway.scan); /* cancelled */
}

static char *text_of(const char *text)
{
    return (char *)(uintptr_t)text;
}

static uint64_t only_number(struct h2_client *h, const Holdfast__V1__AuditRequest *request)
{
    struct h2_call *call = h2_unary(h, ADMIN "Audit", &request->base);
    h2_expect(call, GRPC_OK, "");
    Holdfast__V1__AuditResponse *r = h2_message(call, &holdfast__v1__audit_response__descriptor);
    assert_int_equal(r->n_records, 1);
    uint64_t number = r->records[0]->number;
    holdfast__v1__audit_response__free_unpacked(r, NULL);
    return number;
}

static void grpc_has_the_same_filters(void **state)
{
    static struct h2_client h;
    Google__Protobuf__Timestamp since = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    Google__Protobuf__Timestamp until = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    (void)state;
    note_each_second();
    h2_open(&h, &world, true);
    Holdfast__V1__AuditRequest a = HOLDFAST__V1__AUDIT_REQUEST__INIT;
    a.resource = text_of("a/2");
    assert_int_equal(only_number(&h, &a), 2);
    a = (Holdfast__V1__AuditRequest)HOLDFAST__V1__AUDIT_REQUEST__INIT;
    a.prefix = text_of("b/");
    a.action = text_of("Setting");
    a.actor_id = text_of("ann");
    a.newest_first = true;
    a.limit = 1;
    assert_int_equal(only_number(&h, &a), 5);
    a = (Holdfast__V1__AuditRequest)HOLDFAST__V1__AUDIT_REQUEST__INIT;
    since.seconds = START / 1000 + 2;
    since.nanos = 123000000;
    until.seconds = START / 1000 + 3;
    until.nanos = 123000000;
    a.since = &since;
    a.until = &until;
    assert_int_equal(only_number(&h, &a), 3);
    a.until = &since;
    h2_expect(h2_unary(&h, ADMIN "Audit", &a.base), GRPC_INVALID_ARGUMENT, "field_range");
    a = (Holdfast__V1__AuditRequest)HOLDFAST__V1__AUDIT_REQUEST__INIT;
    a.action = text_of("NOTHING");
    h2_expect(h2_unary(&h, ADMIN "Audit", &a.base), GRPC_INVALID_ARGUMENT, "field_range");
    a.action = text_of("");
    a.cursor = text_of("1-x");
    h2_expect(h2_unary(&h, ADMIN "Audit", &a.base), GRPC_INVALID_ARGUMENT, "field_range");
    h2_close(&h);
}

#define AUDIT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        AUDIT_TEST(records_are_filtered),
        AUDIT_TEST(the_newest_come_first_on_request),
        AUDIT_TEST(invalid_filters_are_refused),
        AUDIT_TEST(older_records_come_from_the_log),
        AUDIT_TEST(a_number_that_has_left_the_state_is_found_in_the_log),
        AUDIT_TEST(the_newest_first_end_in_the_log),
        AUDIT_TEST(an_answer_does_not_wait_for_the_end_of_a_long_log),
        AUDIT_TEST(without_a_log_the_state_answers),
        AUDIT_TEST(grpc_has_the_same_filters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
