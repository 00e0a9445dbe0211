/* Appends by direct writes of the caller: the records of log_append, in whole blocks. Only for a
 * batch that fits into the active segment.
 *
 * The first block begins with durable records. They are written again unchanged, so a power cut
 * cannot harm them (storage/disk.h). The last block is filled with zeros: the bytes there are no
 * part of the log.
 *
 * The write is built in memory that a forked child does not get (MADV_DONTFORK). Otherwise the next
 * batch would have to copy each page that the snapshot child shares. */
#define _GNU_SOURCE

#include <sys/mman.h>

#include "base/limits.h"
#include "storage/log_state.h"

bool log_is_direct(const struct log *log)
{
    return log->options.direct && log->direct != NULL;
}

void log_direct_free(struct log *log)
{
    if (log->direct != NULL) {
        munmap(log->direct, LOG_DIRECT_BYTES);
        log->direct = NULL;
    }
}

static bool make_buffer(struct log *log)
{
    if (log->direct == NULL) {
        void *pages = mmap(NULL, LOG_DIRECT_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) {
            return false;
        }
        (void)madvise(pages, LOG_DIRECT_BYTES, MADV_DONTFORK); /* only avoids copies */
        log->direct = pages;
    }
    return true;
}

void log_direct_prepare(struct log *log)
{
    struct log_segment *segment = &log->segments[log->active];
    if (!log->options.direct || segment->direct) {
        return;
    }
    segment->direct = disk_direct_prepare(segment->file) && make_buffer(log);
    if (!segment->direct) { /* valid for all segments: they are in one folder */
        log->options.direct = false;
        log_direct_free(log);
    }
}

bool log_begin(struct log *log, uint64_t first, const struct log_entry *entries, size_t count,
               struct log_write *out)
{
    hf_assert(count > 0 && first >= log->first && first <= log->last + 1);
    hf_assert(first + count <= LIMIT_NUMBER && log->begun == 0);
    const struct log_segment *segment = &log->segments[log->active];
    struct log_batch batch = {first, entries, count};
    uint32_t used = segment->tail % DISK_BLOCK;
    size_t bytes;
    if (!log->options.direct || !segment->direct || log->broken.status != STORAGE_OK ||
        log_batch_fit(&batch, 0, segment->tail, segment->size, &bytes) < count ||
        used + bytes > LOG_DIRECT_BYTES) {
        return false;
    }
    size_t len = (used + bytes + DISK_BLOCK - 1) / DISK_BLOCK * DISK_BLOCK;
    memcpy(log->direct, log->tail_block, used);
    log_batch_encode(log, &batch, 0, count, false, log->direct + used);
    memset(log->direct + used + bytes, 0, len - used - bytes);
    log->begun = bytes;
    *out = (struct log_write){
        .file = segment->file, .offset = segment->tail - used, .bytes = log->direct, .len = len};
    return true;
}

void log_end(struct log *log, enum disk_direct how, const struct problem *problem)
{
    const struct log_segment *segment = &log->segments[log->active];
    size_t bytes = log->begun;
    hf_assert(bytes > 0 && how != DISK_DIRECT_WAITS);
    log->begun = 0;
    if (how == DISK_DIRECT_DONE) {
        log_apply_all(log, log->direct + segment->tail % DISK_BLOCK, bytes, false);
    } else if (how == DISK_DIRECT_FAILED) {
        (void)log_fail(log, STORAGE_IO, problem);
    } else if (how == DISK_DIRECT_NEVER) {
        log->options.direct = false;
    }
}
