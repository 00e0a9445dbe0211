/* The list of snapshots: the newest one, pins, removal. */
#define _GNU_SOURCE /* recursive mutexes */

#include "storage/snapshots.h"

#include <inttypes.h>
#include <stdlib.h>

#include "storage/snapshots_state.h"

/* ---- header and end of one file ---- */

static enum storage_status read_header(struct disk_file *file, struct snapshot_check *check,
                                       uint8_t *header, struct snapshot_info *info,
                                       struct problem *problem)
{
    enum storage_status status = disk_read_all(file, 0, header, SNAPSHOT_HEADER, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    size_t need = snapshot_check_need(check, header, SNAPSHOT_HEADER);
    status = disk_read_all(file, SNAPSHOT_HEADER, header + SNAPSHOT_HEADER, need - SNAPSHOT_HEADER,
                           problem);
    struct slice body;
    return status == STORAGE_OK ? snapshot_check_piece(check, header, need, &body, info, problem)
                                : status;
}

/* The size matches the end, and the end, which is seeded by the checksum of the last block, is
 * valid. */
static enum storage_status read_end(struct disk_file *file, struct snapshot_check *check,
                                    uint64_t size, struct problem *problem)
{
    uint8_t end[SNAPSHOT_END], seed[8];
    uint64_t header = check->offset;
    if (size < header + SNAPSHOT_END) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "%s is cut off: it has %" PRIu64 " bytes and no end", check->name, size);
    }
    enum storage_status status =
        disk_read_all(file, size - SNAPSHOT_END, end, sizeof(end), problem);
    if (status != STORAGE_OK) {
        return status;
    }
    uint64_t body = get_u64(end + SNAPSHOT_BLOCK), blocks = get_u64(end + SNAPSHOT_BLOCK + 8);
    uint64_t space = size - header - SNAPSHOT_END;
    check->offset = size - SNAPSHOT_END;
    if (body > space || blocks != (body + check->block_bytes - 1) / check->block_bytes ||
        space != body + blocks * SNAPSHOT_BLOCK) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "%s is damaged: its %" PRIu64 " bytes do not end as a snapshot does; it "
                           "was cut off or grew",
                           check->name, size);
    }
    if (blocks > 0) {
        uint64_t last = header + (blocks - 1) * (SNAPSHOT_BLOCK + (uint64_t)check->block_bytes);
        status = disk_read_all(file, last, seed, sizeof(seed), problem);
        check->chain = get_u64(seed);
    }
    check->body_bytes = body;
    check->blocks = blocks;
    struct slice none;
    if (status == STORAGE_OK && snapshot_check_need(check, end, sizeof(end)) != sizeof(end)) {
        return problem_set(problem, STORAGE_CORRUPT, "%s is damaged: it has no end", check->name);
    }
    return status == STORAGE_OK
               ? snapshot_check_piece(check, end, sizeof(end), &none, NULL, problem)
               : status;
}

static enum storage_status compare(const struct snapshots *snapshots, const char *name,
                                   const struct snapshot_info *info, uint64_t index, uint64_t term,
                                   struct problem *problem)
{
    if (info->index != index || info->term != term) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "%s holds the snapshot of index %" PRIu64 " and term %" PRIu64
                           ": it was renamed or copied",
                           name, info->index, info->term);
    }
    if (!id_is_zero(snapshots->cluster) && !id_equal(info->cluster, snapshots->cluster)) {
        return problem_set(problem, STORAGE_FOREIGN,
                           "%s belongs to cluster %016" PRIx64 "%016" PRIx64
                           ", this node to cluster %016" PRIx64 "%016" PRIx64,
                           name, info->cluster.high, info->cluster.low, snapshots->cluster.high,
                           snapshots->cluster.low);
    }
    return STORAGE_OK;
}

/* Header, size and end of a file. */
static enum storage_status glance(const struct snapshots *snapshots, struct disk_file *file,
                                  uint64_t index, uint64_t term, struct snapshot_glance **out,
                                  struct problem *problem)
{
    struct snapshot_glance *seen = memory_alloc(memory_system(), sizeof(*seen));
    struct snapshot_check check = {.name = file->name};
    enum storage_status status = disk_size(file, &seen->bytes, problem);
    if (status == STORAGE_OK) {
        status = read_header(file, &check, seen->header, &seen->info, problem);
    }
    if (status == STORAGE_OK) {
        status = compare(snapshots, file->name, &seen->info, index, term, problem);
    }
    if (status == STORAGE_OK) {
        status = read_end(file, &check, seen->bytes, problem);
    }
    if (status != STORAGE_OK) {
        memory_free(memory_system(), seen, sizeof(*seen));
        return status;
    }
    *out = seen;
    return STORAGE_OK;
}

static void set_newest(struct snapshots *snapshots, struct snapshot_glance *seen)
{
    if (snapshots->newest != NULL) {
        memory_free(memory_system(), snapshots->newest, sizeof(*snapshots->newest));
    }
    snapshots->newest = seen;
}

/* ---- the list ---- */

static void item_push(struct snapshots *snapshots, uint64_t index, uint64_t term)
{
    if (snapshots->count == snapshots->capacity) {
        size_t capacity = snapshots->capacity == 0 ? 8 : 2 * snapshots->capacity;
        snapshots->items = memory_grow(memory_system(), snapshots->items,
                                       snapshots->capacity * sizeof(*snapshots->items),
                                       capacity * sizeof(*snapshots->items));
        snapshots->capacity = capacity;
    }
    snapshots->items[snapshots->count++] = (struct snapshot_item){.index = index, .term = term};
}

static void item_remove(struct snapshots *snapshots, size_t at)
{
    snapshots->count--;
    memmove(&snapshots->items[at], &snapshots->items[at + 1],
            (snapshots->count - at) * sizeof(*snapshots->items));
}

static struct snapshot_item *item_find(struct snapshots *snapshots, uint64_t index, uint64_t term)
{
    for (size_t i = 0; i < snapshots->count; i++) {
        if (snapshots->items[i].index == index && snapshots->items[i].term == term) {
            return &snapshots->items[i];
        }
    }
    return NULL;
}

static void visit_name(void *ctx, const char *name)
{
    uint64_t index, term;
    if (snapshot_name_read(name, &index, &term)) {
        item_push(ctx, index, term);
    }
}

static int by_index(const void *a, const void *b)
{
    const struct snapshot_item *x = a, *y = b;
    if (x->index != y->index) {
        return x->index < y->index ? -1 : 1;
    }
    return x->term < y->term ? -1 : x->term > y->term;
}

static enum storage_status list(struct snapshots *snapshots, struct problem *problem)
{
    struct disk *disk = snapshots->disk;
    enum storage_status status = disk_remove(disk, SNAPSHOT_TEMPORARY, problem);
    if (status == STORAGE_OK) {
        status = disk_remove(disk, SNAPSHOT_RECEIVED, problem);
    }
    if (status == STORAGE_OK) {
        status = disk_list(disk, visit_name, snapshots, problem);
    }
    if (status != STORAGE_OK || snapshots->count == 0) {
        return status;
    }
    qsort(snapshots->items, snapshots->count, sizeof(*snapshots->items), by_index);
    const struct snapshot_item *newest = &snapshots->items[snapshots->count - 1];
    char name[SNAPSHOT_NAME_MAX];
    snapshot_name(name, newest->index, newest->term);
    struct disk_file *file;
    status = disk_open(disk, name, DISK_READ, &file, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    status = glance(snapshots, file, newest->index, newest->term, &snapshots->newest, problem);
    if (status == STORAGE_CORRUPT) {
        problem_add(problem, STORAGE_ADVICE);
    }
    disk_close(file);
    return status;
}

enum storage_status snapshots_open(struct disk *disk, struct id cluster, struct snapshots **out,
                                   struct problem *problem)
{
    struct snapshots *snapshots = memory_alloc(memory_system(), sizeof(*snapshots));
    memset(snapshots, 0, sizeof(*snapshots));
    snapshots->disk = disk;
    snapshots->cluster = cluster;
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&snapshots->guard, &recursive);
    pthread_mutexattr_destroy(&recursive);
    enum storage_status status = list(snapshots, problem);
    if (status != STORAGE_OK) {
        snapshots_close(snapshots);
        return status;
    }
    *out = snapshots;
    return STORAGE_OK;
}

void snapshots_close(struct snapshots *snapshots)
{
    if (snapshots == NULL) {
        return;
    }
    set_newest(snapshots, NULL);
    snapshots_close_nameless(snapshots);
    pthread_mutex_destroy(&snapshots->guard);
    if (snapshots->capacity > 0) {
        memory_free(memory_system(), snapshots->items,
                    snapshots->capacity * sizeof(*snapshots->items));
    }
    memory_free(memory_system(), snapshots, sizeof(*snapshots));
}

void snapshots_lock(struct snapshots *snapshots)
{
    pthread_mutex_lock(&snapshots->guard);
}

void snapshots_unlock(struct snapshots *snapshots)
{
    pthread_mutex_unlock(&snapshots->guard);
}

const struct snapshot_info *snapshots_newest(const struct snapshots *snapshots)
{
    return snapshots->newest == NULL ? NULL : &snapshots->newest->info;
}

uint64_t snapshots_newest_bytes(const struct snapshots *snapshots)
{
    return snapshots->newest == NULL ? 0 : snapshots->newest->bytes;
}

enum storage_status snapshots_verify_newest(struct snapshots *snapshots, struct problem *problem)
{
    hf_assert(snapshots->newest != NULL);
    const struct snapshot_info *newest = &snapshots->newest->info;
    struct snapshot_source *source;
    enum storage_status status =
        snapshot_source_open(snapshots, newest->index, newest->term, &source, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    struct snapshot_piece piece = {.last = false};
    while (status == STORAGE_OK && !piece.last) {
        status = snapshot_source_next(source, &piece, problem);
    }
    snapshot_source_close(source);
    return status;
}

/* ---- adding and removing ---- */

enum storage_status snapshots_adopt(struct snapshots *snapshots, struct disk_file *file,
                                    uint64_t index, uint64_t term, struct problem *problem)
{
    hf_assert(snapshots->newest == NULL || index >= snapshots->newest->info.index);
    char name[SNAPSHOT_NAME_MAX];
    snapshot_name(name, index, term);
    struct snapshot_glance *seen;
    enum storage_status status = glance(snapshots, file, index, term, &seen, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    status = disk_rename_file(snapshots->disk, file, name, problem);
    if (status == STORAGE_OK) {
        status = disk_sync_folder(snapshots->disk, problem);
    }
    if (status != STORAGE_OK) {
        memory_free(memory_system(), seen, sizeof(*seen));
        return status;
    }
    snapshots_lock(snapshots);
    set_newest(snapshots, seen);
    if (item_find(snapshots, index, term) == NULL) {
        item_push(snapshots, index, term);
    }
    snapshots_unlock(snapshots);
    return STORAGE_OK;
}

bool snapshots_pin(struct snapshots *snapshots, uint64_t index, uint64_t term)
{
    snapshots_lock(snapshots);
    struct snapshot_item *item = item_find(snapshots, index, term);
    if (item != NULL) {
        item->pins++;
    }
    snapshots_unlock(snapshots);
    return item != NULL;
}

void snapshots_unpin(struct snapshots *snapshots, uint64_t index, uint64_t term)
{
    snapshots_lock(snapshots);
    struct snapshot_item *item = item_find(snapshots, index, term);
    hf_assert(item != NULL && item->pins > 0);
    item->pins--;
    snapshots_unlock(snapshots);
}

/* Takes the oldest unpinned snapshot, except the newest, out of the list, so that it cannot be
 * pinned any more. */
static bool take_unpinned(struct snapshots *snapshots, struct snapshot_item *out)
{
    bool found = false;
    snapshots_lock(snapshots);
    for (size_t i = 0; i + 1 < snapshots->count && !found; i++) {
        found = snapshots->items[i].pins == 0;
        if (found) {
            *out = snapshots->items[i];
            item_remove(snapshots, i);
        }
    }
    snapshots_unlock(snapshots);
    return found;
}

/* As the oldest: its file could not be removed. */
static void put_back(struct snapshots *snapshots, const struct snapshot_item *item)
{
    snapshots_lock(snapshots);
    item_push(snapshots, item->index, item->term);
    memmove(&snapshots->items[1], &snapshots->items[0],
            (snapshots->count - 1) * sizeof(*snapshots->items));
    snapshots->items[0] = *item;
    snapshots_unlock(snapshots);
}

enum storage_status snapshots_prune(struct snapshots *snapshots, struct problem *problem)
{
    enum storage_status status = STORAGE_OK;
    struct snapshot_item item;
    while (status == STORAGE_OK && take_unpinned(snapshots, &item)) {
        char name[SNAPSHOT_NAME_MAX];
        snapshot_name(name, item.index, item.term);
        status = snapshots_unlink(snapshots, name, problem);
        if (status != STORAGE_OK) {
            put_back(snapshots, &item);
        }
    }
    return status;
}
