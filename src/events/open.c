/* Opening the event log: which files are there, and where the valid frames end. Everything that cannot
 * be read is removed: what is missing then shows as a gap. */
#include <stdio.h>
#include <stdlib.h>

#include "events/log_state.h"

struct found_files {
    const struct memory *memory;
    uint64_t *numbers;
    uint32_t count;
    uint32_t capacity;
};

static void visit(void *ctx, const char *name)
{
    struct found_files *found = ctx;
    char expected[EVENT_FILE_NAME];
    uint64_t number = strtoull(name, NULL, 10);
    event_file_name(number, expected);
    if (strcmp(name, expected) != 0) {
        return;
    }
    if (found->count == found->capacity) {
        uint32_t capacity = found->capacity == 0 ? 128 : found->capacity * 2;
        found->numbers =
            memory_grow(found->memory, found->numbers, found->capacity * 8, (size_t)capacity * 8);
        found->capacity = capacity;
    }
    found->numbers[found->count++] = number;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool read_header(struct event_log *log, struct disk_file *file, uint64_t number,
                        struct event_segment *out)
{
    uint8_t bytes[EVENT_HEADER_BYTES];
    struct event_header header;
    struct problem problem;
    size_t got = 0;
    *out = (struct event_segment){.number = number};
    return disk_read(file, 0, bytes, sizeof(bytes), &got, &problem) == STORAGE_OK &&
           got == sizeof(bytes) && event_header_decode(bytes, &header, &out->salt) &&
           header.number == number && id_equal(header.cluster, log->options.cluster);
}

static bool read_tail(struct disk_file *file, struct event_segment *segment)
{
    uint8_t tail[EVENT_TAIL_BYTES];
    struct problem problem;
    size_t got = 0;
    return segment->size >= EVENT_HEADER_BYTES + EVENT_TAIL_BYTES &&
           disk_read(file, segment->size - EVENT_TAIL_BYTES, tail, sizeof(tail), &got, &problem) ==
               STORAGE_OK &&
           got == sizeof(tail) && event_tail_decode(tail, segment->size, segment);
}

static bool follows(const struct event_log *log, const struct event_segment *segment)
{
    const struct event_files *f = &log->files;
    if (f->count == 0) {
        return true;
    }
    const struct event_range *before = &f->segments[f->count - 1].range;
    return segment->range.from >= before->to &&
           (segment->range.records == 0 ||
            event_position_after(segment->range.first, before->last));
}

/* Cuts off what is behind the valid frames, and closes it unless it is the newest. */
static bool mend(struct event_log *log, struct disk_file *file, struct event_segment *segment,
                 bool is_newest, struct event_index *index, struct problem *problem)
{
    if (!event_files_scan(segment, file, log->writer.scratch, index, problem) ||
        index->count == 0) {
        return false;
    }
    if (segment->size > segment->end && disk_truncate(file, segment->end, problem) != STORAGE_OK) {
        return false;
    }
    segment->size = segment->end;
    if (!is_newest) {
        size_t len = event_footer_size(index);
        event_footer_encode(segment, index, log->writer.scratch);
        segment->is_closed = true;
        if (disk_write(file, segment->end, log->writer.scratch, len, problem) == STORAGE_OK) {
            segment->size += len;
        }
    }
    return true;
}

/* The segment is in the list, or the file is of no use. */
static bool take_file(struct event_log *log, uint64_t number, bool is_newest)
{
    struct problem problem;
    struct event_segment segment;
    struct disk_file *file = NULL;
    char name[EVENT_FILE_NAME];
    event_file_name(number, name);
    if (disk_open(log->disk, name, DISK_WRITE, &file, &problem) != STORAGE_OK) {
        return false;
    }
    struct event_index *index = log->files.index;
    bool is_good =
        read_header(log, file, number, &segment) &&
        disk_size(file, &segment.size, &problem) == STORAGE_OK &&
        (read_tail(file, &segment) || mend(log, file, &segment, is_newest, index, &problem)) &&
        follows(log, &segment);
    if (!is_good) {
        disk_close(file);
        return false;
    }
    event_files_add(log, &segment);
    if (segment.is_closed) {
        disk_close(file);
        index->count = 0;
        return true;
    }
    log->writer.file = file;
    log->writer.segment = segment;
    log->writer.is_listed = true;
    log->writer.opened_ms = segment.range.from_ms;
    return true;
}

/* ---- what continues ---- */

/* The id of the last record of a block. */
static bool last_id(struct event_log *log, const struct event_segment *segment,
                    const struct event_block *block, struct disk_file *file, struct event_id *out)
{
    uint8_t *bytes = log->writer.scratch;
    struct problem problem;
    struct event_frame frame;
    struct event_record record;
    size_t got = 0;
    size_t at = 0;
    bool found = false;
    if (disk_read(file, block->offset, bytes, block->length, &got, &problem) != STORAGE_OK) {
        return false;
    }
    while (event_frame_decode(slice_make(bytes + at, got - at), segment->salt, &frame)) {
        struct slice rest = frame.records;
        while (event_record_take(&rest, &record)) {
            *out = record.id;
            found = true;
        }
        at += frame.length;
    }
    return found;
}

static bool newest_id_of(struct event_log *log, const struct event_segment *segment,
                         struct event_id *out)
{
    struct problem problem;
    struct disk_file *file;
    char name[EVENT_FILE_NAME];
    event_file_name(segment->number, name);
    if (disk_open(log->disk, name, DISK_READ, &file, &problem) != STORAGE_OK) {
        return false;
    }
    struct event_index *index = memory_alloc(log->memory, sizeof(*index));
    bool found = false;
    if (event_files_load_index(segment, file, log->writer.scratch, index, &problem)) {
        for (uint32_t i = index->count; i > 0 && !found; i--) {
            found = index->blocks[i - 1].range.records > 0 &&
                    last_id(log, segment, &index->blocks[i - 1], file, out);
        }
    }
    memory_free(log->memory, index, sizeof(*index));
    disk_close(file);
    return found;
}

/* Of the newest record, if no gap is behind it; else the end of the gap, as after event_log_skipped. */
static struct event_id newest_id(struct event_log *log)
{
    const struct event_files *f = &log->files;
    struct event_id id;
    uint32_t at = f->count - 1;
    while (f->segments[at].range.records == 0 && f->segments[at].gaps == 0 && at > 0 &&
           f->segments[at - 1].range.to == f->segments[at].range.from) {
        at--;
    }
    const struct event_segment *segment = &f->segments[at];
    if (segment->range.records > 0 && newest_id_of(log, segment, &id)) {
        return id;
    }
    uint64_t begin = segment->gaps > 0 ? segment->gap_to : segment->range.from;
    return (struct event_id){begin, begin == 0 ? 0 : UINT32_MAX};
}

static void go_on(struct event_log *log)
{
    struct event_files *f = &log->files;
    struct event_intake *in = &log->intake;
    struct event_writer *w = &log->writer;
    if (f->count == 0) {
        return;
    }
    const struct event_range *range = &f->segments[f->count - 1].range;
    in->covered = w->covered = f->covered = range->to;
    in->covered_ms = w->covered_ms = f->covered_ms = range->to_ms;
    struct event_position end = event_position_end_of(range->to);
    in->last = event_position_after(end, range->last) ? end : range->last;
    in->newest = newest_id(log);
    in->newest_event = in->newest.ordinal == UINT32_MAX ? (struct event_id){0, 0} : in->newest;
    log->shared.to = in->covered;
    log->shared.to_ms = in->covered_ms;
    log->shared.newest = in->newest_event;
}

bool event_log_recover(struct event_log *log, struct problem *problem)
{
    struct found_files found = {.memory = log->memory};
    if (disk_list(log->disk, visit, &found, problem) != STORAGE_OK) {
        return false;
    }
    if (found.count > 0) {
        qsort(found.numbers, found.count, sizeof(found.numbers[0]), compare);
    }
    for (uint32_t i = 0; i < found.count; i++) {
        struct problem ignored;
        char name[EVENT_FILE_NAME];
        event_file_name(found.numbers[i], name);
        if (!take_file(log, found.numbers[i], i + 1 == found.count)) {
            (void)disk_remove(log->disk, name, &ignored);
        }
        log->writer.last_number = found.numbers[i];
    }
    if (found.capacity > 0) {
        memory_free(log->memory, found.numbers, (size_t)found.capacity * 8);
    }
    go_on(log);
    return true;
}
