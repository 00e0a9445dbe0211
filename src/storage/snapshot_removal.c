/* Removes snapshots in steps, since freeing a file of gigabytes keeps a file system busy for up to
 * seconds. The name is removed first, which is fast while the file is open; then the file is
 * truncated step by step, and closed when little is left.
 *
 * A snapshot loses its name durably before it loses a byte. So a power cut leaves it complete under
 * its name, or without a name, and then the file system frees it. */
#include "storage/snapshots_state.h"

#define STEP_BYTES (16u << 20)

void snapshots_remove_in_steps(struct snapshots *snapshots)
{
    snapshots->in_steps = true;
}

static void push(struct snapshots *snapshots, struct disk_file *file)
{
    snapshots_lock(snapshots);
    if (snapshots->nameless_count == snapshots->nameless_capacity) {
        size_t capacity = snapshots->nameless_capacity == 0 ? 4 : 2 * snapshots->nameless_capacity;
        snapshots->nameless = memory_grow(memory_system(), snapshots->nameless,
                                          snapshots->nameless_capacity * sizeof(struct disk_file *),
                                          capacity * sizeof(struct disk_file *));
        snapshots->nameless_capacity = capacity;
    }
    snapshots->nameless[snapshots->nameless_count++] = file;
    snapshots_unlock(snapshots);
}

enum storage_status snapshots_unlink(struct snapshots *snapshots, const char *name,
                                     struct problem *problem)
{
    struct disk_file *file = NULL;
    enum storage_status status = STORAGE_OK;
    if (snapshots->in_steps) {
        status = disk_open(snapshots->disk, name, DISK_WRITE, &file, problem);
    }
    if (status == STORAGE_OK) {
        status = disk_unlink(snapshots->disk, name, problem);
    }
    if (status == STORAGE_OK && file != NULL) {
        status = disk_sync_folder(snapshots->disk, problem);
    }
    if (status == STORAGE_OK && file != NULL) {
        push(snapshots, file);
    } else {
        disk_close(file);
    }
    return status;
}

void snapshots_discard(struct snapshots *snapshots, struct disk_file *file, const char *name)
{
    struct problem ignored; /* the next opening removes what is left */
    bool removed = disk_remove(snapshots->disk, name, &ignored) == STORAGE_OK;
    if (removed && snapshots->in_steps) {
        push(snapshots, file);
    } else {
        disk_close(file);
    }
}

bool snapshots_wants_trim(struct snapshots *snapshots)
{
    snapshots_lock(snapshots);
    bool wants = snapshots->nameless_count > 0;
    snapshots_unlock(snapshots);
    return wants;
}

void snapshots_trim(struct snapshots *snapshots)
{
    struct problem ignored; /* removed at once if it cannot be truncated */
    struct disk_file *file = NULL;
    uint64_t bytes;
    snapshots_lock(snapshots);
    if (snapshots->nameless_count > 0) {
        file = snapshots->nameless[snapshots->nameless_count - 1];
    }
    snapshots_unlock(snapshots);
    if (file == NULL || (disk_size(file, &bytes, &ignored) == STORAGE_OK && bytes > STEP_BYTES &&
                         disk_truncate(file, bytes - STEP_BYTES, &ignored) == STORAGE_OK)) {
        return;
    }
    snapshots_lock(snapshots);
    size_t at = 0; /* other files may have been added in the meantime */
    while (snapshots->nameless[at] != file) {
        at++;
    }
    snapshots->nameless[at] = snapshots->nameless[--snapshots->nameless_count];
    snapshots_unlock(snapshots);
    disk_close(file);
}

void snapshots_close_nameless(struct snapshots *snapshots)
{
    for (size_t i = 0; i < snapshots->nameless_count; i++) {
        disk_close(snapshots->nameless[i]);
    }
    if (snapshots->nameless_capacity > 0) {
        memory_free(memory_system(), snapshots->nameless,
                    snapshots->nameless_capacity * sizeof(struct disk_file *));
    }
}
