/* The trace of an acquire in the core: kept with the waiter and the grant, shown by events and audit
 * records, kept by snapshots, no part of the digest, and dropped before version 5 (S4.7). */
#include "base_testing.h"

#include "core/view.h"
#include "rich_core.h"

#define A RICH_TRACE("2b7")
#define B RICH_TRACE("2b8")

enum { EVENTS_MAX = 32 };

struct seen_event {
    enum event_type type;
    uint32_t part;
    uint32_t parts;
    char trace[LIMIT_TRACE + 1];
};

static struct rich world;
static struct seen_event events[EVENTS_MAX];
static size_t event_count;

static void copy_trace(char out[LIMIT_TRACE + 1], struct slice trace)
{
    out[0] = '\0';
    if (trace.len > 0) {
        (void)snprintf(out, LIMIT_TRACE + 1, "%.*s", (int)trace.len, (const char *)trace.data);
    }
}

static void on_event(void *ctx, const struct event *e)
{
    (void)ctx;
    assert_true(event_count < EVENTS_MAX);
    struct seen_event *seen = &events[event_count++];
    *seen = (struct seen_event){.type = e->type, .part = e->part, .parts = e->parts};
    copy_trace(seen->trace, e->trace);
}

static void start(uint32_t version)
{
    struct core_options options = {
        .memory = memory_system(), .hash_key = 1, .on_event = on_event, .version = version};
    world = (struct rich){.core = core_new(&options), .now_ms = 1000000};
    rich_pass(&world, 0);
    rich_simple(&world, COMMAND_LEAD, 0);
    rich_open(&world, 1, "web", 60000);
    rich_open(&world, 2, "web", 60000);
    event_count = 0;
}

static int set_up(void **state)
{
    (void)state;
    start(CORE_VERSION);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_null(core_check_invariants(world.core));
    core_free(world.core);
    return 0;
}

static struct command traced(uint64_t session, uint64_t lease, const char *name, const char *trace)
{
    struct command c = rich_acquire_command(session, lease, name);
    c.acquire.trace = slice_of(trace);
    return c;
}

/* The next events are of this type, one for each of `parts` names, with this trace. */
static void assert_events(size_t first, enum event_type type, uint32_t parts, const char *trace)
{
    size_t part = 0;
    for (size_t i = first; i < event_count; i++) {
        if (events[i].type == type) {
            assert_int_equal(events[i].part, ++part);
            assert_int_equal(events[i].parts, parts);
            assert_string_equal(events[i].trace, trace);
        }
    }
    assert_int_equal(part, parts);
}

struct traces {
    char holder[LIMIT_TRACE + 1];
    char waiter[LIMIT_TRACE + 1]; /* of any waiter that has one */
    char record[LIMIT_TRACE + 1]; /* of the newest record of `resource` */
    const char *resource;
};

static void on_grant(void *ctx, const struct grant_view *grant)
{
    copy_trace(((struct traces *)ctx)->holder, grant->holder.trace);
}

static void on_waiter(void *ctx, const struct waiter_view *waiter)
{
    if (waiter->trace.len > 0) {
        copy_trace(((struct traces *)ctx)->waiter, waiter->trace);
    }
}

static void on_record(void *ctx, const struct audit_view *record)
{
    struct traces *t = ctx;
    if (slice_equal(record->resource, slice_of(t->resource))) {
        copy_trace(t->record, record->trace);
    }
}

static struct traces look(const struct core *core, const char *name)
{
    struct traces t = {.resource = name};
    view_holders_and_waiters(core, 0, slice_of(name), UINT32_MAX, on_grant, on_waiter, &t);
    view_audit(core, 0, 0, UINT32_MAX, on_record, &t);
    return t;
}

static void a_waiter_and_its_grant_have_the_trace_of_the_acquire(void **state)
{
    (void)state;
    struct command c = traced(1, 1, "n", A);
    rich_apply(&world, &c);
    assert_events(0, EVENT_GRANTED, 1, A);
    c = traced(2, 2, "n", B);
    const struct result *r = rich_apply(&world, &c);
    assert_int_equal(r->outcome, OUTCOME_QUEUED);
    assert_true(slice_equal(r->holder.trace, slice_of(A)));
    assert_events(0, EVENT_QUEUED, 1, B);
    struct traces t = look(world.core, "n");
    assert_string_equal(t.holder, A);
    assert_string_equal(t.waiter, B);
    size_t before = event_count;
    rich_release(&world, 1);
    assert_events(before, EVENT_RELEASED, 1, A);
    assert_events(before, EVENT_GRANTED, 1, B);
    t = look(world.core, "n");
    assert_string_equal(t.holder, B);
    assert_string_equal(t.waiter, "");
}

static void every_event_of_the_end_of_a_multi_lock_has_its_trace(void **state)
{
    (void)state;
    struct command c = traced(1, 1, "a", A);
    rich_add_name(&c, "b");
    rich_add_name(&c, "c");
    c.acquire.delay_ms = 1000;
    rich_apply(&world, &c);
    assert_events(0, EVENT_GRANTED, 3, A);
    size_t before = event_count;
    rich_operate(&world, true, "b");
    assert_events(before, EVENT_FORCED, 3, A);
    assert_events(before, EVENT_LOST, 3, A);
    assert_string_equal(look(world.core, "b").record, A);
    for (size_t i = before; i < event_count; i++) {
        if (events[i].type == EVENT_DELAYED) {
            assert_string_equal(events[i].trace, "");
        }
    }
}

static void audit_records_have_the_trace_of_the_first_holder(void **state)
{
    (void)state;
    struct command c = traced(1, 1, "n", A);
    rich_apply(&world, &c);
    rich_operate(&world, false, "n");
    assert_string_equal(look(world.core, "n").record, A);
    rich_pass(&world, 4000); /* the deadline of the revocation */
    struct traces t = look(world.core, "n");
    assert_string_equal(t.holder, "");
    assert_string_equal(t.record, A);
    assert_events(0, EVENT_REVOKE_REQUESTED, 1, A);
    assert_events(0, EVENT_REVOKED, 1, A);
    c = rich_acquire_command(1, 2, "n");
    rich_apply(&world, &c);
    rich_operate(&world, true, "n");
    assert_string_equal(look(world.core, "n").record, "");
}

static void a_retry_with_another_trace_is_replayed(void **state)
{
    (void)state;
    struct command c = traced(1, 1, "n", A);
    c.request_id = slice_of("once");
    uint64_t token = rich_apply(&world, &c)->token;
    uint64_t digest = command_digest(&c);
    static const char *const retries[] = {A, B, ""};
    for (size_t i = 0; i < sizeof(retries) / sizeof(retries[0]); i++) {
        c.acquire.trace = slice_of(retries[i]);
        assert_true(command_digest(&c) == digest);
        const struct result *r = rich_apply(&world, &c);
        assert_int_equal(r->error, HF_OK);
        assert_true(r->replayed);
        assert_int_equal(r->token, token);
    }
    assert_string_equal(look(world.core, "n").holder, A);
    c.acquire.metadata = slice_of("{}"); /* a field of the body */
    assert_int_equal(rich_apply(&world, &c)->error, HF_REQUEST_ID_REUSED);
}

static void a_trace_that_is_no_traceparent_is_refused(void **state)
{
    (void)state;
    struct command c = traced(1, 1, "n", "00-1-2-3");
    assert_int_equal(rich_apply(&world, &c)->error, HF_INVALID_TRACE);
    assert_int_equal(event_count, 0);
}

static void a_state_of_version_4_drops_the_trace(void **state)
{
    (void)state;
    core_free(world.core);
    start(4);
    struct command c = traced(1, 1, "n", A);
    assert_int_equal(rich_apply(&world, &c)->outcome, OUTCOME_GRANTED);
    c = traced(2, 2, "n", B);
    assert_int_equal(rich_apply(&world, &c)->outcome, OUTCOME_QUEUED);
    struct traces t = look(world.core, "n");
    assert_string_equal(t.holder, "");
    assert_string_equal(t.waiter, "");
    assert_events(0, EVENT_GRANTED, 1, "");
    struct command upgrade;
    command_init(&upgrade, COMMAND_UPGRADE);
    upgrade.upgrade.version = CORE_VERSION;
    rich_apply(&world, &upgrade);
    rich_release(&world, 1);
    assert_string_equal(look(world.core, "n").holder, "");
    c = traced(1, 3, "m", A);
    rich_apply(&world, &c);
    assert_string_equal(look(world.core, "m").holder, A);
}

static void an_encoding_for_version_4_has_no_trace(void **state)
{
    (void)state;
    uint8_t with[512];
    uint8_t without[512];
    struct command c = traced(1, 1, "n", A);
    size_t len = command_encode(&c, 4, with, sizeof(with));
    assert_true(command_encode(&c, 5, without, sizeof(without)) > len);
    c.acquire.trace = slice_make(NULL, 0);
    assert_int_equal(command_encode(&c, 5, without, sizeof(without)), len);
    assert_memory_equal(with, without, len);
}

static void a_snapshot_keeps_traces(void **state)
{
    (void)state;
    struct core_options options = {.memory = memory_system(), .hash_key = 1};
    struct rich r = rich_new(&options);
    struct bytes snapshot = snapshot_of(r.core);
    enum hf_error error;
    struct snapshot_problem problem;
    struct core *core = core_from(&options, snapshot.data, snapshot.len, 64, &error, &problem);
    assert_non_null(core);
    assert_string_equal(look(core, "plain").holder, RICH_TRACE("2b7"));
    assert_string_equal(look(core, "plain").waiter, RICH_TRACE("2b9"));
    assert_string_equal(look(core, "multi/c").holder, RICH_TRACE("2b8"));
    assert_string_equal(look(core, "delayed").record, RICH_TRACE("2ba"));
    bytes_free(&snapshot);
    core_free(core);
    core_free(r.core);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_waiter_and_its_grant_have_the_trace_of_the_acquire),
        TEST(every_event_of_the_end_of_a_multi_lock_has_its_trace),
        TEST(audit_records_have_the_trace_of_the_first_holder),
        TEST(a_retry_with_another_trace_is_replayed),
        TEST(a_trace_that_is_no_traceparent_is_refused),
        TEST(a_state_of_version_4_drops_the_trace),
        TEST(an_encoding_for_version_4_has_no_trace),
        TEST(a_snapshot_keeps_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
