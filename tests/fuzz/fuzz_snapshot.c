/* Arbitrary bytes as a snapshot. The checksum would keep the fuzzer out, so it is made right here:
 *
 *   first byte even   the rest is a whole snapshot, but for its last 8 bytes
 *   first byte odd    the rest is records, each behind its length; header and end are made here,
 *                     for a state of version 1 when the second bit is set, too
 *
 * and the rest of the first byte chooses the size of the pieces. What is restored must have the
 * invariants and give the very same bytes again: one state has one snapshot. */
#include "../support/core_harness.h"

#include "base/codec.h"
#include "core/snapshot_format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Noreturn void die(const char *what, const char *text)
{
    fprintf(stderr, "fuzz_snapshot: %s: %s\n", what, text);
    abort();
}

/* The reader makes space on the word of the first record, up to 48 MB. That is sound and slow. */
static void be_modest(struct bytes *snapshot)
{
    if (snapshot->len <= SNAPSHOT_HEADER_BYTES) {
        return;
    }
    struct reader r = reader_make(
        slice_make(snapshot->data + SNAPSHOT_HEADER_BYTES, snapshot->len - SNAPSHOT_HEADER_BYTES));
    struct slice first = read_slice(&r, SNAPSHOT_RECORD_MAX);
    for (size_t i = 1; i <= 3 && i < first.len; i++) {
        uint8_t *magnitude = snapshot->data + (first.data - snapshot->data) + first.len - i;
        *magnitude = *magnitude > 8 ? *magnitude % 8 : *magnitude;
    }
}

static void add_checksum(struct bytes *snapshot)
{
    be_modest(snapshot);
    uint8_t sum[SNAPSHOT_CHECKSUM_BYTES];
    struct writer w = writer_make(sum, sizeof(sum));
    write_fixed64(&w, XXH3_64bits(snapshot->data, snapshot->len));
    bytes_add(snapshot, sum, sizeof(sum));
}

static struct bytes make_whole(const uint8_t *data, size_t size)
{
    struct bytes out = {NULL, 0, 0};
    bytes_add(&out, data, size < SNAPSHOT_CHECKSUM_BYTES ? 0 : size - SNAPSHOT_CHECKSUM_BYTES);
    add_checksum(&out);
    return out;
}

static struct bytes make_from_records(const uint8_t *data, size_t size, uint8_t version)
{
    struct bytes out = {NULL, 0, 0};
    uint8_t format = (uint8_t)snapshot_format_of(version);
    uint8_t versions[8] = {format, 0, 0, 0, version};
    bytes_add(&out, SNAPSHOT_MAGIC, SNAPSHOT_MAGIC_BYTES);
    bytes_add(&out, versions, sizeof(versions));
    struct reader r = reader_make(slice_make(data, size));
    uint64_t records = 0;
    while (!r.bad && reader_left(&r) > 0) {
        const uint8_t *from = r.at;
        struct slice record = read_slice(&r, SNAPSHOT_RECORD_MAX);
        if (!r.bad && record.len > 0 && record.data[0] != snapshot_end_of(format)) {
            bytes_add(&out, from, (size_t)(r.at - from));
            records++;
        }
    }
    uint8_t end[12];
    struct writer w = writer_make(end, sizeof(end));
    write_u8(&w, 0);
    write_u8(&w, snapshot_end_of(format));
    write_u64(&w, records);
    end[0] = (uint8_t)(w.at - end - 1);
    bytes_add(&out, end, (size_t)(w.at - end));
    add_checksum(&out);
    return out;
}

/* The highest number of an audit record. */
static uint64_t audits(const struct core *core)
{
    uint64_t most = 0;
    TENANT_EACH(core, t)
    {
        most = t->audit_number > most ? t->audit_number : most;
    }
    return most;
}

/* Time passes and what is due ends. Numbers that are about to run out are left alone: that they do
 * not is asserted (S3.2). */
static void live(struct core *core)
{
    const uint64_t enough = LIMIT_NUMBER >> 11;
    uint64_t now_ms = core_now_ms(core);
    for (unsigned i = 0; i < 50; i++) {
        uint64_t due_ms = core_next_due_ms(core);
        if (due_ms >= LIMIT_NUMBER || core->index > enough || core->counter > enough ||
            audits(core) > enough) {
            return;
        }
        now_ms = due_ms > now_ms ? due_ms : now_ms;
        core_begin(core, core->index + 1, now_ms, 0);
        const char *broken = core_check_invariants(core);
        if (broken != NULL) {
            die("a restored core breaks an invariant later", broken);
        }
    }
}

/* Each format has a version here. */
static uint8_t version_of(uint8_t choice)
{
    return choice % 4 == 3 ? 1 : choice % 8 == 5 ? 3 : CORE_VERSION;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct bytes snapshot = data[0] % 2 == 0
                                ? make_whole(data + 1, size - 1)
                                : make_from_records(data + 1, size - 1, version_of(data[0]));
    struct core_options options = {.memory = memory_system(), .hash_key = data[0]};
    enum hf_error error;
    struct snapshot_problem problem;
    size_t piece = data[0] / 4 == 0 ? snapshot.len : data[0] / 4;
    struct core *core = core_from(&options, snapshot.data, snapshot.len, piece, &error, &problem);
    if (core == NULL) {
        if (problem.text[0] == '\0' || (error != HF_CORRUPT && error != HF_VERSION)) {
            die("a snapshot is refused without a reason", hf_error_code(error));
        }
    } else {
        const char *broken = core_check_invariants(core);
        if (broken != NULL) {
            die("a restored core has a broken invariant", broken);
        }
        struct bytes again = snapshot_of(core);
        if (!bytes_equal(&snapshot, &again)) {
            die("a restored core writes another snapshot", "");
        }
        bytes_free(&again);
        live(core);
        core_free(core);
    }
    bytes_free(&snapshot);
    return 0;
}
