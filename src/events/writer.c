/* The writer thread of the event log: takes items from the buffer, writes frames, closes and removes
 * segments. A failed write is repeated; what it should have written stays in the buffer. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "events/log_state.h"

enum { WRITER_NICE = 5 }; /* requests of clients come first; the buffer lasts for seconds */

/* One look at the buffer. */
struct pass {
    uint64_t at;        /* in the buffer: up to here, the items are in the frame, or done */
    uint64_t published; /* and its end */
    uint64_t to;        /* what is covered there */
    uint64_t to_ms;
    uint64_t from; /* the begin of the next frame */
    uint64_t from_ms;
    uint64_t covered;    /* by frames in files, and by those that wait */
    bool is_split;       /* the entry of the last record continues in the next frame */
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

/* Whether the next frame goes to another segment. The records of an entry are in one segment, since a frame
 * says what is missing before it by entries. A gap begins a segment, so that another file can take its
 * place. */
static bool ends_segment(const struct event_log *log, const struct pass *p)
{
    const struct event_writer *w = &log->writer;
    uint64_t end = w->segment.end + w->out_bytes + w->frame_length;
    bool is_full = end > log->options.segment_bytes || is_old(log);
    uint32_t blocks = log->files.index->count + w->waiting;
    return (w->is_listed || w->waiting > 0) &&
           ((is_full && !p->is_split) || blocks >= EVENT_SEGMENT_BLOCKS - 1 ||
            p->from > p->covered);
}

/* ---- frames ---- */

static void begin_frame(struct event_writer *w)
{
    w->frame_length = EVENT_FRAME_HEADER;
    w->frame_count = 0;
    event_summary_begin(&w->summary);
}

static void list_frames(struct event_log *log)
{
    struct event_files *f = &log->files;
    struct event_writer *w = &log->writer;
    const struct event_frame *last = &w->frames[w->waiting - 1].frame;
    uint64_t offset = w->segment.end;
    pthread_mutex_lock(&f->lock);
    if (!w->is_listed) {
        f->index->count = 0;
    }
    for (uint32_t i = 0; i < w->waiting; i++) {
        const struct event_waiting_frame *x = &w->frames[i];
        bool is_added = event_index_join(f->index, offset, &x->frame, &x->summary);
        hf_assert(is_added);
        offset += x->frame.length;
        f->appended += x->frame.count;
    }
    event_segment_summarize(&w->segment, f->index);
    w->segment.size = w->segment.end;
    if (!w->is_listed) {
        event_files_add(log, &w->segment);
        w->is_listed = true;
    }
    *active(log) = w->segment;
    f->covered = last->to;
    f->covered_ms = last->to_ms;
    f->disk_full = false;
    pthread_mutex_unlock(&f->lock);
}

/* Writes the frames that wait. What they have is then no longer in the buffer. */
static bool write_out(struct event_log *log, struct pass *p)
{
    struct event_writer *w = &log->writer;
    struct problem problem;
    if (w->waiting == 0) {
        return true;
    }
    if (disk_write(w->file, w->segment.end, w->out, w->out_bytes, &problem) != STORAGE_OK) {
        return note_failure(log);
    }
    const struct event_waiting_frame *last = &w->frames[w->waiting - 1];
    list_frames(log);
    w->covered = last->frame.to;
    w->covered_ms = last->frame.to_ms;
    w->is_split = last->is_split;
    w->written_ms = event_log_monotonic_ms();
    p->has_written = true;
    atomic_store_explicit(&log->intake.tail, last->at, memory_order_release);
    memmove(w->out, w->out + w->out_bytes, w->frame_length);
    w->out_bytes = 0;
    w->waiting = 0;
    return true;
}

/* Ends the frame, which may be empty. It waits for more, unless there is no space for another one. */
static bool end_frame(struct event_log *log, struct pass *p, uint64_t to, uint64_t to_ms)
{
    struct event_writer *w = &log->writer;
    if (ends_segment(log, p)) {
        if (!write_out(log, p)) {
            return false;
        }
        close_segment(log);
    }
    if (w->file == NULL && !create_segment(log, p->from)) {
        return false;
    }
    uint8_t *bytes = w->out + w->out_bytes;
    uint32_t length = w->frame_length;
    struct event_waiting_frame *x = &w->frames[w->waiting++];
    x->frame = (struct event_frame){
        .from = p->from,
        .to = to,
        .from_ms = p->from_ms,
        .to_ms = to_ms,
        .count = w->frame_count,
        .length = length,
        .records = slice_make(bytes + EVENT_FRAME_HEADER, length - EVENT_FRAME_HEADER)};
    x->summary = w->summary;
    x->at = p->at;
    x->is_split = false;
    event_frame_encode(&x->frame, w->segment.salt, bytes);
    w->out_bytes += length;
    begin_frame(w);
    p->covered = p->from = to;
    p->from_ms = to_ms;
    p->is_gap = p->is_split = false;
    bool is_full =
        w->waiting == EVENT_OUT_FRAMES || w->out_bytes + EVENT_FRAME_MAX > EVENT_OUT_BYTES;
    return !is_full || write_out(log, p);
}

/* Before a record that goes to the next frame. Its entry may have records in this one. */
static bool end_frame_before(struct event_log *log, struct pass *p, struct event_position next)
{
    struct event_writer *w = &log->writer;
    bool is_complete = next.ordinal == EVENT_AUDIT && next.sub > EVENT_LOSSY;
    uint64_t to = is_complete ? next.index : next.index - 1;
    if (!end_frame(log, p, to > p->from ? to : p->from, p->from_ms)) {
        return false;
    }
    p->is_split = !is_complete && next.index == p->last_index;
    *(w->waiting > 0 ? &w->frames[w->waiting - 1].is_split : &w->is_split) = p->is_split;
    return true;
}

static bool add_record(struct event_log *log, struct pass *p, struct slice item)
{
    struct event_writer *w = &log->writer;
    struct event_position position;
    memcpy(&position, item.data, sizeof(position));
    struct slice bytes = slice_make(item.data + sizeof(position), item.len - sizeof(position));
    struct event_record record = event_record_peek(bytes.data, position);
    /* Between entries, if possible. */
    bool is_large = w->frame_length > EVENT_FRAME_MAX / 2 ||
                    w->segment.end + w->out_bytes + w->frame_length > log->options.segment_bytes;
    bool is_good = is_large && w->frame_count > 0 && record.position.index != p->last_index;
    if ((is_good || w->frame_length + bytes.len > EVENT_FRAME_MAX) &&
        !end_frame_before(log, p, record.position)) {
        return false;
    }
    memcpy(w->out + w->out_bytes + w->frame_length, bytes.data, bytes.len);
    w->frame_length += (uint32_t)bytes.len;
    w->frame_count++;
    event_summary_add(&w->summary, &record);
    p->last_index = record.position.index;
    return true;
}

static bool add_gap(struct event_log *log, struct pass *p, const uint8_t *bytes)
{
    struct event_item_gap gap;
    memcpy(&gap, bytes, sizeof(gap));
    if (gap.to <= p->covered) {
        return true; /* done before a failure */
    }
    if ((log->writer.frame_count > 0 || gap.covered > p->from) &&
        !end_frame(log, p, gap.covered, gap.covered_ms)) {
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
    w->out_bytes = w->waiting = 0; /* after a failure, they are in the buffer */
    begin_frame(w);
    if (!take_items(log, p)) {
        return false;
    }
    bool is_due = is_last || event_log_monotonic_ms() - w->written_ms >= EVENT_QUIET_MS;
    bool has_frame =
        w->frame_count > 0 || p->is_gap || (p->to > p->from && (is_due || !w->is_listed));
    if ((has_frame && !end_frame(log, p, p->to, p->to_ms)) || !write_out(log, p)) {
        return false;
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
    struct pass p = {.from = w->covered,
                     .from_ms = w->covered_ms,
                     .covered = w->covered,
                     .is_split = w->is_split};
    pthread_mutex_lock(&log->lock);
    p.at = atomic_load_explicit(&log->intake.tail, memory_order_relaxed);
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

/* Many records are written together: the next look is some milliseconds later, or when they are enough. */
static void rest(struct event_log *log)
{
    struct event_shared *s = &log->shared;
    struct timespec until;
    bool has_failed = log->writer.has_failed;
    uint64_t half = log->intake.size / 2;
    event_log_deadline(has_failed ? EVENT_RETRY_MS : EVENT_BATCH_MS, &until);
    s->enough = has_failed || half < EVENT_BATCH_BYTES ? half : EVENT_BATCH_BYTES;
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
    (void)pthread_setname_np(pthread_self(), "event-log");
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), WRITER_NICE);
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
