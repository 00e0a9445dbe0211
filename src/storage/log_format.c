/* Encodes and checks segments and records, without I/O. */
#include "storage/log_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/panic.h"

/* Offsets in the header of a segment. */
enum {
    PAGE_CHECKSUM = 0,
    PAGE_MAGIC = 8,
    PAGE_VERSION = 16,
    PAGE_SIZE = 20,
    PAGE_STORE = 24,
    PAGE_NUMBER = 40,
    PAGE_FOLLOWS = 48,
    PAGE_LIFE = 56,
    PAGE_SEALED = 64,
    PAGE_BLANK = 68,
};

/* Offsets in the header of a record. */
enum {
    RECORD_CHECKSUM = 0,
    RECORD_LENGTH = LOG_LENGTH,
    RECORD_KIND = 12,
    RECORD_TYPE = 14,
    RECORD_INDEX = 16,
    RECORD_TERM = 24,
    RECORD_BEFORE = 32,
    RECORD_BATCH = 40,
    RECORD_SALT = 44,
};

static const char magic[8] = "HOLDFLOG";

static uint64_t salt_of(const struct log_segment *segment, struct id store)
{
    uint8_t words[32];
    put_u64(words, store.high);
    put_u64(words + 8, store.low);
    put_u64(words + 16, segment->number);
    put_u64(words + 24, segment->life);
    return storage_checksum(words, sizeof(words), 0);
}

void log_segment_encode(struct log_segment *segment, struct id store, uint8_t *page)
{
    memset(page, 0, LOG_PAGE);
    memcpy(page + PAGE_MAGIC, magic, sizeof(magic));
    put_u32(page + PAGE_VERSION, LOG_FORMAT_VERSION);
    put_u32(page + PAGE_SIZE, segment->size);
    put_u64(page + PAGE_STORE, store.high);
    put_u64(page + PAGE_STORE + 8, store.low);
    put_u64(page + PAGE_NUMBER, segment->number);
    put_u64(page + PAGE_FOLLOWS, segment->follows);
    put_u64(page + PAGE_LIFE, segment->life);
    put_u32(page + PAGE_SEALED, segment->sealed);
    put_u32(page + PAGE_BLANK, segment->blank ? 1 : 0);
    put_u64(page + PAGE_CHECKSUM, storage_checksum(page + 8, LOG_PAGE - 8, 0));
    segment->salt = salt_of(segment, store);
}

enum storage_status log_segment_decode(struct log_segment *segment, struct id store,
                                       uint64_t number, const char *name, const uint8_t *page,
                                       uint64_t file_size, struct problem *problem)
{
    if (memcmp(page + PAGE_MAGIC, magic, sizeof(magic)) != 0 ||
        get_u64(page + PAGE_CHECKSUM) != storage_checksum(page + 8, LOG_PAGE - 8, 0)) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "%s is damaged: its first %d bytes are no header of a log segment "
                           "(checksum)",
                           name, LOG_PAGE);
    }
    uint32_t version = get_u32(page + PAGE_VERSION);
    if (version != LOG_FORMAT_VERSION) {
        return problem_set(problem, STORAGE_VERSION,
                           "%s has format version %" PRIu32 ", this program knows %d: use the "
                           "version of Holdfast that wrote it, or a newer one",
                           name, version, LOG_FORMAT_VERSION);
    }
    struct id owner = {get_u64(page + PAGE_STORE), get_u64(page + PAGE_STORE + 8)};
    if (!id_equal(owner, store)) {
        return problem_set(problem, STORAGE_FOREIGN,
                           "%s belongs to store %016" PRIx64 "%016" PRIx64 ", this folder is store "
                           "%016" PRIx64 "%016" PRIx64 ": files of two nodes were mixed",
                           name, owner.high, owner.low, store.high, store.low);
    }
    if (get_u64(page + PAGE_NUMBER) != number) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "%s holds segment %" PRIu64 " of the log: it was renamed or copied",
                           name, get_u64(page + PAGE_NUMBER));
    }
    if (get_u32(page + PAGE_SIZE) != file_size) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "%s has %" PRIu64 " bytes and should have %" PRIu32
                           ": it was cut off or grew",
                           name, file_size, get_u32(page + PAGE_SIZE));
    }
    segment->number = number;
    segment->follows = get_u64(page + PAGE_FOLLOWS);
    segment->life = get_u64(page + PAGE_LIFE);
    segment->size = get_u32(page + PAGE_SIZE);
    segment->sealed = get_u32(page + PAGE_SEALED);
    segment->tail = LOG_PAGE;
    segment->blank = get_u32(page + PAGE_BLANK) == 1;
    segment->salt = salt_of(segment, store);
    return STORAGE_OK;
}

uint64_t log_record_encode(const struct log_segment *segment, const struct log_record *record,
                           uint8_t *at)
{
    size_t len = record->payload.len;
    hf_assert(len <= LIMIT_ENTRY);
    put_u32(at + RECORD_LENGTH, (uint32_t)len);
    at[RECORD_KIND] = (uint8_t)record->kind;
    at[RECORD_KIND + 1] = 0;
    at[RECORD_TYPE] = (uint8_t)record->type;
    at[RECORD_TYPE + 1] = (uint8_t)(record->type >> 8);
    put_u64(at + RECORD_INDEX, record->index);
    put_u64(at + RECORD_TERM, record->term);
    put_u64(at + RECORD_BEFORE, record->before);
    put_u32(at + RECORD_BATCH, record->batch);
    put_u32(at + RECORD_SALT, (uint32_t)segment->salt);
    if (len > 0) {
        memcpy(at + LOG_RECORD, record->payload.data, len);
    }
    size_t size = log_record_size(len);
    memset(at + LOG_RECORD + len, 0, size - LOG_RECORD - len);
    uint64_t checksum = storage_checksum(at + 8, size - 8, segment->salt);
    put_u64(at + RECORD_CHECKSUM, checksum);
    return checksum;
}

size_t log_record_peek(const struct log_segment *segment, const uint8_t *at)
{
    uint32_t len = get_u32(at + RECORD_LENGTH);
    return get_u32(at + RECORD_SALT) != (uint32_t)segment->salt || len > LIMIT_ENTRY
               ? 0
               : log_record_size(len);
}

bool log_record_glance(const struct log_segment *segment, const uint8_t *at, size_t left,
                       struct log_record *out)
{
    size_t size = left < LOG_RECORD ? 0 : log_record_peek(segment, at);
    if (size == 0 || size > left) {
        return false;
    }
    *out = (struct log_record){
        .kind = (enum log_kind)at[RECORD_KIND],
        .type = (uint16_t)(at[RECORD_TYPE] | at[RECORD_TYPE + 1] << 8),
        .index = get_u64(at + RECORD_INDEX),
        .term = get_u64(at + RECORD_TERM),
        .before = get_u64(at + RECORD_BEFORE),
        .checksum = get_u64(at + RECORD_CHECKSUM),
        .batch = get_u32(at + RECORD_BATCH),
        .size = (uint32_t)size,
        .payload = slice_make(at + LOG_RECORD, get_u32(at + RECORD_LENGTH)),
    };
    return true;
}

bool log_record_decode(const struct log_segment *segment, const uint8_t *at, size_t left,
                       struct log_record *out)
{
    struct log_record record;
    if (!log_record_glance(segment, at, left, &record) ||
        record.checksum != storage_checksum(at + 8, record.size - 8, segment->salt)) {
        return false;
    }
    *out = record;
    return true;
}

/* ---- names ---- */

void log_segment_name(char name[LOG_NAME_MAX], const char *prefix, uint64_t number)
{
    snprintf(name, LOG_NAME_MAX, "%s-%012" PRIu64, prefix, number);
}

bool log_segment_number(const char *name, const char *prefix, uint64_t *number)
{
    size_t prefix_len = strlen(prefix);
    if (strncmp(name, prefix, prefix_len) != 0 || name[prefix_len] != '-') {
        return false;
    }
    uint64_t value = 0;
    const char *digit = name + prefix_len + 1;
    for (; *digit >= '0' && *digit <= '9' && value < LIMIT_NUMBER; digit++) {
        value = value * 10 + (uint64_t)(*digit - '0');
    }
    char again[LOG_NAME_MAX];
    log_segment_name(again, prefix, value);
    if (*digit != '\0' || strcmp(again, name) != 0 || value == 0) {
        return false;
    }
    *number = value;
    return true;
}
