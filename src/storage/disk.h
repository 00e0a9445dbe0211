/* The interface between storage/ and the disk. disk_posix.c is the real one; tests and the
 * simulator use tests/support/disk_fake.h.
 *
 * A disk is one folder: names contain no slash. Calls block, and promise what POSIX promises:
 *
 *   - A write is visible to later reads at once, but survives a power cut only after a successful
 *     `sync` of that file. Until then, also after a crash of the process or a failed write, each of
 *     its sectors (512 bytes) is written or not, in any order. Bytes of a sector that a write does
 *     not change keep their value (SQLite: power-safe overwrite).
 *   - A created, replaced or removed name is durable only after `sync_folder`. Until then each such
 *     change has happened completely or not at all, independently of the others.
 *   - After a failed `sync` the content is unknown, and a later successful one proves nothing. So
 *     log and meta file refuse further writes (STORAGE_IO).
 *
 * Direct writes, if supported, are whole blocks that bypass the kernel's cache, are durable when
 * they complete, and block no thread. Only the log uses them.
 *
 * The code that opens a file closes it with disk_close, also after an error. Several threads may
 * use a disk at once if each file is used by one of them. */
#ifndef HOLDFAST_STORAGE_DISK_H
#define HOLDFAST_STORAGE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/problem.h"

enum {
    DISK_NAME_MAX = 63,
    DISK_BLOCK = 4096, /* offset, length and address of direct writes are multiples of it */
};

enum disk_mode {
    DISK_READ,   /* an existing file, read only */
    DISK_WRITE,  /* an existing file, read and write */
    DISK_CREATE, /* a new file, read and write; STORAGE_EXISTS when it exists */
};

/* The state of a direct write. */
enum disk_direct {
    DISK_DIRECT_WAITS,  /* in flight */
    DISK_DIRECT_DONE,   /* all of it is durable */
    DISK_DIRECT_AGAIN,  /* not done, or in part: write the same bytes with disk_write and
                           disk_sync */
    DISK_DIRECT_NEVER,  /* the same; and do not try direct writes again */
    DISK_DIRECT_FAILED, /* the content on the disk is unknown, as after a failed sync */
};

struct disk;
struct disk_file;

typedef void (*disk_visit_fn)(void *ctx, const char *name);

struct disk_ops {
    enum storage_status (*list)(struct disk *disk, disk_visit_fn visit, void *ctx,
                                struct problem *problem);
    enum storage_status (*open)(struct disk *disk, const char *name, enum disk_mode mode,
                                struct disk_file **out, struct problem *problem);
    enum storage_status (*rename)(struct disk *disk, const char *from, const char *to,
                                  struct problem *problem);
    enum storage_status (*unlink)(struct disk *disk, const char *name, struct problem *problem);
    enum storage_status (*sync_folder)(struct disk *disk, struct problem *problem);
    enum storage_status (*lock)(struct disk *disk, const char *name, struct disk_file **out,
                                struct problem *problem);
    enum storage_status (*space)(struct disk *disk, uint64_t *bytes, struct problem *problem);

    enum storage_status (*read)(struct disk_file *file, uint64_t offset, void *data, size_t len,
                                size_t *got, struct problem *problem);
    enum storage_status (*write)(struct disk_file *file, uint64_t offset, const void *data,
                                 size_t len, struct problem *problem);
    enum storage_status (*sync)(struct disk_file *file, struct problem *problem);
    enum storage_status (*size)(struct disk_file *file, uint64_t *bytes, struct problem *problem);
    enum storage_status (*truncate)(struct disk_file *file, uint64_t bytes,
                                    struct problem *problem);
    void (*close)(struct disk_file *file);

    /* NULL: the disk does not support direct writes. */
    bool (*direct_prepare)(struct disk_file *file);
    enum disk_direct (*direct_begin)(struct disk_file *file, uint64_t offset, const void *data,
                                     size_t len, int event_fd);
    enum disk_direct (*direct_end)(struct disk_file *file, bool wait, struct problem *problem);
};

/* The first member of an implementation's own struct; so is struct disk_file. */
struct disk {
    const struct disk_ops *ops;
};

struct disk_file {
    const struct disk_ops *ops;
    char name[DISK_NAME_MAX + 1]; /* for the texts of problems, see disk_rename_file */
};

/* In any order; `visit` must not change the folder. */
static inline enum storage_status disk_list(struct disk *disk, disk_visit_fn visit, void *ctx,
                                            struct problem *problem)
{
    return disk->ops->list(disk, visit, ctx, problem);
}

static inline enum storage_status disk_open(struct disk *disk, const char *name,
                                            enum disk_mode mode, struct disk_file **out,
                                            struct problem *problem)
{
    return disk->ops->open(disk, name, mode, out, problem);
}

/* Replaces `to` if it exists. */
static inline enum storage_status disk_rename(struct disk *disk, const char *from, const char *to,
                                              struct problem *problem)
{
    return disk->ops->rename(disk, from, to, problem);
}

/* An open file stays readable until it is closed. */
static inline enum storage_status disk_unlink(struct disk *disk, const char *name,
                                              struct problem *problem)
{
    return disk->ops->unlink(disk, name, problem);
}

static inline enum storage_status disk_sync_folder(struct disk *disk, struct problem *problem)
{
    return disk->ops->sync_folder(disk, problem);
}

/* Creates the file if needed and locks it until it is closed or the process ends. STORAGE_LOCKED:
 * another process has the lock. */
static inline enum storage_status disk_lock(struct disk *disk, const char *name,
                                            struct disk_file **out, struct problem *problem)
{
    return disk->ops->lock(disk, name, out, problem);
}

/* Free space in bytes. */
static inline enum storage_status disk_space(struct disk *disk, uint64_t *bytes,
                                             struct problem *problem)
{
    return disk->ops->space(disk, bytes, problem);
}

/* `*got` is less than `len` only at the end of the file. */
static inline enum storage_status disk_read(struct disk_file *file, uint64_t offset, void *data,
                                            size_t len, size_t *got, struct problem *problem)
{
    return file->ops->read(file, offset, data, len, got, problem);
}

/* After an error any part may have been written. Neither this nor disk_sync allocates or takes a
 * lock, since the snapshot child calls them (S12.5). */
static inline enum storage_status disk_write(struct disk_file *file, uint64_t offset,
                                             const void *data, size_t len, struct problem *problem)
{
    return file->ops->write(file, offset, data, len, problem);
}

/* Syncs data and size, not the name: fdatasync(2). */
static inline enum storage_status disk_sync(struct disk_file *file, struct problem *problem)
{
    return file->ops->sync(file, problem);
}

static inline enum storage_status disk_size(struct disk_file *file, uint64_t *bytes,
                                            struct problem *problem)
{
    return file->ops->size(file, bytes, problem);
}

static inline enum storage_status disk_truncate(struct disk_file *file, uint64_t bytes,
                                                struct problem *problem)
{
    return file->ops->truncate(file, bytes, problem);
}

/* Takes NULL. */
static inline void disk_close(struct disk_file *file)
{
    if (file != NULL) {
        file->ops->close(file);
    }
}

/* Whether the file can be written directly. It must be open for writing and have its final size.
 * May block, as an open does. */
static inline bool disk_direct_prepare(struct disk_file *file)
{
    return file->ops->direct_prepare != NULL && file->ops->direct_prepare(file);
}

/* Starts a write to a prepared file, one at a time for the whole disk. DISK_DIRECT_WAITS: the bytes
 * must not change until disk_direct_end returns another state; `event_fd`, an eventfd(2), becomes
 * readable then. */
static inline enum disk_direct disk_direct_begin(struct disk_file *file, uint64_t offset,
                                                 const void *data, size_t len, int event_fd)
{
    return file->ops->direct_begin(file, offset, data, len, event_fd);
}

/* The state of the write. Without `wait` it may be DISK_DIRECT_WAITS. */
static inline enum disk_direct disk_direct_end(struct disk_file *file, bool wait,
                                               struct problem *problem)
{
    return file->ops->direct_end(file, wait, problem);
}

/* Exactly `len` bytes. STORAGE_CORRUPT, with the size in its text, when the file is shorter. */
enum storage_status disk_read_all(struct disk_file *file, uint64_t offset, void *data, size_t len,
                                  struct problem *problem);

/* Renames an open file, so that later problems name it correctly. */
enum storage_status disk_rename_file(struct disk *disk, struct disk_file *file, const char *to,
                                     struct problem *problem);

/* Succeeds also when the file does not exist. */
enum storage_status disk_remove(struct disk *disk, const char *name, struct problem *problem);

#endif
