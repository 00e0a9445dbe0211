/* A node as storage/ sees it: it votes, appends, takes snapshots and installs those of others, on a
 * disk in memory, and keeps in mind what was acknowledged. To be included first. */
#ifndef HOLDFAST_TESTS_STORAGE_NODE_H
#define HOLDFAST_TESTS_STORAGE_NODE_H

#include "storage_testing.h"

#include "storage/store.h"

enum { SEGMENT = 12288, BLOCK = 512 };

static const struct store_options options = {
    .node = 3, .cluster = {8, 9}, .new_store = {5, 6}, .segment_bytes = SEGMENT, .spare_limit = 2};

/* ---- a node ---- */

struct facts {
    uint64_t term;
    uint64_t vote;
    uint64_t snapshot_index;
    uint64_t snapshot_term;
    struct naive log;
};

struct node {
    struct disk_fake *fake;
    struct store store;
    bool is_open;
    struct facts now;  /* acknowledged */
    struct facts next; /* if what is under way gets done */
    size_t batch;      /* entries at the end of next.log that are under way */
    struct random random;
};

static inline void node_init(struct node *n, uint64_t seed)
{
    n->fake = disk_fake_new(seed);
    n->random.state = seed;
    n->is_open = false;
    n->now = (struct facts){.term = 0};
    naive_init(&n->now.log);
    n->next = n->now;
    n->batch = 0;
}

static inline enum storage_status node_open(struct node *n, struct problem *problem)
{
    enum storage_status status = store_open(&n->store, disk_fake_disk(n->fake), &options, problem);
    n->is_open = status == STORAGE_OK;
    return status;
}

static inline void node_close(struct node *n)
{
    if (n->is_open)
        store_close(&n->store);
    n->is_open = false;
}

static inline enum storage_status put_snapshot(struct snapshots *snapshots, uint64_t index,
                                               uint64_t term, struct problem *problem)
{
    struct snapshot_info info = {
        .cluster = options.cluster, .index = index, .term = term, .configuration_index = 1};
    struct snapshot_output *output;
    enum storage_status status = snapshot_output_begin(snapshots, &info, BLOCK, &output, problem);
    if (status != STORAGE_OK)
        return status;
    uint8_t body[1200];
    memset(body, (int)index, sizeof(body));
    status = snapshot_output_put(output, body, sizeof(body), problem);
    if (status == STORAGE_OK)
        status = snapshot_output_finish(output, problem);
    if (status == STORAGE_OK)
        return snapshot_output_commit(output, problem);
    snapshot_output_abort(output);
    return status;
}

/* ---- what a node does ---- */

static inline enum storage_status do_vote(struct node *n, struct problem *problem)
{
    if (n->now.vote == 0 && n->now.term > 0 && random_below(&n->random, 2) == 0) {
        n->next.vote = 1 + random_below(&n->random, 5);
    } else {
        n->next.term++;
        n->next.vote = 0;
    }
    return meta_save_vote(&n->store.meta, n->next.term, n->next.vote, problem);
}

static inline enum storage_status do_append(struct node *n, struct problem *problem)
{
    struct naive *log = &n->next.log;
    uint64_t first = log->last + 1;
    uint64_t lowest =
        n->now.snapshot_index + 1 > log->first ? n->now.snapshot_index + 1 : log->first;
    if (random_below(&n->random, 6) == 0 && log->last > lowest)
        first = lowest + random_below(&n->random, (uint32_t)(log->last - lowest));
    struct naive_entry list[8];
    n->batch = 1 + random_below(&n->random, 8);
    for (size_t i = 0; i < n->batch; i++) {
        list[i] = (struct naive_entry){.term = n->now.term,
                                       .seed = random_next(&n->random),
                                       .len = random_below(&n->random, 900)};
        naive_set(log, first + i, list[i]);
    }
    return append_naive(n->store.log, first, list, n->batch, problem);
}

static inline enum storage_status do_snapshot(struct node *n, struct problem *problem)
{
    struct facts *next = &n->next;
    if (next->log.last <= next->snapshot_index)
        return STORAGE_OK;
    next->snapshot_index +=
        1 + random_below(&n->random, (uint32_t)(next->log.last - next->snapshot_index));
    next->snapshot_term = next->log.entries[next->snapshot_index].term;
    enum storage_status status =
        put_snapshot(n->store.snapshots, next->snapshot_index, next->snapshot_term, problem);
    if (status == STORAGE_OK)
        status = snapshots_prune(n->store.snapshots, problem);
    uint64_t keep = next->snapshot_index > 5 ? next->snapshot_index - 5 : 1;
    if (status == STORAGE_OK)
        status = log_drop_before(n->store.log, keep, problem);
    return status;
}

/* Receives one from a leader, and starts the log anew behind it. */
static inline enum storage_status do_install(struct node *n, struct problem *problem)
{
    struct facts *next = &n->next;
    next->snapshot_index = next->log.last + 1 + random_below(&n->random, 30);
    uint64_t last = next->log.last;
    if (last > n->now.snapshot_index && next->log.entries[last].term < n->now.term)
        next->snapshot_index = last; /* in the place of another entry */
    next->snapshot_term = n->now.term;
    next->log.first = next->snapshot_index + 1;
    next->log.last = next->snapshot_index;
    struct disk_fake *leader = disk_fake_new(1);
    struct snapshots *there;
    struct snapshot_intake *intake = NULL;
    struct snapshot_source *source;
    enum storage_status status =
        snapshots_open(disk_fake_disk(leader), options.cluster, &there, problem);
    assert_int_equal(status, STORAGE_OK);
    status = put_snapshot(there, next->snapshot_index, next->snapshot_term, problem);
    assert_int_equal(status, STORAGE_OK);
    status =
        snapshot_source_open(there, next->snapshot_index, next->snapshot_term, &source, problem);
    assert_int_equal(status, STORAGE_OK);
    status = snapshot_intake_begin(n->store.snapshots, snapshots_newest(there), &intake, problem);
    struct snapshot_piece piece = {.last = false};
    while (status == STORAGE_OK && !piece.last) {
        status = snapshot_source_next(source, &piece, problem);
        if (status == STORAGE_OK)
            status = snapshot_intake_feed(intake, piece.raw.data, piece.raw.len, problem);
    }
    if (status == STORAGE_OK)
        status = snapshot_intake_commit(intake, problem);
    else
        snapshot_intake_abort(intake);
    if (status == STORAGE_OK)
        status = log_reset(n->store.log, next->snapshot_index, next->snapshot_term, problem);
    status = status == STORAGE_OK ? snapshots_prune(n->store.snapshots, problem) : status;
    snapshot_source_close(source);
    snapshots_close(there);
    disk_fake_free(leader);
    return status;
}

/* One random thing; then it is acknowledged. */
static inline enum storage_status node_step(struct node *n, struct problem *problem)
{
    enum storage_status status;
    n->next = n->now;
    n->batch = 0;
    uint32_t what = random_below(&n->random, 20);
    if (n->now.term == 0 || what < 3)
        status = do_vote(n, problem);
    else if (what < 5)
        status = do_snapshot(n, problem);
    else if (what == 5)
        status = do_install(n, problem);
    else if (what == 6)
        status = log_prepare(n->store.log, problem);
    else if (what == 7)
        status = log_seal(n->store.log, problem);
    else
        status = do_append(n, problem);
    if (status == STORAGE_OK) {
        n->now = n->next;
        n->batch = 0;
    }
    return status;
}

/* ---- what may be found ---- */

static inline bool log_matches(struct node *n, const struct naive *log)
{
    struct log *real = n->store.log;
    uint64_t first = log->first > log_first(real) ? log->first : log_first(real);
    return log_last(real) == log->last && first_difference(real, log, first, log->last, 9999) == 0;
}

static inline bool facts_match(struct node *n, const struct facts *facts)
{
    const struct meta_state *meta = &n->store.meta.state;
    const struct snapshot_info *newest = snapshots_newest(n->store.snapshots);
    uint64_t index = newest == NULL ? 0 : newest->index;
    return meta->term == facts->term && meta->vote == facts->vote &&
           index == facts->snapshot_index && log_first(n->store.log) <= index + 1 &&
           log_matches(n, &facts->log);
}

/* The old facts, the new ones, or the new ones with a part of the batch. */
static inline bool node_is_allowed(struct node *n)
{
    if (facts_match(n, &n->now)) {
        n->next = n->now;
        return true;
    }
    bool found = false;
    for (size_t missing = 0; missing <= n->batch && !found; missing++) {
        found = facts_match(n, &n->next);
        if (!found && n->batch > missing)
            n->next.log.last--;
    }
    if (found)
        n->now = n->next;
    return found;
}

static inline struct node *node_copy(const struct node *from, uint64_t seed)
{
    struct node *n = malloc(sizeof(*n));
    *n = *from;
    n->fake = disk_fake_copy(from->fake, seed);
    n->random.state += seed;
    n->is_open = false;
    return n;
}

static inline void node_free(struct node *n)
{
    node_close(n);
    disk_fake_free(n->fake);
    free(n);
}

#endif
