/* The log in memory: the effect of each record, the place of entries, failures. */
#include "storage/log.h"

#include "base/limits.h"
#include "storage/log_state.h"

uint64_t log_first(const struct log *log)
{
    return log->first;
}

uint64_t log_last(const struct log *log)
{
    return log->last;
}

uint64_t log_bytes_from(const struct log *log, uint64_t index)
{
    if (index > log->last || log->mark_count == 0) {
        return 0;
    }
    return log->bytes - log->marks[log_mark_of(log, index < log->first ? log->first : index)].bytes;
}

uint64_t log_bytes_on_disk(const struct log *log)
{
    uint64_t sum = (uint64_t)log->spare_count * log->options.segment_bytes + log->filled;
    for (size_t i = 0; i < log->segment_count; i++) {
        sum += log->segments[i].size;
    }
    return sum;
}

const struct log_dropped *log_dropped(const struct log *log)
{
    return log->dropped.bytes > 0 ? &log->dropped : NULL;
}

bool log_wants_seal(const struct log *log)
{
    return !log->sealed;
}

bool log_wants_prepare(const struct log *log)
{
    return log->active + 1 == log->segment_count;
}

/* ---- records ---- */

static void cut(struct log *log, uint64_t index)
{
    while (log->mark_count > 0 && log->marks[log->mark_count - 1].index >= index) {
        log->mark_count--;
    }
    log->last = index - 1;
    log->interrupted = true;
}

/* The next entry gets `index`. */
static void start_at(struct log *log, uint64_t index)
{
    log->mark_count = 0;
    log->first = index;
    log->last = index - 1;
    log->positioned = true;
    log->interrupted = true;
}

static void mark(struct log *log, const struct log_segment *segment, uint32_t offset,
                 uint64_t index)
{
    const struct log_mark *newest = log->mark_count == 0 ? NULL : &log->marks[log->mark_count - 1];
    if (!log->interrupted && newest != NULL && newest->segment == segment->number &&
        offset - newest->offset < LOG_MARK_BYTES) {
        return;
    }
    if (log->mark_count == log->mark_capacity) {
        size_t capacity = log->mark_capacity == 0 ? 64 : 2 * log->mark_capacity;
        log->marks =
            memory_grow(memory_system(), log->marks, log->mark_capacity * sizeof(*log->marks),
                        capacity * sizeof(*log->marks));
        log->mark_capacity = capacity;
    }
    log->marks[log->mark_count++] = (struct log_mark){
        .index = index, .segment = segment->number, .bytes = log->bytes, .offset = offset};
    log->interrupted = false;
}

/* Prepares the log for a record at `index`; returns whether it is valid there. If the oldest
 * segment follows a dropped one, the first record defines where the log begins, and a later one
 * with a lower index redefines it: it replaces everything from there on. Otherwise, or after a
 * reset, the log cannot go below its first index. store.c checks that no entries are missing
 * below. */
static bool place(struct log *log, uint64_t index)
{
    if (!log->positioned || (!log->anchored && index < log->first)) {
        start_at(log, index);
    }
    if (index < log->first || index > log->last + 1 || index == 0) {
        return false;
    }
    if (index <= log->last) {
        cut(log, index);
    }
    return true;
}

const char *log_apply(struct log *log, const struct log_segment *segment, uint32_t offset,
                      const struct log_record *record)
{
    if (record->index >= LIMIT_NUMBER) {
        return "its index is out of range";
    }
    switch (record->kind) {
    case LOG_ENTRY:
        if (!place(log, record->index)) {
            return "its index does not follow";
        }
        mark(log, segment, offset, record->index);
        log->last = record->index;
        log->bytes += record->size;
        break;
    case LOG_TRUNCATE:
        if (!place(log, record->index)) {
            return "it truncates what is not there";
        }
        break;
    case LOG_RESET:
        start_at(log, record->index + 1);
        log->anchored = true;
        break;
    case LOG_SEAL:
    case LOG_CLOSE:
        log->chain = record->checksum;
        log->sealed = record->kind == LOG_SEAL;
        return NULL;
    default:
        return "it is of no known kind";
    }
    log->position_segment = segment->number;
    log->chain = record->checksum;
    log->sealed = false;
    return NULL;
}

size_t log_mark_of(const struct log *log, uint64_t index)
{
    hf_assert(log->mark_count > 0 && log->marks[0].index <= index && index <= log->last);
    size_t low = 0, high = log->mark_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (log->marks[middle].index <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---- segments ---- */

struct log_segment *log_segment_by_number(struct log *log, uint64_t number)
{
    for (size_t i = 0; i < log->segment_count; i++) {
        if (log->segments[i].number == number) {
            return &log->segments[i];
        }
    }
    return NULL;
}

void log_segment_push(struct log *log, struct log_segment segment)
{
    if (log->segment_count == log->segment_capacity) {
        size_t capacity = log->segment_capacity == 0 ? 16 : 2 * log->segment_capacity;
        log->segments = memory_grow(memory_system(), log->segments,
                                    log->segment_capacity * sizeof(*log->segments),
                                    capacity * sizeof(*log->segments));
        log->segment_capacity = capacity;
    }
    log->segments[log->segment_count++] = segment;
}

void log_segment_remove(struct log *log, size_t at)
{
    hf_assert(at < log->segment_count);
    disk_close(log->segments[at].file);
    log->segment_count--;
    memmove(&log->segments[at], &log->segments[at + 1],
            (log->segment_count - at) * sizeof(*log->segments));
    if (at < log->active) {
        log->active--;
    }
}

/* ---- the buffer ---- */

uint8_t *log_buffer(struct log *log, size_t size)
{
    if (size > log->buffer_size) {
        if (log->buffer_size > 0) {
            memory_free(memory_system(), log->buffer, log->buffer_size);
        }
        log->buffer_size = size < LOG_MARK_BYTES ? LOG_MARK_BYTES : size;
        log->buffer = memory_alloc(memory_system(), log->buffer_size);
    }
    return log->buffer;
}

void log_buffer_done(struct log *log)
{
    if (log->buffer_size > LOG_BUFFER_KEPT) {
        memory_free(memory_system(), log->buffer, log->buffer_size);
        log->buffer = NULL;
        log->buffer_size = 0;
    }
}

void log_remember_tail(struct log *log, const uint8_t *bytes, size_t len)
{
    uint32_t tail = log->segments[log->active].tail;
    uint32_t used = tail % DISK_BLOCK;
    if (len >= used) {
        memcpy(log->tail_block, bytes + len - used, used);
    } else {
        memcpy(log->tail_block + used - len, bytes, len);
    }
}

/* ---- lock, failures, close ---- */

void log_lock(struct log *log)
{
    pthread_mutex_lock(&log->guard);
}

void log_unlock(struct log *log)
{
    pthread_mutex_unlock(&log->guard);
}

enum storage_status log_fail(struct log *log, enum storage_status status,
                             const struct problem *problem)
{
    if (status != STORAGE_OK && log->broken.status == STORAGE_OK) {
        log->broken = *problem;
    }
    return status;
}

enum storage_status log_check_broken(const struct log *log, struct problem *problem)
{
    hf_assert(log->begun == 0);
    if (log->broken.status == STORAGE_OK) {
        return STORAGE_OK;
    }
    *problem = log->broken;
    return log->broken.status;
}

void log_close(struct log *log)
{
    if (log == NULL) {
        return;
    }
    const struct memory *memory = memory_system();
    hf_assert(log->begun == 0);
    log_direct_free(log);
    for (size_t i = 0; i < log->segment_count; i++) {
        disk_close(log->segments[i].file);
    }
    disk_close(log->filling);
    if (log->segment_capacity > 0) {
        memory_free(memory, log->segments, log->segment_capacity * sizeof(*log->segments));
    }
    if (log->spare_capacity > 0) {
        memory_free(memory, log->spares, log->spare_capacity * sizeof(*log->spares));
    }
    if (log->mark_capacity > 0) {
        memory_free(memory, log->marks, log->mark_capacity * sizeof(*log->marks));
    }
    if (log->buffer_size > 0) {
        memory_free(memory, log->buffer, log->buffer_size);
    }
    pthread_mutex_destroy(&log->guard);
    memory_free(memory, log, sizeof(*log));
}
