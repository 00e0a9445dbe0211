/* Reads the event log oldest first, for sinks and for nodes that fill a gap. See event_log.h. */
#include "events/reader.h"

struct event_cursor {
    struct event_log *log;
    struct event_id after;
    bool from_oldest;
    bool has_covered; /* `covered` is set; else by the first segment */
    uint64_t covered; /* entries up to this one were read, or reported as a gap */
    uint64_t claimed; /* by the index of what was loaded: more than `covered` if that is damaged */
    bool has_segment;
    bool is_finished; /* the segment is closed, and read to its end */
    uint32_t block;   /* the next one, or the one that is being read */
    uint64_t offset;  /* in the file, of the next frame; 0: at the begin of the block */
    uint32_t next;    /* of the records in the reader */
    struct event_reader reader;
};

struct event_cursor *event_cursor_open(struct event_log *log, struct event_id after)
{
    struct event_cursor *c = memory_alloc(log->memory, sizeof(*c));
    c->log = log;
    c->after = after;
    c->from_oldest = after.index == 0 && after.ordinal == 0;
    c->has_covered = !c->from_oldest;
    /* Other records of its entry may be missing. */
    c->covered = after.ordinal == UINT32_MAX || after.index == 0 ? after.index : after.index - 1;
    c->claimed = 0;
    c->has_segment = false;
    c->is_finished = false;
    c->block = 0;
    c->offset = 0;
    c->next = 0;
    event_reader_init(&c->reader, log);
    return c;
}

void event_cursor_close(struct event_cursor *c)
{
    if (c == NULL) {
        return;
    }
    event_reader_close(&c->reader);
    memory_free(c->log->memory, c, sizeof(*c));
}

static bool is_wanted(const struct event_cursor *c, const struct event_record *record)
{
    return c->from_oldest || event_id_after(record->id, c->after) ||
           (record->kind == LOGGED_AUDIT && record->id.index == c->after.index &&
            record->id.ordinal == c->after.ordinal);
}

/* Whether the range has nothing after the start of the cursor. */
static bool is_before(const struct event_cursor *c, const struct event_range *range)
{
    struct event_position start = {c->after.index, c->after.ordinal, 0};
    return !event_position_after(range->last, start);
}

/* Everything up to `from` that was not read is missing. */
static bool take_gap(struct event_cursor *c, uint64_t from, struct event_step *out)
{
    if (from <= c->covered) {
        return false;
    }
    out->gap_from = c->covered;
    out->gap_to = from;
    c->covered = from;
    return true;
}

/* The next record of the loaded frames. */
static enum event_read take_record(struct event_cursor *c, struct event_step *out)
{
    while (c->next < c->reader.count) {
        struct event_record record = event_reader_record(&c->reader, c->next++);
        if (!is_wanted(c, &record)) {
            continue;
        }
        if (event_record_decode(&record, &out->record)) {
            return EVENT_READ_RECORD;
        }
        /* Of a newer program. */
        out->gap_from = record.position.index > 0 ? record.position.index - 1 : 0;
        out->gap_to = record.position.index;
        return EVENT_READ_GAP;
    }
    c->covered = c->reader.to > c->covered ? c->reader.to : c->covered;
    c->reader.count = c->next = 0;
    return take_gap(c, c->claimed, out) ? EVENT_READ_GAP : EVENT_READ_MORE;
}

static enum event_read open_segment(struct event_cursor *c, struct event_step *out)
{
    uint64_t number = c->has_segment ? c->reader.segment.number + 1 : 0;
    struct event_segment segment;
    while (event_files_find(c->log, number, false, 0, &segment, NULL) && segment.is_closed &&
           is_before(c, &segment.range)) {
        number = segment.number + 1;
    }
    switch (event_reader_open(&c->reader, number, false, &out->problem)) {
    case EVENT_READING_FAILED:
        return EVENT_READ_FAILED;
    case EVENT_READING_NONE:
        return EVENT_READ_END;
    case EVENT_READING_DONE:
        break;
    }
    if (!c->has_covered) {
        c->has_covered = true;
        c->covered = c->reader.segment.range.from;
    }
    c->has_segment = true;
    c->is_finished = false;
    c->block = 0;
    c->offset = 0;
    return EVENT_READ_MORE;
}

/* Reads what follows in the segment. END: nothing. */
static enum event_read load(struct event_cursor *c, struct event_step *out)
{
    struct event_reader *r = &c->reader;
    for (;; c->block++, c->offset = 0) {
        if (c->block >= r->index.count) {
            return EVENT_READ_END;
        }
        const struct event_block *b = &r->index.blocks[c->block];
        uint64_t end = b->offset + (uint64_t)b->length;
        bool is_done = c->offset >= end || (c->offset == 0 && is_before(c, &b->range));
        if (is_done && c->block + 1 == r->index.count && !r->segment.is_closed) {
            c->offset = end; /* it may grow */
            return EVENT_READ_END;
        }
        if (!is_done) {
            uint64_t offset = c->offset == 0 ? b->offset : c->offset;
            c->offset = end;
            if (!event_reader_load(r, c->block, offset, &out->problem)) {
                return EVENT_READ_FAILED;
            }
            c->claimed = b->range.to;
            return take_gap(c, r->from, out) ? EVENT_READ_GAP : EVENT_READ_MORE;
        }
    }
}

enum event_read event_cursor_next(struct event_cursor *c, struct event_step *out)
{
    enum event_read read = take_record(c, out);
    if (read != EVENT_READ_MORE) {
        return read;
    }
    if (!c->has_segment || c->is_finished) {
        read = open_segment(c, out);
        if (read != EVENT_READ_MORE) {
            return read;
        }
    } else if (!c->reader.segment.is_closed &&
               event_reader_refresh(&c->reader, c->block, &out->problem) != EVENT_READING_DONE) {
        return EVENT_READ_FAILED;
    }
    read = load(c, out);
    if (read == EVENT_READ_END && c->reader.segment.is_closed) {
        c->is_finished = true;
        return EVENT_READ_MORE;
    }
    if (read == EVENT_READ_MORE && c->reader.count > 0) {
        read = take_record(c, out);
    }
    return read;
}
