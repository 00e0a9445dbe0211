/* The loop's side of the event log: the buffer, statistics; opening and closing. See event_log.h. */
#include <stdio.h>
#include <time.h>

#include "events/log_state.h"
#include "storage/disk_posix.h"

uint64_t event_log_monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void event_log_deadline(uint32_t ms, struct timespec *out)
{
    clock_gettime(CLOCK_MONOTONIC, out);
    out->tv_sec += ms / 1000;
    out->tv_nsec += (long)(ms % 1000) * 1000000;
    if (out->tv_nsec >= 1000000000) {
        out->tv_sec++;
        out->tv_nsec -= 1000000000;
    }
}

/* ---- the buffer ---- */

static size_t round_up(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

static uint64_t used(const struct event_intake *in)
{
    return in->head - atomic_load_explicit(&in->tail, memory_order_acquire);
}

static void put_item(struct event_intake *in, uint32_t size, enum event_item_kind kind)
{
    struct event_item item = {size, kind};
    memcpy(in->bytes + in->head % in->size, &item, sizeof(item));
}

/* Where an item of at most `max` bytes may be written; NULL: no space. Does not move `head` past it. */
static uint8_t *reserve(struct event_intake *in, size_t max)
{
    size_t need = sizeof(struct event_item) + round_up(max);
    size_t left = in->size - in->head % in->size;
    size_t skipped = left < need ? left : 0;
    if (used(in) + skipped + need > in->size) {
        return NULL;
    }
    if (skipped > 0) {
        put_item(in, 0, EVENT_ITEM_WRAP);
        in->head += skipped;
    }
    return in->bytes + in->head % in->size + sizeof(struct event_item);
}

static void commit(struct event_intake *in, size_t size, enum event_item_kind kind)
{
    put_item(in, (uint32_t)size, kind);
    in->head += sizeof(struct event_item) + round_up(size);
}

/* If it is empty and the writer pauses, begins again at the first byte, so that a few hundred KiB are in use
 * instead of all of it: they stay in the caches of the processor. */
static void start_over(struct event_log *log)
{
    struct event_intake *in = &log->intake;
    pthread_mutex_lock(&log->lock);
    struct event_shared *s = &log->shared;
    if (s->sleeps || s->rests) {
        in->head += in->size - in->head % in->size;
        s->published = in->published = in->head;
        atomic_store_explicit(&in->tail, in->head, memory_order_relaxed);
    }
    pthread_mutex_unlock(&log->lock);
}

/* ---- loop ---- */

/* What came since the last call of event_log_applied goes with it: its entries become a gap. */
static void lose(struct event_intake *in)
{
    in->head = in->published;
    in->dropped += in->pending + 1;
    in->pending = 0;
    in->is_losing = true;
}

static void append(struct event_log *log, struct event_record *record, const struct event *event,
                   uint32_t version, const struct audit_view *audit)
{
    struct event_intake *in = &log->intake;
    if (in->head == in->published && in->head % in->size > EVENT_BATCH_BYTES && used(in) == 0) {
        start_over(log);
    }
    uint8_t *item = reserve(in, sizeof(record->position) + EVENT_RECORD_MAX);
    if (item == NULL) {
        lose(in);
        return;
    }
    uint8_t *at = item + sizeof(record->position);
    memcpy(item, &record->position, sizeof(record->position));
    size_t head = event_record_begin(record, at);
    size_t payload =
        event != NULL ? event_encode(event, version, at + head) : audit_encode(audit, at + head);
    if (payload == 0) {
        lose(in);
        return;
    }
    event_record_end(at, head + payload);
    commit(in, sizeof(record->position) + head + payload, EVENT_ITEM_RECORD);
    in->last = record->position;
    in->pending++;
}

static struct event_position lossy_position(struct event_position last)
{
    uint32_t sub = last.sub < EVENT_LOSSY ? EVENT_LOSSY : last.sub;
    /* More than 2^31 events without an entry: the last ones have one position. */
    return (struct event_position){last.index, last.ordinal, sub == UINT32_MAX ? sub : sub + 1};
}

void event_log_append(struct event_log *log, const struct event *event, uint32_t version)
{
    struct event_intake *in = &log->intake;
    struct event_record record = {.kind = LOGGED_EVENT,
                                  .type = (uint8_t)event->type,
                                  .wall_ms = event->wall_ms,
                                  .position = {event->index, event->ordinal, 0},
                                  .id = {event->index, event->ordinal}};
    struct event lossy;
    if (event->tier == TIER_EFFICIENCY) {
        lossy = *event;
        lossy.index = in->newest.index;
        lossy.ordinal = in->newest.ordinal;
        record.id = in->newest;
        record.position = lossy_position(in->last);
        event = &lossy;
    }
    if (in->is_losing || !event_position_after(record.position, in->last)) {
        in->dropped += in->is_losing;
        return;
    }
    record.name_hash = event_name_hash(event->name);
    append(log, &record, event, version, NULL);
    if (event != &lossy && !in->is_losing) {
        in->newest = in->newest_event = record.id;
    }
}

void event_log_append_audit(struct event_log *log, const struct audit_view *audit)
{
    struct event_intake *in = &log->intake;
    if (in->audit_index != audit->index) {
        in->audit_index = audit->index;
        in->audit_count = 0;
    }
    struct event_record record = {.kind = LOGGED_AUDIT,
                                  .wall_ms = audit->wall_ms,
                                  .position = {audit->index, EVENT_AUDIT, ++in->audit_count},
                                  .id = in->newest};
    if (in->is_losing || !event_position_after(record.position, in->last)) {
        in->dropped += in->is_losing;
        return;
    }
    record.name_hash = event_name_hash(audit->resource);
    append(log, &record, NULL, 0, audit);
}

static void publish(struct event_log *log)
{
    struct event_intake *in = &log->intake;
    bool has_items = in->head != in->published;
    in->published = in->head;
    in->pending = 0;
    pthread_mutex_lock(&log->lock);
    struct event_shared *s = &log->shared;
    s->published = in->published;
    s->to = in->covered;
    s->to_ms = in->covered_ms;
    s->dropped += in->dropped;
    s->newest = in->newest_event;
    bool is_enough = s->rests && used(in) > s->enough;
    bool signal = (s->sleeps && has_items) || is_enough; /* the rest can wait */
    s->sleeps = s->sleeps && !signal;
    s->rests = s->rests && !signal;
    pthread_mutex_unlock(&log->lock);
    in->dropped = 0;
    if (signal) {
        pthread_cond_signal(&log->wake);
    }
}

static void count_dropped(struct event_log *log)
{
    pthread_mutex_lock(&log->lock);
    log->shared.dropped += log->intake.dropped;
    pthread_mutex_unlock(&log->lock);
    log->intake.dropped = 0;
}

static void cover(struct event_intake *in, uint64_t index, uint64_t wall_ms)
{
    in->covered = index;
    in->covered_ms = wall_ms;
    struct event_position end = event_position_end_of(index);
    if (event_position_after(end, in->last)) {
        in->last = end;
    }
}

/* False: no space. */
static bool put_gap(struct event_intake *in, uint64_t index, uint64_t wall_ms)
{
    struct event_item_gap gap = {in->covered, in->covered_ms, index, wall_ms};
    uint8_t *at = reserve(in, sizeof(gap));
    if (at == NULL) {
        return false;
    }
    memcpy(at, &gap, sizeof(gap));
    commit(in, sizeof(gap), EVENT_ITEM_GAP);
    in->newest = (struct event_id){index, UINT32_MAX};
    return true;
}

void event_log_applied(struct event_log *log, uint64_t index, uint64_t wall_ms)
{
    struct event_intake *in = &log->intake;
    if (in->is_losing) {
        /* Not at the first free byte, so that gaps are few. */
        if (used(in) > in->size / 2 || (index > in->covered && !put_gap(in, index, wall_ms))) {
            count_dropped(log);
            return;
        }
        in->is_losing = false;
    }
    if (index > in->covered) {
        cover(in, index, wall_ms);
    } else if (in->pending == 0 && in->head == in->published) {
        return;
    }
    publish(log);
}

void event_log_skipped(struct event_log *log, uint64_t index, uint64_t wall_ms)
{
    struct event_intake *in = &log->intake;
    if (index <= in->covered) {
        return;
    }
    in->dropped += in->pending;
    in->pending = 0;
    in->head = in->published;
    if (in->is_losing || !put_gap(in, index, wall_ms)) {
        in->is_losing = true;
        return;
    }
    cover(in, index, wall_ms);
    publish(log);
}

/* ---- statistics ---- */

/* The last gap and their number. */
static void count_gaps(const struct event_files *f, struct event_log_stats *out)
{
    out->complete_index = out->first_index;
    if (out->first_index > 0) {
        out->complete_since_ms = f->count > 0 ? f->segments[0].range.from_ms : f->covered_ms;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        const struct event_segment *s = &f->segments[i];
        if (i > 0 && s->range.from > f->segments[i - 1].range.to) {
            out->gaps++;
            out->complete_index = s->range.from;
            out->complete_since_ms = s->range.from_ms;
        }
        if (s->gaps > 0) {
            out->gaps += s->gaps;
            out->complete_index = s->gap_to;
            out->complete_since_ms = s->gap_ms;
        }
    }
    if (f->damaged_to > out->first_index) {
        out->gaps += f->damages;
        if (f->damaged_to > out->complete_index) {
            out->complete_index = f->damaged_to;
            out->complete_since_ms = f->damaged_ms;
        }
    }
}

void event_log_stats(struct event_log *log, struct event_log_stats *out)
{
    *out = (struct event_log_stats){.max_bytes = log->options.max_bytes};
    pthread_mutex_lock(&log->lock);
    out->dropped = log->shared.dropped;
    out->newest = log->shared.newest;
    pthread_mutex_unlock(&log->lock);
    struct event_files *f = &log->files;
    pthread_mutex_lock(&f->lock);
    out->appended = f->appended;
    out->segments = f->count;
    out->disk_full = f->disk_full;
    out->last_index = f->covered;
    out->first_index = f->count > 0 ? f->segments[0].range.from : f->covered;
    for (uint32_t i = 0; i < f->count; i++) {
        const struct event_segment *s = &f->segments[i];
        out->bytes += s->size;
        if (out->oldest_ms == 0 && s->range.records > 0) {
            out->oldest_ms = s->range.min_ms;
        }
    }
    count_gaps(f, out);
    pthread_mutex_unlock(&f->lock);
}

/* ---- listeners ---- */

void event_log_listen(struct event_log *log, event_log_notify_fn fn, void *ctx)
{
    pthread_mutex_lock(&log->listeners_lock);
    unsigned i = 0;
    while (i < EVENT_LOG_LISTENERS && log->listeners[i].fn != NULL) {
        i++;
    }
    hf_assert(i < EVENT_LOG_LISTENERS);
    log->listeners[i].fn = fn;
    log->listeners[i].ctx = ctx;
    pthread_mutex_unlock(&log->listeners_lock);
}

void event_log_unlisten(struct event_log *log, event_log_notify_fn fn, void *ctx)
{
    pthread_mutex_lock(&log->listeners_lock);
    for (unsigned i = 0; i < EVENT_LOG_LISTENERS; i++) {
        if (log->listeners[i].fn == fn && log->listeners[i].ctx == ctx) {
            log->listeners[i].fn = NULL;
        }
    }
    pthread_mutex_unlock(&log->listeners_lock);
}

/* ---- open and close ---- */

static size_t segment_bytes(const struct event_log_options *o)
{
    uint64_t bytes = o->segment_bytes != 0 ? o->segment_bytes : o->max_bytes / 16;
    bytes = bytes < EVENT_SEGMENT_MIN && o->segment_bytes == 0 ? EVENT_SEGMENT_MIN : bytes;
    return bytes > EVENT_SEGMENT_MAX ? EVENT_SEGMENT_MAX : (size_t)bytes;
}

static void init_locks(struct event_log *log)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&log->lock, NULL);
    pthread_mutex_init(&log->listeners_lock, NULL);
    pthread_mutex_init(&log->files.lock, NULL);
    pthread_cond_init(&log->wake, &monotonic);
    pthread_cond_init(&log->files.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static struct event_log *new_log(const struct event_log_options *options)
{
    const struct memory *memory = options->memory;
    struct event_log *log = memory_alloc(memory, sizeof(*log));
    memset(log, 0, sizeof(*log));
    log->options = *options;
    log->options.segment_bytes = segment_bytes(options);
    log->options.path = NULL; /* the caller's */
    log->memory = memory;
    log->disk = options->disk;
    size_t size = options->buffer_bytes == 0 ? EVENT_BUFFER_BYTES : options->buffer_bytes;
    log->intake.size = round_up(size < EVENT_BUFFER_MIN ? EVENT_BUFFER_MIN : size);
    log->intake.bytes = memory_alloc(memory, log->intake.size);
    atomic_init(&log->intake.tail, 0);
    log->writer.out = memory_alloc(memory, EVENT_OUT_BYTES);
    log->writer.scratch = memory_alloc(memory, EVENT_SCRATCH);
    log->files.index = memory_alloc(memory, sizeof(*log->files.index));
    log->files.index->count = 0;
    init_locks(log);
    return log;
}

static void free_log(struct event_log *log)
{
    const struct memory *memory = log->memory;
    disk_close(log->writer.file);
    disk_posix_free(log->own_disk);
    if (log->files.capacity > 0) {
        memory_free(memory, log->files.segments,
                    log->files.capacity * sizeof(*log->files.segments));
    }
    memory_free(memory, log->files.index, sizeof(*log->files.index));
    memory_free(memory, log->writer.scratch, EVENT_SCRATCH);
    memory_free(memory, log->writer.out, EVENT_OUT_BYTES);
    memory_free(memory, log->intake.bytes, log->intake.size);
    pthread_cond_destroy(&log->files.changed);
    pthread_cond_destroy(&log->wake);
    pthread_mutex_destroy(&log->files.lock);
    pthread_mutex_destroy(&log->listeners_lock);
    pthread_mutex_destroy(&log->lock);
    memory_free(memory, log, sizeof(*log));
}

static bool start(struct event_log *log, struct problem *problem)
{
    if (log->options.by_hand) {
        return true;
    }
    int error = pthread_create(&log->writer.thread, NULL, event_writer_run, log);
    if (error != 0) {
        problem_set(problem, STORAGE_IO, "cannot start the thread of the event log: error %d",
                    error);
        return false;
    }
    log->writer.has_thread = true;
    return true;
}

struct event_log *event_log_open(const struct event_log_options *options, struct problem *problem)
{
    struct event_log *log = new_log(options);
    if (log->disk == NULL) {
        if (disk_posix_new(options->path, &log->own_disk, problem) != STORAGE_OK) {
            free_log(log);
            return NULL;
        }
        log->disk = log->own_disk;
    }
    if (!event_log_recover(log, problem) || !start(log, problem)) {
        free_log(log);
        return NULL;
    }
    return log;
}

void event_log_write(struct event_log *log)
{
    event_writer_write(log, false);
}

void event_log_close(struct event_log *log)
{
    if (log == NULL) {
        return;
    }
    if (log->writer.has_thread) {
        pthread_mutex_lock(&log->lock);
        log->shared.stop = true;
        pthread_mutex_unlock(&log->lock);
        pthread_cond_signal(&log->wake);
        pthread_join(log->writer.thread, NULL);
    }
    event_writer_write(log, true);
    free_log(log);
}
