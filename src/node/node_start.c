/* Start of a node: its folder, its identity (S12.1), and the replica. */
#include "node/node_state.h"

#include <stdio.h>
#include <unistd.h>

#include "node/snapshot/state_load.h"
#include "storage/bytes.h"
#include "storage/disk_posix.h"
#include "storage/log_stream.h"

#define CACHE_BYTES (32u << 20)
#define TRAILING_ENTRIES 1024u
#define BOOTSTRAP_MAX 65536u
#define LOADING_ENTRIES 256u /* between two calls of on_loading */

bool node_folder_is_used(const char *data)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", data, META_NAME);
    return access(path, F_OK) == 0;
}

static bool fill_random(void *out, size_t len, char problem[NODE_PROBLEM])
{
    int status = uv_random(NULL, NULL, out, len, 0, NULL);
    if (status != 0) {
        snprintf(problem, NODE_PROBLEM, "this machine has no random numbers: %s",
                 uv_strerror(status));
    }
    return status == 0;
}

static void describe(struct node *n, const struct problem *wrong, char problem[NODE_PROBLEM])
{
    snprintf(problem, NODE_PROBLEM, "%s: %s", n->options.data, wrong->text);
}

static bool may_begin(struct node *n, char problem[NODE_PROBLEM])
{
    if (node_folder_is_used(n->options.data) || n->options.bootstrap || n->options.join) {
        return true;
    }
    snprintf(
        problem, NODE_PROBLEM,
        "%s holds no node yet. To begin a new cluster, start each of its first members once with "
        "--bootstrap; to add a node to a running one, start it with --join. If node %llu was here "
        "before, it lost its disk: remove it and add it under a new id",
        n->options.data, ull(n->options.id));
    return false;
}

static void note_dropped(struct node *n)
{
    const struct log_dropped *dropped = log_dropped(n->store.log);
    if (dropped == NULL) {
        return;
    }
    journal_note(n->options.journal, WARN, DISK, "log_tail_dropped",
                 JOURNAL_TEXT("segment", dropped->segment),
                 JOURNAL_NUMBER("offset", dropped->offset), JOURNAL_NUMBER("bytes", dropped->bytes),
                 JOURNAL_NUMBER("first_index", dropped->first),
                 JOURNAL_NUMBER("last_index", dropped->last),
                 JOURNAL_TEXT("text", "the last write to the log is incomplete and was dropped, as "
                                      "after a power cut or a kill; if neither happened, check "
                                      "the disk"));
}

static void note_loading(const struct node *n, const char *step, bool is_bytes, uint64_t done,
                         uint64_t total)
{
    if (n->options.on_loading != NULL) {
        n->options.on_loading(n->options.ctx, step, is_bytes, done, total);
    }
}

bool node_open_store(struct node *n, char problem[NODE_PROBLEM])
{
    struct problem wrong;
    struct store_options options = {.node = n->options.id,
                                    .segment_bytes = n->options.segment_bytes,
                                    .direct = !n->options.log_by_thread};
    if (!may_begin(n, problem) ||
        !fill_random(&options.new_store, sizeof(options.new_store), problem)) {
        return false;
    }
    if (disk_posix_new(n->options.data, &n->disk, &wrong) != STORAGE_OK) {
        n->disk = NULL;
        describe(n, &wrong, problem);
        return false;
    }
    note_loading(n, "opening the data folder", true, 0, 0);
    bool is_open = store_open(&n->store, n->disk, &options, &wrong) == STORAGE_OK &&
                   known_stores_load(&n->known, n->disk, &wrong) == STORAGE_OK;
    note_loading(n, NULL, false, 0, 0);
    if (!is_open) {
        store_close(&n->store);
        describe(n, &wrong, problem);
        return false;
    }
    n->store_open = true;
    const struct meta_state *state = &n->store.meta.state;
    n->self.node = state->node;
    n->self.store = state->store;
    n->self.life = state->life;
    n->self.state = CORE_VERSION;
    n->self.state_max = n->options.state_max == 0 ? PEER_NO_LIMIT : n->options.state_max;
    n->admission.max = n->options.state_max;
    n->self.cluster = state->cluster;
    node_set_term(n, state->term);
    node_publish_stores(n);
    if (n->store.meta.repaired) {
        journal_note(n->options.journal, WARN, DISK, "meta_repaired",
                     JOURNAL_TEXT("text", "one of two copies of term and vote was damaged"));
    }
    note_dropped(n);
    return state->bootstrapped || n->options.join || node_bootstrap(n, problem);
}

/* Every first member derives the same id from the common settings. A single one draws a random
 * id. */
static bool choose_cluster(struct node *n, struct slice entry, struct id *out,
                           char problem[NODE_PROBLEM])
{
    if (n->options.member_count == 1) {
        return fill_random(out, sizeof(*out), problem);
    }
    uint64_t name = storage_checksum(n->options.cluster_name, strlen(n->options.cluster_name), 0);
    out->high = storage_checksum(entry.data, entry.len, name);
    out->low = storage_checksum(entry.data, entry.len, name + 1);
    return true;
}

static enum storage_status write_first_entry(struct node *n, struct slice bytes, struct id cluster,
                                             struct problem *wrong)
{
    struct meta *meta = &n->store.meta;
    struct log_entry entry = {.term = 1, .type = REPLICA_MEMBERS, .data = bytes};
    uint64_t term = meta->state.term > 1 ? meta->state.term : 1;
    enum storage_status status = meta_save_vote(meta, term, meta->state.vote, wrong);
    if (status == STORAGE_OK) {
        status = log_append(n->store.log, 1, &entry, 1, wrong);
    }
    if (status == STORAGE_OK) {
        struct meta_state next = meta->state;
        next.cluster = cluster;
        next.bootstrapped = true;
        status = meta_save(meta, &next, wrong);
    }
    return status;
}

bool node_bootstrap(struct node *n, char problem[NODE_PROBLEM])
{
    if (!n->options.bootstrap) {
        snprintf(
            problem, NODE_PROBLEM,
            "the node in %s never became a member of a cluster: start it with the option of its "
            "first start, --bootstrap or --join",
            n->options.data);
        return false;
    }
    struct replica_member members[LIMIT_NODES];
    for (uint32_t i = 0; i < n->options.member_count; i++) {
        const struct node_member *member = &n->options.members[i];
        address_format(&member->address, n->member_text[i], sizeof(n->member_text[i]));
        members[i] = (struct replica_member){member->id, n->member_text[i], true};
    }
    static uint8_t bytes[BOOTSTRAP_MAX];
    size_t len = replica_bootstrap_entry(members, n->options.member_count, bytes, sizeof(bytes));
    hf_assert(len > 0);
    struct id cluster;
    struct problem wrong;
    if (!choose_cluster(n, slice_make(bytes, len), &cluster, problem)) {
        return false;
    }
    if (write_first_entry(n, slice_make(bytes, len), cluster, &wrong) != STORAGE_OK) {
        describe(n, &wrong, problem);
        return false;
    }
    n->self.cluster = cluster;
    node_set_term(n, n->store.meta.state.term);
    journal_note(n->options.journal, INFO, NODE, "bootstrapped",
                 JOURNAL_NUMBER("members", n->options.member_count),
                 JOURNAL_TEXT("cluster", n->options.cluster_name));
    return true;
}

void node_on_cluster(void *ctx, struct id cluster, struct slice name)
{
    (void)name;
    struct node *n = ctx;
    struct problem wrong;
    struct meta_state next = n->store.meta.state;
    next.cluster = cluster;
    next.bootstrapped = true;
    if (meta_save(&n->store.meta, &next, &wrong) != STORAGE_OK) {
        node_fail(n, wrong.text);
    }
    n->self.cluster = cluster;
    n->changed = true;
}

static void note_state(void *ctx, uint64_t done, uint64_t total)
{
    note_loading(ctx, "reading the snapshot", true, done, total);
}

struct entry_stream {
    struct log_stream stream;
    const struct node *node;
    uint64_t given;
    uint64_t count;
};

/* The log thread already runs, and may create the next segment concurrently. */
static bool next_entry(void *ctx, struct replica_entry *out)
{
    struct entry_stream *s = ctx;
    const struct log_entry *entry = log_stream_next(&s->stream);
    if (++s->given % LOADING_ENTRIES == 0) {
        note_loading(s->node, "reading the log", false, s->given, s->count);
    }
    if (entry == NULL) {
        return false;
    }
    *out = (struct replica_entry){entry->term, entry->type, entry->data};
    return true;
}

static enum storage_status load_snapshot(struct node *n, const struct core_options *options,
                                         struct replica_start *start, struct problem *wrong)
{
    const struct snapshot_info *newest = snapshots_newest(n->store.snapshots);
    if (newest == NULL) {
        return STORAGE_OK;
    }
    start->snapshot = (struct replica_snapshot){.index = newest->index,
                                                .term = newest->term,
                                                .members_index = newest->configuration_index,
                                                .members = newest->configuration};
    struct state_watch watch = {note_state, n};
    return state_load_watched(&n->store, newest->index, newest->term, options, &watch, &start->core,
                              wrong);
}

bool node_start_replica(struct node *n, char problem[NODE_PROBLEM])
{
    struct core_options core = {.memory = n->options.memory,
                                .hash_key = n->self.cluster.high ^ n->self.cluster.low};
    struct replica_start start = {.term = n->store.meta.state.term,
                                  .vote = n->store.meta.state.vote};
    struct problem wrong;
    struct entry_stream entries = {.stream = {.log = n->store.log}, .node = n};
    logger_lock_all(n->logger);
    enum storage_status status = load_snapshot(n, &core, &start, &wrong);
    start.first = log_first(n->store.log);
    start.count = (uint32_t)(log_last(n->store.log) + 1 - start.first);
    uint64_t snapshot_bytes = snapshots_newest_bytes(n->store.snapshots);
    logger_unlock_all(n->logger);
    n->snapshot_size = snapshot_bytes;
    if (status != STORAGE_OK) {
        core_free(start.core);
        describe(n, &wrong, problem);
        return false;
    }
    entries.stream.next = start.first;
    entries.count = start.count;
    start.next = next_entry;
    start.ctx = &entries;
    uint32_t seed;
    const char *reason = "";
    struct replica_options options = {
        .memory = n->options.memory,
        .id = n->options.id,
        .address = n->address_text,
        .hash_key = core.hash_key,
        .election_ms = n->options.election_ms,
        .heartbeat_ms = n->options.heartbeat_ms,
        .snapshot_bytes =
            snapshot_trigger_bytes(n->options.snapshot_bytes, snapshot_bytes, n->options.id),
        .cache_bytes = CACHE_BYTES,
        .trailing = TRAILING_ENTRIES,
        .ports = node_ports(n),
    };
    if (!fill_random(&seed, sizeof(seed), problem)) {
        return false;
    }
    options.seed = seed;
    node_open_events(n, start.core);
    n->replica = replica_new(&options, &start, node_now(n), &reason);
    log_stream_close(&entries.stream);
    note_loading(n, NULL, false, 0, 0);
    if (n->replica == NULL && entries.stream.problem.status != STORAGE_OK) {
        describe(n, &entries.stream.problem, problem);
        return false;
    }
    if (n->replica == NULL) {
        snprintf(problem, NODE_PROBLEM, "%s cannot be used: %s", n->options.data, reason);
        return false;
    }
    n->drop_before = replica_log_start(n->replica);
    journal_note(
        n->options.journal, INFO, NODE, "loaded", JOURNAL_NUMBER("snapshot", start.snapshot.index),
        JOURNAL_NUMBER("entries", start.count), JOURNAL_NUMBER("life", n->self.life),
        JOURNAL_TEXT("log_written", log_is_direct(n->store.log) ? "directly" : "by a thread"));
    return true;
}
