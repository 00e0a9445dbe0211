/* See event_fill.h. */
#include "events/event_fill.h"

#include "events/fill_message.h"
#include "events/log_state.h"

enum { FILL_NUMBER_STEP = 1024 }; /* between two files; also leaves numbers in front of the first */

struct event_fill {
    struct event_log *log;
    struct event_gap gap;
    uint64_t number;  /* of the last file, or of the segment before the gap */
    uint64_t end;     /* number of the segment behind the gap */
    uint64_t covered; /* by frames */
    uint64_t done;    /* by answers */
    uint64_t wall_ms; /* of the last record */
    uint64_t from_ms; /* wall clock of `covered` */
    struct event_position last;
    struct disk_file *file; /* of `segment`; NULL: none is open */
    struct event_segment segment;
    uint64_t written; /* records in the file */
    bool is_split;    /* the entry of the last record continues in the next frame */
    uint32_t frame_length;
    uint32_t frame_count;
    uint8_t frame[EVENT_FRAME_MAX];
    struct event_index index;
    uint8_t scratch[EVENT_SCRATCH];
};

/* ---- the gap ---- */

/* The segment behind the newest gap that has free numbers, or 0. With the lock. */
static uint32_t newest_gap(const struct event_files *f)
{
    for (uint32_t i = f->count; i-- > 1;) {
        const struct event_segment *before = &f->segments[i - 1];
        if (f->segments[i].range.from > before->range.to &&
            f->segments[i].number - before->number >= 2) {
            return i;
        }
    }
    return 0;
}

bool event_fill_find(struct event_log *log, struct event_gap *out)
{
    struct event_files *f = &log->files;
    pthread_mutex_lock(&f->lock);
    uint32_t at = newest_gap(f);
    if (at > 0) {
        const struct event_range *before = &f->segments[at - 1].range;
        const struct event_range *behind = &f->segments[at].range;
        *out = (struct event_gap){before->to, behind->from, before->to_ms, behind->from_ms};
    }
    pthread_mutex_unlock(&f->lock);
    return at > 0;
}

/* The numbers around the gap, which may be a part of what is missing. */
static bool find_place(struct event_log *log, const struct event_gap *gap, uint64_t *before,
                       uint64_t *behind, struct event_position *last)
{
    struct event_files *f = &log->files;
    bool found = false;
    pthread_mutex_lock(&f->lock);
    for (uint32_t i = 1; i < f->count && !found; i++) {
        const struct event_segment *a = &f->segments[i - 1];
        const struct event_segment *b = &f->segments[i];
        if (a->range.to <= gap->from && b->range.from == gap->to && b->number - a->number >= 2) {
            *before = a->number;
            *behind = b->number;
            *last = a->range.last;
            found = true;
        }
    }
    pthread_mutex_unlock(&f->lock);
    return found;
}

struct event_fill *event_fill_begin(struct event_log *log, const struct event_gap *gap)
{
    uint64_t before, behind;
    struct event_position last;
    if (gap->from >= gap->to || !find_place(log, gap, &before, &behind, &last)) {
        return NULL;
    }
    struct event_fill *fill = memory_alloc(log->memory, sizeof(*fill));
    fill->log = log;
    fill->gap = *gap;
    fill->number = before;
    fill->end = behind;
    fill->covered = fill->done = gap->from;
    fill->from_ms = fill->wall_ms = gap->from_ms;
    struct event_position begin = event_position_end_of(gap->from);
    fill->last = event_position_after(last, begin) ? last : begin;
    fill->file = NULL;
    fill->written = 0;
    fill->is_split = false;
    fill->frame_length = EVENT_FRAME_HEADER;
    fill->frame_count = 0;
    fill->index.count = 0;
    return fill;
}

/* ---- files ---- */

static bool create_file(struct event_fill *fill, struct problem *problem)
{
    struct event_log *log = fill->log;
    uint64_t step = (fill->end - fill->number) / 2;
    uint8_t bytes[EVENT_HEADER_BYTES];
    char name[EVENT_FILE_NAME];
    if (step == 0) {
        problem_set(problem, STORAGE_FULL, "the gap has too many pieces");
        return false;
    }
    struct event_header header = {.cluster = log->options.cluster,
                                  .node = log->options.node,
                                  .number = fill->number +
                                            (step < FILL_NUMBER_STEP ? step : FILL_NUMBER_STEP),
                                  .from = fill->covered,
                                  .wall_ms = log->options.wall_ms(log->options.ctx)};
    event_file_name(header.number, name);
    if (disk_open(log->disk, name, DISK_CREATE, &fill->file, problem) != STORAGE_OK) {
        fill->file = NULL;
        return false;
    }
    fill->number = header.number;
    fill->index.count = 0;
    fill->segment = (struct event_segment){.number = header.number,
                                           .salt = event_header_encode(&header, bytes),
                                           .end = EVENT_HEADER_BYTES,
                                           .size = EVENT_HEADER_BYTES};
    return disk_write(fill->file, 0, bytes, sizeof(bytes), problem) == STORAGE_OK;
}

/* Lists the file, or removes it if it has no frame. Without a footer if the disk refuses it. */
static void close_file(struct event_fill *fill)
{
    struct event_log *log = fill->log;
    struct event_files *f = &log->files;
    struct problem ignored;
    char name[EVENT_FILE_NAME];
    if (fill->file == NULL) {
        return;
    }
    event_file_name(fill->segment.number, name);
    if (fill->index.count > 0) {
        size_t len = event_footer_size(&fill->index);
        event_footer_encode(&fill->segment, &fill->index, fill->scratch);
        fill->segment.is_closed = true;
        fill->segment.size = fill->segment.end;
        if (disk_write(fill->file, fill->segment.end, fill->scratch, len, &ignored) == STORAGE_OK) {
            fill->segment.size += len;
        }
        pthread_mutex_lock(&f->lock);
        event_files_add(log, &fill->segment);
        f->appended += fill->written;
        pthread_mutex_unlock(&f->lock);
    } else {
        (void)disk_remove(log->disk, name, &ignored);
    }
    disk_close(fill->file);
    fill->file = NULL;
    fill->written = 0;
}

/* Writes the frame, which may be empty: it covers the entries up to `to`. */
static bool flush(struct event_fill *fill, uint64_t to, struct problem *problem)
{
    uint32_t length = fill->frame_length;
    if (fill->frame_count == 0 && to == fill->covered) {
        return true;
    }
    bool is_full = fill->segment.end + length > fill->log->options.segment_bytes;
    if (fill->file != NULL &&
        ((is_full && !fill->is_split) || fill->index.count >= EVENT_SEGMENT_BLOCKS - 1)) {
        close_file(fill);
    }
    if (fill->file == NULL && !create_file(fill, problem)) {
        return false;
    }
    struct event_frame frame = {
        .from = fill->covered,
        .to = to,
        .from_ms = fill->from_ms,
        .to_ms = to == fill->gap.to ? fill->gap.to_ms : fill->wall_ms,
        .count = fill->frame_count,
        .length = length,
        .records = slice_make(fill->frame + EVENT_FRAME_HEADER, length - EVENT_FRAME_HEADER)};
    event_frame_encode(&frame, fill->segment.salt, fill->frame);
    if (disk_write(fill->file, fill->segment.end, fill->frame, length, problem) != STORAGE_OK) {
        return false;
    }
    bool is_added = event_index_add(&fill->index, fill->segment.end, &frame);
    hf_assert(is_added);
    event_segment_summarize(&fill->segment, &fill->index);
    fill->written += fill->frame_count;
    fill->covered = to;
    fill->is_split = fill->last.index > to;
    fill->from_ms = frame.to_ms;
    fill->frame_length = EVENT_FRAME_HEADER;
    fill->frame_count = 0;
    return true;
}

/* ---- records ---- */

static bool refuse(struct problem *problem, const char *why)
{
    problem_set(problem, STORAGE_CORRUPT, "it sent %s", why);
    return false;
}

/* As event_log_append and event_log_append_audit number them. */
static bool describe(const struct event_fill *fill, const struct fill_record *from,
                     struct event_record *out)
{
    struct event event;
    struct audit_view audit;
    *out = (struct event_record){.kind = from->kind, .id = from->id, .payload = from->payload};
    if (from->kind == LOGGED_EVENT) {
        if (!event_decode(from->payload, &event) || event.tier != TIER_CORRECTNESS ||
            event.index != from->id.index || event.ordinal != from->id.ordinal) {
            return false;
        }
        out->type = (uint8_t)event.type;
        out->wall_ms = event.wall_ms;
        out->position = (struct event_position){event.index, event.ordinal, 0};
        out->name_hash = event_name_hash(event.name);
        return true;
    }
    if (!audit_decode(from->payload, &audit)) {
        return false;
    }
    bool is_next = fill->last.index == audit.index && fill->last.ordinal == EVENT_AUDIT;
    out->wall_ms = audit.wall_ms;
    out->position =
        (struct event_position){audit.index, EVENT_AUDIT, is_next ? fill->last.sub + 1 : 1};
    out->name_hash = event_name_hash(audit.resource);
    return true;
}

/* Before a record that goes to the next frame. Its entry may have records in this one. */
static bool flush_before(struct event_fill *fill, struct event_position next,
                         struct problem *problem)
{
    uint64_t to = next.index - 1 > fill->covered ? next.index - 1 : fill->covered;
    return flush(fill, to, problem);
}

static bool add_record(struct event_fill *fill, const struct fill_record *record,
                       struct problem *problem)
{
    struct event_record out;
    if (!describe(fill, record, &out)) {
        return refuse(problem, "a record that cannot be decoded");
    }
    if (out.position.index <= fill->done || out.position.index > fill->gap.to ||
        !event_position_after(out.position, fill->last) || out.id.index > out.position.index) {
        return refuse(problem, "records in a wrong order");
    }
    if (fill->frame_length + EVENT_RECORD_MAX > EVENT_FRAME_MAX &&
        !flush_before(fill, out.position, problem)) {
        return false;
    }
    uint8_t *at = fill->frame + fill->frame_length;
    size_t head = event_record_begin(&out, at);
    memcpy(at + head, out.payload.data, out.payload.len);
    event_record_end(at, head + out.payload.len);
    fill->frame_length += (uint32_t)(head + out.payload.len);
    fill->frame_count++;
    fill->last = out.position;
    fill->wall_ms = out.wall_ms > fill->wall_ms ? out.wall_ms : fill->wall_ms;
    return true;
}

struct event_position event_fill_begins(const struct event_fill *fill)
{
    return fill->last;
}

bool event_fill_take(struct event_fill *fill, struct slice answer, struct event_position *next,
                     struct problem *problem)
{
    struct fill_answer a;
    struct fill_record record;
    if (!fill_answer_decode(answer, &a)) {
        return refuse(problem, "an answer that cannot be decoded");
    }
    while (a.records.len > 0) {
        if (!fill_record_take(&a.records, &record)) {
            return refuse(problem, "a record that cannot be decoded");
        }
        if (!add_record(fill, &record, problem)) {
            return false;
        }
    }
    if (a.covered > fill->gap.to || a.next.index < a.covered ||
        event_position_after(fill->last, a.next)) {
        return refuse(problem, "a range that it does not have");
    }
    fill->done = a.covered > fill->done ? a.covered : fill->done;
    *next = a.next;
    /* Small answers share a frame. */
    bool is_end = fill->done == fill->gap.to || fill->frame_length > EVENT_FRAME_MAX / 2;
    return !is_end || flush(fill, fill->done > fill->covered ? fill->done : fill->covered, problem);
}

uint64_t event_fill_done(const struct event_fill *fill)
{
    return fill->done;
}

void event_fill_end(struct event_fill *fill)
{
    struct problem ignored;
    if (fill->done > fill->covered) {
        (void)flush(fill, fill->done, &ignored); /* without it, a part is filled again */
    }
    close_file(fill);
    memory_free(fill->log->memory, fill, sizeof(*fill));
}
