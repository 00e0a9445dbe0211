/* Files and frames of earlier programs, and of this version (tests/fixtures): the present program reads them, and writes
 * the same bytes for a state of the same version. The bytes are written from the state, by the names
 * of the fields, so a field that moves within its list is found. */
#include "base_testing.h"

#include <fcntl.h>

#include "core_harness.h"

#include "core/entry.h"
#include "core/view.h"
#include "events/event_codec.h"
#include "every_command.h"
#include "node/forward/result_codec.h"
#include "service/request/memory_page.h"
#include "storage/log_format.h"
#include "storage/snapshot_format.h"

enum { FIXTURE_MAX = 16 << 10, FIRST_WITH_FRAMES = 4, LAST_VERSION = 8, RAFT_ENTRY_COMMAND = 1 };

/* ---- fixtures ---- */

struct fixture {
    uint8_t bytes[FIXTURE_MAX];
    size_t len;
    struct reader reader; /* of the records that are not read yet */
};

static void fixture_load(struct fixture *f, const char *name, uint32_t version, const char *suffix)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s-%u%s", FIXTURES, name, (unsigned)version, suffix);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fail_msg("%s cannot be opened", path);
    }
    ssize_t got = read(fd, f->bytes, sizeof(f->bytes));
    close(fd);
    assert_true(got > 0 && got < FIXTURE_MAX);
    f->len = (size_t)got;
    f->reader = reader_make(slice_make(f->bytes, f->len));
}

static uint64_t take_number(struct fixture *f, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint64_t)read_u8(&f->reader) << 8 * i;
    }
    assert_false(f->reader.bad);
    return value;
}

/* The next record of a list: its length in 4 bytes, then its bytes. */
static struct slice take_record(struct fixture *f)
{
    size_t len = (size_t)take_number(f, 4);
    assert_true(len > 0 && len <= reader_left(&f->reader));
    struct slice record = slice_make(f->reader.at, len);
    f->reader.at += len;
    return record;
}

static void assert_bytes(struct slice expected, const void *data, size_t len)
{
    assert_int_equal(expected.len, len);
    assert_memory_equal(expected.data, data, len);
}

static struct core *core_of(const struct fixture *snapshot)
{
    struct core_options options = {.memory = memory_system(), .hash_key = 1};
    enum hf_error error;
    struct snapshot_problem problem;
    struct core *core = core_from(&options, snapshot->bytes, snapshot->len, 100, &error, &problem);
    if (core == NULL) {
        fail_msg("refused: %s: %s", hf_error_code(error), problem.text);
    }
    assert_null(core_check_invariants(core));
    return core;
}

static void assert_writes(const struct core *core, struct slice expected)
{
    struct bytes written = snapshot_of(core);
    assert_bytes(expected, written.data, written.len);
    bytes_free(&written);
}

/* ---- snapshots ---- */

static void snapshots_of_earlier_versions_are_read_and_written_again(void **state)
{
    (void)state;
    for (uint32_t version = 1; version <= LAST_VERSION; version++) {
        static struct fixture snapshot;
        fixture_load(&snapshot, "snapshot", version, "");
        struct core *core = core_of(&snapshot);
        assert_int_equal(core_version(core), version);
        assert_writes(core, slice_make(snapshot.bytes, snapshot.len));
        core_free(core);
    }
}

static void keep_waiter(void *ctx, const struct waiter_view *waiter)
{
    struct waiter_view *last = ctx;
    *last = *waiter;
}

static void ignore_grant(void *ctx, const struct grant_view *grant)
{
    (void)ctx;
    (void)grant;
}

static void snapshots_of_earlier_versions_have_their_values(void **state)
{
    (void)state;
    for (uint32_t version = 1; version <= LAST_VERSION; version++) {
        static struct fixture snapshot;
        struct lock_view lock;
        struct waiter_view waiter = {0};
        fixture_load(&snapshot, "snapshot", version, "");
        struct core *core = core_of(&snapshot);
        assert_true(view_lock(core, 0, slice_of("plain"), &lock));
        assert_int_equal(lock.first.token % 1024, 0);
        assert_bytes(slice_of("{\"why\":\"backup\"}"), lock.first.holder.metadata.data,
                     lock.first.holder.metadata.len);
        assert_true(view_holders_and_waiters(core, 0, slice_of("plain"), 100, ignore_grant,
                                             keep_waiter, &waiter));
        assert_int_equal(waiter.parts, 3);
        assert_true(view_lock(core, 0, slice_of("pool"), &lock));
        assert_int_equal(lock.mode, MODE_SEMAPHORE);
        assert_int_equal(lock.limit, 7);
        assert_true(view_lock(core, 0, slice_of("leader"), &lock));
        assert_bytes(slice_of("10.0.0.1:80"), lock.first.value.data, lock.first.value.len);
        assert_int_equal(core_counters(core), version == 1 ? 0 : version >= 4 ? 3 : 2);
        core_free(core);
    }
}

/* An upgraded state is written in the present format, which is read again. */
static void a_state_of_an_earlier_version_can_be_upgraded(void **state)
{
    (void)state;
    for (uint32_t version = 1; version < CORE_VERSION; version++) {
        static struct fixture snapshot;
        struct command upgrade;
        struct result result;
        fixture_load(&snapshot, "snapshot", version, "");
        struct core *core = core_of(&snapshot);
        command_init(&upgrade, COMMAND_UPGRADE);
        upgrade.upgrade.version = CORE_VERSION;
        core_begin(core, core_index(core) + 1, core_now_ms(core), core_last_wall_ms(core));
        core_apply(core, &upgrade, &result);
        assert_int_equal(result.error, HF_OK);
        struct bytes written = snapshot_of(core);
        core_free(core);
        assert_true(written.len < FIXTURE_MAX);
        memcpy(snapshot.bytes, written.data, written.len);
        snapshot.len = written.len;
        core = core_of(&snapshot);
        assert_int_equal(core_version(core), CORE_VERSION);
        assert_writes(core, slice_make(written.data, written.len));
        core_free(core);
        bytes_free(&written);
    }
}

/* ---- log entries, results and events ---- */

struct replay {
    struct fixture results;
    struct fixture events;
    uint32_t version; /* of the program that wrote them; 0: it wrote none */
};

static void compare_result(void *ctx, uint32_t number, const struct command *command,
                           const struct result *result)
{
    struct replay *replay = ctx;
    (void)number;
    (void)command;
    if (replay->version != 0) {
        struct buffer out;
        buffer_init(&out, memory_system(), RESULT_BYTES_MAX);
        assert_true(result_encode(result, replay->version, &out));
        assert_bytes(take_record(&replay->results), buffer_bytes(&out).data,
                     buffer_bytes(&out).len);
        buffer_close(&out);
    }
}

static void compare_event(void *ctx, const struct event *event)
{
    struct replay *replay = ctx;
    if (replay->version != 0) {
        uint8_t bytes[EVENT_BYTES_MAX];
        size_t len = event_encode(event, replay->version, bytes);
        assert_bytes(take_record(&replay->events), bytes, len);
    }
}

/* Encodes the commands of an entry again. */
static void assert_entry_is_written_again(struct slice entry, uint32_t version)
{
    static uint8_t buffer[FIXTURE_MAX];
    struct entry_writer w;
    struct entry_header header;
    assert_int_equal(entry_check(entry, &header), HF_OK);
    entry_writer_init(&w, version, buffer, sizeof(buffer));
    struct reader r = reader_make(slice_make(entry.data + 32, entry.len - 32));
    for (uint32_t i = 0; i < header.count; i++) {
        struct command command;
        assert_int_equal(command_decode(read_slice(&r, LIMIT_ENTRY), &command), HF_OK);
        assert_true(entry_writer_add(&w, &command));
    }
    size_t len = entry_writer_seal(&w, header.time_ms, header.wall_ms);
    assert_bytes(entry, buffer, len);
}

/* The same entries lead to the state, the results and the events of the earlier program. */
static void log_entries_of_earlier_versions_lead_to_the_same_state(void **state)
{
    (void)state;
    for (uint32_t version = 1; version <= LAST_VERSION; version++) {
        static struct fixture entries;
        static struct fixture snapshot;
        static struct replay replay;
        struct core_options options = {.memory = memory_system(),
                                       .version = version > 3 ? 3 : version,
                                       .on_event = compare_event,
                                       .event_ctx = &replay};
        replay.version = version >= FIRST_WITH_FRAMES ? version : 0;
        fixture_load(&entries, "entries", version, "");
        fixture_load(&snapshot, "snapshot", version, "");
        if (replay.version != 0) {
            fixture_load(&replay.results, "results", version, "");
            fixture_load(&replay.events, "events", version, "");
        }
        struct core *core = core_new(&options);
        while (reader_left(&entries.reader) > 0) {
            uint64_t index = take_number(&entries, 8);
            struct slice entry = take_record(&entries);
            assert_entry_is_written_again(entry, version);
            assert_int_equal(entry_apply(core, index, entry, compare_result, &replay), HF_OK);
        }
        assert_writes(core, slice_make(snapshot.bytes, snapshot.len));
        assert_true(replay.version == 0 || reader_left(&replay.results.reader) == 0);
        assert_true(replay.version == 0 || reader_left(&replay.events.reader) == 0);
        core_free(core);
    }
}

static void assert_results_are_written_again(uint32_t version)
{
    static struct fixture results;
    struct buffer out;
    uint32_t refused = 0;
    fixture_load(&results, "results", version, "");
    buffer_init(&out, memory_system(), RESULT_BYTES_MAX);
    while (reader_left(&results.reader) > 0) {
        struct slice bytes = take_record(&results);
        struct result_scratch scratch;
        struct result result;
        assert_true(result_decode(bytes, &scratch, &result));
        buffer_truncate(&out, 0);
        assert_true(result_encode(&result, version, &out));
        assert_bytes(bytes, buffer_bytes(&out).data, buffer_bytes(&out).len);
        refused += result.outcome == OUTCOME_REFUSED;
    }
    buffer_close(&out);
    assert_true(refused > 0);
}

static void assert_events_are_written_again(uint32_t version)
{
    static struct fixture events;
    uint32_t granted = 0;
    uint32_t with_ttl = 0;
    fixture_load(&events, "events", version, "");
    while (reader_left(&events.reader) > 0) {
        struct slice bytes = take_record(&events);
        struct event event;
        uint8_t again[EVENT_BYTES_MAX];
        assert_true(event_decode(bytes, &event));
        assert_bytes(bytes, again, event_encode(&event, version, again));
        granted += event.type == EVENT_GRANTED;
        with_ttl += event.ttl_ms != 0;
        assert_true(version > 6 || event.since_ms == 0); /* earlier versions have no such field */
    }
    assert_true(granted > 0);
    assert_int_equal(with_ttl > 0, version > 4);
}

static void results_and_events_are_read_and_written_again(void **state)
{
    (void)state;
    for (uint32_t version = FIRST_WITH_FRAMES; version <= LAST_VERSION; version++) {
        assert_results_are_written_again(version);
        assert_events_are_written_again(version);
    }
}

/* ---- commands ---- */

static void assert_commands_are_written_again(uint32_t version, uint32_t last_type)
{
    static struct fixture fixture;
    uint32_t type = COMMAND_NONE;
    fixture_load(&fixture, "commands", version, "");
    while (reader_left(&fixture.reader) > 0) {
        static uint8_t bytes[FIXTURE_MAX];
        struct command filled;
        struct command decoded;
        uint64_t digest = take_number(&fixture, 8);
        struct slice expected = take_record(&fixture);
        type++;
        fill_command(&filled, (enum command_type)type);
        assert_bytes(expected, bytes, command_encode(&filled, version, bytes, sizeof(bytes)));
        assert_int_equal(command_decode(expected, &decoded), HF_OK);
        assert_int_equal(decoded.type, type);
        assert_true(command_digest(&decoded) == digest);
        assert_bytes(expected, bytes, command_encode(&decoded, CORE_VERSION, bytes, sizeof(bytes)));
    }
    assert_int_equal(type, last_type);
}

static void commands_are_read_and_written_again(void **state)
{
    (void)state;
    assert_commands_are_written_again(4, COMMAND_STREAM_THROUGH);
    assert_commands_are_written_again(5, COMMAND_STREAM_THROUGH);
    assert_commands_are_written_again(6, COMMAND_POLICY_CHANGE);
    assert_commands_are_written_again(7, COMMAND_SINK_POSITION);
}

/* ---- list pages ---- */

struct page_sum {
    uint32_t rows;
    uint32_t holders;
    uint32_t waiters;
};

static void sum_lock(void *ctx, const struct lock_view *lock)
{
    struct page_sum *sum = ctx;
    sum->rows++;
    sum->holders += lock->holders;
    sum->waiters += lock->queue_length;
}

static void sum_session(void *ctx, const struct session_view *session)
{
    struct page_sum *sum = ctx;
    sum->rows++;
    sum->holders += session->entries;
    sum->waiters += session->client.len > 0;
}

static struct page_sum sum_of(struct slice page, bool is_of_sessions)
{
    struct page_sum sum = {0, 0, 0};
    uint64_t next = is_of_sessions ? memory_page_sessions(page, sum_session, &sum)
                                   : memory_page_locks(page, sum_lock, &sum);
    assert_int_equal(next, VIEW_END);
    return sum;
}

/* The pages of one name have one order. A list has the order of a hash table, so its sums are
 * compared. */
static void assert_pages_are_written_again(uint32_t version)
{
    enum { NAMES = 3, SESSIONS = 4, PAGES = 5 };
    static struct fixture fixture;
    static struct fixture snapshot;
    fixture_load(&fixture, "pages", version, "");
    fixture_load(&snapshot, "snapshot", version, "");
    struct core *core = core_of(&snapshot);
    uint32_t number;
    for (number = 0; reader_left(&fixture.reader) > 0; number++) {
        struct slice request = take_record(&fixture);
        struct slice page = take_record(&fixture);
        struct buffer out;
        buffer_init(&out, memory_system(), MEMORY_PAGE_BYTES);
        assert_true(memory_page_write(core, request, &out));
        struct slice written = buffer_bytes(&out);
        assert_int_equal(page.len, written.len);
        if (number < NAMES) {
            assert_bytes(page, written.data, written.len);
        } else {
            struct page_sum expected = sum_of(page, number == SESSIONS);
            struct page_sum got = sum_of(written, number == SESSIONS);
            assert_true(expected.rows > 0 && expected.holders > 0);
            assert_memory_equal(&expected, &got, sizeof(got));
        }
        buffer_close(&out);
    }
    assert_int_equal(number, PAGES + (version >= 7)); /* the long holds */
    core_free(core);
}

static void list_pages_are_read_and_written_again(void **state)
{
    (void)state;
    for (uint32_t version = FIRST_WITH_FRAMES; version <= LAST_VERSION; version++) {
        assert_pages_are_written_again(version);
    }
}

/* ---- files of a node ---- */

/* The state in a snapshot file. */
static struct slice body_of(struct fixture *file, struct snapshot_info *info)
{
    struct snapshot_check check = {.name = "fixture"};
    struct problem problem;
    struct slice body = {NULL, 0};
    size_t at = 0;
    for (size_t have = 0; !check.done;) {
        size_t need = snapshot_check_need(&check, file->bytes + at, have);
        if (need > have) {
            assert_true(at + need <= file->len);
            have = need;
            continue;
        }
        struct slice part = {NULL, 0};
        if (snapshot_check_piece(&check, file->bytes + at, need, &part, info, &problem) !=
            STORAGE_OK) {
            fail_msg("%s", problem.text);
        }
        body = part.len > 0 ? part : body; /* the fixtures have one block */
        at += need;
        have = 0;
    }
    assert_int_equal(at, file->len);
    return body;
}

static void open_segment(struct log_segment *segment, const struct fixture *log)
{
    enum { SIZE_AT = 20, STORE_AT = 24 };
    struct problem problem;
    struct id store = {get_u64(log->bytes + STORE_AT), get_u64(log->bytes + STORE_AT + 8)};
    uint32_t size = get_u32(log->bytes + SIZE_AT);
    *segment = (struct log_segment){0};
    if (log_segment_decode(segment, store, 1, "fixture", log->bytes, size, &problem) !=
        STORAGE_OK) {
        fail_msg("%s", problem.text);
    }
}

static void the_log_of_an_earlier_program_leads_to_its_snapshot(void **state)
{
    (void)state;
    for (uint32_t version = 3; version <= LAST_VERSION; version++) {
        static struct fixture log;
        static struct fixture file;
        struct log_segment segment;
        struct log_record record;
        struct snapshot_info info;
        struct core_options options = {.memory = memory_system()};
        uint32_t applied = 0;
        fixture_load(&log, "log", version, "");
        fixture_load(&file, "log", version, ".snapshot");
        struct slice snapshot = body_of(&file, &info);
        struct core *core = core_new(&options);
        open_segment(&segment, &log);
        for (size_t at = LOG_PAGE;
             log_record_decode(&segment, log.bytes + at, log.len - at, &record);
             at += record.size) {
            if (record.kind == LOG_ENTRY && record.type == RAFT_ENTRY_COMMAND &&
                record.index <= info.index) {
                uint32_t written_for = core_version(core);
                assert_entry_is_written_again(record.payload, written_for);
                assert_int_equal(entry_apply(core, record.index, record.payload, NULL, NULL),
                                 HF_OK);
                applied++;
            }
        }
        assert_true(applied > 15);
        assert_int_equal(core_version(core), version);
        assert_int_equal(core_index(core), info.index);
        assert_writes(core, snapshot);
        core_free(core);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshots_of_earlier_versions_are_read_and_written_again),
        cmocka_unit_test(snapshots_of_earlier_versions_have_their_values),
        cmocka_unit_test(a_state_of_an_earlier_version_can_be_upgraded),
        cmocka_unit_test(log_entries_of_earlier_versions_lead_to_the_same_state),
        cmocka_unit_test(results_and_events_are_read_and_written_again),
        cmocka_unit_test(commands_are_read_and_written_again),
        cmocka_unit_test(list_pages_are_read_and_written_again),
        cmocka_unit_test(the_log_of_an_earlier_program_leads_to_its_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
