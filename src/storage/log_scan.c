/* Reading a segment: where its records end, and whether that end is a natural one.
 *
 * A process that dies, or a power cut, leaves the last write in any state: each of its sectors may
 * be there or not. So records at the end of the log that are cut off, garbled or missing are the
 * normal end, and what is behind them is no part of the log: it was never acknowledged. But bytes
 * that were durable once and are different now are damage, and to start without them would take
 * back what was acknowledged. Both look the same at the first record that does not check, at offset
 * E. What follows it tells them apart:
 *
 *   1. The log writes one batch at a time and starts the next one only when the last one is synced.
 *      Each record says where its batch starts. So a sound record of this segment whose batch
 * starts behind E shows that E was durable when it was written: damage.
 *   2. A record whose batch starts at or before E belongs to the same write as what is missing at
 *      E, whose sectors may have reached the disk in any order: no damage. (Or it is left over from
 *      a write that failed and was then written over. Such a write started where the log ended at
 *      that time, so its batch starts at or before E as well.)
 *   3. What lies before `sealed` was durable before the file got its name: damage.
 *   4. If a later segment has a sound record, then this one was closed and durable: damage, unless
 *      it ends with a CLOSE (log_open.c sees to that).
 *   5. A sound record at E itself that starts a batch was written when the log ended there. If it
 *      does not follow what lies before it, then that has changed: damage.
 *
 * What remains is damage in the very last batch with nothing behind it, which cannot be told from a
 * torn write by anybody who looks at the file alone. log_seal puts something behind it. */
#include <inttypes.h>
#include <stdio.h>

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
        return false; /* there is always room for a CLOSE */
    }
    scan->chain = record->checksum;
    scan->chained = true;
    scan->closed = record->kind == LOG_CLOSE;
    scan->offset += record->size;
    *at = offset;
    return true;
}

bool log_scan_is_damage(const struct log_scan *scan, char *why, size_t why_size)
{
    const struct log_segment *segment = scan->segment;
    uint32_t end = scan->offset;
    if (scan->closed) {
        return false;
    }
    if (end < segment->sealed) {
        snprintf(why, why_size, "all up to offset %" PRIu32 " was durable", segment->sealed);
        return true;
    }
    for (uint32_t offset = end; offset + LOG_RECORD <= segment->size;) {
        struct log_record record;
        if (!log_record_decode(segment, scan->bytes + offset, segment->size - offset, &record)) {
            offset += 8;
        } else if (offset == end && record.batch == end) {
            snprintf(why, why_size, "the record there does not follow the one before it");
            return true;
        } else if (record.batch > end) {
            snprintf(why, why_size, "the record at offset %" PRIu32 " was written after it",
                     offset);
            return true;
        } else {
            offset += record.size;
        }
    }
    return false;
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
