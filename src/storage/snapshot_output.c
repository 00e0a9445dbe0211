/* Takes a snapshot. The parent creates file and buffer. A forked child fills them: it allocates
 * nothing, and only writes and syncs that file (S12.5). The parent does not see the child's
 * counters, so it reads the size from the file. */
#include <inttypes.h>

#include "storage/snapshots_state.h"

struct snapshot_output {
    struct snapshots *snapshots;
    struct disk_file *file;
    uint64_t index;
    uint64_t term;
    uint64_t offset; /* of the next block */
    uint64_t chain;
    uint64_t body_bytes;
    uint64_t blocks;
    uint64_t unsynced;
    uint32_t block_bytes;
    uint32_t used; /* of the current block */
    size_t buffer_size;
    uint8_t *buffer; /* SNAPSHOT_BLOCK bytes, then the bytes of the block */
};

static void output_free(struct snapshot_output *output)
{
    disk_close(output->file);
    if (output->buffer_size > 0) {
        memory_free(memory_system(), output->buffer, output->buffer_size);
    }
    memory_free(memory_system(), output, sizeof(*output));
}

static enum storage_status write_header(struct snapshot_output *output,
                                        const struct snapshot_info *info, struct problem *problem)
{
    size_t size = snapshot_header_size(info->configuration.len);
    uint8_t *header = memory_alloc(memory_system(), size);
    output->chain = snapshot_encode_header(info, output->block_bytes, header);
    enum storage_status status = disk_write(output->file, 0, header, size, problem);
    memory_free(memory_system(), header, size);
    output->offset = size;
    return status;
}

enum storage_status snapshot_output_begin(struct snapshots *snapshots,
                                          const struct snapshot_info *info, uint32_t block_bytes,
                                          struct snapshot_output **out, struct problem *problem)
{
    block_bytes = block_bytes == 0 ? SNAPSHOT_BLOCK_BYTES : block_bytes;
    hf_assert(block_bytes >= SNAPSHOT_BLOCK_MIN && block_bytes <= SNAPSHOT_BLOCK_MAX);
    hf_assert(info->configuration.len <= SNAPSHOT_CONFIGURATION_MAX);
    struct snapshot_output *output = memory_alloc(memory_system(), sizeof(*output));
    *output = (struct snapshot_output){.snapshots = snapshots,
                                       .index = info->index,
                                       .term = info->term,
                                       .block_bytes = block_bytes,
                                       .buffer_size = SNAPSHOT_BLOCK + (size_t)block_bytes};
    output->buffer = memory_alloc(memory_system(), output->buffer_size);
    enum storage_status status = disk_remove(snapshots->disk, SNAPSHOT_TEMPORARY, problem);
    if (status == STORAGE_OK) {
        status =
            disk_open(snapshots->disk, SNAPSHOT_TEMPORARY, DISK_CREATE, &output->file, problem);
    }
    if (status == STORAGE_OK) {
        status = write_header(output, info, problem);
    }
    if (status != STORAGE_OK) {
        output_free(output);
        return status;
    }
    *out = output;
    return STORAGE_OK;
}

struct disk_file *snapshot_output_file(const struct snapshot_output *output)
{
    return output->file;
}

/* ---- in the child ---- */

static enum storage_status write_block(struct snapshot_output *output, enum snapshot_kind kind,
                                       uint32_t len, struct problem *problem)
{
    output->chain = snapshot_encode_block(output->chain, kind, len, output->buffer);
    size_t size = SNAPSHOT_BLOCK + (size_t)len;
    enum storage_status status =
        disk_write(output->file, output->offset, output->buffer, size, problem);
    output->offset += size;
    output->unsynced += size;
    /* So that the log's syncs do not wait for all of it at once. */
    if (status == STORAGE_OK &&
        (output->unsynced >= SNAPSHOT_SYNC_BYTES || kind == SNAPSHOT_KIND_END)) {
        status = disk_sync(output->file, problem);
        output->unsynced = 0;
    }
    return status;
}

static enum storage_status write_body(struct snapshot_output *output, struct problem *problem)
{
    uint32_t len = output->used;
    output->used = 0;
    output->blocks++;
    output->body_bytes += len;
    return write_block(output, SNAPSHOT_KIND_BODY, len, problem);
}

enum storage_status snapshot_output_put(struct snapshot_output *output, const void *data,
                                        size_t len, struct problem *problem)
{
    const uint8_t *from = data;
    enum storage_status status = STORAGE_OK;
    while (len > 0 && status == STORAGE_OK) {
        size_t space = output->block_bytes - output->used;
        size_t n = len < space ? len : space;
        memcpy(output->buffer + SNAPSHOT_BLOCK + output->used, from, n);
        output->used += (uint32_t)n;
        from += n;
        len -= n;
        if (output->used == output->block_bytes) {
            status = write_body(output, problem);
        }
    }
    return status;
}

enum storage_status snapshot_output_finish(struct snapshot_output *output, struct problem *problem)
{
    enum storage_status status = output->used > 0 ? write_body(output, problem) : STORAGE_OK;
    if (status != STORAGE_OK) {
        return status;
    }
    put_u64(output->buffer + SNAPSHOT_BLOCK, output->body_bytes);
    put_u64(output->buffer + SNAPSHOT_BLOCK + 8, output->blocks);
    return write_block(output, SNAPSHOT_KIND_END, SNAPSHOT_END - SNAPSHOT_BLOCK, problem);
}

/* ---- in the parent ---- */

enum storage_status snapshot_output_commit(struct snapshot_output *output, struct problem *problem)
{
    enum storage_status status =
        snapshots_adopt(output->snapshots, output->file, output->index, output->term, problem);
    output_free(output);
    return status;
}

void snapshot_output_abort(struct snapshot_output *output)
{
    if (output == NULL) {
        return;
    }
    snapshots_discard(output->snapshots, output->file, SNAPSHOT_TEMPORARY);
    output->file = NULL;
    output_free(output);
}
