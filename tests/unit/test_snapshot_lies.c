/* Snapshots put together by hand: well-formed, with a checksum that is right, and not true. Each is
 * refused with a reason that names what is wrong. */
#include "base_testing.h"

#include "../support/core_harness.h"
#include "base/codec.h"
#include "core/snapshot_format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static struct counted memory;

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

/* A snapshot put together by hand. */
struct forge {
    struct bytes bytes;
    uint64_t records;
    uint8_t version; /* of the state */
};

static void forge_add(struct forge *f, const void *record, size_t len)
{
    uint8_t length[SNAPSHOT_LENGTH_BYTES];
    struct writer w = writer_make(length, sizeof(length));
    write_u64(&w, len);
    bytes_add(&f->bytes, length, (size_t)(w.at - length));
    bytes_add(&f->bytes, record, len);
    f->records++;
}

static void forge_state(struct forge *f, uint8_t sessions, uint8_t names, uint8_t leases)
{
    uint8_t record[64];
    struct writer w = writer_make(record, sizeof(record));
    write_u8(&w, RECORD_STATE);
    const uint64_t numbers[] = {10, 1000, 1000, 100, 1, 50, 50, 5, 0, 0, 0, 9};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        write_u64(&w, numbers[i]);
    }
    write_u8(&w, 0);
    write_u8(&w, sessions);
    write_u8(&w, names);
    write_u8(&w, leases);
    uint8_t version = f->version;
    const uint8_t versions[8] = {(uint8_t)snapshot_format_of(version), 0, 0, 0, version};
    bytes_add(&f->bytes, SNAPSHOT_MAGIC, SNAPSHOT_MAGIC_BYTES);
    bytes_add(&f->bytes, versions, sizeof(versions));
    forge_add(f, record, (size_t)(w.at - record));
}

static void forge_session(struct forge *f, uint64_t id, const char *client, bool is_private)
{
    uint8_t record[400];
    struct writer w = writer_make(record, sizeof(record));
    write_u8(&w, RECORD_SESSION);
    write_u8(&w, (uint8_t)(SESSION_HAS_TIMER | (is_private ? SESSION_IS_PRIVATE : 0)));
    write_u64(&w, 0);
    write_id(&w, (struct id){id, 1});
    write_slice(&w, slice_of(client));
    write_u64(&w, 5000);
    write_u64(&w, 900);
    write_u64(&w, 5900);
    forge_add(f, record, (size_t)(w.at - record));
}

/* With `key` not 0 the grant says that it is one, with these flags. */
static void forge_grant_or_key(struct forge *f, uint64_t token, uint64_t lease, const char *name,
                               unsigned mode, const char *value, uint8_t key)
{
    uint8_t record[700];
    struct writer w = writer_make(record, sizeof(record));
    write_u8(&w, RECORD_GRANT);
    write_u8(&w, (uint8_t)(mode | (mode == MODE_SHARED ? GRANT_LOCK_HAS_EXTRA : 0)));
    write_slice(&w, slice_of(name));
    write_u64(&w, token);
    write_u64(&w, 950);
    write_u64(&w, 1);
    write_u64(&w, 1);
    write_u64(&w, 0);
    write_slice(&w, slice_of("o"));
    if (lease != 0) {
        write_id(&w, (struct id){lease, 2});
    }
    write_u64(&w, 0);
    write_slice(&w, slice_of(""));
    write_slice(&w, slice_of(value));
    if (key != 0) {
        write_u8(&w, key);
        write_u64(&w, 3);
    }
    forge_add(f, record, (size_t)(w.at - record));
}

static void forge_grant(struct forge *f, uint64_t token, uint64_t lease, const char *name,
                        unsigned mode)
{
    forge_grant_or_key(f, token, lease, name, mode, "", 0);
}

static void forge_counter(struct forge *f, const char *name, uint64_t change)
{
    uint8_t record[700];
    struct writer w = writer_make(record, sizeof(record));
    write_u8(&w, RECORD_COUNTER);
    write_u64(&w, 0);
    write_slice(&w, slice_of(name));
    write_fixed64(&w, UINT64_MAX);
    write_u64(&w, change);
    forge_add(f, record, (size_t)(w.at - record));
}

/* Of a state of version 4, in which counters have a deadline. */
static void forge_counter_until(struct forge *f, uint64_t deadline_ms)
{
    uint8_t record[100];
    struct writer w = writer_make(record, sizeof(record));
    write_u8(&w, RECORD_COUNTER);
    write_u64(&w, 0);
    write_slice(&w, slice_of("m"));
    write_fixed64(&w, 1);
    write_u64(&w, 1);
    write_u64(&w, deadline_ms);
    forge_add(f, record, (size_t)(w.at - record));
}

static void forge_transact(struct forge *f, uint64_t id, uint8_t outcome, uint8_t reason,
                           uint64_t token)
{
    uint8_t record[100];
    struct writer w = writer_make(record, sizeof(record));
    write_u8(&w, RECORD_TRANSACT);
    write_u64(&w, 0);
    write_id(&w, (struct id){id, 1});
    write_fixed64(&w, 77);
    write_u8(&w, outcome);
    write_u8(&w, reason);
    write_u64(&w, 0);
    write_u64(&w, token);
    write_u64(&w, 0);
    forge_add(f, record, (size_t)(w.at - record));
}

/* A waiter without a deadline, in a real session, for a name that is exclusive. */
static void forge_waiter(struct forge *f, uint64_t ticket, uint64_t lease, const char *name,
                         bool is_cursor)
{
    uint8_t record[700];
    struct writer w = writer_make(record, sizeof(record));
    write_u8(&w, RECORD_WAITER);
    write_u8(&w, 0);
    write_u8(&w, 0);
    write_u64(&w, ticket);
    write_u64(&w, ticket);
    write_u64(&w, 1);
    write_u64(&w, 0);
    write_u64(&w, 0);
    write_slice(&w, slice_of("o"));
    write_slice(&w, slice_of(""));
    write_slice(&w, slice_of(""));
    write_id(&w, (struct id){lease, 2});
    write_u64(&w, 1);
    write_slice(&w, slice_of(name));
    write_u8(&w, is_cursor ? PLACE_IS_CURSOR : 0);
    forge_add(f, record, (size_t)(w.at - record));
}

static void forge_end(struct forge *f)
{
    uint8_t record[12];
    struct writer w = writer_make(record, sizeof(record));
    write_u8(&w, snapshot_end_of(snapshot_format_of(f->version)));
    write_u64(&w, f->records);
    forge_add(f, record, (size_t)(w.at - record));
    uint8_t sum[SNAPSHOT_CHECKSUM_BYTES];
    w = writer_make(sum, sizeof(sum));
    write_fixed64(&w, XXH3_64bits(f->bytes.data, f->bytes.len));
    bytes_add(&f->bytes, sum, sizeof(sum));
}

static void assert_forgery_refused(struct forge *f, const char *words)
{
    forge_end(f);
    assert_refused(f->bytes.data, f->bytes.len, HF_CORRUPT, words);
    bytes_free(&f->bytes);
}

static void an_honest_forgery_is_taken(void **state)
{
    (void)state;
    struct forge f = {.version = 2};
    forge_state(&f, 2, 1, 1);
    forge_session(&f, 1, "a", false);
    forge_grant(&f, 1024, 7, "x", MODE_EXCLUSIVE);
    forge_session(&f, 2, "b", false);
    forge_session(&f, 3, "c", false);
    forge_end(&f);
    struct core *core = restored(&f.bytes, 1, 1);
    core_free(core);
    bytes_free(&f.bytes);
}

static void lies_about_sessions_are_named(void **state)
{
    (void)state;
    struct forge f = {.version = 2};
    forge_state(&f, 2, 0, 0);
    forge_session(&f, 1, "a", false);
    forge_session(&f, 2, "", false);
    assert_forgery_refused(&f, "session 2: client id is empty");

    f = (struct forge){.version = 2};
    forge_state(&f, 2, 0, 0);
    forge_session(&f, 1, "a", false);
    forge_session(&f, 1, "b", false);
    assert_forgery_refused(&f, "session 2: its id comes twice");

    f = (struct forge){.version = 2};
    forge_state(&f, 1, 0, 0);
    forge_session(&f, 1, "a", true);
    assert_forgery_refused(&f, "private and has neither");

    f = (struct forge){.version = 2};
    forge_state(&f, 1, 0, 0);
    forge_session(&f, 1, "a\n", false);
    assert_forgery_refused(&f, "session 1: client id is not valid");

    f = (struct forge){.version = 2};
    forge_state(&f, 7, 0, 0);
    forge_session(&f, 1, "a", false);
    assert_forgery_refused(&f, "differs from the first record");
}

static void lies_about_grants_are_named(void **state)
{
    (void)state;
    struct forge f = {.version = 2};
    forge_state(&f, 1, 1, 1);
    forge_session(&f, 1, "a", false);
    forge_grant(&f, 101 * 1024, 7, "x", MODE_EXCLUSIVE);
    assert_forgery_refused(&f, "grant 1: its token is above the counter");

    f = (struct forge){.version = 2};
    forge_state(&f, 2, 1, 2);
    forge_session(&f, 1, "a", false);
    forge_grant(&f, 1024, 7, "x", MODE_EXCLUSIVE);
    forge_session(&f, 2, "b", false);
    forge_grant(&f, 2048, 8, "x", MODE_EXCLUSIVE);
    assert_forgery_refused(&f, "grant 2: its name has another holder");

    f = (struct forge){.version = 2};
    forge_state(&f, 2, 1, 2);
    forge_session(&f, 1, "a", false);
    forge_grant(&f, 1024, 7, "x", MODE_EXCLUSIVE);
    forge_session(&f, 2, "b", false);
    forge_grant(&f, 2048, 8, "x", MODE_SHARED);
    assert_forgery_refused(&f, "grant 2: its name has another mode elsewhere");

    f = (struct forge){.version = 2};
    forge_state(&f, 1, 2, 2);
    forge_session(&f, 1, "a", false);
    forge_grant(&f, 1024, 7, "x", MODE_EXCLUSIVE);
    forge_grant(&f, 2048, 7, "y", MODE_EXCLUSIVE);
    assert_forgery_refused(&f, "grant 2: its lease id is missing or comes twice");

    f = (struct forge){.version = 2};
    forge_state(&f, 2, 2, 2);
    forge_session(&f, 1, "a", false);
    forge_grant(&f, 1024, 7, "x", MODE_EXCLUSIVE);
    forge_session(&f, 2, "a", false);
    forge_grant(&f, 1024, 8, "y", MODE_EXCLUSIVE);
    assert_forgery_refused(&f, "I8");

    f = (struct forge){.version = 2};
    forge_state(&f, 1, 2, 2);
    forge_session(&f, 1, "a", false);
    forge_grant(&f, 2048, 7, "x", MODE_EXCLUSIVE);
    forge_grant(&f, 1024, 8, "y", MODE_EXCLUSIVE);
    assert_forgery_refused(&f, "grant 2: its token is out of order");

    f = (struct forge){.version = 2};
    forge_state(&f, 1, 1, 1);
    forge_session(&f, 1, "a", false);
    forge_grant(&f, 1024, 7, "x//y", MODE_EXCLUSIVE);
    assert_forgery_refused(&f, "grant 1: its name is not valid");

    f = (struct forge){.version = 2};
    forge_state(&f, 1, 2, 0);
    forge_session(&f, 1, "a", true);
    forge_grant(&f, 1024, 0, "x", MODE_EXCLUSIVE);
    forge_grant(&f, 2048, 0, "y", MODE_EXCLUSIVE);
    assert_forgery_refused(&f, "grant 2: its session is private and has another already");

    f = (struct forge){.version = 2};
    forge_state(&f, 0, 1, 0);
    forge_grant(&f, 1024, 7, "x", MODE_EXCLUSIVE);
    assert_forgery_refused(&f, "grant 1: it belongs to no session");
}

static void lies_about_waiters_are_named(void **state)
{
    (void)state;
    struct forge f = {.version = 2};
    forge_state(&f, 1, 1, 1);
    forge_session(&f, 1, "a", false);
    forge_waiter(&f, 1, 7, "x", true);
    assert_forgery_refused(&f, "I12"); /* it waits for nothing */

    f = (struct forge){.version = 2};
    forge_state(&f, 1, 1, 2);
    forge_session(&f, 1, "a", false);
    forge_grant(&f, 1024, 7, "x", MODE_EXCLUSIVE);
    forge_waiter(&f, 1, 8, "x", true);
    assert_forgery_refused(&f, "waiter 1: its name has a holder whose flags");

    f = (struct forge){.version = 2};
    forge_state(&f, 2, 1, 2);
    forge_session(&f, 1, "a", false);
    forge_waiter(&f, 5, 7, "x", true);
    forge_session(&f, 2, "b", false);
    forge_waiter(&f, 5, 8, "x", false);
    assert_forgery_refused(&f, "two waiters have the same ticket");

    f = (struct forge){.version = 2};
    forge_state(&f, 1, 1, 2);
    forge_session(&f, 1, "a", false);
    forge_waiter(&f, 5, 7, "x", true);
    forge_waiter(&f, 6, 8, "x", true);
    assert_forgery_refused(&f, "two cursors");

    f = (struct forge){.version = 2};
    forge_state(&f, 1, 1, 1);
    forge_session(&f, 1, "a", false);
    forge_waiter(&f, 51, 7, "x", true);
    assert_forgery_refused(&f, "waiter 1: its ticket is out of order");
}

static void records_out_of_place_are_refused(void **state)
{
    (void)state;
    const uint8_t woken[] = {RECORD_WOKEN, 0, 1, 'x', MODE_EXCLUSIVE, 0};
    struct forge f = {.version = 2};
    forge_state(&f, 0, 1, 0);
    forge_add(&f, woken, sizeof(woken));
    forge_session(&f, 1, "a", false);
    assert_forgery_refused(&f, "session 1: it is out of order");

    f = (struct forge){.version = 2};
    forge_state(&f, 0, 1, 0);
    forge_add(&f, woken, sizeof(woken));
    forge_add(&f, woken, sizeof(woken));
    assert_forgery_refused(&f, "woken 2: its name is woken twice");

    const uint8_t part[] = {RECORD_PART, 0, 1, 'x'};
    f = (struct forge){.version = 2};
    forge_state(&f, 1, 1, 0);
    forge_session(&f, 1, "a", false);
    forge_add(&f, part, sizeof(part));
    assert_forgery_refused(&f, "part 1: it belongs to no multi-lock");

    const uint8_t unknown[] = {RECORD_COUNT, 1};
    f = (struct forge){.version = 2};
    forge_state(&f, 0, 0, 0);
    forge_add(&f, unknown, sizeof(unknown));
    assert_forgery_refused(&f, "next record is unknown");

    f = (struct forge){.version = 2};
    forge_state(&f, 0, 0, 0);
    f.records++; /* and says so at the end */
    assert_forgery_refused(&f, "end 1: its counts do not match");
}

static void forge_request(struct forge *f, enum record_type record_type, enum command_type type,
                          const char *id, uint64_t done_ms)
{
    uint8_t record[200];
    struct writer w = writer_make(record, sizeof(record));
    write_u8(&w, (uint8_t)record_type);
    write_u64(&w, 0);
    write_u8(&w, (uint8_t)type);
    write_id(&w, (struct id){0, 0});
    write_slice(&w, slice_of("op"));
    write_slice(&w, slice_of(id));
    write_fixed64(&w, 77);
    for (unsigned i = 0; i < 6; i++) { /* outcome, reason, ended, accepted, count, depth */
        write_u8(&w, 0);
    }
    write_id(&w, (struct id){0, 0});
    for (unsigned i = 0; i < 3; i++) { /* token, deadline, highest */
        write_u8(&w, 0);
    }
    if (record_type == RECORD_OPERATOR_REQUEST) {
        write_u64(&w, done_ms);
    }
    forge_add(f, record, (size_t)(w.at - record));
}

#define DRAWN "node-00000000000000000000000000000001"

static void lies_about_requests_that_are_done_are_named(void **state)
{
    (void)state;
    static const struct {
        struct {
            enum record_type record;
            enum command_type type;
            const char *id;
            uint64_t done_ms;
        } rows[2];
        const char *words; /* NULL: it is no lie */
    } lies[] = {
        {{{RECORD_DRAWN_REQUEST, COMMAND_RELEASE, DRAWN, 0},
          {RECORD_OPERATOR_REQUEST, COMMAND_REVOKE, "r", 1000}},
         NULL},
        {{{RECORD_REQUEST, COMMAND_RELEASE, DRAWN, 0}, {RECORD_REQUEST, COMMAND_REVOKE, "r", 0}},
         NULL},
        {{{RECORD_DRAWN_REQUEST, COMMAND_RELEASE, "mine", 0}}, "drawn_request 1: it is of another"},
        {{{RECORD_DRAWN_REQUEST, COMMAND_REVOKE, DRAWN, 0}}, "drawn_request 1: it is of another"},
        {{{RECORD_OPERATOR_REQUEST, COMMAND_RELEASE, "r", 0}},
         "operator_request 1: it is of another"},
        {{{RECORD_OPERATOR_REQUEST, COMMAND_REVOKE, "r", 1001}},
         "operator_request 1: it was done out of order"},
        {{{RECORD_OPERATOR_REQUEST, COMMAND_REVOKE, "r", 900},
          {RECORD_OPERATOR_REQUEST, COMMAND_REVOKE, "s", 899}},
         "operator_request 2: it was done out of order"},
        {{{RECORD_REQUEST, COMMAND_RELEASE, DRAWN, 0},
          {RECORD_DRAWN_REQUEST, COMMAND_RELEASE, DRAWN, 0}},
         "drawn_request 1: its request id comes twice"},
        {{{RECORD_REQUEST, COMMAND_REVOKE, "r", 0},
          {RECORD_OPERATOR_REQUEST, COMMAND_REVOKE, "r", 0}},
         "operator_request 1: its request id comes twice"},
    };
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct forge f = {.version = 4};
        forge_state(&f, 0, 0, 0);
        for (unsigned row = 0; row < 2 && lies[i].rows[row].id != NULL; row++) {
            forge_request(&f, lies[i].rows[row].record, lies[i].rows[row].type,
                          lies[i].rows[row].id, lies[i].rows[row].done_ms);
        }
        if (lies[i].words != NULL) {
            assert_forgery_refused(&f, lies[i].words);
        } else {
            forge_end(&f);
            enum hf_error error;
            struct snapshot_problem problem;
            struct core_options options = options_with(1);
            struct core *core =
                core_from(&options, f.bytes.data, f.bytes.len, 4096, &error, &problem);
            assert_non_null(core);
            assert_null(core_check_invariants(core));
            core_free(core);
            bytes_free(&f.bytes);
        }
    }
    /* An older format has no such record: there its number is that of the end. */
    struct forge f = {.version = 3};
    forge_state(&f, 0, 0, 0);
    forge_request(&f, RECORD_OPERATOR_REQUEST, COMMAND_REVOKE, "r", 0);
    assert_forgery_refused(&f, "the type of the next record is unknown");
}

/* Whoever says that there is much more to come gets space for it only as it comes. */
static void a_liar_gets_no_more_memory_than_the_bytes_are_worth(void **state)
{
    (void)state;
    struct forge f = {.version = 2};
    forge_state(&f, 63, 63, 63);
    forge_end(&f);
    memory.largest = 0;
    struct core_options options = options_with(1);
    struct snapshot_reader *reader = snapshot_reader_new(&options);
    assert_int_equal(snapshot_reader_feed(reader, f.bytes.data, f.bytes.len), HF_OK);
    assert_true(memory.bytes < UINT64_C(64) << 20);
    struct core *core = NULL;
    assert_int_equal(snapshot_reader_finish(reader, &core, NULL), HF_CORRUPT);
    bytes_free(&f.bytes);

    /* A record that is too long is refused before it is there. */
    f = (struct forge){.version = 2};
    forge_state(&f, 0, 0, 0);
    bytes_add(&f.bytes, "\xff\xff\x7f", 3);
    assert_refused(f.bytes.data, f.bytes.len, HF_CORRUPT, "length of the next record");
    bytes_free(&f.bytes);
}

static void lies_about_keys_are_named(void **state)
{
    (void)state;
    struct forge f = {.version = 2};
    forge_state(&f, 1, 1, 0);
    forge_session(&f, 1, "a", true);
    forge_grant_or_key(&f, 1024, 0, "x", MODE_EXCLUSIVE, "\xff", GRANT_IS_KEY);
    forge_counter(&f, "n", 9);
    forge_transact(&f, 1, OUTCOME_DONE, REASON_NONE, 1024);
    forge_transact(&f, 2, OUTCOME_REFUSED, REASON_CONFLICT, 0);
    forge_end(&f);
    core_free(restored(&f.bytes, 1, 7)); /* that much is true */
    bytes_free(&f.bytes);

    static const struct {
        uint8_t key;
        unsigned mode;
        const char *words;
    } keys[] = {
        {GRANT_IS_HASH, MODE_EXCLUSIVE, "grant 1: it cannot be decoded"},
        {GRANT_IS_KEY | 8, MODE_EXCLUSIVE, "grant 1: it cannot be a key"},
        {GRANT_IS_KEY | GRANT_IS_HASH | GRANT_IS_LIST, MODE_EXCLUSIVE,
         "grant 1: it cannot be a key"},
        {GRANT_IS_KEY, MODE_ELECTION, "grant 1: it cannot be a key"},
        {0, MODE_EXCLUSIVE, "grant 1: its metadata or value is not valid"},
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        f = (struct forge){.version = 2};
        forge_state(&f, 1, 1, 0);
        forge_session(&f, 1, "a", true);
        forge_grant_or_key(&f, 1024, 0, "x", keys[i].mode, "\xff", keys[i].key);
        assert_forgery_refused(&f, keys[i].words);
    }
    f = (struct forge){.version = 2};
    forge_state(&f, 1, 1, 1);
    forge_session(&f, 1, "a", false);
    forge_grant_or_key(&f, 1024, 7, "x", MODE_EXCLUSIVE, "", GRANT_IS_KEY);
    assert_forgery_refused(&f, "grant 1: it cannot be a key");
}

static void lies_about_counters_and_transactions_are_named(void **state)
{
    (void)state;
    struct forge f = {.version = 2};
    forge_state(&f, 0, 0, 0);
    forge_counter(&f, "a//b", 1);
    assert_forgery_refused(&f, "counter 1: its name is not valid");
    f = (struct forge){.version = 2};
    forge_state(&f, 0, 0, 0);
    forge_counter(&f, "n", 10);
    assert_forgery_refused(&f, "counter 1: its last change is in the future");
    f = (struct forge){.version = 2};
    forge_state(&f, 1, 1, 1);
    forge_session(&f, 1, "a", false);
    forge_grant(&f, 1024, 7, "x", MODE_EXCLUSIVE);
    forge_counter(&f, "x", 1);
    assert_forgery_refused(&f, "counter 1: its name comes twice, or is that of a lock");
    f = (struct forge){.version = 2};
    forge_state(&f, 0, 0, 0);
    forge_counter(&f, "n", 1);
    forge_counter(&f, "n", 2);
    assert_forgery_refused(&f, "counter 2: its name comes twice");
    static const uint64_t deadlines_ms[] = {1, LIMIT_NUMBER * 2};
    for (size_t i = 0; i < sizeof(deadlines_ms) / sizeof(deadlines_ms[0]); i++) {
        f = (struct forge){.version = 4};
        forge_state(&f, 0, 0, 0);
        forge_counter_until(&f, deadlines_ms[i]);
        assert_forgery_refused(&f, "counter 1: its deadline is out of range, or past");
    }
    f = (struct forge){.version = 4};
    forge_state(&f, 0, 0, 0);
    forge_counter_until(&f, LIMIT_NUMBER);
    forge_end(&f);
    core_free(restored(&f.bytes, 1, 7)); /* that much is true */
    bytes_free(&f.bytes);

    static const struct {
        uint8_t outcome;
        uint8_t reason;
        uint64_t token;
        const char *words;
    } lies[] = {
        {OUTCOME_GRANTED, REASON_NONE, 0, "transact 1: its answer is unknown"},
        {OUTCOME_DONE, REASON_CONFLICT, 0, "transact 1: its answer is unknown"},
        {OUTCOME_REFUSED, REASON_NONE, 0, "transact 1: its answer is unknown"},
        {OUTCOME_REFUSED, REASON_COUNT, 0, "transact 1: its answer is unknown"},
        {OUTCOME_REFUSED, REASON_CONFLICT, 1024, "transact 1: its answer is unknown"},
        {OUTCOME_DONE, REASON_NONE, 101 << 10, "transact 1: a number of its answer"},
    };
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        f = (struct forge){.version = 2};
        forge_state(&f, 0, 0, 0);
        forge_transact(&f, 1, lies[i].outcome, lies[i].reason, lies[i].token);
        assert_forgery_refused(&f, lies[i].words);
    }
    f = (struct forge){.version = 2};
    forge_state(&f, 0, 0, 0);
    forge_transact(&f, 1, OUTCOME_DONE, REASON_NONE, 0);
    forge_transact(&f, 1, OUTCOME_DONE, REASON_NONE, 0);
    assert_forgery_refused(&f, "transact 2: its id comes twice");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(lies_about_keys_are_named),
        TEST(lies_about_counters_and_transactions_are_named),
        TEST(an_honest_forgery_is_taken),
        TEST(lies_about_sessions_are_named),
        TEST(lies_about_grants_are_named),
        TEST(lies_about_waiters_are_named),
        TEST(records_out_of_place_are_refused),
        TEST(lies_about_requests_that_are_done_are_named),
        TEST(a_liar_gets_no_more_memory_than_the_bytes_are_worth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
