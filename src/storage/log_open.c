/* Opening the log: reads every record, distinguishes an unfinished tail from damage (log_scan.c),
 * and copies the last segment that has records into a fresh one.
 *
 * Reason for the copy: the last writes of a crashed process are readable in the kernel's cache, but
 * may never reach the disk. Raft must not treat them as persisted (S12.2). Earlier segments are
 * durable: a segment is synced before the next one is written. */
#include <inttypes.h>
#include <stdio.h>

#include "storage/log_state.h"

#define NO_SEGMENT SIZE_MAX

struct opening {
    struct log *log;
    struct log_leftovers leftovers;
    uint8_t *bytes; /* of one segment at a time */
    size_t bytes_size;
    size_t last_used;      /* the newest segment with records, or NO_SEGMENT */
    bool last_used_closed; /* it ends with a CLOSE */
    uint64_t before_first; /* checksum that the first record of that segment follows */
    struct log_scan ended; /* the end of the log; only when `has_ended` */
    bool has_ended;
};

/* ---- reading ---- */

static enum storage_status load(struct opening *opening, const struct log_segment *segment,
                                struct problem *problem)
{
    if (segment->size > opening->bytes_size) {
        if (opening->bytes_size > 0) {
            memory_free(memory_system(), opening->bytes, opening->bytes_size);
        }
        opening->bytes = memory_alloc(memory_system(), segment->size);
        opening->bytes_size = segment->size;
    }
    return disk_read_all(segment->file, 0, opening->bytes, segment->size, problem);
}

/* File, offset and index of the missing record. */
static enum storage_status damaged(const struct opening *opening, const struct log_scan *scan,
                                   const char *why, struct problem *problem)
{
    const struct log *log = opening->log;
    char index[32] = "unknown";
    if (log->positioned) {
        snprintf(index, sizeof(index), "%" PRIu64, log->last + 1);
    }
    return problem_set(problem, STORAGE_CORRUPT,
                       "%s is damaged at offset %" PRIu32 " (index %s): %s" STORAGE_ADVICE,
                       scan->segment->file->name, scan->offset, index, why);
}

/* A segment after the end of the log contains no record. */
static enum storage_status check_empty(const struct opening *opening,
                                       const struct log_segment *segment, struct problem *problem)
{
    uint32_t at;
    if (!log_scan_finds_record(segment, opening->bytes, &at)) {
        return STORAGE_OK;
    }
    char why[120];
    snprintf(why, sizeof(why), "%s has a record at offset %" PRIu32 " that was written after it",
             segment->file->name, at);
    return damaged(opening, &opening->ended, why, problem);
}

static enum storage_status replay_records(struct opening *opening, size_t at, struct log_scan *scan,
                                          struct problem *problem)
{
    struct log *log = opening->log;
    struct log_segment *segment = &log->segments[at];
    struct log_record record;
    uint32_t offset;
    while (log_scan_next(scan, &record, &offset)) {
        const char *wrong = log_apply(log, segment, offset, &record);
        if (wrong != NULL) {
            scan->offset = offset;
            return damaged(opening, scan, wrong, problem);
        }
        if (opening->last_used != at) {
            opening->last_used = at;
            opening->before_first = record.before;
        }
        opening->last_used_closed = scan->closed;
        segment->tail = scan->offset;
    }
    return STORAGE_OK;
}

static void note_dropped(struct log *log, const struct log_scan *scan, const struct log_end *end)
{
    struct log_dropped *dropped = &log->dropped;
    snprintf(dropped->segment, sizeof(dropped->segment), "%s", scan->segment->file->name);
    dropped->offset = scan->offset;
    dropped->bytes = end->bytes;
    dropped->first = end->first;
    dropped->last = end->last;
}

static enum storage_status replay(struct opening *opening, size_t at, struct problem *problem)
{
    struct log *log = opening->log;
    struct log_segment *segment = &log->segments[at];
    enum storage_status status = load(opening, segment, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    if (opening->has_ended) {
        return check_empty(opening, segment, problem);
    }
    struct log_scan scan = {
        .segment = segment,
        .bytes = opening->bytes,
        .offset = LOG_PAGE,
        .chain = log->chain,
        .chained = at > 0 || segment->follows == 0,
    };
    status = replay_records(opening, at, &scan, problem);
    struct log_end end = {.damaged = false};
    if (status == STORAGE_OK) {
        log_scan_end(&scan, &end);
    }
    if (end.damaged) {
        return damaged(opening, &scan, end.why, problem);
    }
    if (status == STORAGE_OK && scan.closed && at + 1 == log->segment_count) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "a segment is missing: %s says at offset %" PRIu32
                           " that the log goes on behind index %" PRIu64
                           " in another file, and there is none" STORAGE_ADVICE,
                           segment->file->name, segment->tail - LOG_RECORD, log->last);
    }
    if (!scan.closed) {
        opening->has_ended = true;
        opening->ended = scan;
        note_dropped(log, &scan, &end);
    }
    return status;
}

static enum storage_status replay_all(struct opening *opening, struct problem *problem)
{
    struct log *log = opening->log;
    const struct log_segment *oldest = &log->segments[0];
    if (oldest->follows == 0) {
        log->positioned = true;
        log->anchored = true;
    }
    enum storage_status status = STORAGE_OK;
    for (size_t i = 0; i < log->segment_count && status == STORAGE_OK; i++) {
        status = replay(opening, i, problem);
    }
    if (status == STORAGE_OK && !log->positioned) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "segments are missing: %s follows segment %" PRIu64
                           ", which is not there, and nothing after it says where the log "
                           "stands" STORAGE_ADVICE,
                           oldest->file->name, oldest->follows);
    }
    return status;
}

/* ---- the fresh segment ---- */

/* Encodes the records of one segment for another, without seals and CLOSE, and moves the marks. */
static void copy_records(struct opening *opening, const struct log_segment *from,
                         struct log_segment *to, uint8_t *image)
{
    struct log *log = opening->log;
    size_t mark = 0;
    while (mark < log->mark_count && log->marks[mark].segment != from->number) {
        mark++;
    }
    struct log_scan scan = {.segment = from, .bytes = opening->bytes, .offset = LOG_PAGE};
    struct log_record record;
    uint32_t offset;
    uint64_t chain = opening->before_first;
    while (scan.offset < from->tail && log_scan_next(&scan, &record, &offset)) {
        if (mark < log->mark_count && log->marks[mark].offset == offset) {
            hf_assert(record.kind == LOG_ENTRY && log->marks[mark].index == record.index);
            log->marks[mark].segment = to->number;
            log->marks[mark].offset = to->tail;
            mark++;
        }
        if (record.kind == LOG_SEAL || record.kind == LOG_CLOSE) {
            continue;
        }
        record.before = chain;
        record.batch = LOG_PAGE;
        chain = log_record_encode(to, &record, image + to->tail);
        to->tail += record.size;
    }
    hf_assert(scan.offset == from->tail && mark == log->mark_count);
    log->chain = chain;
    log->sealed = true;
    if (log->position_segment == from->number) {
        log->position_segment = to->number;
    }
}

/* Puts the copy in the place of its original, whose file must still be retired. Without an original
 * (no log yet) the copy is empty. */
static enum storage_status renew(struct opening *opening, size_t at, struct problem *problem)
{
    struct log *log = opening->log;
    struct log_segment *original = at == NO_SEGMENT ? NULL : &log->segments[at];
    uint32_t size = log->options.segment_bytes;
    enum storage_status status = STORAGE_OK;
    if (original != NULL) {
        size = original->tail + LOG_RECORD > size ? original->size : size;
        status = load(opening, original, problem);
    }
    struct disk_file *file = NULL;
    bool blank = false;
    if (status == STORAGE_OK) {
        status = log_segment_file(log, size, &file, &blank, problem);
    }
    if (status != STORAGE_OK) {
        return status;
    }
    struct log_segment copy = log_segment_plan(log, original == NULL ? 0 : original->follows, size);
    copy.blank = blank;
    uint8_t *image = log_buffer(log, original == NULL ? LOG_PAGE : original->tail);
    if (original != NULL) {
        copy_records(opening, original, &copy, image);
    }
    status = log_segment_make(log, &copy, file, image, problem);
    memcpy(log->tail_block, image + copy.tail / DISK_BLOCK * DISK_BLOCK, copy.tail % DISK_BLOCK);
    log_buffer_done(log);
    if (status == STORAGE_OK && original == NULL) {
        log_segment_push(log, copy);
    } else if (status == STORAGE_OK) {
        disk_close(original->file);
        *original = copy;
    }
    return status;
}

static enum storage_status retire_behind(struct log *log, size_t at, struct problem *problem)
{
    enum storage_status status = STORAGE_OK;
    while (status == STORAGE_OK && log->segment_count > at + 1) {
        status = log_segment_retire(log, &log->segments[log->segment_count - 1], problem);
        if (status == STORAGE_OK) {
            log_segment_remove(log, log->segment_count - 1);
        }
    }
    return status;
}

/* Segments are retired from the newest to the oldest, each durably: a leftover is recognised by the
 * segment that it follows. Empty ones at the end go first, so that the copy can reuse one even on a
 * full disk; but after a CLOSE a segment must exist. */
static enum storage_status renew_tail(struct opening *opening, struct problem *problem)
{
    struct log *log = opening->log;
    size_t at = opening->last_used == NO_SEGMENT && log->segment_count > 0 ? 0 : opening->last_used;
    if (at == NO_SEGMENT) {
        return renew(opening, at, problem);
    }
    struct log_segment original = log->segments[at];
    enum storage_status status = STORAGE_OK;
    if (!opening->last_used_closed) {
        status = retire_behind(log, at, problem);
    }
    if (status == STORAGE_OK) {
        status = renew(opening, at, problem);
    }
    if (status == STORAGE_OK) {
        status = retire_behind(log, at, problem);
    }
    if (status == STORAGE_OK) {
        status = log_segment_retire(log, &original, problem);
    }
    for (size_t i = opening->leftovers.count; i-- > 0 && status == STORAGE_OK;) {
        status = log_segment_retire(log, &opening->leftovers.list[i], problem);
    }
    log->active = at;
    return status;
}

/* ---- opening ---- */

/* Of earlier runs, beyond the limit. */
static enum storage_status trim_spares(struct log *log, struct problem *problem)
{
    enum storage_status status = STORAGE_OK;
    while (log->spare_count > log->options.spare_limit && status == STORAGE_OK) {
        char name[LOG_NAME_MAX];
        log_segment_name(name, "spare", log->spares[--log->spare_count]);
        status = disk_unlink(log->disk, name, problem);
    }
    return status;
}

static enum storage_status open_all(struct opening *opening, struct problem *problem)
{
    struct log *log = opening->log;
    /* A name changed by a dead process may be visible but not durable: a spare may become a segment
     * again after a power cut. */
    enum storage_status status = disk_sync_folder(log->disk, problem);
    if (status == STORAGE_OK) {
        status = log_find_segments(log, &opening->leftovers, problem);
    }
    if (status == STORAGE_OK && log->segment_count == 0 && !log->options.create) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "the log is missing: there is no file log-NUMBER" STORAGE_ADVICE);
    }
    if (status == STORAGE_OK && log->segment_count > 0) {
        status = replay_all(opening, problem);
    } else {
        log->positioned = true;
        log->anchored = true;
    }
    if (status == STORAGE_OK) {
        status = disk_remove(log->disk, LOG_TEMPORARY, problem);
    }
    if (status == STORAGE_OK) {
        status = renew_tail(opening, problem);
    }
    if (status == STORAGE_OK) {
        status = trim_spares(log, problem);
    }
    if (status == STORAGE_OK) {
        log_direct_prepare(log);
    }
    return status;
}

enum storage_status log_open(struct disk *disk, const struct log_options *options, struct log **out,
                             struct problem *problem)
{
    struct log *log = memory_alloc(memory_system(), sizeof(*log));
    *log = (struct log){.disk = disk, .options = *options, .next_number = 1, .first = 1};
    pthread_mutex_init(&log->guard, NULL);
    log->sealed = true;
    log->interrupted = true;
    if (log->options.segment_bytes == 0) {
        log->options.segment_bytes = LOG_SEGMENT_BYTES;
    }
    if (log->options.spare_limit == 0) {
        log->options.spare_limit = LOG_SPARE_LIMIT;
    }
    hf_assert(log->options.segment_bytes % LOG_PAGE == 0 &&
              log->options.segment_bytes >= 2 * LOG_PAGE &&
              log->options.segment_bytes <= LOG_SEGMENT_MAX);
    struct opening opening = {.log = log, .last_used = NO_SEGMENT};
    enum storage_status status = open_all(&opening, problem);
    if (opening.bytes_size > 0) {
        memory_free(memory_system(), opening.bytes, opening.bytes_size);
    }
    if (opening.leftovers.capacity > 0) {
        memory_free(memory_system(), opening.leftovers.list,
                    opening.leftovers.capacity * sizeof(*opening.leftovers.list));
    }
    if (status != STORAGE_OK) {
        log_close(log);
        return status;
    }
    *out = log;
    return STORAGE_OK;
}
