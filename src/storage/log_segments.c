/* The files of the log: made in advance, recycled, retired.
 *
 * The first sync of a block that was never written costs a second journal write. So a new segment
 * is filled with zeros and synced before it is used (S12.3). A recycled one needs no filling:
 * records of another life are not valid.
 *
 * After a power cut between two steps, the old or the new state is found:
 *
 *   make     content, sync, then the name, sync of the folder
 *   retire   oldest first, with a sync of the folder after each, so that no segment is gone while
 *            one before it exists. Only then may the file be written again
 *
 * A file that is not completely made is LOG_TEMPORARY or a spare, and is never read. */
#include "storage/log_state.h"

/* ---- spares ---- */

void log_spare_push(struct log *log, uint64_t number)
{
    if (log->spare_count == log->spare_capacity) {
        size_t capacity = log->spare_capacity == 0 ? 8 : 2 * log->spare_capacity;
        log->spares =
            memory_grow(memory_system(), log->spares, log->spare_capacity * sizeof(*log->spares),
                        capacity * sizeof(*log->spares));
        log->spare_capacity = capacity;
    }
    log->spares[log->spare_count++] = number;
}

/* Opens a spare of that size, removes those of another size. NULL: none. */
static enum storage_status take_spare(struct log *log, uint32_t size, struct disk_file **out,
                                      struct problem *problem)
{
    *out = NULL;
    while (log->spare_count > 0) {
        char name[LOG_NAME_MAX];
        log_segment_name(name, "spare", log->spares[log->spare_count - 1]);
        struct disk_file *file;
        uint64_t bytes = 0;
        enum storage_status status = disk_open(log->disk, name, DISK_WRITE, &file, problem);
        if (status != STORAGE_OK) {
            return status;
        }
        status = disk_size(file, &bytes, problem);
        if (status == STORAGE_OK && bytes == size) {
            log->spare_count--;
            *out = file;
            return STORAGE_OK;
        }
        disk_close(file);
        if (status == STORAGE_OK) {
            status = disk_unlink(log->disk, name, problem);
        }
        if (status != STORAGE_OK) {
            return status;
        }
        log->spare_count--;
    }
    return STORAGE_OK;
}

/* ---- new files ---- */

/* Can be continued after STORAGE_FULL. */
static enum storage_status fill_step(struct log *log, uint32_t size, struct problem *problem)
{
    static const uint8_t zeros[64 << 10];
    enum storage_status status = STORAGE_OK;
    if (log->filling == NULL) {
        log->filled = 0;
        status = disk_remove(log->disk, LOG_TEMPORARY, problem);
        if (status == STORAGE_OK) {
            status = disk_open(log->disk, LOG_TEMPORARY, DISK_CREATE, &log->filling, problem);
        }
        if (status != STORAGE_OK) {
            return status;
        }
    }
    uint32_t end = size - log->filled > LOG_FILL_STEP ? log->filled + LOG_FILL_STEP : size;
    for (uint32_t at = log->filled; at < end && status == STORAGE_OK;) {
        uint32_t len = end - at < sizeof(zeros) ? end - at : (uint32_t)sizeof(zeros);
        status = disk_write(log->filling, at, zeros, len, problem);
        at += len;
    }
    if (status == STORAGE_OK) {
        status = disk_sync(log->filling, problem);
    }
    if (status == STORAGE_OK) {
        log->filled = end;
    } else if (status != STORAGE_FULL) {
        disk_close(log->filling);
        log->filling = NULL;
        log->filled = 0;
    }
    return status;
}

static struct disk_file *take_filled(struct log *log)
{
    struct disk_file *file = log->filling;
    log->filling = NULL;
    log->filled = 0;
    return file;
}

enum storage_status log_segment_file(struct log *log, uint32_t size, struct disk_file **out,
                                     bool *blank, struct problem *problem)
{
    enum storage_status status = take_spare(log, size, out, problem);
    *blank = *out == NULL;
    if (status != STORAGE_OK || *out != NULL) {
        return status;
    }
    do {
        status = fill_step(log, size, problem);
    } while (status == STORAGE_OK && log->filled < size);
    if (status == STORAGE_OK) {
        *out = take_filled(log);
    }
    return status;
}

/* ---- from file to segment and back ---- */

/* After a rename, which cannot be undone: a full disk is an I/O error here. */
static enum storage_status sync_names(struct log *log, struct problem *problem)
{
    enum storage_status status = disk_sync_folder(log->disk, problem);
    return status == STORAGE_FULL ? (problem->status = STORAGE_IO) : status;
}

struct log_segment log_segment_plan(struct log *log, uint64_t follows, uint32_t size)
{
    struct log_segment segment = {
        .number = log->next_number++,
        .follows = follows,
        .life = log->options.life,
        .size = size,
        .sealed = LOG_PAGE,
        .tail = LOG_PAGE,
    };
    uint8_t page[LOG_PAGE];
    log_segment_encode(&segment, log->options.store, page);
    return segment;
}

enum storage_status log_segment_make(struct log *log, struct log_segment *segment,
                                     struct disk_file *file, uint8_t *image,
                                     struct problem *problem)
{
    char name[LOG_NAME_MAX];
    log_segment_name(name, "log", segment->number);
    segment->sealed = segment->tail;
    segment->file = file;
    log_segment_encode(segment, log->options.store, image);
    enum storage_status status = disk_write(file, 0, image, segment->tail, problem);
    if (status == STORAGE_OK) {
        status = disk_sync(file, problem);
    }
    if (status == STORAGE_OK) {
        status = disk_rename_file(log->disk, file, name, problem);
    }
    if (status == STORAGE_OK) {
        status = sync_names(log, problem);
    }
    if (status != STORAGE_OK) {
        disk_close(file);
        segment->file = NULL;
    }
    return status;
}

enum storage_status log_segment_retire(struct log *log, const struct log_segment *segment,
                                       struct problem *problem)
{
    char name[LOG_NAME_MAX], spare[LOG_NAME_MAX];
    log_segment_name(name, "log", segment->number);
    log_segment_name(spare, "spare", segment->number);
    bool keep =
        log->spare_count < log->options.spare_limit && segment->size == log->options.segment_bytes;
    enum storage_status status =
        keep ? disk_rename(log->disk, name, spare, problem) : disk_unlink(log->disk, name, problem);
    if (status == STORAGE_OK) {
        status = sync_names(log, problem);
    }
    if (status == STORAGE_OK && keep) {
        log_spare_push(log, segment->number);
    }
    return status;
}

/* ---- interface ---- */

static enum storage_status prepare(struct log *log, struct problem *problem)
{
    uint32_t size = log->options.segment_bytes;
    struct disk_file *file = NULL;
    enum storage_status status = take_spare(log, size, &file, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    bool blank = file == NULL;
    if (blank) {
        status = log->filled < size ? fill_step(log, size, problem) : STORAGE_OK;
        if (status != STORAGE_OK || log->filled < size) {
            return status;
        }
        file = take_filled(log);
    }
    uint64_t follows = log->segments[log->segment_count - 1].number;
    struct log_segment segment = log_segment_plan(log, follows, size);
    segment.blank = blank;
    uint8_t page[LOG_PAGE];
    status = log_segment_make(log, &segment, file, page, problem);
    if (status == STORAGE_OK) {
        log_lock(log);
        log_segment_push(log, segment);
        log_unlock(log);
    }
    return status;
}

bool log_wants_fill(struct log *log)
{
    log_lock(log);
    bool wants = log_wants_prepare(log);
    log_unlock(log);
    return wants && log->spare_count == 0 && log->filled < log->options.segment_bytes;
}

enum storage_status log_fill(struct log *log, struct problem *problem)
{
    return log_wants_fill(log) ? fill_step(log, log->options.segment_bytes, problem) : STORAGE_OK;
}

enum storage_status log_prepare_step(struct log *log, struct problem *problem)
{
    enum storage_status status = prepare(log, problem);
    return status == STORAGE_FULL ? status : log_fail(log, status, problem);
}

enum storage_status log_prepare(struct log *log, struct problem *problem)
{
    enum storage_status status = log_check_broken(log, problem);
    return status == STORAGE_OK && log_wants_prepare(log) ? log_prepare_step(log, problem) : status;
}

/* All entries of the oldest segment are before `index`, and a later segment has a record that
 * defines the position of the log. */
static bool may_drop(const struct log *log, uint64_t index)
{
    const struct log_segment *oldest = &log->segments[0];
    if (log->active == 0 || oldest->number >= log->position_segment) {
        return false;
    }
    for (size_t i = 0; i < log->mark_count; i++) {
        if (log->marks[i].segment > oldest->number) {
            return log->marks[i].index <= index;
        }
    }
    return log->last < index;
}

enum storage_status log_drop_before(struct log *log, uint64_t index, struct problem *problem)
{
    hf_assert(index <= log->last + 1);
    enum storage_status status = log_check_broken(log, problem);
    while (status == STORAGE_OK && may_drop(log, index)) {
        const struct log_segment *oldest = &log->segments[0];
        status = log_segment_retire(log, oldest, problem);
        if (status != STORAGE_OK) {
            return status == STORAGE_FULL ? status : log_fail(log, status, problem);
        }
        log_lock(log);
        size_t gone = 0;
        while (gone < log->mark_count && log->marks[gone].segment == oldest->number) {
            gone++;
        }
        log->mark_count -= gone;
        memmove(log->marks, log->marks + gone, log->mark_count * sizeof(*log->marks));
        log_segment_remove(log, 0);
        log->first = log->mark_count > 0 ? log->marks[0].index : log->last + 1;
        log_unlock(log);
    }
    return status;
}
