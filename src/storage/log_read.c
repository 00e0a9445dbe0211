/* Reads entries, for followers that lag and at the start. Checks every record again, so that new
 * damage does not reach a follower. */
#include <inttypes.h>

#include "storage/log_state.h"

enum { WINDOW = 128 << 10 };

/* Iterates over live entries. Has its own window, since a write may use the log's buffer. */
struct cursor {
    struct log *log;
    size_t mark;
    const struct log_segment *segment;
    uint32_t offset; /* of the next record */
    uint64_t index;  /* of the next entry */
    uint8_t *window;
    size_t window_size;
    uint32_t window_offset;
    uint32_t window_len;
};

static void jump(struct cursor *cursor, size_t mark)
{
    const struct log_mark *to = &cursor->log->marks[mark];
    cursor->mark = mark;
    cursor->segment = log_segment_by_number(cursor->log, to->segment);
    hf_assert(cursor->segment != NULL && cursor->index == to->index);
    cursor->offset = to->offset;
    cursor->window_len = 0;
}

/* The next `len` bytes, from the window or the disk. */
static enum storage_status look(struct cursor *cursor, size_t len, const uint8_t **bytes,
                                struct problem *problem)
{
    uint32_t skip = cursor->offset - cursor->window_offset;
    if (cursor->window_len < skip || cursor->window_len - skip < len) {
        uint32_t left = cursor->segment->size - cursor->offset;
        size_t want = len > WINDOW ? len : WINDOW;
        want = want > left ? left : want;
        if (want > cursor->window_size) {
            cursor->window =
                memory_grow(memory_system(), cursor->window, cursor->window_size, want);
            cursor->window_size = want;
        }
        enum storage_status status =
            disk_read_all(cursor->segment->file, cursor->offset, cursor->window, want, problem);
        if (status != STORAGE_OK) {
            return status;
        }
        cursor->window_offset = cursor->offset;
        cursor->window_len = (uint32_t)want;
        skip = 0;
    }
    *bytes = cursor->window + skip;
    return STORAGE_OK;
}

static enum storage_status damaged(const struct cursor *cursor, struct problem *problem)
{
    return problem_set(problem, STORAGE_CORRUPT,
                       "%s is damaged at offset %" PRIu32 " (index %" PRIu64
                       "): it was sound when it was written or opened; the disk is not to be "
                       "trusted",
                       cursor->segment->file->name, cursor->offset, cursor->index);
}

/* The payload is valid until the next call. */
static enum storage_status next_entry(struct cursor *cursor, struct log_record *record,
                                      struct problem *problem)
{
    struct log *log = cursor->log;
    if (cursor->mark + 1 < log->mark_count && log->marks[cursor->mark + 1].index == cursor->index) {
        jump(cursor, cursor->mark + 1);
    }
    do {
        const uint8_t *bytes;
        if (cursor->segment->tail - cursor->offset < LOG_RECORD) {
            return damaged(cursor, problem);
        }
        enum storage_status status = look(cursor, LOG_RECORD, &bytes, problem);
        size_t size = status == STORAGE_OK ? log_record_peek(cursor->segment, bytes) : 0;
        if (status == STORAGE_OK && (size == 0 || size > cursor->segment->tail - cursor->offset)) {
            return damaged(cursor, problem);
        }
        if (status == STORAGE_OK) {
            status = look(cursor, size, &bytes, problem);
        }
        if (status != STORAGE_OK) {
            return status;
        }
        if (!log_record_decode(cursor->segment, bytes, size, record) ||
            (record->kind == LOG_ENTRY && record->index != cursor->index)) {
            return damaged(cursor, problem);
        }
        cursor->offset += record->size;
    } while (record->kind != LOG_ENTRY);
    cursor->index++;
    return STORAGE_OK;
}

static enum storage_status seek(struct cursor *cursor, struct log *log, uint64_t index,
                                struct problem *problem)
{
    size_t mark = log_mark_of(log, index);
    *cursor = (struct cursor){.log = log, .index = log->marks[mark].index};
    jump(cursor, mark);
    enum storage_status status = STORAGE_OK;
    struct log_record passed;
    while (status == STORAGE_OK && cursor->index < index) {
        status = next_entry(cursor, &passed, problem);
    }
    return status;
}

static void end(struct cursor *cursor)
{
    if (cursor->window_size > 0) {
        memory_free(memory_system(), cursor->window, cursor->window_size);
    }
}

/* ---- collecting ---- */

/* Entries collected before their total size is known. */
struct gather {
    struct log_entry *entries;
    size_t count;
    size_t capacity;
    uint8_t *bytes;
    size_t used;
    size_t size;
};

static void gather_add(struct gather *gather, const struct log_record *record)
{
    const struct memory *memory = memory_system();
    size_t len = record->payload.len;
    if (gather->count == gather->capacity) {
        size_t capacity = gather->capacity == 0 ? 16 : 2 * gather->capacity;
        gather->entries =
            memory_grow(memory, gather->entries, gather->capacity * sizeof(*gather->entries),
                        capacity * sizeof(*gather->entries));
        gather->capacity = capacity;
    }
    if (gather->size - gather->used < len) {
        size_t size = gather->size + (gather->size > len ? gather->size : len) + 4096;
        gather->bytes = memory_grow(memory, gather->bytes, gather->size, size);
        gather->size = size;
    }
    if (len > 0) {
        memcpy(gather->bytes + gather->used, record->payload.data, len);
    }
    gather->used += len;
    gather->entries[gather->count++] = (struct log_entry){
        .term = record->term, .type = record->type, .data = slice_make(NULL, len)};
}

static void gather_free(struct gather *gather)
{
    if (gather->capacity > 0) {
        memory_free(memory_system(), gather->entries, gather->capacity * sizeof(*gather->entries));
    }
    if (gather->size > 0) {
        memory_free(memory_system(), gather->bytes, gather->size);
    }
}

static struct log_piece gather_pack(const struct gather *gather, uint64_t first)
{
    size_t list_size = gather->count * sizeof(*gather->entries);
    struct log_piece piece = {
        .first = first, .count = gather->count, .block_size = list_size + gather->used};
    uint8_t *block = memory_alloc(memory_system(), piece.block_size);
    piece.entries = (struct log_entry *)(void *)block;
    memcpy(block, gather->entries, list_size);
    uint8_t *data = block + list_size;
    if (gather->used > 0) {
        memcpy(data, gather->bytes, gather->used);
    }
    for (size_t i = 0; i < piece.count; i++) {
        piece.entries[i].data.data = data;
        data += piece.entries[i].data.len;
    }
    return piece;
}

enum storage_status log_read(struct log *log, uint64_t index, uint64_t last, size_t max_bytes,
                             struct log_piece *out, struct problem *problem)
{
    hf_assert(index >= log->first && index <= log->last && index <= last);
    last = last > log->last ? log->last : last;
    struct cursor cursor;
    struct gather gather = {0};
    enum storage_status status = seek(&cursor, log, index, problem);
    while (status == STORAGE_OK && cursor.index <= last) {
        struct log_record record;
        status = next_entry(&cursor, &record, problem);
        if (status == STORAGE_OK && gather.count > 0 &&
            gather.used + record.payload.len > max_bytes) {
            break;
        }
        if (status == STORAGE_OK) {
            gather_add(&gather, &record);
        }
    }
    if (status == STORAGE_OK) {
        *out = gather_pack(&gather, index);
    }
    gather_free(&gather);
    end(&cursor);
    return status;
}

enum storage_status log_read_beside(struct log *log, uint64_t index, size_t max_bytes,
                                    struct log_piece *out, struct problem *problem)
{
    log_lock(log);
    enum storage_status status = STORAGE_MISSING;
    if (index >= log->first && index <= log->last) {
        status = log_read(log, index, log->last, max_bytes, out, problem);
    }
    log_unlock(log);
    return status;
}

void log_piece_free(struct log_piece *piece)
{
    if (piece->block_size > 0) {
        memory_free(memory_system(), piece->entries, piece->block_size);
    }
    *piece = (struct log_piece){0};
}

enum storage_status log_term(struct log *log, uint64_t index, uint64_t *term,
                             struct problem *problem)
{
    hf_assert(index >= log->first && index <= log->last);
    struct cursor cursor;
    struct log_record record;
    enum storage_status status = seek(&cursor, log, index, problem);
    if (status == STORAGE_OK) {
        status = next_entry(&cursor, &record, problem);
    }
    if (status == STORAGE_OK) {
        *term = record.term;
    }
    end(&cursor);
    return status;
}
