/* Snapshots of a node, through the production storage: taken while the node goes on, announced and
 * kept until fetched, fetched from a peer piece by piece, installed (S12.4, S12.5). */
#include "world.h"

#include "core/snapshot.h"
#include "node/snapshot/state_load.h"

enum { BLOCK = 4096, PIECES_AT_ONCE = 8, PATIENCE_US = 1200000 };

struct sim_pinned {
    uint64_t index;
    uint64_t term;
};

/* One that is being written, and the two that were taken last, which may have been announced. */
struct taking {
    struct snapshot_output *output; /* NULL: none is written */
    bool naming;
    bool cancelled;
    struct sim_pinned now;
    struct sim_pinned newest;
    struct sim_pinned previous;
};

struct fetching {
    bool busy;
    int peer;
    uint64_t index;
    uint64_t term;
    uint64_t until_us;
    struct snapshot_intake *intake;
    struct core *core;
    struct {
        uint64_t index;
        uint8_t *bytes;
        size_t len;
    } members;
};

static struct taking *taking_of(struct sim_node *n)
{
    if (n->taking == NULL) {
        n->taking = calloc(1, sizeof(*n->taking));
    }
    return n->taking;
}

static struct fetching *fetching_of(struct sim_node *n)
{
    if (n->fetching == NULL) {
        n->fetching = calloc(1, sizeof(*n->fetching));
    }
    return n->fetching;
}

/* ---- old log ---- */

static enum storage_status drop(struct sim_node *n, struct problem *problem)
{
    return log_drop_before(n->store.log, n->drop_before, problem);
}

static void dropped(struct sim_node *n, enum storage_status status)
{
    (void)n;
    (void)status; /* what did not go now goes later */
}

void snapshot_drop_log(struct sim_node *n)
{
    uint64_t start = replica_log_start(n->replica);
    if (start > n->drop_before && !fetching_of(n)->busy) {
        n->drop_before = start;
        disk_run(n, drop, dropped);
    }
}

/* ---- taking ---- */

/* S12.5, with a floor of our own. */
uint64_t snapshot_trigger(const struct sim_node *n)
{
    uint64_t twice = 2 * snapshots_newest_bytes(n->store.snapshots);
    return twice > n->snapshot_bytes ? twice : n->snapshot_bytes;
}

static void tell_failed(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->node];
    if (node_is(h)) {
        replica_snapshot_failed(n->replica, node_time(n));
        node_after(n);
    }
}

static void fail(struct sim_node *n)
{
    struct taking *t = taking_of(n);
    snapshot_output_abort(t->output);
    t->output = NULL;
    happen(50000 + chance_below(200000), tell_failed, n->id);
}

static enum storage_status name_it(struct sim_node *n, struct problem *problem)
{
    struct taking *t = taking_of(n);
    struct snapshot_output *output = t->output;
    t->output = NULL;
    enum storage_status status = snapshot_output_commit(output, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    struct snapshots *all = n->store.snapshots;
    if (t->previous.index != 0) {
        snapshots_unpin(all, t->previous.index, t->previous.term);
    }
    t->previous = t->newest;
    t->newest = t->now;
    if (!snapshots_pin(all, t->newest.index, t->newest.term)) {
        t->newest = (struct sim_pinned){0, 0};
    }
    return snapshots_prune(all, problem);
}

static void on_named(struct sim_node *n, enum storage_status status)
{
    struct taking *t = taking_of(n);
    t->naming = false;
    if (status != STORAGE_OK || t->cancelled) {
        t->cancelled = false;
        happen(1, tell_failed, n->id);
        return;
    }
    world.counts.snapshots++;
    trace("node %d has a snapshot at %llu", n->id, ull(t->now.index));
    replica_set_snapshot_bytes(n->replica, snapshot_trigger(n));
    replica_snapshot_taken(n->replica, t->now.index, node_time(n));
    node_after(n);
}

/* The child has ended. */
static void on_ended(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->node];
    struct problem problem;
    if (!node_is(h) || taking_of(n)->output == NULL || taking_of(n)->now.index != h->a) {
        return;
    }
    struct taking *t = taking_of(n);
    if ((world.faults && one_in(10)) || snapshot_output_finish(t->output, &problem) != STORAGE_OK) {
        fail(n);
        return;
    }
    t->naming = true;
    disk_run(n, name_it, on_named);
}

static bool put(void *ctx, const void *data, size_t len)
{
    struct problem problem;
    return snapshot_output_put(ctx, data, len, &problem) == STORAGE_OK;
}

void snapshot_take(struct sim_node *n, const struct core *core,
                   const struct replica_snapshot *about_it)
{
    struct taking *t = taking_of(n);
    struct snapshot_info info = {.cluster = world.cluster,
                                 .index = about_it->index,
                                 .term = about_it->term,
                                 .configuration_index = about_it->members_index,
                                 .configuration = about_it->members};
    struct problem problem;
    check_snapshot(n, core, about_it);
    t->now = (struct sim_pinned){about_it->index, about_it->term};
    if (snapshot_output_begin(n->store.snapshots, &info, BLOCK, &t->output, &problem) !=
        STORAGE_OK) {
        t->output = NULL;
        happen(100000, tell_failed, n->id);
        return;
    }
    if (!snapshot_write(core, put, t->output)) {
        fail(n);
        return;
    }
    happen(1000 + chance_below(60000), on_ended, n->id)->a = about_it->index;
}

/* A snapshot of the leader's overtakes the one that is being taken. */
static void cancel(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->node];
    struct taking *t = taking_of(n);
    if (!node_is(h)) {
        return;
    }
    if (t->naming) {
        t->cancelled = true;
    } else if (t->output != NULL) {
        snapshot_output_abort(t->output);
        t->output = NULL;
        replica_snapshot_failed(n->replica, node_time(n));
        node_after(n);
    }
}

/* ---- fetching ---- */

static enum storage_status install(struct sim_node *n, struct problem *problem)
{
    struct fetching *f = fetching_of(n);
    struct core_options options = {.memory = memory_system(), .hash_key = (uint64_t)n->id};
    struct snapshot_intake *intake = f->intake;
    f->intake = NULL;
    enum storage_status status = snapshot_intake_commit(intake, problem);
    if (status == STORAGE_OK) {
        status = state_load(&n->store, f->index, f->term, &options, &f->core, problem);
    }
    if (status == STORAGE_OK) {
        status = log_reset(n->store.log, f->index, f->term, problem);
    }
    if (status == STORAGE_OK) {
        status = snapshots_prune(n->store.snapshots, problem);
    }
    return status;
}

static void give_up(struct sim_node *n, const char *why)
{
    node_fail(n, why);
    node_after(n);
}

/* E20: it goes on with its own log. */
static void abandon(struct sim_node *n, const char *why)
{
    struct fetching *f = fetching_of(n);
    trace("node %d abandons the snapshot at %llu: %s", n->id, ull(f->index), why);
    world.counts.abandoned++;
    snapshot_intake_abort(f->intake);
    f->intake = NULL;
    f->busy = false;
    replica_snapshot_abandoned(n->replica, node_time(n));
    node_after(n);
}

static void on_installed(struct sim_node *n, enum storage_status status)
{
    struct fetching *f = fetching_of(n);
    struct core *core = f->core;
    f->core = NULL;
    f->busy = false;
    if (status != STORAGE_OK) {
        core_free(core);
        give_up(n, "no space for a snapshot");
        return;
    }
    world.counts.installs++;
    trace("node %d has installed the snapshot at %llu of node %d", n->id, ull(f->index), f->peer);
    terms_reset(&n->durable, f->index, f->term);
    shadow_reset_changes(n);
    terms_reset(&n->memory, f->index, f->term);
    shadow_note_change(n, f->members.index, slice_make(f->members.bytes, f->members.len));
    n->members_moved = false;
    replica_snapshot_installed(n->replica, core, node_time(n));
    node_after(n);
}

/* Some pieces; false when there will never be more of it. */
static bool receive_some(struct fetching *f, struct sim_node *peer, bool *complete)
{
    struct problem problem;
    struct snapshot_source *source;
    if (snapshot_source_open(peer->store.snapshots, f->index, f->term, &source, &problem) !=
        STORAGE_OK) {
        return false;
    }
    bool fine = snapshot_source_skip(source, snapshot_intake_received(f->intake));
    struct snapshot_piece piece = {.last = false};
    for (int i = 0; i < PIECES_AT_ONCE && fine && !piece.last; i++) {
        fine =
            snapshot_source_next(source, &piece, &problem) == STORAGE_OK &&
            snapshot_intake_feed(f->intake, piece.raw.data, piece.raw.len, &problem) == STORAGE_OK;
    }
    snapshot_source_close(source);
    *complete = fine && piece.last;
    return fine;
}

static void on_pieces(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->node];
    struct fetching *f = fetching_of(n);
    if (!node_is(h) || !f->busy || f->intake == NULL) {
        return;
    }
    struct sim_node *peer = &world.nodes[f->peer];
    bool complete = false;
    if (!network_reaches(f->peer, n->id) || !network_reaches(n->id, f->peer) ||
        peer->paused_until_us > world.now_us) {
        if (world.now_us > f->until_us) {
            abandon(n, "its sender is gone");
            return;
        }
        happen(50000 + chance_below(200000), on_pieces, n->id);
        return;
    }
    if (!receive_some(f, peer, &complete)) {
        abandon(n, "its sender does not have it any more");
        return;
    }
    if (complete) {
        disk_run(n, install, on_installed);
        return;
    }
    f->until_us = world.now_us + PATIENCE_US;
    happen(500 + chance_below(20000), on_pieces, n->id);
}

void snapshot_fetch(struct sim_node *n, uint64_t peer, const struct replica_snapshot *about_it)
{
    struct fetching *f = fetching_of(n);
    struct snapshot_info expected = {.cluster = world.cluster,
                                     .index = about_it->index,
                                     .term = about_it->term,
                                     .configuration_index = about_it->members_index,
                                     .configuration = about_it->members};
    struct problem problem;
    happen(1, cancel, n->id);
    if (f->busy) {
        violation("node %d fetches two snapshots at once", n->id);
    }
    free(f->members.bytes);
    *f = (struct fetching){.busy = true,
                           .peer = (int)peer,
                           .index = about_it->index,
                           .term = about_it->term,
                           .until_us = world.now_us + PATIENCE_US};
    f->members.index = about_it->members_index;
    f->members.len = about_it->members.len;
    f->members.bytes = malloc(about_it->members.len);
    memcpy(f->members.bytes, about_it->members.data, about_it->members.len);
    if (snapshot_intake_begin(n->store.snapshots, &expected, &f->intake, &problem) != STORAGE_OK) {
        f->intake = NULL;
        node_fail(n, problem.text);
        return;
    }
    trace("node %d fetches the snapshot at %llu of node %llu", n->id, ull(about_it->index),
          ull(peer));
    happen(500 + chance_below(30000), on_pieces, n->id);
    corners_fetching(n, peer);
}

uint64_t snapshot_fetched_index(const struct sim_node *n)
{
    return n->fetching != NULL && n->fetching->busy ? n->fetching->index : 0;
}

void snapshot_forget(struct sim_node *n)
{
    if (n->taking != NULL) {
        snapshot_output_abort(n->taking->output);
        free(n->taking);
        n->taking = NULL;
    }
    if (n->fetching != NULL) {
        if (n->fetching->intake != NULL) {
            snapshot_intake_abort(n->fetching->intake);
        }
        core_free(n->fetching->core);
        free(n->fetching->members.bytes);
        free(n->fetching);
        n->fetching = NULL;
    }
}
