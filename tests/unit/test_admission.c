/* Tests of the limit of the state (S12.14): what bytes are counted, which commands are refused. */
#include "transact_world.h"

#include "replica/admission.h"

static char text[LIMIT_VALUE];

static struct slice long_value(size_t len)
{
    memset(text, 'v', sizeof(text));
    return slice_make(text, len);
}

/* ---- the bytes of a core ---- */

static void make_acquire(struct world *w, struct command *c, const char *name)
{
    command_init(c, COMMAND_ACQUIRE);
    c->acquire.lease = (struct id){++w->ids, 7};
    c->acquire.node = 1;
    c->acquire.client = slice_of("http");
    c->acquire.names.count = 1;
    c->acquire.names.at[0] = slice_of(name);
    c->acquire.ttl_ms = 60000;
}

static void apply(struct world *w, const struct command *c)
{
    core_apply(w->core, c, &w->result);
    assert_string_equal(hf_error_code(w->result.error), "ok");
}

static uint64_t take(struct world *w, const char *name, struct slice metadata)
{
    struct command c;
    make_acquire(w, &c, name);
    c.acquire.metadata = metadata;
    apply(w, &c);
    assert_int_equal(w->result.outcome, OUTCOME_GRANTED);
    return w->result.token;
}

static void release(struct world *w, const char *name, uint64_t token, const char *id)
{
    struct command c;
    command_init(&c, COMMAND_RELEASE);
    c.request_id = slice_of(id);
    c.release.name = slice_of(name);
    c.release.client = slice_of("http");
    c.release.token = token;
    apply(w, &c);
    assert_int_equal(w->result.outcome, OUTCOME_DONE);
}

/* The heap and the tables keep their first segments: what a state has that is empty again. */
static uint64_t empty_bytes(struct world *w)
{
    release(w, "first", take(w, "first", slice_of("m")), "first");
    return core_bytes(w->core);
}

/* However many were taken and released: what is remembered of them does not count. */
static void what_is_released_gives_its_bytes_back(void **state)
{
    enum { MANY = 3000 };
    static uint64_t tokens[MANY];
    struct world *w = *state;
    uint64_t empty = empty_bytes(w);
    char name[32];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            snprintf(name, sizeof(name), "lock-%d", i);
            tokens[i] = take(w, name, long_value(1000));
        }
        assert_true(core_bytes(w->core) > empty + MANY * UINT64_C(1000));
        for (int i = 0; i < MANY; i++) {
            char id[32];
            snprintf(name, sizeof(name), "lock-%d", i);
            snprintf(id, sizeof(id), "r-%d-%d", round, i);
            release(w, name, tokens[i], id);
        }
        assert_null(core_check_invariants(w->core));
        /* Tables and the heap keep a segment each, so that they need not grow at once again. */
        assert_true(core_bytes(w->core) < empty + (UINT64_C(256) << 10));
    }
}

static void marks_records_and_counters(struct world *w)
{
    struct command c;
    command_init(&c, COMMAND_FENCE_CHECK);
    c.fence_check.resource = slice_of("disk");
    c.fence_check.token = 1;
    uint64_t before = empty_bytes(w);
    apply(w, &c);
    assert_true(core_bytes(w->core) == before); /* a mark is remembered, and there is a limit */
    (void)take(w, "held", slice_of("m"));
    command_init(&c, COMMAND_FORCE_UNLOCK);
    c.request_id = slice_of("by-hand");
    c.force_unlock.name = slice_of("held");
    c.force_unlock.actor = slice_of("olga");
    c.force_unlock.reason = slice_of("test");
    c.force_unlock.now = 1;
    apply(w, &c);
    set_counter(w, "n", 1);
    assert_done(run(w));
    assert_true(core_bytes(w->core) > before);
    drop(w, "n", 0);
    assert_done(run(w));
    assert_true(core_bytes(w->core) == before);
}

static void what_is_only_remembered_does_not_count(void **state)
{
    marks_records_and_counters(*state);
}

static bool feed(void *ctx, const void *data, size_t len)
{
    return snapshot_reader_feed(ctx, data, len) == HF_OK;
}

static void a_restored_state_counts_the_same_objects(void **state)
{
    struct world *w = *state;
    marks_records_and_counters(w);
    for (int i = 0; i < 500; i++) {
        char name[32];
        snprintf(name, sizeof(name), "lock-%d", i);
        uint64_t token = take(w, name, long_value(300));
        if (i % 2 == 0) {
            release(w, name, token, name);
        }
    }
    struct core *restored = NULL;
    struct core_options options = {.memory = memory_system(), .hash_key = 1};
    struct snapshot_reader *reader = snapshot_reader_new(&options);
    assert_true(snapshot_write(w->core, feed, reader));
    assert_int_equal(snapshot_reader_finish(reader, &restored, NULL), HF_OK);
    assert_null(core_check_invariants(restored)); /* I34 */
    uint64_t a = core_bytes(w->core);
    uint64_t b = core_bytes(restored);
    assert_true((a > b ? a - b : b - a) < UINT64_C(128)
                                              << 10); /* tables may differ in idle space */
    core_free(restored);
}

/* ---- estimates ---- */

/* Many of a kind, since tables grow by segments. */
static void assert_covers(struct world *w, uint64_t before, uint64_t estimated)
{
    uint64_t added = core_bytes(w->core) - before;
    assert_true(added > 0);
    assert_true(estimated >= added);
    assert_true(estimated <= 6 * added);
}

static void estimates_cover_what_commands_add(void **state)
{
    enum { MANY = 5000 };
    struct world *w = *state;
    char name[32];
    struct command c;
    uint64_t before = core_bytes(w->core);
    uint64_t estimated = 0;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "lock-%d", i);
        make_acquire(w, &c, name);
        c.request_id = slice_of(name);
        estimated += admission_adds(&c);
        apply(w, &c);
    }
    assert_covers(w, before, estimated);
    before = core_bytes(w->core);
    estimated = 0;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "lock-%d", i % 10);
        make_acquire(w, &c, name);
        c.acquire.wait_ms = WAIT_FOREVER;
        c.acquire.metadata = long_value(40);
        estimated += admission_adds(&c);
        apply(w, &c);
        assert_int_equal(w->result.outcome, OUTCOME_QUEUED);
    }
    assert_covers(w, before, estimated);
    before = core_bytes(w->core);
    estimated = 0;
    for (int i = 0; i < MANY; i++) {
        command_init(&c, COMMAND_SESSION_OPEN);
        c.session_open.id = (struct id){++w->ids, 8};
        c.session_open.client = slice_of("client");
        c.session_open.metadata = long_value(100);
        c.session_open.ttl_ms = 60000;
        estimated += admission_adds(&c);
        apply(w, &c);
    }
    assert_covers(w, before, estimated);
    before = core_bytes(w->core);
    estimated = 0;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "key-%d", i);
        command_init(&c, COMMAND_TRANSACT);
        put(w, name, "1234567890", 60000);
        c.transact.client = slice_of("resp");
        c.transact.effects = packer_list(&w->effects);
        c.transact.id = (struct id){++w->ids, 9};
        estimated += admission_adds(&c);
        apply(w, &c);
        fresh(w);
    }
    assert_covers(w, before, estimated);
}

/* ---- admission ---- */

static struct admission full(const struct world *w)
{
    return (struct admission){.max = core_bytes(w->core)};
}

static enum hf_error admit(const struct world *w, struct admission *a, const struct command *c)
{
    struct admitted adds;
    return admission_check(a, w->core, NULL, c, 0, &adds);
}

static void each_command_that_adds_state_is_refused(void **state)
{
    struct world *w = *state;
    struct admission a = full(w);
    struct command c;
    make_acquire(w, &c, "new");
    assert_int_equal(admit(w, &a, &c), HF_STATE_FULL);
    c.acquire.wait_ms = 1000;
    assert_int_equal(admit(w, &a, &c), HF_STATE_FULL);
    command_init(&c, COMMAND_SESSION_OPEN);
    c.session_open.id = (struct id){77, 7};
    assert_int_equal(admit(w, &a, &c), HF_STATE_FULL);
    command_init(&c, COMMAND_FENCE_CHECK);
    c.fence_check.resource = slice_of("unknown");
    assert_int_equal(admit(w, &a, &c), HF_STATE_FULL);
    command_init(&c, COMMAND_PROCLAIM);
    c.proclaim.name = slice_of("nobody's");
    c.proclaim.value = slice_of("v");
    assert_int_equal(admit(w, &a, &c), HF_STATE_FULL);
    command_init(&c, COMMAND_TRANSACT);
    put(w, "key", "value", 1000);
    c.transact.effects = packer_list(&w->effects);
    assert_int_equal(admit(w, &a, &c), HF_STATE_FULL);
    fresh(w);
    set_counter(w, "n", 1);
    c.transact.effects = packer_list(&w->effects);
    assert_int_equal(admit(w, &a, &c), HF_STATE_FULL);
    fresh(w);
}

static void what_adds_nothing_passes(void **state)
{
    static const enum command_type types[] = {
        COMMAND_LEAD,        COMMAND_TICK,          COMMAND_ADVANCE,   COMMAND_UPGRADE,
        COMMAND_KEEPALIVE,   COMMAND_SESSION_CLOSE, COMMAND_STREAM_UP, COMMAND_STREAM_DOWN,
        COMMAND_CANCEL,      COMMAND_DETACH,        COMMAND_NODE_GONE, COMMAND_RELEASE,
        COMMAND_RENEW,       COMMAND_FORCE_UNLOCK,  COMMAND_REVOKE,    COMMAND_NOTE,
        COMMAND_FENCE_RESET,
    };
    struct world *w = *state;
    struct admission a = full(w);
    struct command c;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        command_init(&c, types[i]);
        assert_int_equal(admit(w, &a, &c), HF_OK);
    }
    command_init(&c, COMMAND_TRANSACT);
    drop(w, "key", 0);
    effect(w, (struct effect){.kind = EFFECT_EXPIRE, .name = slice_of("other"), .ttl_ms = 1000});
    c.transact.effects = packer_list(&w->effects);
    assert_int_equal(admit(w, &a, &c), HF_OK);
    fresh(w);
}

static void what_changes_in_place_passes(void **state)
{
    struct world *w = *state;
    struct command c;
    set_counter(w, "n", 1);
    put(w, "key", "value", 60000);
    assert_done(run(w));
    command_init(&c, COMMAND_FENCE_CHECK);
    c.fence_check.resource = slice_of("disk");
    c.fence_check.token = 1;
    apply(w, &c);
    struct admission a = full(w);
    assert_int_equal(admit(w, &a, &c), HF_OK); /* the mark is there */
    command_init(&c, COMMAND_TRANSACT);
    set_counter(w, "n", 2);
    put(w, "key", "VALUE", 0);
    c.transact.effects = packer_list(&w->effects);
    assert_int_equal(admit(w, &a, &c), HF_OK);
    fresh(w);
    put(w, "key", "a longer value", 0);
    c.transact.effects = packer_list(&w->effects);
    assert_int_equal(admit(w, &a, &c), HF_STATE_FULL);
    fresh(w);
}

static void an_election_may_proclaim_what_is_not_longer(void **state)
{
    struct world *w = *state;
    struct command c;
    make_acquire(w, &c, "leader");
    c.acquire.mode = MODE_ELECTION;
    c.acquire.value = slice_of("10.0.0.1");
    apply(w, &c);
    struct admission a = full(w);
    command_init(&c, COMMAND_PROCLAIM);
    c.proclaim.name = slice_of("leader");
    c.proclaim.value = slice_of("10.0.0.2");
    assert_int_equal(admit(w, &a, &c), HF_OK);
    c.proclaim.value = slice_of("10.0.0.222");
    assert_int_equal(admit(w, &a, &c), HF_STATE_FULL);
}

static void a_holder_may_enter_again(void **state)
{
    struct world *w = *state;
    struct command c;
    struct id session = {5, 5};
    command_init(&c, COMMAND_SESSION_OPEN);
    c.session_open.id = session;
    c.session_open.client = slice_of("http");
    c.session_open.ttl_ms = 60000;
    apply(w, &c);
    make_acquire(w, &c, "deep");
    c.session = session;
    c.acquire.client = slice_of("");
    c.acquire.owner = slice_of("thread-1");
    c.acquire.ttl_ms = 0;
    c.acquire.flags = ACQUIRE_REENTRANT;
    apply(w, &c);
    struct admission a = full(w);
    c.acquire.lease = (struct id){++w->ids, 7};
    assert_int_equal(admit(w, &a, &c), HF_OK);
    c.acquire.owner = slice_of("thread-2");
    assert_int_equal(admit(w, &a, &c), HF_STATE_FULL);
}

/* S8: who repeats a request hears what became of it, not that nothing was done. */
static void a_retry_of_what_was_done_passes(void **state)
{
    struct world *w = *state;
    struct command by_lease;
    struct command by_id;
    struct command opened;
    make_acquire(w, &by_lease, "a");
    apply(w, &by_lease);
    make_acquire(w, &by_id, "b");
    by_id.request_id = slice_of("once");
    apply(w, &by_id);
    command_init(&opened, COMMAND_SESSION_OPEN);
    opened.session_open.id = (struct id){6, 6};
    opened.session_open.client = slice_of("http");
    opened.session_open.ttl_ms = 60000;
    apply(w, &opened);
    struct command by_seq;
    make_acquire(w, &by_seq, "c");
    by_seq.session = opened.session_open.id;
    by_seq.acquire.client = slice_of("");
    by_seq.acquire.ttl_ms = 0;
    by_seq.seq = 4;
    apply(w, &by_seq);
    struct command transact;
    command_init(&transact, COMMAND_TRANSACT);
    put(w, "key", "value", 60000);
    send(w, 1234);
    transact.transact.id = (struct id){1234, 9};
    transact.transact.effects = packer_list(&w->effects);
    struct admission a = full(w);
    assert_int_equal(admit(w, &a, &by_lease), HF_OK);
    assert_int_equal(admit(w, &a, &opened), HF_OK);
    assert_int_equal(admit(w, &a, &transact), HF_OK);
    by_id.acquire.lease = (struct id){++w->ids, 7};
    assert_int_equal(admit(w, &a, &by_id), HF_OK);
    by_id.request_id = slice_of("twice");
    assert_int_equal(admit(w, &a, &by_id), HF_STATE_FULL);
    by_seq.acquire.lease = (struct id){++w->ids, 7};
    assert_int_equal(admit(w, &a, &by_seq), HF_OK);
    by_seq.seq = 5;
    assert_int_equal(admit(w, &a, &by_seq), HF_STATE_FULL);
    fresh(w);
}

static void what_is_pending_counts_and_is_awaited(void **state)
{
    struct world *w = *state;
    struct command c;
    struct admitted adds;
    make_acquire(w, &c, "new");
    struct admission a = {.max = core_bytes(w->core) + admission_adds(&c)};
    assert_int_equal(admission_check(&a, w->core, NULL, &c, 0, &adds), HF_OK);
    assert_true(adds.bytes == admission_adds(&c));
    a.pending = 1;
    assert_int_equal(admit(w, &a, &c), HF_BUSY);
    a.pending = 0;
    a.max--;
    assert_int_equal(admit(w, &a, &c), HF_STATE_FULL);
    a.max = 0;
    assert_int_equal(admit(w, &a, &c), HF_OK);
}

/* The bytes are looked at again when the space that was found is used up, not before. */
static void space_is_used_up_before_the_bytes_are_looked_at_again(void **state)
{
    struct world *w = *state;
    struct command c;
    struct admitted adds;
    make_acquire(w, &c, "new");
    uint64_t most = admission_adds(&c);
    struct admission a = {.max = core_bytes(w->core) + 10 * most};
    for (int i = 0; i < 10; i++) {
        assert_int_equal(admission_check(&a, w->core, NULL, &c, 0, &adds), HF_OK);
        assert_true(adds.bytes == most);
        assert_true(a.space == (9 - (uint64_t)i) * most);
        a.pending += adds.bytes;
    }
    assert_int_equal(admit(w, &a, &c), HF_BUSY);
    a.pending = 0; /* nothing came of them */
    assert_int_equal(admit(w, &a, &c), HF_OK);
    assert_true(a.space == 9 * most);
}

static void both_tiers_count(void **state)
{
    struct world *w = *state;
    struct command c;
    struct admitted adds;
    struct core *memory = core_new(
        &(struct core_options){.memory = memory_system(), .hash_key = 1, .version = CORE_VERSION});
    make_acquire(w, &c, "new");
    struct admission a = {.max = core_bytes(w->core) + admission_adds(&c)};
    assert_int_equal(admission_check(&a, w->core, NULL, &c, 0, &adds), HF_OK);
    assert_int_equal(admission_check(&a, w->core, memory, &c, 0, &adds), HF_STATE_FULL);
    assert_true(admission_bytes(w->core, memory) == core_bytes(w->core) + core_bytes(memory));
    core_free(memory);
}

/* A state that is above the limit drains, and is served again when it is below. */
static void a_state_above_its_limit_drains(void **state)
{
    struct world *w = *state;
    uint64_t tokens[40];
    char name[32];
    struct command c;
    uint64_t empty = empty_bytes(w);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "lock-%d", i);
        tokens[i] = take(w, name, long_value(4000));
    }
    struct admission a = {.max = empty + 40000};
    make_acquire(w, &c, "one more");
    c.acquire.metadata = long_value(4000);
    int released = 0;
    while (admit(w, &a, &c) == HF_STATE_FULL) {
        snprintf(name, sizeof(name), "lock-%d", released);
        release(w, name, tokens[released++], name);
    }
    assert_in_range(released, 30, 36);
}

static void the_warning_ends_further_below_than_it_begins(void **state)
{
    (void)state;
    struct admission a = {.max = 1000};
    assert_false(admission_warns(&a, 799, false));
    assert_true(admission_warns(&a, 800, false));
    assert_true(admission_warns(&a, 700, true));
    assert_false(admission_warns(&a, 699, true));
    a.max = 0;
    assert_false(admission_warns(&a, UINT64_MAX, true));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_is_released_gives_its_bytes_back),
        TEST(what_is_only_remembered_does_not_count),
        TEST(a_restored_state_counts_the_same_objects),
        TEST(estimates_cover_what_commands_add),
        TEST(each_command_that_adds_state_is_refused),
        TEST(what_adds_nothing_passes),
        TEST(what_changes_in_place_passes),
        TEST(an_election_may_proclaim_what_is_not_longer),
        TEST(a_holder_may_enter_again),
        TEST(a_retry_of_what_was_done_passes),
        TEST(what_is_pending_counts_and_is_awaited),
        TEST(space_is_used_up_before_the_bytes_are_looked_at_again),
        TEST(both_tiers_count),
        TEST(a_state_above_its_limit_drains),
        TEST(the_warning_ends_further_below_than_it_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
