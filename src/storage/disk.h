/* The small interface between storage/ and the disk. disk_posix.c is the real one; the tests and
 * the simulator bring one in memory that crashes, tears writes, runs full and flips bits
 * (tests/support/disk_fake.h).
 *
 * A disk is one folder: names have no slash. Calls block. What they promise is what a careful
 * reader of POSIX may count on, and no more:
 *
 *   - a write is visible to later reads at once, but survives a power cut only after `sync` of that
 *     file has succeeded. Until then any of its sectors (512 bytes) may be there or not, in any
 *     order; a process that dies, or a write that fails, leaves no less than that. Bytes of a
 *     sector that a write leaves as they were stay as they were, whenever the power fails (what
 *     SQLite calls power-safe overwrite);
 *   - a name that was made, replaced or removed is durable only after `sync_folder`; until then
 *     each such change may be there or not, by itself, but never by half;
 *   - after a failed `sync` nobody knows what is on the disk, and a second one that succeeds proves
 *     nothing. So the log and the meta file refuse to go on after one (STORAGE_IO).
 *
 * A disk may be able to write directly: whole blocks, past the kernel's cache, durable when they
 * are done, and without a thread that waits for them. Nobody but the log asks for that.
 *
 * Ownership: whoever opens a file closes it with disk_close, also after an error. A disk is used by
 * several threads at once if each file is used by one of them. */
#ifndef HOLDFAST_STORAGE_DISK_H
#define HOLDFAST_STORAGE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/problem.h"

enum {
    DISK_NAME_MAX = 63,
    DISK_BLOCK = 4096, /* of direct writes: offset, length and address are multiples of it */
};

enum disk_mode {
    DISK_READ,   /* an existing file, to be read */
    DISK_WRITE,  /* an existing file, to be read and written */
    DISK_CREATE, /* a new file, to be read and written; STORAGE_EXISTS when it is there */
};

/* How a direct write goes. */
enum disk_direct {
    DISK_DIRECT_WAITS,  /* it is under way */
    DISK_DIRECT_DONE,   /* all of it is durable */
    DISK_DIRECT_AGAIN,  /* it was not done, or not all of it: the same bytes are to be written by
                           disk_write and disk_sync */
    DISK_DIRECT_NEVER,  /* the same; and there is no use in trying direct writes again */
    DISK_DIRECT_FAILED, /* nobody knows what is on the disk, as after a failed sync */
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
    enum storage_status (*room)(struct disk *disk, uint64_t *bytes, struct problem *problem);

    enum storage_status (*read)(struct disk_file *file, uint64_t offset, void *data, size_t len,
                                size_t *got, struct problem *problem);
    enum storage_status (*write)(struct disk_file *file, uint64_t offset, const void *data,
                                 size_t len, struct problem *problem);
    enum storage_status (*sync)(struct disk_file *file, struct problem *problem);
    enum storage_status (*size)(struct disk_file *file, uint64_t *bytes, struct problem *problem);
    enum storage_status (*truncate)(struct disk_file *file, uint64_t bytes,
                                    struct problem *problem);
    void (*close)(struct disk_file *file);

    /* NULL: the disk writes nothing directly. */
    bool (*direct_prepare)(struct disk_file *file);
    enum disk_direct (*direct_begin)(struct disk_file *file, uint64_t offset, const void *data,
                                     size_t len, int event_fd);
    enum disk_direct (*direct_end)(struct disk_file *file, bool wait, struct problem *problem);
};

/* The first member of an implementation's own struct, for both. */
struct disk {
    const struct disk_ops *ops;
};

struct disk_file {
    const struct disk_ops *ops;
    char name[DISK_NAME_MAX + 1]; /* for the texts of problems, see disk_rename_file */
};

/* Calls `visit` for each name in the folder, in no order; it must not change the folder. */
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

/* Replaces `to` if it is there. */
static inline enum storage_status disk_rename(struct disk *disk, const char *from, const char *to,
                                              struct problem *problem)
{
    return disk->ops->rename(disk, from, to, problem);
}

/* What is open under that name stays readable until it is closed. */
static inline enum storage_status disk_unlink(struct disk *disk, const char *name,
                                              struct problem *problem)
{
    return disk->ops->unlink(disk, name, problem);
}

static inline enum storage_status disk_sync_folder(struct disk *disk, struct problem *problem)
{
    return disk->ops->sync_folder(disk, problem);
}

/* Makes the file if need be, and holds it until it is closed or the process is gone;
 * STORAGE_LOCKED when another one does. */
static inline enum storage_status disk_lock(struct disk *disk, const char *name,
                                            struct disk_file **out, struct problem *problem)
{
    return disk->ops->lock(disk, name, out, problem);
}

/* The bytes that may still be taken. */
static inline enum storage_status disk_room(struct disk *disk, uint64_t *bytes,
                                            struct problem *problem)
{
    return disk->ops->room(disk, bytes, problem);
}

/* `*got` is less than `len` only at the end of the file. */
static inline enum storage_status disk_read(struct disk_file *file, uint64_t offset, void *data,
                                            size_t len, size_t *got, struct problem *problem)
{
    return file->ops->read(file, offset, data, len, got, problem);
}

/* All of it or an error, after which any part may have been written. Neither this nor disk_sync
 * allocates or takes a lock: the snapshot child calls them (S12.5). */
static inline enum storage_status disk_write(struct disk_file *file, uint64_t offset,
                                             const void *data, size_t len, struct problem *problem)
{
    return file->ops->write(file, offset, data, len, problem);
}

/* Data and size, not the name: fdatasync(2). */
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

/* Whether the file, which is open for writing and has its size, can be written directly; makes it
 * ready for that. May wait for the disk, as an open does. */
static inline bool disk_direct_prepare(struct disk_file *file)
{
    return file->ops->direct_prepare != NULL && file->ops->direct_prepare(file);
}

/* Begins to write, to a file that is ready. DISK_DIRECT_WAITS: the bytes must stay as they are
 * until disk_direct_end has said something else; `event_fd`, an eventfd(2), becomes readable then.
 * One write at a time for the whole disk. */
static inline enum disk_direct disk_direct_begin(struct disk_file *file, uint64_t offset,
                                                 const void *data, size_t len, int event_fd)
{
    return file->ops->direct_begin(file, offset, data, len, event_fd);
}

/* What became of it. Without `wait` perhaps nothing yet. */
static inline enum disk_direct disk_direct_end(struct disk_file *file, bool wait,
                                               struct problem *problem)
{
    return file->ops->direct_end(file, wait, problem);
}

/* Reads exactly `len` bytes; STORAGE_CORRUPT, which names the size, when the file ends before. */
enum storage_status disk_read_all(struct disk_file *file, uint64_t offset, void *data, size_t len,
                                  struct problem *problem);

/* Renames an open file, so that later problems name it as it is called now. */
enum storage_status disk_rename_file(struct disk *disk, struct disk_file *file, const char *to,
                                     struct problem *problem);

/* Removes a file that may or may not be there. */
enum storage_status disk_remove(struct disk *disk, const char *name, struct problem *problem);

#endif
