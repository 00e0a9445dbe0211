/* Whether the first invalid record was written completely. Then it was changed later, and its entry
 * may have been acknowledged: damage, not an unfinished write (log_scan.c, rule 6).
 *
 * An interrupted write leaves each of its sectors written or unchanged (storage/disk.h). Two tests
 * show that no sector is missing:
 *
 *   - The segment held zeros before, and each 64-byte piece of the record has a byte that is not
 *     zero. (Some memory is written in lines of 64 bytes.)
 *   - The record is valid when one byte is changed, and enough other bytes of its sector are right.
 *     A sector that was not written differs in more bytes, unless most of it is zero.
 *
 * The first test detects any damage, but needs a segment that is not recycled. The second one is
 * limited to cheap cases (some ms): any change of a byte in records of up to 512 bytes, one bit in
 * records of up to 2,896. Damage that neither detects is dropped as an unfinished write, and
 * reported. */
#include <inttypes.h>
#include <stdio.h>

#include "storage/log_state.h"

enum {
    SECTOR = 512,
    PIECE = 64,
    REPAIR_BYTE_MAX = 512, /* 255 values for each byte: checksums of 64 MiB */
    REPAIR_BIT_MAX = 2896, /* 8 values: the same */
    RIGHT_MIN = 16,        /* right and non-zero bytes in the same sector */
    HEADER_MIN = 12,       /* non-zero bytes of a header: checksum, salt */
};

/* Non-zero bytes from `from` to `end`. */
static uint32_t count_set(const struct log_scan *scan, uint32_t from, uint32_t end)
{
    uint32_t n = 0;
    for (uint32_t at = from; at < end; at++) {
        n += scan->bytes[at] != 0;
    }
    return n;
}

/* Each aligned piece has a non-zero byte between `from` and `end`. */
static bool is_everywhere(const struct log_scan *scan, uint32_t from, uint32_t end)
{
    while (from < end) {
        uint32_t next = (from / PIECE + 1) * PIECE;
        next = next < end ? next : end;
        if (count_set(scan, from, next) == 0) {
            return false;
        }
        from = next;
    }
    return true;
}

/* A sector has only zeros in its part of the record, and more than a few. */
static bool misses_sector(const struct log_scan *scan, uint32_t from, uint32_t end)
{
    while (from < end) {
        uint32_t next = (from / SECTOR + 1) * SECTOR;
        next = next < end ? next : end;
        if (next - from >= PIECE && count_set(scan, from, next) == 0) {
            return true;
        }
        from = next;
    }
    return false;
}

/* ---- a segment that held zeros ---- */

/* If the header has no possible length, only the header is checked. A single bit after the log is
 * not a header. */
static bool is_written_over_zeros(const struct log_scan *scan, uint32_t size, char *why,
                                  size_t why_size)
{
    uint32_t end = scan->offset + (size > 0 ? size : LOG_RECORD);
    if (!scan->segment->blank || end > scan->segment->size ||
        count_set(scan, scan->offset, scan->offset + LOG_RECORD) < HEADER_MIN ||
        !is_everywhere(scan, scan->offset, end)) {
        return false;
    }
    snprintf(why, why_size,
             size > 0 ? "all of the record was written, and its checksum is wrong"
                      : "a record was written there, and its header is wrong");
    return true;
}

/* ---- one byte ---- */

static bool is_right(const struct log_scan *scan, const uint8_t *bytes, uint32_t len,
                     struct log_record *record)
{
    return log_record_decode(scan->segment, bytes, len, record) &&
           (!scan->chained || record->before == scan->chain) && record->batch >= LOG_PAGE &&
           record->batch <= scan->offset;
}

/* All other values of the byte at `at`, or those with one bit changed. */
static bool is_repaired_at(const struct log_scan *scan, uint8_t *bytes, uint32_t len, uint32_t at,
                           bool all, struct log_record *record)
{
    uint8_t was = bytes[at];
    bool right = false;
    for (unsigned change = 1; change < 256 && !right; change = all ? change + 1 : 2 * change) {
        bytes[at] = (uint8_t)(was ^ change);
        right = is_right(scan, bytes, len, record);
    }
    bytes[at] = was;
    return right;
}

struct repair_search {
    uint32_t from, end; /* the bytes of the record that may be wrong */
    uint32_t size;      /* from its header, 0 when that is not possible */
};

/* The byte whose change makes the record valid, and that record. */
static bool find_repair(const struct log_scan *scan, uint8_t *bytes, uint32_t len,
                        const struct repair_search *search, uint32_t *at, struct log_record *record)
{
    for (*at = search->from; *at < search->end; ++*at) {
        bool all = *at < LOG_RECORD || search->size <= REPAIR_BYTE_MAX;
        if (is_repaired_at(scan, bytes, len, *at, all, record)) {
            return true;
        }
    }
    return false;
}

/* Its sector has enough other bytes of the record. */
static bool is_among_others(const struct log_scan *scan, uint32_t at, uint32_t len)
{
    uint32_t from = at / SECTOR * SECTOR, end = from + SECTOR;
    from = from > scan->offset ? from : scan->offset;
    end = end < scan->offset + len ? end : scan->offset + len;
    return count_set(scan, from, end) > RIGHT_MIN;
}

static bool is_one_byte_wrong(const struct log_scan *scan, const struct repair_search *search,
                              char *why, size_t why_size)
{
    uint32_t left = scan->segment->size - scan->offset;
    uint32_t len = left < REPAIR_BIT_MAX ? left : REPAIR_BIT_MAX;
    if (left < LOG_RECORD) {
        return false;
    }
    uint8_t *bytes = memory_alloc(memory_system(), len);
    memcpy(bytes, scan->bytes + scan->offset, len);
    uint32_t at;
    struct log_record record;
    bool found = find_repair(scan, bytes, len, search, &at, &record) &&
                 is_among_others(scan, scan->offset + at, record.size);
    if (found) {
        snprintf(why, why_size,
                 "the record there is sound but for one byte, at offset %" PRIu32 ", that changed",
                 scan->offset + at);
    }
    memory_free(memory_system(), bytes, len);
    return found;
}

bool log_tail_is_damage(const struct log_scan *scan, char *why, size_t why_size)
{
    const struct log_segment *segment = scan->segment;
    const uint8_t *at = scan->bytes + scan->offset;
    uint32_t left = segment->size - scan->offset;
    struct log_record record;
    if (log_record_decode(segment, at, left, &record)) {
        return false; /* left over from a failed write: rule 2 */
    }
    uint32_t size = log_record_glance(segment, at, left, &record) ? record.size : 0;
    if (is_written_over_zeros(scan, size, why, why_size)) {
        return true;
    }
    struct repair_search search = {.end = LOG_RECORD, .size = size};
    if (segment->blank && misses_sector(scan, scan->offset, scan->offset + size)) {
        /* A sector of zeros was not written, unless the length is wrong. */
        search.from = LOG_LENGTH;
        search.end = LOG_LENGTH + 4;
    } else if (size > LOG_RECORD && size <= REPAIR_BIT_MAX) {
        search.end = size;
    }
    return is_one_byte_wrong(scan, &search, why, why_size);
}
