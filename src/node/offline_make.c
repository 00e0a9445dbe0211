/* Makes the folder of a new cluster from a state (S3.3), in the order of storage/store.h.
 * `bootstrapped` is written last: an incomplete folder never starts as a node. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "core/snapshot.h"
#include "node/offline.h"
#include "replica/replica.h"
#include "storage/disk_posix.h"

struct offline_writer {
    struct snapshot_output *output;
    struct problem *wrong;
    enum storage_status status;
    const struct offline_watch *watch;
    uint64_t written;
};

static bool put(void *ctx, const void *data, size_t len)
{
    struct offline_writer *w = ctx;
    w->status = snapshot_output_put(w->output, data, len, w->wrong);
    w->written += len;
    if (w->watch->note != NULL) {
        w->watch->note(w->watch->ctx, "writing the new folder", true, w->written, 0);
    }
    return w->status == STORAGE_OK;
}

static enum storage_status write_snapshot(struct store *store, const struct offline_state *state,
                                          const struct snapshot_info *info, struct problem *wrong)
{
    struct offline_writer w = {.wrong = wrong, .watch = &state->watch};
    w.status = snapshot_output_begin(store->snapshots, info, 0, &w.output, wrong);
    if (w.status != STORAGE_OK) {
        return w.status;
    }
    if (snapshot_write(state->core, put, &w)) {
        w.status = snapshot_output_finish(w.output, wrong);
    }
    if (w.status != STORAGE_OK) {
        snapshot_output_abort(w.output);
        return w.status;
    }
    return snapshot_output_commit(w.output, wrong);
}

static enum storage_status fill_store(struct store *store, const struct offline_state *state,
                                      const struct snapshot_info *info, struct problem *wrong)
{
    enum storage_status status = meta_save_vote(&store->meta, info->term, 0, wrong);
    if (status == STORAGE_OK) {
        status = write_snapshot(store, state, info, wrong);
    }
    if (status == STORAGE_OK) {
        status = log_reset(store->log, info->index, info->term, wrong);
    }
    if (status == STORAGE_OK) {
        status = log_seal(store->log, wrong);
    }
    if (status == STORAGE_OK) {
        struct meta_state next = store->meta.state;
        next.bootstrapped = true;
        status = meta_save(&store->meta, &next, wrong);
    }
    return status;
}

void offline_remove(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    (void)rmdir(path);
}

static bool is_empty_or_missing(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    bool empty = true;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        empty = empty && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return dir != NULL ? empty : access(path, F_OK) != 0;
}

static enum storage_status make_folder(const struct offline_new *options,
                                       const struct offline_state *state,
                                       const struct snapshot_info *info, struct id store_id,
                                       struct problem *wrong)
{
    struct store store;
    struct disk *disk;
    struct store_options about = {
        .node = options->node, .cluster = info->cluster, .new_store = store_id};
    enum storage_status status = disk_posix_new(options->path, &disk, wrong);
    if (status != STORAGE_OK) {
        return status;
    }
    status = store_open(&store, disk, &about, wrong);
    if (status == STORAGE_OK) {
        status = fill_store(&store, state, info, wrong);
        store_close(&store);
    }
    disk_posix_free(disk);
    return status;
}

static bool draw(struct id *out)
{
    return uv_random(NULL, NULL, out, sizeof(*out), 0, NULL) == 0 && !id_is_zero(*out);
}

bool offline_make(struct offline_state *state, const struct offline_new *options,
                  struct id *cluster, char problem[OFFLINE_PROBLEM])
{
    static uint8_t members[SNAPSHOT_CONFIGURATION_MAX];
    struct replica_member self = {options->node, options->address, true};
    struct problem wrong;
    struct id fresh, store;
    if (!is_empty_or_missing(options->path)) {
        snprintf(problem, OFFLINE_PROBLEM,
                 "%s is not empty: choose a folder that does not exist yet", options->path);
        return false;
    }
    if (!draw(&fresh) || !draw(&store)) {
        snprintf(problem, OFFLINE_PROBLEM, "this machine has no random numbers");
        return false;
    }
    size_t len = replica_bootstrap_entry(&self, 1, members, sizeof(members));
    hf_assert(len > 0);
    uint64_t term = state->known_term > state->term ? state->known_term : state->term;
    struct snapshot_info info = {.cluster = fresh,
                                 .index = state->index + 1,
                                 .term = term + 1,
                                 .configuration_index = state->index + 1,
                                 .configuration = slice_make(members, len)};
    core_begin(state->core, info.index, core_now_ms(state->core), options->wall_ms);
    core_recover(state->core, options->actor, options->reason);
    if (make_folder(options, state, &info, store, &wrong) != STORAGE_OK) {
        offline_remove(options->path);
        snprintf(problem, OFFLINE_PROBLEM, "%s: %s", options->path, wrong.text);
        return false;
    }
    *cluster = fresh;
    return true;
}
