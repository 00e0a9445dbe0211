/* Finding the segments of a log in the folder, and their order.
 *
 * Each header names the segment that it follows. Numbers only rise, but have holes: a segment that
 * was copied at opening (log_open.c) is replaced by one that follows the same segment and has a
 * higher number. So the order is found by going back from the highest number, and whatever is not
 * met on the way must be a leftover: replaced by one that was met, or behind one that was. If it is
 * neither, a file between them is missing.
 *
 * The oldest segment may follow one that is not there: that one was dropped. Whether it was dropped
 * rightly the store sees, which knows up to where its snapshot goes. */
#include <stdlib.h>

#include "storage/log_state.h"

static void visit_name(void *ctx, const char *name)
{
    struct log *log = ctx;
    uint64_t number;
    if (log_segment_number(name, "log", &number)) {
        log_segment_push(log, (struct log_segment){.number = number});
    } else if (log_segment_number(name, "spare", &number)) {
        log_spare_push(log, number);
    } else {
        return;
    }
    if (number >= log->next_number) {
        log->next_number = number + 1;
    }
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = ((const struct log_segment *)a)->number;
    uint64_t y = ((const struct log_segment *)b)->number;
    return x < y ? -1 : x > y;
}

static enum storage_status read_header(struct log *log, struct log_segment *segment,
                                       struct problem *problem)
{
    char name[LOG_NAME_MAX];
    log_segment_name(name, "log", segment->number);
    uint64_t size = 0;
    uint8_t page[LOG_PAGE];
    enum storage_status status = disk_open(log->disk, name, DISK_WRITE, &segment->file, problem);
    if (status == STORAGE_OK) {
        status = disk_size(segment->file, &size, problem);
    }
    if (status == STORAGE_OK) {
        status = disk_read_all(segment->file, 0, page, sizeof(page), problem);
    }
    if (status == STORAGE_OK) {
        status = log_segment_decode(segment, log->options.store, segment->number, name, page, size,
                                    problem);
    }
    if (status == STORAGE_CORRUPT) {
        problem_add(problem, STORAGE_ADVICE);
    }
    return status;
}

/* Whether another one took its place, or the place of one that it is behind. */
static bool is_replaced(const struct log *log, const struct log_segment *segment, const bool *met)
{
    for (size_t i = log->segment_count; i-- > 0;) {
        const struct log_segment *other = &log->segments[i];
        if (met[i] && other->follows == segment->follows && other->number > segment->number) {
            return true;
        }
        if (!met[i] && other->number == segment->follows && other->number < segment->number) {
            return is_replaced(log, other, met);
        }
    }
    return false;
}

/* Marks the segments that belong to the log and returns the oldest of them. */
static size_t go_back(const struct log *log, bool *met)
{
    size_t oldest = log->segment_count - 1;
    met[oldest] = true;
    for (size_t i = oldest; i-- > 0;) {
        if (log->segments[i].number == log->segments[oldest].follows) {
            met[i] = true;
            oldest = i;
        }
    }
    return oldest;
}

static enum storage_status missing(const struct log_segment *oldest, struct problem *problem)
{
    char name[LOG_NAME_MAX], next[LOG_NAME_MAX];
    log_segment_name(name, "log", oldest->follows);
    log_segment_name(next, "log", oldest->number);
    return problem_set(
        problem, STORAGE_CORRUPT,
        "%s is missing: %s goes on where it ends, and older segments are there" STORAGE_ADVICE,
        name, next);
}

static enum storage_status link_segments(struct log *log, struct log_leftovers *leftovers,
                                         bool *met, struct problem *problem)
{
    size_t oldest = go_back(log, met);
    for (size_t i = 0; i < log->segment_count; i++) {
        if (!met[i] && !is_replaced(log, &log->segments[i], met)) {
            return missing(&log->segments[oldest], problem);
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < log->segment_count; i++) {
        if (met[i]) {
            log->segments[kept++] = log->segments[i];
        } else {
            disk_close(log->segments[i].file);
            leftovers->list[leftovers->count++] = log->segments[i];
        }
    }
    log->segment_count = kept;
    return STORAGE_OK;
}

enum storage_status log_find_segments(struct log *log, struct log_leftovers *leftovers,
                                      struct problem *problem)
{
    enum storage_status status = disk_list(log->disk, visit_name, log, problem);
    if (status != STORAGE_OK || log->segment_count == 0) {
        return status;
    }
    qsort(log->segments, log->segment_count, sizeof(*log->segments), by_number);
    for (size_t i = 0; i < log->segment_count && status == STORAGE_OK; i++) {
        status = read_header(log, &log->segments[i], problem);
    }
    if (status != STORAGE_OK) {
        return status;
    }
    leftovers->capacity = log->segment_count;
    leftovers->list = memory_alloc(memory_system(), leftovers->capacity * sizeof(*leftovers->list));
    size_t met_size = log->segment_count * sizeof(bool);
    bool *met = memory_alloc(memory_system(), met_size);
    memset(met, 0, met_size);
    status = link_segments(log, leftovers, met, problem);
    memory_free(memory_system(), met, met_size);
    return status;
}
