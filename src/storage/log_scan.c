/* Reading a segment: where its records end, and whether that end is normal or damage.
 *
 * A crash or a power cut leaves the last write in any state: each of its sectors may be written or
 * not. So torn, garbled or missing records at the end of the log are normal. They and what follows
 * them are no part of the log and were never acknowledged. But bytes that were durable once and
 * have changed are damage: starting without them would lose acknowledged entries. Both look the
 * same at offset E, the first record that is not valid. These rules distinguish them:
 *
 *   1. The log writes one batch at a time and starts the next one only when the last one is synced.
 *      Each record contains the start of its batch. So a valid record of this segment whose batch
 *      starts after E proves that E was durable when it was written: damage.
 *   2. A record whose batch starts at or before E belongs to the same write as the bytes missing at
 *      E: no damage, since sectors are written in any order. (Or it is left over from a write that
 *      failed and was then overwritten. Such a write started where the log ended at that time, so
 *      its batch starts at or before E as well.)
 *   3. Everything before `sealed` was durable before the file got its name: damage.
 *   4. If a later segment has a valid record, then this one was closed and durable: damage, unless
 *      it ends with a CLOSE (checked by log_open.c).
 *   5. A valid record at E itself that starts a batch was written when the log ended there. If it
 *      does not follow the record before it, then that one has changed: damage.
 *   6. If the record at E shows by itself that all of it was written: damage (log_tail.c).
 *
 * One case remains: damage in the very last batch that looks like a torn write. It is dropped, and
 * log_dropped reports it. log_seal prevents this case by writing a record after the batch. */
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

/* Counts the index of a record after the end as dropped. */
static void count_record(const struct log_scan *scan, uint32_t offset,
                         const struct log_record *record, struct log_end *end)
{
    end->bytes = offset + record->size - scan->offset;
    if (record->kind == LOG_ENTRY && record->index < LIMIT_NUMBER) {
        end->first = end->first == 0 || record->index < end->first ? record->index : end->first;
        end->last = record->index > end->last ? record->index : end->last;
    }
}

/* Rules 1, 2 and 5: checks the valid records after the end. */
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
