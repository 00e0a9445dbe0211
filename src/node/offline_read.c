/* Reads a state like the start of a node, without a replica. */
#include "node/offline.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/entry.h"
#include "node/node.h"
#include "node/snapshot/state_load.h"
#include "replica/replica.h"
#include "storage/disk_posix.h"

#define READ_PIECE (8u << 20)

static void note_state(void *ctx, uint64_t done, uint64_t total)
{
    const struct offline_watch *watch = ctx;
    if (watch->note != NULL) {
        watch->note(watch->ctx, "reading the snapshot", true, done, total);
    }
}

static void add_member(void *ctx, const struct replica_member *member)
{
    struct offline_state *state = ctx;
    if (state->member_count < LIMIT_NODES) {
        struct offline_member *to = &state->members[state->member_count++];
        to->id = member->id;
        to->voter = member->voter;
        snprintf(to->address, sizeof(to->address), "%s", member->address);
    }
}

static enum storage_status set_members(struct offline_state *state, uint64_t index,
                                       struct slice bytes, struct problem *wrong)
{
    state->member_count = 0;
    state->members_index = index;
    if (!replica_members_read(bytes, add_member, state)) {
        return problem_set(wrong, STORAGE_CORRUPT, "the members as of index %llu cannot be decoded",
                           (unsigned long long)index);
    }
    return STORAGE_OK;
}

static enum storage_status load_snapshot(struct offline_state *state,
                                         const struct core_options *options, struct problem *wrong)
{
    const struct snapshot_info *newest = snapshots_newest(state->store.snapshots);
    if (newest == NULL) {
        state->core = core_new(options);
        return STORAGE_OK;
    }
    state->snapshot_index = state->index = newest->index;
    state->snapshot_bytes = snapshots_newest_bytes(state->store.snapshots);
    state->term = newest->term;
    enum storage_status status =
        set_members(state, newest->configuration_index, newest->configuration, wrong);
    struct state_watch watch = {note_state, &state->watch};
    return status == STORAGE_OK ? state_load_watched(&state->store, newest->index, newest->term,
                                                     options, &watch, &state->core, wrong)
                                : status;
}

static enum storage_status apply_entry(struct offline_state *state, uint64_t index,
                                       const struct log_entry *entry, struct problem *wrong)
{
    state->index = index;
    state->term = entry->term;
    if (entry->type == REPLICA_MEMBERS) {
        return set_members(state, index, entry->data, wrong);
    }
    if (entry->type == REPLICA_COMMAND &&
        entry_apply(state->core, index, entry->data, NULL, NULL) != HF_OK) {
        return problem_set(wrong, STORAGE_CORRUPT,
                           "the entry at index %llu is sound, but holds no commands that this "
                           "version of Holdfast knows",
                           (unsigned long long)index);
    }
    return STORAGE_OK;
}

static enum storage_status apply_log(struct offline_state *state, struct problem *wrong)
{
    struct log *log = state->store.log;
    uint64_t last = log_last(log);
    uint64_t first = state->index;
    enum storage_status status = STORAGE_OK;
    for (uint64_t index = state->index + 1; index <= last && status == STORAGE_OK;) {
        struct log_piece piece;
        status = log_read(log, index, last, READ_PIECE, &piece, wrong);
        if (status != STORAGE_OK) {
            return status;
        }
        for (size_t i = 0; i < piece.count && status == STORAGE_OK; i++) {
            status = apply_entry(state, index++, &piece.entries[i], wrong);
        }
        log_piece_free(&piece);
        if (state->watch.note != NULL) {
            state->watch.note(state->watch.ctx, "reading the log", false, index - 1 - first,
                              last - first);
        }
    }
    return status;
}

static enum storage_status read_folder(struct offline_state *state, const char *path, uint64_t node,
                                       struct problem *wrong)
{
    struct core_options options = {.memory = memory_system()};
    struct store_options store = {.node = node};
    enum storage_status status = disk_posix_new(path, &state->disk, wrong);
    if (status != STORAGE_OK) {
        state->disk = NULL;
        return status;
    }
    status = store_open(&state->store, state->disk, &store, wrong);
    if (status != STORAGE_OK) {
        return status;
    }
    state->store_open = true;
    const struct meta_state *meta = &state->store.meta.state;
    if (!meta->bootstrapped) {
        return problem_set(wrong, STORAGE_MISSING,
                           "this node never belonged to a cluster: there is nothing to recover");
    }
    state->node = meta->node;
    state->cluster = meta->cluster;
    state->known_term = meta->term;
    status = load_snapshot(state, &options, wrong);
    return status == STORAGE_OK ? apply_log(state, wrong) : status;
}

static bool describe(const char *path, const struct problem *wrong, char problem[OFFLINE_PROBLEM])
{
    snprintf(problem, OFFLINE_PROBLEM, "%s: %s", path, wrong->text);
    return false;
}

bool offline_read_folder(struct offline_state *state, const char *path, uint64_t node,
                         char problem[OFFLINE_PROBLEM])
{
    struct problem wrong;
    *state = (struct offline_state){.watch = state->watch};
    if (!node_folder_is_used(path)) {
        snprintf(problem, OFFLINE_PROBLEM, "%s is not the data folder of a node", path);
        return false;
    }
    if (read_folder(state, path, node, &wrong) == STORAGE_OK) {
        return true;
    }
    offline_close(state);
    return describe(path, &wrong, problem);
}

static enum storage_status read_file(struct offline_state *state, const char *name,
                                     struct problem *wrong)
{
    struct core_options options = {.memory = memory_system()};
    struct snapshot_source *source;
    struct snapshot_info info;
    enum storage_status status =
        snapshot_source_open_file(state->disk, name, &source, &info, wrong);
    if (status != STORAGE_OK) {
        return status;
    }
    state->cluster = info.cluster;
    state->index = state->snapshot_index = info.index;
    state->term = state->known_term = info.term;
    state->snapshot_bytes = snapshot_source_bytes(source);
    status = set_members(state, info.configuration_index, info.configuration, wrong);
    if (status == STORAGE_OK) {
        struct state_watch watch = {note_state, &state->watch};
        status = state_load_source(source, info.index, &options, &watch, &state->core, wrong);
    }
    snapshot_source_close(source);
    return status;
}

bool offline_read_file(struct offline_state *state, const char *path, char problem[OFFLINE_PROBLEM])
{
    struct problem wrong;
    struct stat about;
    char folder[4096];
    const char *slash = strrchr(path, '/');
    *state = (struct offline_state){.watch = state->watch};
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) {
        snprintf(problem, OFFLINE_PROBLEM, "%s: there is no such file", path);
        return false;
    }
    int len = slash == NULL   ? snprintf(folder, sizeof(folder), ".")
              : slash == path ? snprintf(folder, sizeof(folder), "/")
                              : snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
    if ((size_t)len >= sizeof(folder)) {
        snprintf(problem, OFFLINE_PROBLEM, "the path is too long");
        return false;
    }
    enum storage_status status = disk_posix_new(folder, &state->disk, &wrong);
    if (status != STORAGE_OK) {
        state->disk = NULL;
    } else {
        status = read_file(state, slash == NULL ? path : slash + 1, &wrong);
    }
    if (status == STORAGE_OK) {
        return true;
    }
    offline_close(state);
    return describe(path, &wrong, problem);
}

void offline_close(struct offline_state *state)
{
    core_free(state->core);
    if (state->store_open) {
        store_close(&state->store);
    }
    if (state->disk != NULL) {
        disk_posix_free(state->disk);
    }
    state->core = NULL;
    state->store_open = false;
    state->disk = NULL;
}
