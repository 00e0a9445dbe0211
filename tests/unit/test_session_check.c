/* The tokens of sessions in two cores, and the query that compares them (S4.8). */
#include "base_testing.h"

#include "service/request/session_check.h"

static struct counted memory;
static struct core *replicated;
static struct core *leaders; /* the tier EFFICIENCY */
static uint64_t leases;

enum { OPENED = 3 };

static struct id session_id(uint64_t number)
{
    return (struct id){7, number};
}

static void begin(struct core *core, uint64_t time_ms)
{
    static uint64_t index;
    core_begin(core, ++index, time_ms, 1700000000000 + time_ms);
}

static void open_session(uint64_t number)
{
    struct command c;
    struct result r;
    command_init(&c, COMMAND_SESSION_OPEN);
    c.session_open.id = session_id(number);
    c.session_open.client = slice_of("client");
    c.session_open.ttl_ms = 60000;
    core_apply(replicated, &c, &r);
    assert_int_equal(r.error, HF_OK);
}

static int set_up(void **state)
{
    (void)state;
    counted_init(&memory);
    struct core_options options = {.memory = &memory.memory, .hash_key = 3};
    replicated = core_new(&options);
    leaders = core_new(&options);
    core_set_tokens(leaders, 5 * 1024 + 1, 6 * 1024);
    begin(replicated, 1000);
    begin(leaders, 1000);
    for (uint64_t i = 1; i <= OPENED; i++) {
        open_session(i);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_null(core_check_invariants(replicated));
    core_free(replicated);
    core_free(leaders);
    assert_all_given_back(&memory);
    return 0;
}

/* Acquires names that begin with `first`, `count` of them with one token. */
static uint64_t take(struct core *core, uint64_t session, const char *first, uint32_t count)
{
    static const char ends[] = "abcdefgh";
    char names[8][16];
    struct command c;
    struct result r;
    if (core == leaders) {
        assert_int_equal(core_mirror_session(leaders, replicated, 0, session_id(session)), HF_OK);
    }
    command_init(&c, COMMAND_ACQUIRE);
    c.session = session_id(session);
    c.acquire.lease = (struct id){9, ++leases};
    c.acquire.names.count = count;
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%s/%c", first, ends[i]);
        c.acquire.names.at[i] = slice_of(names[i]);
    }
    core_apply(core, &c, &r);
    assert_int_equal(r.outcome, OUTCOME_GRANTED);
    return r.token;
}

/* `name` empty: a multi-lock. */
static void release(struct core *core, uint64_t session, const char *name, uint64_t token)
{
    struct command c;
    struct result r;
    command_init(&c, COMMAND_RELEASE);
    c.session = session_id(session);
    c.release.name = slice_of(name);
    c.release.token = token;
    core_apply(core, &c, &r);
    assert_int_equal(r.outcome, OUTCOME_DONE);
}

/* The outcomes as text: '=' same, '!' differs, '?' unknown. */
static void compare(const struct core *core, const struct session_check *checks, uint32_t count,
                    const char *expected)
{
    uint8_t bytes[SESSION_CHECKS_BYTES(4)];
    struct writer w = writer_make(bytes, sizeof(bytes));
    struct buffer answer;
    buffer_init(&answer, memory_system(), 1 << 16);
    session_checks_begin(&w, CORE_VERSION, count);
    for (uint32_t i = 0; i < count; i++) {
        session_checks_put(&w, &checks[i]);
    }
    assert_false(w.full);
    struct slice query = slice_make(bytes, (size_t)(w.at - bytes));
    assert_int_equal(leader_query_of(query), QUERY_SESSION_CHECKS);
    assert_true(session_checks_answer(replicated, core, query, &answer));
    struct slice outcomes = session_checks_read(buffer_bytes(&answer), count);
    assert_int_equal(outcomes.len, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal("=!?"[outcomes.data[i]], expected[i]);
    }
    assert_int_equal(session_checks_read(buffer_bytes(&answer), count + 1).len, 0);
    buffer_close(&answer);
}

static struct session_check check_of(uint64_t session, uint32_t count, uint64_t xor_of_all)
{
    return (struct session_check){session_id(session), {count, xor_of_all}};
}

static void tokens_of_both_tiers_are_compared(void **state)
{
    (void)state;
    uint64_t one = take(replicated, 1, "one", 1);
    uint64_t several = take(replicated, 1, "several", 5);
    uint64_t fast = take(leaders, 1, "fast", 1);
    uint64_t other = take(leaders, 2, "other", 2);
    uint64_t all = one ^ several ^ fast;
    const struct session_check right[] = {check_of(1, 3, all), check_of(2, 1, other),
                                          check_of(3, 0, 0), check_of(4, 0, 0)};
    compare(leaders, right, 4, "====");
    const struct session_check wrong[] = {check_of(1, 2, one ^ several), check_of(1, 2, all),
                                          check_of(3, 1, one), check_of(2, 0, 0)};
    compare(leaders, wrong, 4, "!!!!");
    compare(NULL, right, 4, "????");
    release(replicated, 1, "", several);
    const struct session_check less[] = {check_of(1, 2, one ^ fast), check_of(1, 3, all)};
    compare(leaders, less, 2, "=!");
    release(leaders, 1, "fast/a", fast);
    release(replicated, 1, "one/a", one);
    compare(leaders, (struct session_check[]){check_of(1, 0, 0)}, 1, "=");
}

/* What a lock keeps besides its token changes nothing. */
static void a_lock_that_is_entered_again_counts_once(void **state)
{
    (void)state;
    struct command c;
    struct result r;
    command_init(&c, COMMAND_ACQUIRE);
    c.session = session_id(1);
    c.request_id = slice_of("r1");
    c.acquire.lease = (struct id){9, ++leases};
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = slice_of("n");
    c.acquire.flags = ACQUIRE_REENTRANT;
    core_apply(replicated, &c, &r);
    c.request_id = slice_of("r2");
    c.acquire.lease = (struct id){9, ++leases};
    core_apply(replicated, &c, &r);
    assert_int_equal(r.depth, 2);
    compare(leaders, (struct session_check[]){check_of(1, 1, r.token)}, 1, "=");
}

static void what_is_no_query_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[SESSION_CHECKS_BYTES(1)];
    struct session_check check = check_of(1, 0, 0);
    struct writer w = writer_make(bytes, sizeof(bytes));
    struct buffer answer;
    buffer_init(&answer, &memory.memory, 1 << 16);
    session_checks_begin(&w, CORE_VERSION, 1);
    session_checks_put(&w, &check);
    size_t len = (size_t)(w.at - bytes);
    for (size_t cut = 0; cut < len; cut++) {
        assert_false(session_checks_answer(replicated, leaders, slice_make(bytes, cut), &answer));
        assert_int_equal(buffer_len(&answer), 0);
    }
    bytes[0] = record_format(CORE_VERSION + 1);
    assert_false(session_checks_answer(replicated, leaders, slice_make(bytes, len), &answer));
    buffer_close(&answer);
    assert_int_equal(session_checks_read(slice_of(""), 1).len, 0);
    static const uint8_t odd[] = {CORE_VERSION, 1, SESSION_OUTCOMES};
    assert_int_equal(session_checks_read(slice_make(odd, sizeof(odd)), 1).len, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(tokens_of_both_tiers_are_compared),
        T(a_lock_that_is_entered_again_counts_once),
        T(what_is_no_query_is_refused),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
