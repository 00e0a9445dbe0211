/* Reads a snapshot in pieces: header, frames of records, checksum. snapshot_build.c interprets the
 * records.
 *
 *   HEADER ──▶ LENGTH ──▶ RECORD ──▶ ... ──▶ CHECKSUM ──▶ COMPLETE
 *                 ▲          │
 *                 └──────────┘
 *
 * A record within one piece is read in place; one that spans pieces is collected first. At most one
 * record is buffered. */
#include "core/snapshot.h"

#include "core/snapshot_build.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum stage { STAGE_HEADER, STAGE_LENGTH, STAGE_RECORD, STAGE_CHECKSUM, STAGE_COMPLETE };

enum { HASH_ALIGNMENT = 64 };

struct snapshot_reader {
    const struct memory *memory;
    struct builder builder;
    enum stage stage;
    enum hf_error error;
    struct snapshot_problem problem;
    size_t need; /* bytes that the stage needs */
    size_t have; /* of them, in `piece` */
    uint64_t checksum;
    /* It needs a larger alignment than memory guarantees. */
    uint8_t hash_bytes[sizeof(XXH3_state_t) + HASH_ALIGNMENT];
    uint8_t piece[SNAPSHOT_RECORD_MAX];
};

static XXH3_state_t *hash_of(struct snapshot_reader *reader)
{
    uintptr_t at = (uintptr_t)reader->hash_bytes + HASH_ALIGNMENT - 1;
    return (XXH3_state_t *)(at / HASH_ALIGNMENT * HASH_ALIGNMENT);
}

struct snapshot_reader *snapshot_reader_new(const struct core_options *options)
{
    struct snapshot_reader *reader = memory_alloc(options->memory, sizeof(*reader));
    memset(reader, 0, offsetof(struct snapshot_reader, hash_bytes));
    reader->memory = options->memory;
    reader->need = SNAPSHOT_HEADER_BYTES;
    builder_init(&reader->builder, core_new(options));
    XXH3_64bits_reset(hash_of(reader));
    return reader;
}

/* Messages: independent of the locale. */

static void append(struct snapshot_reader *reader, const char *text)
{
    char *message = reader->problem.text;
    size_t used = strlen(message);
    size_t space = sizeof(reader->problem.text) - 1 - used;
    size_t len = strlen(text);
    memcpy(message + used, text, len < space ? len : space);
}

static void append_number(struct snapshot_reader *reader, uint64_t number)
{
    char digits[21];
    size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    append(reader, digits + at);
}

static void fail(struct snapshot_reader *reader, enum hf_error error, const char *text)
{
    reader->error = error;
    append(reader, text);
}

static void fail_record(struct snapshot_reader *reader, enum record_type type, const char *text)
{
    append(reader, record_name(type));
    append(reader, " ");
    append_number(reader, reader->builder.counts[type]);
    append(reader, ": ");
    fail(reader, HF_CORRUPT, text);
}

static uint32_t fixed32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void take_header(struct snapshot_reader *reader, const uint8_t *at)
{
    if (memcmp(at, SNAPSHOT_MAGIC, SNAPSHOT_MAGIC_BYTES) != 0) {
        fail(reader, HF_CORRUPT, "header: this is not a snapshot of Holdfast");
        return;
    }
    uint32_t format = fixed32(at + SNAPSHOT_MAGIC_BYTES);
    uint32_t version = fixed32(at + SNAPSHOT_MAGIC_BYTES + 4);
    if (format > SNAPSHOT_FORMAT || version > CORE_VERSION) {
        fail(reader, HF_VERSION,
             format > SNAPSHOT_FORMAT ? "header: format version "
                                      : "header: state machine version ");
        append_number(reader, format > SNAPSHOT_FORMAT ? format : version);
        append(reader, " is newer than this program, which supports 1 to ");
        append_number(reader, format > SNAPSHOT_FORMAT ? SNAPSHOT_FORMAT : CORE_VERSION);
        return;
    }
    if (format == 0 || version == 0) {
        fail(reader, HF_CORRUPT, "header: version 0 was never written");
        return;
    }
    if (format != snapshot_format_of(version)) {
        fail(reader, HF_CORRUPT, "header: no version of the state machine has this format");
        return;
    }
    reader->builder.c->version = version;
    reader->stage = STAGE_LENGTH;
    reader->need = 1;
}

/* Byte by byte: only the last byte marks the end. */
static void take_length(struct snapshot_reader *reader)
{
    bool more = reader->piece[reader->have - 1] >= 0x80;
    if (more && reader->have < SNAPSHOT_LENGTH_BYTES) {
        reader->need = reader->have + 1;
        return;
    }
    struct reader r = reader_make(slice_make(reader->piece, reader->have));
    uint64_t length = read_u64(&r);
    if (!reader_done(&r) || length == 0 || length > SNAPSHOT_RECORD_MAX) {
        fail_record(reader, reader->builder.last, "the length of the next record is out of range");
        return;
    }
    reader->stage = STAGE_RECORD;
    reader->need = (size_t)length;
    reader->have = 0;
}

static void take_record(struct snapshot_reader *reader, const uint8_t *at)
{
    uint8_t type = at[0];
    uint8_t end = snapshot_end_of(snapshot_format_of(reader->builder.c->version));
    if (type >= end) {
        type = type == end ? RECORD_END : RECORD_COUNT;
    }
    if (type == RECORD_NONE || type >= RECORD_COUNT) {
        fail_record(reader, reader->builder.last, "the type of the next record is unknown");
        return;
    }
    struct reader r = reader_make(slice_make(at + 1, reader->need - 1));
    const char *wrong = builder_take(&reader->builder, (enum record_type)type, &r);
    if (wrong != NULL) {
        fail_record(reader, (enum record_type)type, wrong);
        return;
    }
    bool is_end = type == RECORD_END;
    reader->stage = is_end ? STAGE_CHECKSUM : STAGE_LENGTH;
    reader->need = is_end ? SNAPSHOT_CHECKSUM_BYTES : 1;
    reader->have = 0;
}

static void take_checksum(struct snapshot_reader *reader, const uint8_t *at)
{
    struct reader r = reader_make(slice_make(at, SNAPSHOT_CHECKSUM_BYTES));
    reader->checksum = read_fixed64(&r);
    reader->stage = STAGE_COMPLETE;
}

static void take(struct snapshot_reader *reader, const uint8_t *at)
{
    switch (reader->stage) {
    case STAGE_HEADER:
        take_header(reader, at);
        reader->have = 0;
        return;
    case STAGE_LENGTH:
        take_length(reader);
        return;
    case STAGE_RECORD:
        take_record(reader, at);
        return;
    case STAGE_CHECKSUM:
        take_checksum(reader, at);
        return;
    case STAGE_COMPLETE:
        return;
    }
}

/* Takes what the stage needs and is available; returns how many bytes. */
static size_t advance(struct snapshot_reader *reader, const uint8_t *at, size_t left)
{
    size_t missing = reader->need - reader->have;
    if (reader->have == 0 && left >= missing && reader->stage != STAGE_LENGTH) {
        take(reader, at);
        return missing;
    }
    size_t len = left < missing ? left : missing;
    memcpy(reader->piece + reader->have, at, len);
    reader->have += len;
    if (reader->have == reader->need) {
        take(reader, reader->piece);
    }
    return len;
}

enum hf_error snapshot_reader_feed(struct snapshot_reader *reader, const void *data, size_t len)
{
    const uint8_t *from = data;
    size_t used = 0;
    size_t hashed = 0; /* bytes under the checksum */
    while (used < len && reader->error == HF_OK) {
        if (reader->stage == STAGE_COMPLETE) {
            fail(reader, HF_CORRUPT, "there are bytes after the end");
            break;
        }
        bool counts = reader->stage != STAGE_CHECKSUM;
        used += advance(reader, from + used, len - used);
        hashed = counts ? used : hashed;
    }
    if (hashed > 0) {
        XXH3_64bits_update(hash_of(reader), from, hashed);
    }
    return reader->error;
}

static void check_whole(struct snapshot_reader *reader)
{
    if (reader->stage != STAGE_COMPLETE) {
        fail_record(reader, reader->builder.last, "the snapshot is cut off after it");
    } else if (XXH3_64bits_digest(hash_of(reader)) != reader->checksum) {
        fail(reader, HF_CORRUPT, "checksum: it is wrong, so some of the bytes before it are");
    } else {
        const char *wrong = builder_finish(&reader->builder);
        if (wrong != NULL) {
            fail(reader, HF_CORRUPT, wrong);
        }
    }
}

enum hf_error snapshot_reader_finish(struct snapshot_reader *reader, struct core **out,
                                     struct snapshot_problem *problem)
{
    if (reader->error == HF_OK) {
        check_whole(reader);
    }
    enum hf_error error = reader->error;
    if (error != HF_OK) {
        core_free(reader->builder.c);
        if (problem != NULL) {
            *problem = reader->problem;
        }
    } else {
        *out = reader->builder.c;
    }
    builder_close(&reader->builder);
    memory_free(reader->memory, reader, sizeof(*reader));
    return error;
}
