/* The writer thread of the event log: takes items from the buffer, writes frames, closes and removes
 * segments. A failed write is repeated; what it should have written stays in the buffer. */
#include <stdio.h>

#include "events/log_state.h"

/* One look at the buffer. */
struct pass {
    uint64_t at;        /* in the buffer: up to here, the items are in the frame, or done */
    uint64_t published; /* and its end */
    uint64_t to;        /* what is covered there */
    uint64_t to_ms;
    uint64_t from; /* the begin of the next frame */
    uint64_t from_ms;
    bool is_gap;         /* the next frame has a gap before it */
    uint64_t last_index; /* of the last record in the frame */
    bool has_written;
};

/* ---- segments ---- */

/* With the lock: others may add segments in front of it. */
static struct event_segment *active(struct event_log *log)
{
    struct event_files *f = &log->files;
    return log->writer.is_listed ? &f->segments[f->count - 1] : NULL;
}

static bool note_failure(struct event_log *log)
{
    struct event_files *f = &log->files;
    log->writer.has_failed = true;
    pthread_mutex_lock(&f->lock);
    f->disk_full = true;
    pthread_mutex_unlock(&f->lock);
    return false;
}

/* Without a footer, if the disk refuses: the index is then read from the frames. */
static void close_segment(struct event_log *log)
{
    struct event_files *f = &log->files;
    struct event_writer *w = &log->writer;
    struct problem problem;
    if (w->is_listed) {
        size_t len = event_footer_size(f->index);
        event_footer_encode(&w->segment, f->index, w->scratch);
        bool is_written =
            disk_write(w->file, w->segment.end, w->scratch, len, &problem) == STORAGE_OK;
        pthread_mutex_lock(&f->lock);
        active(log)->is_closed = true;
        active(log)->size += is_written ? len : 0;
        f->index->count = 0;
        pthread_mutex_unlock(&f->lock);
    }
    disk_close(w->file);
    w->file = NULL;
    w->is_listed = false;
}

static bool create_segment(struct event_log *log, uint64_t from)
{
    struct event_writer *w = &log->writer;
    struct problem problem;
    uint8_t bytes[EVENT_HEADER_BYTES];
    char name[EVENT_FILE_NAME];
    struct event_header header = {.cluster = log->options.cluster,
                                  .node = log->options.node,
                                  .number =
                                      (w->last_number / EVENT_NUMBER_STEP + 1) * EVENT_NUMBER_STEP,
                                  .from = from,
                                  .wall_ms = log->options.wall_ms(log->options.ctx)};
    event_file_name(header.number, name);
    w->last_number = header.number; /* also if it fails: a part of it may be there */
    if (disk_open(log->disk, name, DISK_CREATE, &w->file, &problem) != STORAGE_OK) {
        w->file = NULL;
        return note_failure(log);
    }
    w->segment = (struct event_segment){.number = header.number,
                                        .salt = event_header_encode(&header, bytes),
                                        .end = EVENT_HEADER_BYTES,
                                        .size = EVENT_HEADER_BYTES};
    w->opened_ms = header.wall_ms;
    w->is_listed = false;
    if (disk_write(w->file, 0, bytes, sizeof(bytes), &problem) != STORAGE_OK) {
        disk_close(w->file);
        w->file = NULL;
        (void)disk_remove(log->disk, name, &problem);
        return note_failure(log);
    }
    return true;
}

static bool is_old(const struct event_log *log)
{
    uint64_t now_ms = log->options.wall_ms(log->options.ctx);
    uint64_t age_ms = log->options.max_age_ms / 16;
    return log->options.max_age_ms > 0 && log->writer.opened_ms + age_ms < now_ms && age_ms >= 1000;
}

/* The records of an entry are in one segment, since a frame says what is missing before it by entries.
 * A gap begins a segment, so that another file can take its place. */
static bool need_segment(struct event_log *log, uint64_t from, uint32_t length)
{
    struct event_writer *w = &log->writer;
    const struct event_files *f = &log->files;
    bool is_full = w->segment.end + length > log->options.segment_bytes || is_old(log);
    if (w->is_listed && ((is_full && !w->is_split) || f->index->count >= EVENT_SEGMENT_BLOCKS - 1 ||
                         from > w->covered)) {
        close_segment(log);
    }
    return w->file != NULL || create_segment(log, from);
}

/* ---- frames ---- */

static void list_frame(struct event_log *log, const struct event_frame *frame)
{
    struct event_files *f = &log->files;
    struct event_writer *w = &log->writer;
    pthread_mutex_lock(&f->lock);
    if (!w->is_listed) {
        f->index->count = 0;
    }
    bool is_added = event_index_add(f->index, w->segment.end, frame);
    hf_assert(is_added);
    event_segment_summarize(&w->segment, f->index);
    w->segment.size = w->segment.end;
    if (!w->is_listed) {
        event_files_add(log, &w->segment);
        w->is_listed = true;
    }
    *active(log) = w->segment;
    f->covered = frame->to;
    f->covered_ms = frame->to_ms;
    f->appended += frame->count;
    f->disk_full = false;
    pthread_mutex_unlock(&f->lock);
}

/* Writes the frame, which may be empty. What it has is then no longer in the buffer. */
static bool flush(struct event_log *log, struct pass *p, uint64_t to, uint64_t to_ms)
{
    struct event_writer *w = &log->writer;
    struct problem problem;
    uint32_t length = w->frame_length;
    if (!need_segment(log, p->from, length)) {
        return false;
    }
    struct event_frame frame = {
        .from = p->from,
        .to = to,
        .from_ms = p->from_ms,
        .to_ms = to_ms,
        .count = w->frame_count,
        .length = length,
        .records = slice_make(w->frame + EVENT_FRAME_HEADER, length - EVENT_FRAME_HEADER)};
    event_frame_encode(&frame, w->segment.salt, w->frame);
    if (disk_write(w->file, w->segment.end, w->frame, length, &problem) != STORAGE_OK) {
        return note_failure(log);
    }
    list_frame(log, &frame);
    w->covered = p->from = to;
    w->covered_ms = p->from_ms = to_ms;
    w->written_ms = event_log_monotonic_ms();
    w->frame_length = EVENT_FRAME_HEADER;
    w->frame_count = 0;
    p->is_gap = false;
    w->is_split = false;
    p->has_written = true;
    atomic_store_explicit(&log->intake.tail, p->at, memory_order_release);
    return true;
}

/* Before a record that goes to the next frame. Its entry may have records in this one. */
static bool flush_before(struct event_log *log, struct pass *p, struct event_position next)
{
    bool is_complete = next.ordinal == EVENT_AUDIT && next.sub > EVENT_LOSSY;
    uint64_t to = is_complete ? next.index : next.index - 1;
    if (!flush(log, p, to > p->from ? to : p->from, p->from_ms)) {
        return false;
    }
    log->writer.is_split = !is_complete && next.index == p->last_index;
    return true;
}

static bool add_record(struct event_log *log, struct pass *p, struct slice bytes)
{
    struct event_writer *w = &log->writer;
    struct event_record record;
    struct slice rest = bytes;
    bool is_valid = event_record_take(&rest, &record);
    hf_assert(is_valid);
    /* Between entries, if possible. */
    bool is_large = w->frame_length > EVENT_FRAME_MAX / 2 ||
                    w->segment.end + w->frame_length > log->options.segment_bytes;
    bool is_good = is_large && w->frame_count > 0 && record.position.index != p->last_index;
    if ((is_good || w->frame_length + bytes.len > EVENT_FRAME_MAX) &&
        !flush_before(log, p, record.position)) {
        return false;
    }
    memcpy(w->frame + w->frame_length, bytes.data, bytes.len);
    w->frame_length += (uint32_t)bytes.len;
    w->frame_count++;
    p->last_index = record.position.index;
    return true;
}

static bool add_gap(struct event_log *log, struct pass *p, const uint8_t *bytes)
{
    struct event_item_gap gap;
    memcpy(&gap, bytes, sizeof(gap));
    if (gap.to <= log->writer.covered) {
        return true; /* done before a failure */
    }
    if ((log->writer.frame_count > 0 || gap.covered > p->from) &&
        !flush(log, p, gap.covered, gap.covered_ms)) {
        return false;
    }
    p->from = gap.to;
    p->from_ms = gap.to_ms;
    p->is_gap = true;
    return true;
}

static bool take_items(struct event_log *log, struct pass *p)
{
    const struct event_intake *in = &log->intake;
    while (p->at < p->published) {
        struct event_item item;
        size_t offset = (size_t)(p->at % in->size);
        const uint8_t *bytes = in->bytes + offset + sizeof(item);
        memcpy(&item, in->bytes + offset, sizeof(item));
        uint64_t next = p->at + sizeof(item) + ((item.size + 7u) & ~7u);
        switch ((enum event_item_kind)item.kind) {
        case EVENT_ITEM_WRAP:
            next = p->at + in->size - offset;
            break;
        case EVENT_ITEM_GAP:
            if (!add_gap(log, p, bytes)) {
                return false;
            }
            break;
        case EVENT_ITEM_RECORD:
            if (!add_record(log, p, slice_make(bytes, item.size))) {
                return false;
            }
            break;
        }
        p->at = next;
    }
    return true;
}

/* Entries without records need no frame at once. */
static void note_covered(struct event_log *log, const struct pass *p)
{
    struct event_files *f = &log->files;
    pthread_mutex_lock(&f->lock);
    if (f->count > 0 && p->to > f->covered) {
        f->covered = p->to;
        f->covered_ms = p->to_ms;
    }
    pthread_mutex_unlock(&f->lock);
}

static bool write_pass(struct event_log *log, struct pass *p, bool is_last)
{
    struct event_writer *w = &log->writer;
    w->frame_length = EVENT_FRAME_HEADER;
    w->frame_count = 0;
    if (!take_items(log, p)) {
        return false;
    }
    bool is_due = is_last || event_log_monotonic_ms() - w->written_ms >= EVENT_QUIET_MS;
    if (w->frame_count > 0 || p->is_gap || (p->to > p->from && (is_due || !w->is_listed))) {
        return flush(log, p, p->to, p->to_ms);
    }
    atomic_store_explicit(&log->intake.tail, p->at, memory_order_release);
    note_covered(log, p);
    return true;
}

/* ---- removal ---- */

/* The file to remove next; it is taken off the list. */
static bool take_oldest(struct event_log *log, uint64_t now_ms, uint64_t *number)
{
    struct event_files *f = &log->files;
    const struct event_log_options *o = &log->options;
    uint64_t bytes = 0;
    pthread_mutex_lock(&f->lock);
    for (uint32_t i = 0; i < f->count; i++) {
        bytes += f->segments[i].size;
    }
    bool is_removed = false;
    if (f->count > 0 && f->segments[0].is_closed) {
        const struct event_range *range = &f->segments[0].range;
        uint64_t newest_ms = range->records > 0 ? range->max_ms : range->to_ms;
        is_removed = bytes > o->max_bytes || f->count > EVENT_SEGMENTS ||
                     (o->max_age_ms > 0 && newest_ms + o->max_age_ms < now_ms);
    }
    if (is_removed) {
        *number = f->segments[0].number;
        f->count--;
        memmove(f->segments, f->segments + 1, f->count * sizeof(*f->segments));
    }
    pthread_mutex_unlock(&f->lock);
    return is_removed;
}

static void remove_old(struct event_log *log)
{
    struct event_writer *w = &log->writer;
    const struct event_log_options *o = &log->options;
    uint64_t now_ms = o->wall_ms(o->ctx);
    uint64_t number = 0;
    struct problem problem;
    char name[EVENT_FILE_NAME];
    if (w->is_listed && o->max_age_ms > 0 && w->segment.range.records > 0 &&
        w->segment.range.max_ms + o->max_age_ms < now_ms) {
        close_segment(log);
    }
    while (take_oldest(log, now_ms, &number)) {
        event_file_name(number, name);
        (void)disk_remove(log->disk, name, &problem);
    }
}

/* ---- thread ---- */

static void notify(struct event_log *log)
{
    pthread_mutex_lock(&log->files.lock);
    pthread_cond_broadcast(&log->files.changed);
    pthread_mutex_unlock(&log->files.lock);
    pthread_mutex_lock(&log->listeners_lock);
    for (unsigned i = 0; i < EVENT_LOG_LISTENERS; i++) {
        if (log->listeners[i].fn != NULL) {
            log->listeners[i].fn(log->listeners[i].ctx);
        }
    }
    pthread_mutex_unlock(&log->listeners_lock);
}

void event_writer_write(struct event_log *log, bool is_last)
{
    struct event_writer *w = &log->writer;
    struct pass p = {.at = atomic_load_explicit(&log->intake.tail, memory_order_relaxed),
                     .from = w->covered,
                     .from_ms = w->covered_ms};
    pthread_mutex_lock(&log->lock);
    p.published = log->shared.published;
    p.to = log->shared.to;
    p.to_ms = log->shared.to_ms;
    pthread_mutex_unlock(&log->lock);
    w->has_failed = false;
    (void)write_pass(log, &p, is_last);
    remove_old(log);
    if (p.has_written || p.to > w->covered) {
        notify(log);
    }
}

static bool has_work(const struct event_log *log)
{
    const struct event_shared *s = &log->shared;
    return s->stop || s->is_urgent ||
           s->published > atomic_load_explicit(&log->intake.tail, memory_order_relaxed);
}

static void wait_for_records(struct event_log *log)
{
    struct event_shared *s = &log->shared;
    struct timespec until;
    event_log_deadline(EVENT_LOOK_MS, &until);
    s->sleeps = true;
    int result = 0;
    while (result == 0 && !has_work(log)) {
        result = pthread_cond_timedwait(&log->wake, &log->lock, &until);
        s->sleeps = result == 0;
    }
    s->sleeps = false;
    s->is_urgent = false;
}

/* Many records make one frame: the next look is some milliseconds later, or when the buffer is half
 * full. */
static void rest(struct event_log *log)
{
    struct event_shared *s = &log->shared;
    struct timespec until;
    event_log_deadline(log->writer.has_failed ? EVENT_RETRY_MS : EVENT_FRAME_MS, &until);
    s->rests = true;
    int result = 0;
    while (result == 0 && s->rests && !s->stop && !s->is_urgent) {
        result = pthread_cond_timedwait(&log->wake, &log->lock, &until);
    }
    s->rests = false;
}

void *event_writer_run(void *ctx)
{
    struct event_log *log = ctx;
    pthread_mutex_lock(&log->lock);
    while (!log->shared.stop) {
        wait_for_records(log);
        pthread_mutex_unlock(&log->lock);
        event_writer_write(log, false);
        pthread_mutex_lock(&log->lock);
        rest(log);
    }
    pthread_mutex_unlock(&log->lock);
    return NULL;
}
