/* Reading a segment: where its records end, and whether that end is normal or damage.
 *
 * A crash or a power cut leaves each sector of the last write written or not. So invalid records at
 * the end of the log are normal; they were never acknowledged. But durable bytes that have changed
 * are damage: starting without them would lose acknowledged entries. Both look the same at offset
 * E, the first record that is not valid. These rules distinguish them:
 *
 *   1. The log starts a batch only when the last one is synced, and each record contains the start
 *      of its batch. So a valid record whose batch starts after E proves that E was durable:
 *      damage.
 *   2. A record whose batch starts at or before E belongs to the same write as the bytes missing at
 *      E: no damage. (Or to a failed write that was overwritten. It started where the log ended, so
 *      its batch starts at or before E too.)
 *   3. Everything before `sealed` was durable before the file got its name: damage.
 *   4. If a later segment has a valid record, this one was closed and durable: damage, unless it
 *      ends with a CLOSE (checked by log_open.c).
 *   5. A valid record at E that starts a batch was written when the log ended there. If it does not
 *      follow the record before it, that one has changed: damage.
 *   6. If the record at E shows by itself that all of it was written: damage (log_tail.c).
 *
 * Damage in the very last batch that looks like a torn write remains. It is dropped, and
 * log_dropped reports it; log_seal prevents it by a record after the batch. */
#include <inttypes.h>
#include <stdio.h>

#include "base/limits.h"
#include "storage/log_state.h"

bool log_scan_next(struct log_scan *scan, struct log_record *record, uint32_t *at)
{
    const struct log_segment *segment = scan->segment;
    uint32_t offset = scan->offset;
    if (scan->closed ||
        !log_record_decode(segment, scan->bytes + offset, segment->size - offset, record)) {
        return false;
    }
    if ((scan->chained && record->before != scan->chain) || record->batch < LOG_PAGE ||
        record->batch > offset) {
        return false;
    }
    if (record->kind != LOG_CLOSE && record->size + LOG_RECORD > segment->size - offset) {
        return false; /* there is always space for a CLOSE */
    }
    scan->chain = record->checksum;
    scan->chained = true;
    scan->closed = record->kind == LOG_CLOSE;
    scan->offset += record->size;
    *at = offset;
    return true;
}

/* A record after the end: its index counts as dropped. */
static void count_record(const struct log_scan *scan, uint32_t offset,
                         const struct log_record *record, struct log_end *end)
{
    end->bytes = offset + record->size - scan->offset;
    if (record->kind == LOG_ENTRY && record->index < LIMIT_NUMBER) {
        end->first = end->first == 0 || record->index < end->first ? record->index : end->first;
        end->last = record->index > end->last ? record->index : end->last;
    }
}

/* Rules 1, 2 and 5. */
static void look_behind(const struct log_scan *scan, struct log_end *end)
{
    const struct log_segment *segment = scan->segment;
    for (uint32_t offset = scan->offset; offset + LOG_RECORD <= segment->size;) {
        struct log_record record;
        if (!log_record_decode(segment, scan->bytes + offset, segment->size - offset, &record)) {
            offset += 8;
            continue;
        }
        end->damaged = true;
        if (offset == scan->offset && record.batch == offset) {
            snprintf(end->why, sizeof(end->why),
                     "the record there does not follow the one before it");
            return;
        }
        if (record.batch > scan->offset) {
            snprintf(end->why, sizeof(end->why),
                     "the record at offset %" PRIu32 " was written after it", offset);
            return;
        }
        end->damaged = false;
        count_record(scan, offset, &record, end);
        offset += record.size;
    }
}

/* In a segment that held zeros, every other byte was written. */
static uint32_t reach_of_bytes(const struct log_scan *scan)
{
    uint32_t reach = scan->segment->size;
    while (reach > scan->offset && scan->bytes[reach - 1] == 0) {
        reach--;
    }
    return reach;
}

void log_scan_end(const struct log_scan *scan, struct log_end *end)
{
    const struct log_segment *segment = scan->segment;
    uint32_t offset = scan->offset;
    *end = (struct log_end){.damaged = false};
    if (scan->closed) {
        return;
    }
    if (offset < segment->sealed) {
        end->damaged = true;
        snprintf(end->why, sizeof(end->why), "all up to offset %" PRIu32 " was durable",
                 segment->sealed);
        return;
    }
    struct log_record record;
    if (log_record_glance(segment, scan->bytes + offset, segment->size - offset, &record)) {
        count_record(scan, offset, &record, end);
    }
    look_behind(scan, end);
    if (!end->damaged) {
        end->damaged = log_tail_is_damage(scan, end->why, sizeof(end->why));
    }
    uint32_t bytes = segment->blank ? reach_of_bytes(scan) - offset : 0;
    end->bytes = bytes > end->bytes ? bytes : end->bytes;
}

bool log_scan_finds_record(const struct log_segment *segment, const uint8_t *bytes, uint32_t *at)
{
    for (uint32_t offset = LOG_PAGE; offset + LOG_RECORD <= segment->size; offset += 8) {
        struct log_record record;
        if (log_record_decode(segment, bytes + offset, segment->size - offset, &record)) {
            *at = offset;
            return true;
        }
    }
    return false;
}
