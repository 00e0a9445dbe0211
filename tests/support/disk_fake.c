/* The disk in memory: how files, names and time pass. What a power cut leaves of it is in
 * disk_fake_cut.c, the state that they share in disk_fake_state.h. */
#include "disk_fake_state.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/panic.h"

static const struct disk_ops fake_ops;

static struct disk_fake *fake_of(struct disk *disk)
{
    return (struct disk_fake *)disk;
}

static struct fake_file *file_of(struct disk_file *file)
{
    return (struct fake_file *)file;
}

/* ---- operations, and whether they succeed ---- */

enum fake_outcome { PASS, HALF, FAIL };

/* Counts an operation. When it is not to pass, `problem` is set. */
static enum fake_outcome operate(struct disk_fake *fake, const char *what, const char *name,
                                 struct problem *problem)
{
    fake->operations++;
    if (fake->stop_in == 0) {
        bool first = !fake->stopped;
        fake->stopped = true;
        problem_set(problem, STORAGE_IO, "cannot %s %s: the machine has stopped", what, name);
        return first ? HALF : FAIL;
    }
    if (fake->stop_in != UINT64_MAX) {
        fake->stop_in--;
    }
    if (fake->fail_in == 0) {
        fake->fail_in = UINT64_MAX;
        fake->failed = true;
        problem_set(problem, fake->fail_status, "cannot %s %s: injected %s", what, name,
                    storage_status_word(fake->fail_status));
        return fake->fail_status == STORAGE_FULL ? HALF : FAIL;
    }
    if (fake->fail_in != UINT64_MAX) {
        fake->fail_in--;
    }
    return PASS;
}

static enum storage_status dead(const struct disk_file *file, struct problem *problem)
{
    return problem_set(problem, STORAGE_IO, "%s: the handle is of an earlier life", file->name);
}

/* ---- names ---- */

static enum storage_status fake_list(struct disk *disk, disk_visit_fn visit, void *ctx,
                                     struct problem *problem)
{
    struct disk_fake *fake = fake_of(disk);
    (void)problem;
    for (size_t i = 0; i < fake->visible.count; i++) {
        visit(ctx, fake->visible.names[i].text);
    }
    return STORAGE_OK;
}

static enum storage_status fake_open(struct disk *disk, const char *name, enum disk_mode mode,
                                     struct disk_file **out, struct problem *problem)
{
    struct disk_fake *fake = fake_of(disk);
    struct fake_inode *inode = fake_find(&fake->visible, name);
    if (mode == DISK_CREATE) {
        if (inode != NULL) {
            return problem_set(problem, STORAGE_EXISTS, "cannot create %s: it is there", name);
        }
        if (operate(fake, "create", name, problem) != PASS) {
            return problem->status;
        }
        fake->counts.creates++;
        inode = fake_inode_new(fake);
        fake_change(fake, FAKE_LINK, inode, name, "");
    } else if (inode == NULL) {
        return problem_set(problem, STORAGE_MISSING, "cannot open %s: it is not there", name);
    }
    struct fake_file *file = memory_alloc(memory_system(), sizeof(*file));
    *file = (struct fake_file){.file = {.ops = &fake_ops}, .fake = fake, .inode = inode};
    file->life = fake->life;
    file->writable = mode != DISK_READ;
    snprintf(file->file.name, sizeof(file->file.name), "%s", name);
    inode->handles++;
    *out = &file->file;
    return STORAGE_OK;
}

static enum storage_status fake_rename(struct disk *disk, const char *from, const char *to,
                                       struct problem *problem)
{
    struct disk_fake *fake = fake_of(disk);
    struct fake_inode *inode = fake_find(&fake->visible, from);
    if (inode == NULL) {
        return problem_set(problem, STORAGE_MISSING, "cannot rename %s: it is not there", from);
    }
    if (operate(fake, "rename", from, problem) != PASS) {
        return problem->status;
    }
    fake->counts.renames++;
    fake_change(fake, FAKE_RENAME, inode, from, to);
    return STORAGE_OK;
}

static enum storage_status fake_unlink(struct disk *disk, const char *name, struct problem *problem)
{
    struct disk_fake *fake = fake_of(disk);
    struct fake_inode *inode = fake_find(&fake->visible, name);
    if (inode == NULL) {
        return problem_set(problem, STORAGE_MISSING, "cannot remove %s: it is not there", name);
    }
    if (operate(fake, "remove", name, problem) != PASS) {
        return problem->status;
    }
    fake->counts.unlinks++;
    fake_change(fake, FAKE_UNLINK, inode, name, "");
    return STORAGE_OK;
}

static enum storage_status fake_sync_folder(struct disk *disk, struct problem *problem)
{
    struct disk_fake *fake = fake_of(disk);
    if (operate(fake, "sync", "the folder", problem) != PASS) {
        return problem->status;
    }
    fake->counts.folder_syncs++;
    fake_settle_names(fake);
    return STORAGE_OK;
}

/* The file of a lock is not kept: what counts is who holds it. */
static enum storage_status fake_lock(struct disk *disk, const char *name, struct disk_file **out,
                                     struct problem *problem)
{
    struct disk_fake *fake = fake_of(disk);
    if (fake->locked) {
        return problem_set(problem, STORAGE_LOCKED, "%s is in use by another process", name);
    }
    struct fake_file *file = memory_alloc(memory_system(), sizeof(*file));
    *file = (struct fake_file){.file = {.ops = &fake_ops}, .fake = fake, .life = fake->life};
    snprintf(file->file.name, sizeof(file->file.name), "%s", name);
    fake->locked = true;
    *out = &file->file;
    return STORAGE_OK;
}

static enum storage_status fake_space(struct disk *disk, uint64_t *bytes, struct problem *problem)
{
    struct disk_fake *fake = fake_of(disk);
    (void)problem;
    uint64_t used = disk_fake_bytes(fake);
    *bytes = used < fake->capacity ? fake->capacity - used : 0;
    return STORAGE_OK;
}

/* ---- files ---- */

static enum storage_status fake_read(struct disk_file *file, uint64_t offset, void *data,
                                     size_t len, size_t *got, struct problem *problem)
{
    struct fake_file *fake_file = file_of(file);
    if (fake_file->life != fake_file->fake->life) {
        return dead(file, problem);
    }
    const struct fake_inode *inode = fake_file->inode;
    size_t n = offset >= inode->size ? 0 : (size_t)(inode->size - offset);
    n = n < len ? n : len;
    if (n > 0) {
        memcpy(data, inode->bytes + offset, n);
    }
    *got = n;
    return STORAGE_OK;
}

/* Some of it: a write is cut between two sectors. */
static size_t half_of(struct disk_fake *fake, uint64_t offset, size_t len)
{
    size_t n = (size_t)fake_below(fake, len + 1);
    uint64_t end = (offset + n) / FAKE_SECTOR * FAKE_SECTOR;
    return n == len ? len : end > offset ? (size_t)(end - offset) : 0;
}

static enum storage_status fake_write(struct disk_file *file, uint64_t offset, const void *data,
                                      size_t len, struct problem *problem)
{
    struct fake_file *fake_file = file_of(file);
    struct disk_fake *fake = fake_file->fake;
    struct fake_inode *inode = fake_file->inode;
    if (fake_file->life != fake->life) {
        return dead(file, problem);
    }
    hf_assert(fake_file->writable);
    enum fake_outcome outcome = operate(fake, "write", file->name, problem);
    size_t n = outcome == PASS ? len : outcome == HALF ? half_of(fake, offset, len) : 0;
    uint64_t used = fake->capacity == UINT64_MAX ? 0 : disk_fake_bytes(fake);
    uint64_t space = used > fake->capacity ? 0 : fake->capacity - used;
    if (offset + n > inode->size && offset + n - inode->size > space) {
        uint64_t end = inode->size + space;
        n = end > offset ? (size_t)(end - offset) : 0;
        if (outcome == PASS) {
            problem_set(problem, STORAGE_FULL, "cannot write %s: the disk is full", file->name);
            outcome = FAIL;
        }
    }
    if (n > 0) {
        fake_inode_write(inode, offset, data, n);
    }
    fake->counts.writes++;
    fake->counts.written_bytes += n;
    return outcome == PASS ? STORAGE_OK : problem->status;
}

static enum storage_status fake_sync(struct disk_file *file, struct problem *problem)
{
    struct fake_file *fake_file = file_of(file);
    struct disk_fake *fake = fake_file->fake;
    if (fake_file->life != fake->life) {
        return dead(file, problem);
    }
    if (operate(fake, "sync", file->name, problem) != PASS) {
        if (!fake->stopped) {
            fake_inode_lose(fake_file->inode);
        }
        return problem->status;
    }
    fake->counts.syncs++;
    fake_inode_sync(fake_file->inode);
    return STORAGE_OK;
}

static enum storage_status fake_size(struct disk_file *file, uint64_t *bytes,
                                     struct problem *problem)
{
    struct fake_file *fake_file = file_of(file);
    if (fake_file->life != fake_file->fake->life) {
        return dead(file, problem);
    }
    *bytes = fake_file->inode->size;
    return STORAGE_OK;
}

static enum storage_status fake_truncate(struct disk_file *file, uint64_t bytes,
                                         struct problem *problem)
{
    struct fake_file *fake_file = file_of(file);
    if (fake_file->life != fake_file->fake->life) {
        return dead(file, problem);
    }
    if (operate(fake_file->fake, "truncate", file->name, problem) != PASS) {
        return problem->status;
    }
    fake_file->fake->counts.truncates++;
    fake_inode_truncate(fake_file->inode, bytes);
    return STORAGE_OK;
}

static void fake_close(struct disk_file *file)
{
    struct fake_file *fake_file = file_of(file);
    if (fake_file->inode != NULL) {
        fake_file->inode->handles--;
        fake_sweep(fake_file->fake);
    } else if (fake_file->life == fake_file->fake->life) {
        fake_file->fake->locked = false;
    }
    memory_free(memory_system(), fake_file, sizeof(*fake_file));
}

/* Whole blocks are written as all else is (append_directly.h); there is no kernel to do it. */
static bool fake_direct_prepare(struct disk_file *file)
{
    return file_of(file)->writable;
}

static const struct disk_ops fake_ops = {
    .list = fake_list,
    .open = fake_open,
    .rename = fake_rename,
    .unlink = fake_unlink,
    .sync_folder = fake_sync_folder,
    .lock = fake_lock,
    .space = fake_space,
    .read = fake_read,
    .write = fake_write,
    .sync = fake_sync,
    .size = fake_size,
    .truncate = fake_truncate,
    .close = fake_close,
    .direct_prepare = fake_direct_prepare,
};

/* ---- the fake itself ---- */

struct disk_fake *disk_fake_new(uint64_t seed)
{
    struct disk_fake *fake = memory_alloc(memory_system(), sizeof(*fake));
    *fake = (struct disk_fake){.disk = {.ops = &fake_ops},
                               .random = seed,
                               .stop_in = UINT64_MAX,
                               .fail_in = UINT64_MAX,
                               .capacity = UINT64_MAX,
                               .life = 1};
    return fake;
}

struct disk *disk_fake_disk(struct disk_fake *fake)
{
    return &fake->disk;
}

void disk_fake_stop_after(struct disk_fake *fake, uint64_t operations)
{
    fake->stop_in = operations;
    fake->stopped = false;
}

bool disk_fake_has_stopped(const struct disk_fake *fake)
{
    return fake->stopped;
}

void disk_fake_fail_after(struct disk_fake *fake, uint64_t operations, enum storage_status status)
{
    fake->fail_in = operations;
    fake->fail_status = status;
    fake->failed = false;
}

bool disk_fake_has_failed(const struct disk_fake *fake)
{
    return fake->failed;
}

void disk_fake_set_garbage(struct disk_fake *fake, bool garbage)
{
    fake->garbage = garbage;
}

void disk_fake_set_capacity(struct disk_fake *fake, uint64_t bytes)
{
    fake->capacity = bytes;
}

uint64_t disk_fake_operations(const struct disk_fake *fake)
{
    return fake->operations;
}

struct disk_fake_counts disk_fake_counts(const struct disk_fake *fake)
{
    return fake->counts;
}

/* ---- looking and meddling ---- */

/* A file without a name takes no space, even if a power cut may bring it back. */
uint64_t disk_fake_bytes(const struct disk_fake *fake)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < fake->visible.count; i++) {
        sum += fake->visible.names[i].inode->size;
    }
    return sum;
}

const uint8_t *disk_fake_file(const struct disk_fake *fake, const char *name, uint64_t *size)
{
    const struct fake_inode *inode = fake_find(&fake->visible, name);
    if (inode == NULL) {
        return NULL;
    }
    *size = inode->size;
    return inode->size == 0 ? (const uint8_t *)"" : inode->bytes;
}

bool disk_fake_flip(struct disk_fake *fake, const char *name, uint64_t offset, unsigned bit)
{
    struct fake_inode *inode = fake_find(&fake->visible, name);
    if (inode == NULL || offset >= inode->size) {
        return false;
    }
    fake_inode_sync(inode);
    inode->bytes[offset] ^= (uint8_t)(1u << bit);
    return true;
}

bool disk_fake_put(struct disk_fake *fake, const char *name, const void *data, uint64_t size)
{
    struct fake_inode *inode = fake_find(&fake->visible, name);
    if (inode == NULL) {
        inode = fake_inode_new(fake);
        fake_change(fake, FAKE_LINK, inode, name, "");
        fake_settle_names(fake);
    }
    fake_inode_truncate(inode, 0);
    if (size > 0) {
        fake_inode_write(inode, 0, data, (size_t)size);
    }
    fake_inode_sync(inode);
    return true;
}

bool disk_fake_remove(struct disk_fake *fake, const char *name)
{
    struct fake_inode *inode = fake_find(&fake->visible, name);
    if (inode == NULL) {
        return false;
    }
    fake_change(fake, FAKE_UNLINK, inode, name, "");
    fake_settle_names(fake);
    return true;
}
