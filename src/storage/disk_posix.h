/* The real disk: a folder of the file system, with blocking calls. */
#ifndef HOLDFAST_STORAGE_DISK_POSIX_H
#define HOLDFAST_STORAGE_DISK_POSIX_H

#include "storage/disk.h"

/* Opens the folder, or creates it (mode 0700, its name synced); the parent must exist. Freed with
 * disk_posix_free. */
enum storage_status disk_posix_new(const char *path, struct disk **out, struct problem *problem);
void disk_posix_free(struct disk *disk);

/* For the snapshot child, which closes all others (S12.5). */
int disk_posix_descriptor(const struct disk_file *file);

#endif
