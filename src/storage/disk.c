/* Functions that are built on the operations of any disk. */
#include "storage/disk.h"

#include <inttypes.h>
#include <stdio.h>

enum storage_status disk_read_all(struct disk_file *file, uint64_t offset, void *data, size_t len,
                                  struct problem *problem)
{
    size_t got = 0;
    enum storage_status status = disk_read(file, offset, data, len, &got, problem);
    if (status == STORAGE_OK && got < len) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "%s is cut off: it ends at byte %" PRIu64 ", at least %" PRIu64
                           " were expected",
                           file->name, offset + got, offset + len);
    }
    return status;
}

enum storage_status disk_rename_file(struct disk *disk, struct disk_file *file, const char *to,
                                     struct problem *problem)
{
    enum storage_status status = disk_rename(disk, file->name, to, problem);
    if (status == STORAGE_OK) {
        snprintf(file->name, sizeof(file->name), "%s", to);
    }
    return status;
}

enum storage_status disk_remove(struct disk *disk, const char *name, struct problem *problem)
{
    struct problem ignored;
    enum storage_status status = disk_unlink(disk, name, &ignored);
    if (status != STORAGE_OK && status != STORAGE_MISSING) {
        *problem = ignored;
        return status;
    }
    return STORAGE_OK;
}
