/* An append by the two halves of storage/log.h and a write between them that is made at once, as
 * the kernel would make it: for tests on a disk in memory, and for the simulator. */
#ifndef HOLDFAST_TESTS_APPEND_DIRECTLY_H
#define HOLDFAST_TESTS_APPEND_DIRECTLY_H

#include "storage/log.h"

static inline enum storage_status append_directly(struct log *log, uint64_t first,
                                                  const struct log_entry *entries, size_t count,
                                                  struct problem *problem)
{
    struct log_write write;
    if (!log_begin(log, first, entries, count, &write)) {
        return log_append(log, first, entries, count, problem);
    }
    enum storage_status status =
        disk_write(write.file, write.offset, write.bytes, write.len, problem);
    if (status == STORAGE_OK) {
        status = disk_sync(write.file, problem);
    }
    if (status == STORAGE_FULL) { /* as disk_direct.c has it */
        log_end(log, DISK_DIRECT_AGAIN, problem);
        return log_append(log, first, entries, count, problem);
    }
    log_end(log, status == STORAGE_OK ? DISK_DIRECT_DONE : DISK_DIRECT_FAILED, problem);
    return status;
}

#endif
