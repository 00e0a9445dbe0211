/* The list of segments, and the index of one. See log_state.h. */
#include <inttypes.h>
#include <stdio.h>

#include "events/log_state.h"

void event_file_name(uint64_t number, char out[EVENT_FILE_NAME])
{
    snprintf(out, EVENT_FILE_NAME, "%020" PRIu64 ".events", number);
}

void event_files_add(struct event_log *log, const struct event_segment *segment)
{
    struct event_files *f = &log->files;
    if (f->count == f->capacity) {
        uint32_t capacity = f->capacity == 0 ? 64 : f->capacity * 2;
        f->segments = memory_grow(log->memory, f->segments, f->capacity * sizeof(*f->segments),
                                  capacity * sizeof(*f->segments));
        f->capacity = capacity;
    }
    uint32_t at = f->count;
    while (at > 0 && f->segments[at - 1].number > segment->number) {
        at--;
    }
    memmove(f->segments + at + 1, f->segments + at, (f->count - at) * sizeof(*f->segments));
    f->segments[at] = *segment;
    f->count++;
}

/* The first segment with at least that number; `count`: none. */
static uint32_t first_from(const struct event_files *f, uint64_t number)
{
    uint32_t low = 0;
    uint32_t high = f->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (f->segments[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void copy_blocks(const struct event_index *from, uint32_t from_block, struct event_index *to)
{
    if (from_block < from->count) {
        memcpy(to->blocks + from_block, from->blocks + from_block,
               (from->count - from_block) * sizeof(from->blocks[0]));
    }
    to->count = from->count;
}

bool event_files_find(struct event_log *log, uint64_t number, bool backward, uint32_t from_block,
                      struct event_segment *out, struct event_index *index)
{
    struct event_files *f = &log->files;
    pthread_mutex_lock(&f->lock);
    uint32_t at = first_from(f, number);
    if (backward && (at == f->count || f->segments[at].number > number)) {
        at = at == 0 ? f->count : at - 1;
    }
    bool found = at < f->count;
    if (found) {
        *out = f->segments[at];
        if (!out->is_closed && index != NULL) {
            copy_blocks(f->index, from_block, index);
        }
    }
    pthread_mutex_unlock(&f->lock);
    return found;
}

void event_files_note_damage(struct event_log *log, uint64_t to, uint64_t to_ms)
{
    struct event_files *f = &log->files;
    pthread_mutex_lock(&f->lock);
    if (to > f->damaged_to) { /* not each time that it is read */
        f->damaged_to = to;
        f->damaged_ms = to_ms;
        f->damages++;
    }
    pthread_mutex_unlock(&f->lock);
}

bool event_files_scan(struct event_segment *segment, struct disk_file *file, uint8_t *scratch,
                      struct event_index *out, struct problem *problem)
{
    uint64_t at = EVENT_HEADER_BYTES; /* in the file */
    size_t got = 0;
    size_t taken = 0; /* of `scratch` */
    struct event_frame frame;
    out->count = 0;
    for (bool is_fresh = false;;) {
        if (event_frame_decode(slice_make(scratch + taken, got - taken), segment->salt, &frame)) {
            if (!event_index_add(out, at, &frame)) {
                break;
            }
            at += frame.length;
            taken += frame.length;
            is_fresh = false;
        } else if (is_fresh || at > EVENT_SEGMENT_MAX * 2) {
            break;
        } else {
            taken = 0;
            if (disk_read(file, at, scratch, EVENT_BLOCK_MAX, &got, problem) != STORAGE_OK) {
                return false;
            }
            is_fresh = true;
        }
    }
    segment->end = EVENT_HEADER_BYTES;
    if (out->count > 0) {
        event_segment_summarize(segment, out);
    }
    return true;
}

bool event_files_load_index(const struct event_segment *segment, struct disk_file *file,
                            uint8_t *scratch, struct event_index *out, struct problem *problem)
{
    struct event_segment copy = *segment;
    uint8_t tail[EVENT_TAIL_BYTES];
    uint64_t size = 0;
    size_t got = 0;
    out->count = 0;
    if (disk_size(file, &size, problem) != STORAGE_OK) {
        return false;
    }
    if (size >= EVENT_HEADER_BYTES + EVENT_TAIL_BYTES) {
        if (disk_read(file, size - EVENT_TAIL_BYTES, tail, sizeof(tail), &got, problem) !=
            STORAGE_OK) {
            return false;
        }
        if (got == sizeof(tail) && event_tail_decode(tail, size, &copy)) {
            size_t len = (size_t)(size - copy.end);
            if (disk_read(file, copy.end, scratch, len, &got, problem) != STORAGE_OK) {
                return false;
            }
            if (event_footer_decode(slice_make(scratch, got), &copy, out)) {
                return true;
            }
        }
    }
    return event_files_scan(&copy, file, scratch, out, problem);
}
