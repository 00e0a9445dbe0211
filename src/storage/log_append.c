/* Writing to the log. Every change is a record at its end, so one write and one sync make it, and a
 * power cut leaves its beginning or nothing.
 *
 * The segments that a batch needs are made before a byte is written, so a full disk is detected
 * while the log is unchanged. */
#include "storage/log_state.h"

#include "base/limits.h"

/* ---- one write ---- */

/* Overwrites a failed write with zeros: the disk had no space for allocated bytes, as copy-on-write
 * file systems may report. The caller reports that nothing was written, so neither the next opening
 * nor a later torn write may expose these records (log_tail.c). If there is no space for the zeros,
 * nothing was written either. */
static enum storage_status undo(struct log_segment *segment, size_t len, struct problem *problem)
{
    static const uint8_t zeros[LOG_PAGE];
    enum storage_status status =
        disk_write(segment->file, segment->tail, zeros, LOG_RECORD, problem);
    for (size_t at = LOG_RECORD; at < len && status == STORAGE_OK;) {
        size_t n = len - at < sizeof(zeros) ? len - at : sizeof(zeros);
        status = disk_write(segment->file, segment->tail + at, zeros, n, problem);
        at += n;
        if (status == STORAGE_FULL) {
            status = STORAGE_OK;
            break;
        }
    }
    return status == STORAGE_OK ? disk_sync(segment->file, problem) : status;
}

/* Makes the bytes at the end of the active segment durable. `may_undo`: no earlier part of the
 * batch was written. */
static enum storage_status flush(struct log *log, const uint8_t *bytes, size_t len, bool may_undo,
                                 struct problem *problem)
{
    struct log_segment *segment = &log->segments[log->active];
    enum storage_status status = disk_write(segment->file, segment->tail, bytes, len, problem);
    if (status == STORAGE_FULL) {
        struct problem second;
        if (may_undo && undo(segment, len, &second) == STORAGE_OK) {
            return STORAGE_FULL;
        }
        status = problem->status = STORAGE_IO; /* a repeated call would not be safe */
    }
    if (status == STORAGE_OK) {
        status = disk_sync(segment->file, problem);
        status = status == STORAGE_FULL ? (problem->status = STORAGE_IO) : status;
    }
    return log_fail(log, status, problem);
}

/* Reads a record that this process has just encoded. Only debug builds compute its checksum a second
 * time; opening and reading the log always do. */
static bool read_back(const struct log_segment *segment, const uint8_t *at, size_t left,
                      struct log_record *out)
{
#ifdef HOLDFAST_DEBUG
    return log_record_decode(segment, at, left, out);
#else
    return log_record_glance(segment, at, left, out);
#endif
}

void log_apply_all(struct log *log, const uint8_t *bytes, size_t len, bool close)
{
    struct log_segment *segment = &log->segments[log->active];
    log_lock(log);
    for (size_t at = 0; at < len;) {
        struct log_record record;
        bool is_whole = read_back(segment, bytes + at, len - at, &record);
        hf_assert(is_whole);
        const char *wrong = log_apply(log, segment, segment->tail, &record);
        hf_assert(wrong == NULL);
        at += record.size;
        segment->tail += record.size;
    }
    log_remember_tail(log, bytes, len);
    log->active += close ? 1 : 0;
    log_unlock(log);
}

/* ---- a batch ---- */

size_t log_batch_fit(const struct log_batch *batch, size_t from, uint32_t tail,
                     uint32_t segment_size, size_t *bytes)
{
    size_t space = segment_size - tail - LOG_RECORD;
    size_t n = 0;
    *bytes = 0;
    while (from + n < batch->count) {
        size_t size = log_record_size(batch->entries[from + n].data.len);
        if (*bytes + size > space) {
            break;
        }
        *bytes += size;
        n++;
    }
    return n;
}

/* The segments that the batch needs beyond the active one. */
static enum storage_status make_segments(struct log *log, const struct log_batch *batch,
                                         struct problem *problem)
{
    size_t at = log->active;
    size_t bytes;
    size_t done = log_batch_fit(batch, 0, log->segments[at].tail, log->segments[at].size, &bytes);
    while (done < batch->count) {
        at++;
        while (at == log->segment_count) {
            enum storage_status status = log_prepare_step(log, problem);
            if (status != STORAGE_OK) {
                return status;
            }
        }
        size_t n = log_batch_fit(batch, done, LOG_PAGE, log->segments[at].size, &bytes);
        hf_assert(n > 0); /* else the entry fits into no segment */
        done += n;
    }
    return STORAGE_OK;
}

void log_batch_encode(const struct log *log, const struct log_batch *batch, size_t from, size_t n,
                      bool close, uint8_t *bytes)
{
    const struct log_segment *segment = &log->segments[log->active];
    struct log_record record = {.before = log->chain, .batch = segment->tail};
    for (size_t i = from; i < from + n; i++) {
        const struct log_entry *entry = &batch->entries[i];
        record.kind = LOG_ENTRY;
        record.type = entry->type;
        record.index = batch->first + i;
        record.term = entry->term;
        record.payload = entry->data;
        record.before = log_record_encode(segment, &record, bytes);
        bytes += log_record_size(entry->data.len);
    }
    if (close) {
        struct log_record last = {
            .kind = LOG_CLOSE, .before = record.before, .batch = segment->tail};
        log_record_encode(segment, &last, bytes);
    }
}

enum storage_status log_append(struct log *log, uint64_t first, const struct log_entry *entries,
                               size_t count, struct problem *problem)
{
    hf_assert(count > 0 && first >= log->first && first <= log->last + 1);
    hf_assert(first + count <= LIMIT_NUMBER);
    struct log_batch batch = {first, entries, count};
    enum storage_status status = log_check_broken(log, problem);
    if (status == STORAGE_OK) {
        status = make_segments(log, &batch, problem);
    }
    size_t done = 0;
    while (status == STORAGE_OK && done < count) {
        const struct log_segment *segment = &log->segments[log->active];
        size_t bytes;
        size_t n = log_batch_fit(&batch, done, segment->tail, segment->size, &bytes);
        bool close = done + n < count;
        bytes += close ? LOG_RECORD : 0;
        uint8_t *buffer = log_buffer(log, bytes);
        log_batch_encode(log, &batch, done, n, close, buffer);
        /* Once a part is durable, the log cannot return to its old state. */
        status = flush(log, buffer, bytes, done == 0, problem);
        if (status == STORAGE_OK) {
            log_apply_all(log, buffer, bytes, close);
            done += n;
        }
    }
    log_buffer_done(log);
    log_direct_prepare(log);
    return status;
}

/* ---- single records ---- */

/* A record without payload, in the active segment, or in the next one if it is full. */
static enum storage_status append_control(struct log *log, enum log_kind kind, uint64_t index,
                                          uint64_t term, struct problem *problem)
{
    enum storage_status status = log_check_broken(log, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    struct log_entry nothing = {.data = slice_make(NULL, 0)};
    struct log_batch batch = {0, &nothing, 1};
    status = make_segments(log, &batch, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    uint8_t bytes[LOG_RECORD];
    struct log_segment *segment = &log->segments[log->active];
    if (segment->size - segment->tail < 2 * LOG_RECORD) {
        log_batch_encode(log, &batch, 0, 0, true, bytes);
        status = flush(log, bytes, sizeof(bytes), true, problem);
        if (status != STORAGE_OK) {
            return status;
        }
        log_apply_all(log, bytes, sizeof(bytes), true);
        segment = &log->segments[log->active];
    }
    struct log_record record = {
        .kind = kind, .index = index, .term = term, .before = log->chain, .batch = segment->tail};
    log_record_encode(segment, &record, bytes);
    status = flush(log, bytes, sizeof(bytes), true, problem);
    if (status == STORAGE_OK) {
        log_apply_all(log, bytes, sizeof(bytes), false);
    }
    return status;
}

enum storage_status log_truncate(struct log *log, uint64_t index, struct problem *problem)
{
    hf_assert(index >= log->first && index <= log->last + 1);
    return append_control(log, LOG_TRUNCATE, index, 0, problem);
}

enum storage_status log_reset(struct log *log, uint64_t index, uint64_t term,
                              struct problem *problem)
{
    hf_assert(index < LIMIT_NUMBER);
    enum storage_status status = append_control(log, LOG_RESET, index, term, problem);
    if (status == STORAGE_OK) {
        /* The reset is durable; the old segments may also be dropped later. */
        status = log_drop_before(log, index + 1, problem);
        status = status == STORAGE_FULL ? STORAGE_OK : status;
    }
    return status;
}

enum storage_status log_seal(struct log *log, struct problem *problem)
{
    return log->sealed ? STORAGE_OK : append_control(log, LOG_SEAL, 0, 0, problem);
}
