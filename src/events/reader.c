/* See reader.h. */
#include "events/reader.h"

void event_reader_init(struct event_reader *r, struct event_log *log)
{
    r->log = log;
    r->file = NULL;
    r->segment = (struct event_segment){.number = 0};
    r->index.count = 0;
    r->count = 0;
    r->from = r->to = r->to_ms = 0;
    r->work = 0;
}

void event_reader_close(struct event_reader *r)
{
    disk_close(r->file);
    r->file = NULL;
}

static enum event_reading load_index(struct event_reader *r, struct problem *problem)
{
    if (r->segment.is_closed && r->file != NULL) {
        if (!event_files_load_index(&r->segment, r->file, r->scratch, &r->index, problem)) {
            return EVENT_READING_FAILED;
        }
        r->work += event_footer_size(&r->index);
    }
    return EVENT_READING_DONE;
}

enum event_reading event_reader_open(struct event_reader *r, uint64_t number, bool backward,
                                     struct problem *problem)
{
    struct event_segment found;
    struct disk_file *file = NULL;
    char name[EVENT_FILE_NAME];
    if (!event_files_find(r->log, number, backward, 0, &found, &r->index)) {
        return EVENT_READING_NONE;
    }
    event_file_name(found.number, name);
    enum storage_status status = disk_open(r->log->disk, name, DISK_READ, &file, problem);
    if (status != STORAGE_OK && status != STORAGE_MISSING) {
        return EVENT_READING_FAILED;
    }
    event_reader_close(r);
    r->file = file;
    r->segment = found;
    if (file == NULL) {
        r->index.count = 0;
    }
    return load_index(r, problem);
}

enum event_reading event_reader_refresh(struct event_reader *r, uint32_t from_block,
                                        struct problem *problem)
{
    struct event_segment found;
    if (r->file == NULL) {
        r->segment.is_closed = true;
        return EVENT_READING_DONE;
    }
    if (event_files_find(r->log, r->segment.number, false, from_block, &found, &r->index) &&
        found.number == r->segment.number) {
        r->segment = found;
    } else {
        r->segment.is_closed = true; /* and removed; the open file is still readable */
    }
    return load_index(r, problem);
}

static void take_records(struct event_reader *r, const struct event_frame *frame)
{
    struct slice rest = frame->records;
    struct event_record record;
    for (uint32_t i = 0; i < frame->count && r->count < EVENT_BLOCK_RECORDS; i++) {
        uint32_t offset = (uint32_t)(rest.data - r->bytes);
        if (!event_record_take(&rest, &record)) {
            return;
        }
        r->records[r->count++] = offset;
    }
}

bool event_reader_load(struct event_reader *r, uint32_t block, uint64_t offset,
                       struct problem *problem)
{
    const struct event_block *b = &r->index.blocks[block];
    size_t len = (size_t)(b->offset + (uint64_t)b->length - offset);
    size_t got = 0;
    hf_assert(len <= sizeof(r->bytes));
    r->count = 0;
    r->from = r->to = r->to_ms = 0;
    if (disk_read(r->file, offset, r->bytes, len, &got, problem) != STORAGE_OK) {
        return false;
    }
    r->work += len;
    struct event_frame frame;
    size_t at = 0;
    while (event_frame_decode(slice_make(r->bytes + at, got - at), r->segment.salt, &frame)) {
        take_records(r, &frame);
        r->from = at == 0 ? frame.from : r->from;
        r->to = frame.to;
        r->to_ms = frame.to_ms;
        at += frame.length;
    }
    if (at < len) {
        event_files_note_damage(r->log, b->range.to, b->range.to_ms);
    }
    return true;
}

struct event_record event_reader_record(const struct event_reader *r, uint32_t i)
{
    struct slice rest = slice_make(r->bytes + r->records[i], EVENT_BLOCK_MAX - r->records[i]);
    struct event_record record;
    bool is_valid = event_record_take(&rest, &record);
    hf_assert(is_valid);
    return record;
}
