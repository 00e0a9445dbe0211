/* Opens a folder. Each step relies on the one before: lock; identity; a new life, whose number the
 * log needs for its salts; snapshots; log. Then the parts are checked against each other, since
 * each may be valid while another one is missing. */
#include "storage/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/panic.h"

#define LOCK_NAME "lock"

/* ---- identity ---- */

static void visit_name(void *ctx, const char *name)
{
    static const char *const prefixes[] = {"log-", "spare-", "snapshot-"};
    char *found = ctx;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) {
            snprintf(found, DISK_NAME_MAX + 1, "%s", name);
        }
    }
}

/* Without a meta file the folder must be empty. */
static enum storage_status begin_folder(struct disk *disk, const struct store_options *options,
                                        struct problem *problem)
{
    char found[DISK_NAME_MAX + 1] = "";
    enum storage_status status = disk_list(disk, visit_name, found, problem);
    if (status == STORAGE_OK && found[0] != '\0') {
        return problem_set(problem, STORAGE_CORRUPT,
                           "%s is missing, but %s is there: term and vote of this node are "
                           "lost" STORAGE_ADVICE,
                           META_NAME, found);
    }
    hf_assert(!id_is_zero(options->new_store) && options->node != 0);
    struct meta_state state = {
        .cluster = options->cluster, .store = options->new_store, .node = options->node};
    return status == STORAGE_OK ? meta_create(disk, &state, problem) : status;
}

static enum storage_status check_identity(const struct meta_state *state,
                                          const struct store_options *options,
                                          struct problem *problem)
{
    if (state->node != options->node) {
        return problem_set(problem, STORAGE_FOREIGN,
                           "the folder belongs to node %" PRIu64 " and not to node %" PRIu64
                           ": start that node on it, or name another folder",
                           state->node, options->node);
    }
    if (!id_is_zero(options->cluster) && !id_is_zero(state->cluster) &&
        !id_equal(options->cluster, state->cluster)) {
        return problem_set(problem, STORAGE_FOREIGN,
                           "the folder belongs to cluster %016" PRIx64 "%016" PRIx64
                           " and not to cluster %016" PRIx64 "%016" PRIx64,
                           state->cluster.high, state->cluster.low, options->cluster.high,
                           options->cluster.low);
    }
    return STORAGE_OK;
}

static enum storage_status open_meta(struct store *store, const struct store_options *options,
                                     struct problem *problem)
{
    enum storage_status status = meta_open(&store->meta, store->disk, problem);
    if (status == STORAGE_MISSING) {
        status = begin_folder(store->disk, options, problem);
        if (status == STORAGE_OK) {
            store->is_new = true;
            status = meta_open(&store->meta, store->disk, problem);
        }
    }
    return status == STORAGE_OK ? check_identity(&store->meta.state, options, problem) : status;
}

/* ---- the log ---- */

static enum storage_status open_log(struct store *store, const struct store_options *options,
                                    struct problem *problem)
{
    struct log_options log_options = {
        .segment_bytes = options->segment_bytes,
        .direct = options->direct,
        .spare_limit = options->spare_limit,
        .store = store->meta.state.store,
        .life = store->meta.state.life,
        .create = !store->meta.state.log_made,
    };
    enum storage_status status = log_open(store->disk, &log_options, &store->log, problem);
    if (status == STORAGE_OK && !store->meta.state.log_made) {
        struct meta_state next = store->meta.state;
        next.log_made = true;
        status = meta_save(&store->meta, &next, problem);
    }
    return status;
}

/* ---- checks between the parts ---- */

/* The log continues at the end of the snapshot, or begins before it. */
static enum storage_status check_reach(const struct store *store, struct problem *problem)
{
    const struct snapshot_info *newest = snapshots_newest(store->snapshots);
    uint64_t covered = newest == NULL ? 0 : newest->index;
    uint64_t first = log_first(store->log);
    if (first <= covered + 1) {
        return STORAGE_OK;
    }
    char what[64] = "there is no snapshot";
    if (newest != NULL) {
        snprintf(what, sizeof(what), "the newest snapshot ends at %" PRIu64, covered);
    }
    return problem_set(problem, STORAGE_CORRUPT,
                       "the log begins at index %" PRIu64 " and %s: a segment of the log or a "
                       "snapshot is missing" STORAGE_ADVICE,
                       first, what);
}

/* A term is saved before an entry of that term is written. */
static enum storage_status check_term(const struct store *store, struct problem *problem)
{
    const struct snapshot_info *newest = snapshots_newest(store->snapshots);
    uint64_t known = store->meta.state.term;
    uint64_t last = log_last(store->log), seen = newest == NULL ? 0 : newest->term;
    if (last >= log_first(store->log)) {
        uint64_t term;
        enum storage_status status = log_term(store->log, last, &term, problem);
        if (status != STORAGE_OK) {
            return status;
        }
        seen = term > seen ? term : seen;
    }
    if (seen > known) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "%s says term %" PRIu64 ", but there are entries of term %" PRIu64
                           ": it is an older copy, and votes are forgotten" STORAGE_ADVICE,
                           META_NAME, known, seen);
    }
    return STORAGE_OK;
}

/* The snapshot replaces the log: the log ends before it, or has another entry at its index. A crash
 * between the installation of a snapshot and the reset of the log leaves this state. */
static enum storage_status is_overtaken(const struct store *store, bool *overtaken,
                                        struct problem *problem)
{
    const struct snapshot_info *newest = snapshots_newest(store->snapshots);
    *overtaken = false;
    if (newest == NULL || log_first(store->log) > newest->index) {
        return STORAGE_OK;
    }
    uint64_t term = 0;
    if (log_last(store->log) >= newest->index) {
        enum storage_status status = log_term(store->log, newest->index, &term, problem);
        if (status != STORAGE_OK) {
            return status;
        }
    }
    *overtaken = term != newest->term;
    return STORAGE_OK;
}

static enum storage_status reconcile(struct store *store, struct problem *problem)
{
    bool overtaken = false;
    enum storage_status status = check_reach(store, problem);
    if (status == STORAGE_OK) {
        status = check_term(store, problem);
    }
    if (status == STORAGE_OK) {
        status = is_overtaken(store, &overtaken, problem);
    }
    if (status == STORAGE_OK && overtaken) {
        /* The old log may go only when all of its replacement is valid. */
        status = snapshots_verify_newest(store->snapshots, problem);
        if (status == STORAGE_OK) {
            const struct snapshot_info *newest = snapshots_newest(store->snapshots);
            status = log_reset(store->log, newest->index, newest->term, problem);
        }
    }
    return status;
}

/* ---- opening and closing ---- */

enum storage_status store_open(struct store *store, struct disk *disk,
                               const struct store_options *options, struct problem *problem)
{
    *store = (struct store){.disk = disk};
    enum storage_status status = disk_lock(disk, LOCK_NAME, &store->lock, problem);
    if (status == STORAGE_OK) {
        status = open_meta(store, options, problem);
    }
    if (status == STORAGE_OK) {
        status = snapshots_open(disk, store->meta.state.cluster, &store->snapshots, problem);
    }
    if (status == STORAGE_OK) {
        status = meta_begin_life(&store->meta, problem);
    }
    if (status == STORAGE_OK) {
        status = open_log(store, options, problem);
    }
    if (status == STORAGE_OK) {
        status = reconcile(store, problem);
    }
    if (status != STORAGE_OK) {
        store_close(store);
    }
    return status;
}

void store_close(struct store *store)
{
    log_close(store->log);
    snapshots_close(store->snapshots);
    meta_close(&store->meta);
    disk_close(store->lock);
    store->log = NULL;
    store->snapshots = NULL;
    store->lock = NULL;
}
