/* The canonical snapshot: same state, same bytes; what is restored goes on as if nothing had been;
 * whatever is damaged is refused with a reason. */
#include "base_testing.h"

#include "../support/rich_core.h"
#include "core/snapshot_format.h"

static struct counted memory;

/* Memory for tests that restore many thousand times: taken from one block, given back all at once.
 * That spares the kernel a million pages. */
struct arena {
    struct memory memory;
    size_t used;
    _Alignas(max_align_t)
        uint8_t block[64 << 20]; /* a lie about the number of sessions takes most of it */
};

static struct arena arena;

static void *arena_alloc(void *ctx, size_t size)
{
    struct arena *a = ctx;
    void *block = a->block + a->used;
    a->used += (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    assert_true(a->used <= sizeof(a->block));
    return block;
}

static void arena_free(void *ctx, void *block, size_t size)
{
    (void)ctx;
    (void)block;
    (void)size;
}

/* Whether the bytes are refused, and why. */
static enum hf_error try_to_restore(const struct bytes *snapshot, size_t len,
                                    struct snapshot_problem *problem)
{
    arena.memory = (struct memory){arena_alloc, arena_free, &arena};
    arena.used = 0;
    struct core_options options = {.memory = &arena.memory, .hash_key = 5};
    enum hf_error error;
    struct core *core =
        core_from(&options, snapshot->data, len, len == 0 ? 1 : len, &error, problem);
    assert_true((core != NULL) == (error == HF_OK));
    core_free(core);
    return error;
}

static struct core_options options_with(uint64_t hash_key)
{
    return (struct core_options){.memory = &memory.memory, .hash_key = hash_key};
}

static struct core *restored(const struct bytes *snapshot, uint64_t hash_key, size_t piece)
{
    struct core_options options = options_with(hash_key);
    enum hf_error error;
    struct snapshot_problem problem;
    struct core *core = core_from(&options, snapshot->data, snapshot->len, piece, &error, &problem);
    if (core == NULL) {
        fail_msg("refused: %s: %s", hf_error_code(error), problem.text);
    }
    assert_int_equal(error, HF_OK);
    assert_null(core_check_invariants(core));
    return core;
}

static void assert_same(const struct bytes *a, const struct bytes *b)
{
    assert_int_equal(a->len, b->len);
    assert_memory_equal(a->data, b->data, a->len);
}

/* Restores `snapshot` and sees that it is refused, with these words in the reason if not NULL. */
static void assert_refused(const void *data, size_t len, enum hf_error expected, const char *words)
{
    struct core_options options = options_with(5);
    enum hf_error error;
    struct snapshot_problem problem;
    struct core *core = core_from(&options, data, len, len == 0 ? 1 : len, &error, &problem);
    assert_null(core);
    assert_int_equal(error, expected);
    assert_true(strlen(problem.text) > 0);
    if (words != NULL && strstr(problem.text, words) == NULL) {
        fail_msg("expected \"%s\" in \"%s\"", words, problem.text);
    }
}

static int set_up(void **state)
{
    (void)state;
    counted_init(&memory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_all_given_back(&memory);
    return 0;
}

/* ---- writing and restoring ---- */

static void the_same_state_gives_the_same_bytes_whatever_the_hash_key(void **state)
{
    (void)state;
    struct bytes first = {NULL, 0, 0};
    for (uint64_t key = 0; key < 4; key++) {
        struct core_options options = options_with(key * UINT64_C(0x9e3779b97f4a7c15));
        struct rich r = rich_new(&options);
        assert_null(core_check_invariants(r.core));
        struct bytes snapshot = snapshot_of(r.core);
        if (key == 0) {
            first = snapshot;
        } else {
            assert_same(&first, &snapshot);
            bytes_free(&snapshot);
        }
        core_free(r.core);
    }
    bytes_free(&first);
}

static void a_restored_core_writes_the_same_bytes(void **state)
{
    (void)state;
    struct core_options options = options_with(1);
    struct rich r = rich_new(&options);
    struct bytes snapshot = snapshot_of(r.core);
    const size_t pieces[] = {1, 7, 64, 1000, 1000000};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct core *core = restored(&snapshot, 100 + i, pieces[i]);
        struct bytes again = snapshot_of(core);
        assert_same(&snapshot, &again);
        bytes_free(&again);
        core_free(core);
    }
    bytes_free(&snapshot);
    core_free(r.core);
}

static void an_empty_core_survives(void **state)
{
    (void)state;
    struct core_options options = options_with(1);
    struct core *empty = core_new(&options);
    struct bytes snapshot = snapshot_of(empty);
    struct core *core = restored(&snapshot, 2, 1);
    struct bytes again = snapshot_of(core);
    assert_same(&snapshot, &again);
    assert_int_equal(core_version(core), 1);
    bytes_free(&snapshot);
    bytes_free(&again);
    core_free(core);
    core_free(empty);
}

static void writing_allocates_nothing_and_changes_nothing(void **state)
{
    (void)state;
    struct core_options options = options_with(1);
    struct rich r = rich_new(&options);
    struct bytes before = snapshot_of(r.core);
    uint64_t calls = memory.calls;
    struct bytes after = snapshot_of(r.core);
    assert_int_equal(memory.calls, calls);
    assert_same(&before, &after);
    bytes_free(&before);
    bytes_free(&after);
    core_free(r.core);
}

static bool refuse_at(void *ctx, const void *data, size_t len)
{
    (void)data;
    (void)len;
    unsigned *left = ctx;
    return (*left)-- > 1;
}

static void a_sink_that_refuses_stops_the_writing(void **state)
{
    (void)state;
    struct core_options options = options_with(1);
    struct rich r = rich_new(&options);
    for (unsigned at = 1; at <= 2; at++) { /* the records, the checksum */
        unsigned left = at;
        assert_false(snapshot_write(r.core, refuse_at, &left));
        assert_int_equal(left, 0);
    }
    core_free(r.core);
}

static void the_counter_and_the_clock_survive(void **state)
{
    (void)state;
    struct core_options options = options_with(1);
    struct rich r = rich_new(&options);
    struct bytes snapshot = snapshot_of(r.core);
    struct core *core = restored(&snapshot, 2, 100);
    assert_int_equal(core_counter(core), core_counter(r.core));
    assert_int_equal(core_epoch(core), core_epoch(r.core));
    assert_int_equal(core_now_ms(core), core_now_ms(r.core));
    assert_int_equal(core_last_wall_ms(core), core_last_wall_ms(r.core));
    assert_int_equal(core_index(core), core_index(r.core));
    assert_int_equal(core_next_due_ms(core), core_next_due_ms(r.core));
    struct core_stats a;
    struct core_stats b;
    core_stats(r.core, &a);
    core_stats(core, &b);
    assert_int_equal(a.names, b.names);
    assert_int_equal(a.grants, b.grants);
    assert_int_equal(a.waiters, b.waiters);
    assert_int_equal(a.sessions, b.sessions);
    assert_int_equal(a.fence_marks, b.fence_marks);
    assert_int_equal(a.fence_rejections, b.fence_rejections);
    assert_int_equal(a.audit_records, b.audit_records);

    /* The next token is above all that were ever given (S3.1). */
    uint64_t highest = core_counter(r.core) << 10;
    struct rich again = {.core = core, .index = r.index, .now_ms = r.now_ms};
    rich_pass(&again, 1);
    rich_acquire(&again, 1, 999, "fresh");
    assert_int_equal(again.result.outcome, OUTCOME_GRANTED);
    assert_int_equal(again.result.token, highest + 1024);
    bytes_free(&snapshot);
    core_free(core);
    core_free(r.core);
}

/* ---- life after it ---- */

/* Everything ends, with commands in between; what is said is in the fingerprint. */
static void live_on(struct rich *r, uint64_t *print, bool check)
{
    for (unsigned i = 0; i < 400; i++) {
        uint64_t due_ms = core_next_due_ms(r->core);
        uint64_t later =
            i % 7 == 6 && due_ms != UINT64_MAX && due_ms > r->now_ms ? due_ms - r->now_ms : i * 3;
        rich_pass(r, later);
        if (i % 3 == 0) {
            rich_acquire(r, 1 + i % 5, 5000 + i, i % 2 == 0 ? "plain" : "multi/b");
            print_result(print, &r->result);
        }
        if (i % 5 == 0) {
            rich_release(r, i % 2 == 0 ? 1 + i / 5 : 31);
            print_result(print, &r->result);
        }
        if (i % 11 == 0) {
            rich_fence(r, "disk/2", 3990 + i);
            print_result(print, &r->result);
        }
        if (i == 20 || i == 21) {
            rich_operate(r, i == 20, "leader");
            print_result(print, &r->result);
        }
        print_number(print, core_next_due_ms(r->core));
        const char *broken = check ? core_check_invariants(r->core) : NULL;
        if (broken != NULL) {
            fail_msg("%s", broken);
        }
    }
}

static void check_that_life_goes_on(bool overflow)
{
    uint64_t prints[2] = {0, 0};
    struct core_options options = options_with(1);
    options.on_event = print_event;
    options.event_ctx = &prints[0];
    struct rich r = rich_new(&options);
    if (overflow) {
        rich_overflow(&r);
    }
    prints[0] = 0;
    struct bytes snapshot = snapshot_of(r.core);
    options.hash_key = 2;
    options.event_ctx = &prints[1];
    enum hf_error error;
    struct snapshot_problem problem;
    struct core *core = core_from(&options, snapshot.data, snapshot.len, 4096, &error, &problem);
    if (core == NULL) {
        fail_msg("%s", problem.text);
    }
    assert_int_equal(prints[1], 0); /* restoring is no event */
    struct rich again = {.core = core, .index = r.index, .now_ms = r.now_ms};
    live_on(&r, &prints[0], !overflow);
    live_on(&again, &prints[1], !overflow);
    assert_int_equal(prints[0], prints[1]);
    assert_null(core_check_invariants(r.core));
    struct bytes a = snapshot_of(r.core);
    struct bytes b = snapshot_of(core);
    assert_same(&a, &b);
    bytes_free(&a);
    bytes_free(&b);
    bytes_free(&snapshot);
    core_free(core);
    core_free(r.core);
}

static void a_restored_core_goes_on_as_the_first_would_have(void **state)
{
    (void)state;
    check_that_life_goes_on(false);
}

static void work_that_was_left_over_is_left_over_after_it_too(void **state)
{
    (void)state;
    check_that_life_goes_on(true);
}

/* ---- damage ---- */

static void every_truncation_is_refused(void **state)
{
    (void)state;
    struct core_options options = options_with(1);
    struct rich r = rich_new(&options);
    struct bytes snapshot = snapshot_of(r.core);
    core_free(r.core);
    struct snapshot_problem problem;
    for (size_t len = 0; len < snapshot.len; len++) {
        assert_int_equal(try_to_restore(&snapshot, len, &problem), HF_CORRUPT);
        assert_non_null(strstr(problem.text, "cut off"));
    }
    assert_int_equal(try_to_restore(&snapshot, snapshot.len, &problem), HF_OK);
    bytes_free(&snapshot);
}

static void every_single_bit_counts(void **state)
{
    (void)state;
    struct core_options options = options_with(1);
    struct rich r = rich_new(&options);
    struct bytes snapshot = snapshot_of(r.core);
    core_free(r.core);
    struct snapshot_problem problem;
    for (size_t bit = 0; bit < snapshot.len * 8; bit++) {
        snapshot.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        enum hf_error error = try_to_restore(&snapshot, snapshot.len, &problem);
        bool in_versions = bit / 8 >= SNAPSHOT_MAGIC_BYTES && bit / 8 < SNAPSHOT_HEADER_BYTES;
        assert_true(error == HF_CORRUPT || (error == HF_VERSION && in_versions));
        assert_true(strlen(problem.text) > 0);
        snapshot.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    bytes_free(&snapshot);
}

static void bytes_after_the_end_are_refused(void **state)
{
    (void)state;
    struct core_options options = options_with(1);
    struct core *empty = core_new(&options);
    struct bytes snapshot = snapshot_of(empty);
    bytes_add(&snapshot, "x", 1);
    assert_refused(snapshot.data, snapshot.len, HF_CORRUPT, "after the end");
    bytes_free(&snapshot);
    core_free(empty);
}

/* S12.9: a member that knows the first version only can read what a newer one wrote of it. */
static void a_state_of_the_first_version_has_the_first_format(void **state)
{
    (void)state;
    struct core_options options = options_with(1);
    struct rich r = {.core = core_new(&options), .now_ms = 1000000};
    rich_pass(&r, 0);
    rich_grants(&r);
    rich_waiters(&r);
    struct bytes snapshot = snapshot_of(r.core);
    const uint8_t header[] = {1, 0, 0, 0, 1, 0, 0, 0};
    assert_memory_equal(snapshot.data + SNAPSHOT_MAGIC_BYTES, header, sizeof(header));
    struct reader records = reader_make(
        slice_make(snapshot.data + SNAPSHOT_HEADER_BYTES, snapshot.len - SNAPSHOT_HEADER_BYTES));
    uint8_t last = 0;
    while (reader_left(&records) > SNAPSHOT_CHECKSUM_BYTES) {
        last = read_slice(&records, SNAPSHOT_RECORD_MAX).data[0];
    }
    assert_int_equal(last, 16); /* the number that the end had before there were counters */
    struct core *core = restored(&snapshot, 2, 1);
    struct bytes again = snapshot_of(core);
    assert_same(&snapshot, &again);
    assert_int_equal(core_version(core), 1);
    /* Upgraded, it is another state: it says so and has the other format. */
    struct command upgrade;
    struct result result;
    command_init(&upgrade, COMMAND_UPGRADE);
    upgrade.upgrade.version = 2;
    core_apply(core, &upgrade, &result);
    struct bytes later = snapshot_of(core);
    assert_int_equal(later.data[SNAPSHOT_MAGIC_BYTES], 2);
    assert_int_equal(later.data[SNAPSHOT_MAGIC_BYTES + 4], 2);
    /* The newer layout under the older number is no snapshot. */
    memcpy(later.data + SNAPSHOT_MAGIC_BYTES, header, sizeof(header));
    assert_refused(later.data, later.len, HF_CORRUPT, "no released version wrote it");
    bytes_free(&snapshot);
    bytes_free(&again);
    bytes_free(&later);
    core_free(core);
    core_free(r.core);
}

/* A member that knows no more than version 3 can read it, and what it remembers stays in one
 * memory. Upgraded, the memories of version 4 are used, and what was remembered is still found. */
static void a_state_of_version_3_has_the_second_format(void **state)
{
    (void)state;
    struct core_options options = options_with(1);
    options.version = 3;
    struct rich r = {.core = core_new(&options), .now_ms = 1000000};
    struct command check;
    command_init(&check, COMMAND_FENCE_CHECK);
    check.request_id = slice_of(RICH_DRAWN);
    check.fence_check.resource = slice_of("disk");
    check.fence_check.token = 7;
    rich_pass(&r, 0);
    rich_apply(&r, &check);
    struct bytes snapshot = snapshot_of(r.core);
    const uint8_t header[] = {2, 0, 0, 0, 3, 0, 0, 0};
    assert_memory_equal(snapshot.data + SNAPSHOT_MAGIC_BYTES, header, sizeof(header));
    struct reader records = reader_make(
        slice_make(snapshot.data + SNAPSHOT_HEADER_BYTES, snapshot.len - SNAPSHOT_HEADER_BYTES));
    uint8_t last = 0;
    while (reader_left(&records) > SNAPSHOT_CHECKSUM_BYTES) {
        last = read_slice(&records, SNAPSHOT_RECORD_MAX).data[0];
    }
    assert_int_equal(last, 18); /* the number that the end had */
    struct rich later = {.core = restored(&snapshot, 2, 1), .index = r.index, .now_ms = r.now_ms};
    struct command upgrade;
    command_init(&upgrade, COMMAND_UPGRADE);
    upgrade.upgrade.version = 4;
    rich_apply(&later, &upgrade);
    rich_apply(&later, &check);
    assert_true(later.result.replayed);
    check.request_id = slice_of("node-00000000000000000000000000000009");
    rich_apply(&later, &check);
    assert_false(later.result.replayed);
    assert_null(core_check_invariants(later.core));
    struct bytes newer = snapshot_of(later.core);
    assert_int_equal(newer.data[SNAPSHOT_MAGIC_BYTES], 3);
    struct rich last_one = {
        .core = restored(&newer, 3, 7), .index = later.index, .now_ms = later.now_ms};
    rich_apply(&last_one, &check);
    assert_true(last_one.result.replayed);
    check.request_id = slice_of(RICH_DRAWN);
    rich_apply(&last_one, &check);
    assert_true(last_one.result.replayed);
    bytes_free(&snapshot);
    bytes_free(&newer);
    core_free(last_one.core);
    core_free(later.core);
    core_free(r.core);
}

static void count_note(void *ctx, const struct audit_view *record)
{
    *(uint32_t *)ctx += record->is_note;
}

static uint32_t notes_of(const struct core *core)
{
    uint32_t notes = 0;
    (void)view_audit(core, 0, 0, LIMIT_AUDIT, count_note, &notes);
    return notes;
}

/* Which tier a record is about (S10) is known since version 3. */
static void notes_are_marked_since_version_3_and_stay_so(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct core_options options = options_with(1);
        struct command note;
        struct result result;
        options.version = version;
        struct core *core = core_new(&options);
        core_begin(core, 1, 1000, 1000);
        command_init(&note, COMMAND_NOTE);
        note.note.name = slice_of("db");
        note.note.actor = slice_of("olga");
        note.note.reason = slice_of("stuck");
        core_apply(core, &note, &result);
        assert_int_equal(result.error, HF_OK);
        assert_int_equal(notes_of(core), version - 2);
        assert_null(core_check_invariants(core));
        struct bytes snapshot = snapshot_of(core);
        struct core *after = restored(&snapshot, 7, 100);
        assert_int_equal(notes_of(after), version - 2);
        core_free(after);
        if (version == 3) { /* the older version never wrote that */
            snapshot.data[SNAPSHOT_MAGIC_BYTES + 4] = 2;
            assert_refused(snapshot.data, snapshot.len, HF_CORRUPT, "action is out of range");
        }
        bytes_free(&snapshot);
        core_free(core);
    }
}

/* A member of version 3 reads what a newer one wrote of a state of version 3. */
static void counters_have_a_deadline_since_version_4_and_keep_it(void **state)
{
    (void)state;
    for (uint32_t version = 3; version <= 4; version++) {
        struct core_options options = options_with(1);
        uint8_t bytes[64];
        struct packer effects = packer_make(bytes, sizeof(bytes));
        struct effect e = {.kind = EFFECT_COUNTER, .name = slice_of("n"), .number = 5};
        struct command c;
        struct result result;
        struct key_view view;
        options.version = version;
        struct core *core = core_new(&options);
        core_begin(core, 1, 1000, 1000);
        e.flags = version >= 4 ? EFFECT_TTL : 0;
        e.ttl_ms = version >= 4 ? 30000 : 0;
        assert_true(pack_effect(&effects, &e));
        command_init(&c, COMMAND_TRANSACT);
        c.transact.id = (struct id){1, 2};
        c.transact.client = slice_of("resp");
        c.transact.effects = packer_list(&effects);
        core_apply(core, &c, &result);
        assert_int_equal(result.error, HF_OK);
        struct bytes snapshot = snapshot_of(core);
        struct core *after = restored(&snapshot, 7, 100);
        assert_null(core_check_invariants(after));
        view_key(after, 0, slice_of("n"), &view);
        assert_int_equal(view.number, 5);
        assert_int_equal(view.deadline_ms, version >= 4 ? 31000 : 0);
        core_begin(after, 2, 31000, 31000);
        view_key(after, 0, slice_of("n"), &view);
        assert_int_equal(view.kind, version >= 4 ? KEY_ABSENT : KEY_COUNTER);
        core_free(after);
        bytes_free(&snapshot);
        core_free(core);
    }
}

static void newer_versions_are_distinguished_from_damage(void **state)
{
    (void)state;
    struct core_options options = options_with(1);
    struct core *empty = core_new(&options);
    struct bytes snapshot = snapshot_of(empty);
    assert_int_equal(snapshot.data[SNAPSHOT_MAGIC_BYTES], 1);
    snapshot.data[SNAPSHOT_MAGIC_BYTES] = SNAPSHOT_FORMAT + 1;
    assert_refused(snapshot.data, snapshot.len, HF_VERSION, "format version 9 is newer");
    snapshot.data[SNAPSHOT_MAGIC_BYTES] = SNAPSHOT_FORMAT;
    assert_refused(snapshot.data, snapshot.len, HF_CORRUPT, "has this format");
    snapshot.data[SNAPSHOT_MAGIC_BYTES + 4] = CORE_VERSION + 1;
    assert_refused(snapshot.data, snapshot.len, HF_VERSION, "state machine version");
    snapshot.data[SNAPSHOT_MAGIC_BYTES + 4] = 0;
    assert_refused(snapshot.data, snapshot.len, HF_CORRUPT, "version 0");
    snapshot.data[0] = 'x';
    assert_refused(snapshot.data, snapshot.len, HF_CORRUPT, "not a snapshot");
    bytes_free(&snapshot);
    core_free(empty);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_same_state_gives_the_same_bytes_whatever_the_hash_key),
        TEST(a_restored_core_writes_the_same_bytes),
        TEST(an_empty_core_survives),
        TEST(writing_allocates_nothing_and_changes_nothing),
        TEST(a_sink_that_refuses_stops_the_writing),
        TEST(the_counter_and_the_clock_survive),
        TEST(a_restored_core_goes_on_as_the_first_would_have),
        TEST(work_that_was_left_over_is_left_over_after_it_too),
        TEST(every_truncation_is_refused),
        TEST(every_single_bit_counts),
        TEST(bytes_after_the_end_are_refused),
        TEST(a_state_of_the_first_version_has_the_first_format),
        TEST(a_state_of_version_3_has_the_second_format),
        TEST(notes_are_marked_since_version_3_and_stay_so),
        TEST(counters_have_a_deadline_since_version_4_and_keep_it),
        TEST(newer_versions_are_distinguished_from_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
