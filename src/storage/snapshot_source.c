/* Reads a snapshot block by block, to load or to send it. Each block is checked before it is
 * returned. */
#include <string.h>

#include "storage/snapshots_state.h"

struct snapshot_source {
    struct snapshots *snapshots; /* NULL: a single file */
    struct disk_file *file;
    uint64_t index;
    uint64_t term;
    uint64_t bytes;
    uint64_t from; /* bytes before it are not returned */
    struct snapshot_check check;
    uint8_t *buffer;
    size_t buffer_size;
    uint8_t *configuration; /* of a single file: outlives the buffer */
    size_t configuration_len;
};

enum storage_status snapshot_source_open(struct snapshots *snapshots, uint64_t index, uint64_t term,
                                         struct snapshot_source **out, struct problem *problem)
{
    char name[SNAPSHOT_NAME_MAX];
    snapshot_name(name, index, term);
    struct disk_file *file;
    uint64_t bytes = 0;
    enum storage_status status = disk_open(snapshots->disk, name, DISK_READ, &file, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    status = disk_size(file, &bytes, problem);
    if (status != STORAGE_OK || !snapshots_pin(snapshots, index, term)) {
        disk_close(file);
        return status != STORAGE_OK
                   ? status
                   : problem_set(problem, STORAGE_MISSING, "there is no %s any more", name);
    }
    struct snapshot_source *source = memory_alloc(memory_system(), sizeof(*source));
    *source = (struct snapshot_source){.snapshots = snapshots,
                                       .file = file,
                                       .index = index,
                                       .term = term,
                                       .bytes = bytes,
                                       .check = {.name = file->name}};
    *out = source;
    return STORAGE_OK;
}

void snapshot_source_close(struct snapshot_source *source)
{
    if (source == NULL) {
        return;
    }
    if (source->snapshots != NULL) {
        snapshots_unpin(source->snapshots, source->index, source->term);
    }
    if (source->configuration_len > 0) {
        memory_free(memory_system(), source->configuration, source->configuration_len);
    }
    disk_close(source->file);
    if (source->buffer_size > 0) {
        memory_free(memory_system(), source->buffer, source->buffer_size);
    }
    memory_free(memory_system(), source, sizeof(*source));
}

uint64_t snapshot_source_bytes(const struct snapshot_source *source)
{
    return source->bytes;
}

/* ---- pieces ---- */

static void grow(struct snapshot_source *source, size_t size)
{
    if (size > source->buffer_size) {
        source->buffer = memory_grow(memory_system(), source->buffer, source->buffer_size, size);
        source->buffer_size = size;
    }
}

static enum storage_status read_piece(struct snapshot_source *source, struct slice *raw,
                                      struct slice *body, struct snapshot_info *info,
                                      struct problem *problem)
{
    struct snapshot_check *check = &source->check;
    size_t have = 0, need;
    while ((need = snapshot_check_need(check, source->buffer, have)) > have) {
        grow(source, need);
        enum storage_status status = disk_read_all(source->file, check->offset + have,
                                                   source->buffer + have, need - have, problem);
        if (status != STORAGE_OK) {
            return status;
        }
        have = need;
    }
    enum storage_status status =
        snapshot_check_piece(check, source->buffer, have, body, info, problem);
    if (status == STORAGE_OK && check->done && check->offset != source->bytes) {
        return problem_set(problem, STORAGE_CORRUPT, "%s is damaged: it goes on behind its end",
                           check->name);
    }
    *raw = slice_make(source->buffer, have);
    return status;
}

/* Seeks to the block that contains source->from. Of the blocks before it only the checksum of the
 * last one is needed, as the seed of the next. */
static enum storage_status skip_blocks(struct snapshot_source *source, struct problem *problem)
{
    struct snapshot_check *check = &source->check;
    uint64_t stride = SNAPSHOT_BLOCK + (uint64_t)check->block_bytes;
    uint64_t blocks = (source->from - check->offset) / stride;
    if (blocks == 0) {
        return STORAGE_OK;
    }
    uint8_t checksum[8];
    enum storage_status status = disk_read_all(source->file, check->offset + (blocks - 1) * stride,
                                               checksum, sizeof(checksum), problem);
    if (status == STORAGE_OK) {
        check->chain = get_u64(checksum);
        check->offset += blocks * stride;
        check->blocks = blocks;
        check->body_bytes = blocks * check->block_bytes;
    }
    return status;
}

enum storage_status snapshot_source_next(struct snapshot_source *source,
                                         struct snapshot_piece *piece, struct problem *problem)
{
    struct snapshot_check *check = &source->check;
    struct slice raw, body;
    uint64_t start;
    hf_assert(!check->done);
    do {
        start = check->offset;
        enum storage_status status = read_piece(source, &raw, &body, NULL, problem);
        if (status == STORAGE_OK && start == 0 && source->from > check->offset) {
            status = skip_blocks(source, problem);
        }
        if (status != STORAGE_OK) {
            return status;
        }
    } while (start + raw.len <= source->from);
    if (start < source->from) {
        size_t cut = (size_t)(source->from - start);
        raw = slice_make(raw.data + cut, raw.len - cut);
        body = slice_make(NULL, 0);
        start = source->from;
    }
    *piece =
        (struct snapshot_piece){.raw = raw, .body = body, .offset = start, .last = check->done};
    return STORAGE_OK;
}

enum storage_status snapshot_source_read(struct snapshot_source *source, uint64_t offset, void *to,
                                         size_t len, struct problem *problem)
{
    hf_assert(source->check.offset == 0 && offset <= source->bytes &&
              len <= source->bytes - offset);
    return disk_read_all(source->file, offset, to, len, problem);
}

enum storage_status snapshot_source_open_file(struct disk *disk, const char *name,
                                              struct snapshot_source **out,
                                              struct snapshot_info *info, struct problem *problem)
{
    struct disk_file *file;
    struct slice raw, body;
    enum storage_status status = disk_open(disk, name, DISK_READ, &file, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    struct snapshot_source *source = memory_alloc(memory_system(), sizeof(*source));
    *source = (struct snapshot_source){.file = file, .check = {.name = file->name}};
    struct snapshot_info found = {.index = 0};
    status = disk_size(file, &source->bytes, problem);
    if (status == STORAGE_OK) {
        status = read_piece(source, &raw, &body, &found, problem);
    }
    if (status != STORAGE_OK) {
        snapshot_source_close(source);
        return status;
    }
    if (found.configuration.len > 0) {
        source->configuration_len = found.configuration.len;
        source->configuration = memory_alloc(memory_system(), source->configuration_len);
        memcpy(source->configuration, found.configuration.data, source->configuration_len);
    }
    found.configuration = slice_make(source->configuration, source->configuration_len);
    *info = found;
    *out = source;
    return STORAGE_OK;
}

bool snapshot_source_skip(struct snapshot_source *source, uint64_t offset)
{
    hf_assert(source->check.offset == 0);
    if (offset >= source->bytes) {
        return false;
    }
    source->from = offset;
    return true;
}
