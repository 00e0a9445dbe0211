/* Finds the segments of a log, and their order.
 *
 * Each header contains the number of the segment that it follows. Numbers rise, with gaps:
 * log_open.c copies a segment into one that follows the same segment. So the order is found by
 * walking back from the highest number. A segment that is not visited must be a leftover: a visited
 * one replaced it, or a segment before it. Otherwise a file is missing.
 *
 * The oldest segment may follow one that was dropped; the store checks that the snapshot covers
 * it. */
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

/* A visited segment replaced this one, or one before it. */
static bool is_replaced(const struct log *log, const struct log_segment *segment,
                        const bool *visited)
{
    for (size_t i = log->segment_count; i-- > 0;) {
        const struct log_segment *other = &log->segments[i];
        if (visited[i] && other->follows == segment->follows && other->number > segment->number) {
            return true;
        }
        if (!visited[i] && other->number == segment->follows && other->number < segment->number) {
            return is_replaced(log, other, visited);
        }
    }
    return false;
}

/* Marks the segments of the log and returns the oldest. */
static size_t walk_back(const struct log *log, bool *visited)
{
    size_t oldest = log->segment_count - 1;
    visited[oldest] = true;
    for (size_t i = oldest; i-- > 0;) {
        if (log->segments[i].number == log->segments[oldest].follows) {
            visited[i] = true;
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
                                         bool *visited, struct problem *problem)
{
    size_t oldest = walk_back(log, visited);
    for (size_t i = 0; i < log->segment_count; i++) {
        if (!visited[i] && !is_replaced(log, &log->segments[i], visited)) {
            return missing(&log->segments[oldest], problem);
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < log->segment_count; i++) {
        if (visited[i]) {
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
    size_t visited_size = log->segment_count * sizeof(bool);
    bool *visited = memory_alloc(memory_system(), visited_size);
    memset(visited, 0, visited_size);
    status = link_segments(log, leftovers, visited, problem);
    memory_free(memory_system(), visited, visited_size);
    return status;
}
