/* One node: a production replica on its storage, its ports, its timers; how it starts and dies. */
#include "world.h"

#include "keys.h"
#include "node/snapshot/state_load.h"
#include "principals.h"
#include "tier.h"
#include "times.h"

static struct sim_node *node_of(void *ctx)
{
    return ctx;
}

bool node_is(const struct happening *h)
{
    const struct sim_node *n = &world.nodes[h->node];
    return n->up && n->life == h->life;
}

struct replica_time node_time(const struct sim_node *n)
{
    uint64_t boot_us = n->offset_us + (uint64_t)((double)world.now_us * n->rate);
    return (struct replica_time){boot_us, 1700000000000 + n->wall_ms + world.now_us / 1000};
}

/* A storage call failed: the node says nothing more, and is dead as soon as the call that it is in
 * has returned. */
void node_fail(struct sim_node *n, const char *why)
{
    if (!n->failed) {
        n->failed = true;
        trace("node %d gives up: %s", n->id, why);
    }
}

/* ---- ports ---- */

static void port_save_vote(void *ctx, uint64_t term, uint64_t vote)
{
    struct sim_node *n = node_of(ctx);
    struct problem problem;
    promise_vote(n, term, vote);
    if (vote == (uint64_t)n->id) {
        corners_stood(n, term);
    }
    if (!n->failed && meta_save_vote(&n->store.meta, term, vote, &problem) != STORAGE_OK) {
        node_fail(n, problem.text);
    }
}

static void port_write(void *ctx, uint64_t first, const struct replica_entry *entries,
                       uint32_t count)
{
    struct sim_node *n = node_of(ctx);
    shadow_truncated(n, first);
    terms_put(&n->memory, first, entries, count);
    for (uint32_t i = 0; i < count; i++) {
        if (entries[i].type == 3) {
            shadow_check_change(n, first + i, entries[i].bytes);
            shadow_note_change(n, first + i, entries[i].bytes);
        }
    }
    same_entries_written(n, first, entries, count);
    keys_written(first, entries, count);
    times_written(n, first, entries, count);
    principals_written(first, entries, count);
    disk_write_entries(n, first, entries, count);
}

static bool port_read(void *ctx, uint64_t index, struct replica_entry *out)
{
    return disk_read_entry(node_of(ctx), index, out);
}

static void port_send(void *ctx, uint64_t peer, struct slice message)
{
    network_send(node_of(ctx), peer, message);
}

static void port_take_snapshot(void *ctx, const struct core *core,
                               const struct replica_snapshot *about_it)
{
    snapshot_take(node_of(ctx), core, about_it);
}

static void port_fetch_snapshot(void *ctx, uint64_t peer, const struct replica_snapshot *about_it)
{
    snapshot_fetch(node_of(ctx), peer, about_it);
}

static void port_on_result(void *ctx, void *cookie, enum replica_outcome outcome,
                           const struct command *command, const struct result *result)
{
    struct sim_node *n = node_of(ctx);
    if (outcome == REPLICA_DONE) {
        memory_tier_on_replicated(n->tier, command, result);
        principals_result(n, command, result);
    }
    clients_result(n, cookie, outcome, result);
}

static void port_on_event(void *ctx, const struct event *event)
{
    struct sim_node *n = node_of(ctx);
    check_event(n, event);
    if (event->type == EVENT_UPGRADED && world.newest_us == 0 && n->replica != NULL &&
        core_version(replica_core(n->replica)) == CORE_VERSION) {
        world.newest_us = world.now_us;
    }
    memory_tier_on_event(n->tier, event);
    tier_truth_replicated(n, event);
    clients_event(n, event);
}

static void port_on_barrier(void *ctx, void *cookie, bool reached)
{
    clients_barrier(node_of(ctx), cookie, reached);
}

static void port_on_change(void *ctx)
{
    node_of(ctx)->members_changed = true;
    tier_follow(node_of(ctx));
}

/* ---- time ---- */

static void restart(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->a];
    if (n->used && !n->up && !n->lost && !n->held_down) {
        (void)node_start(n);
    }
}

/* E2: a timer that is always due is one that was not requested anew. */
static void check_timer(struct sim_node *n)
{
    enum { WINDOW_US = 10000, MOST = 500 };
    if (world.now_us > n->timers_since_us + WINDOW_US) {
        n->timers_since_us = world.now_us;
        n->timers = 0;
    }
    if (++n->timers > MOST) {
        violation("node %d: its timer came %u times within %d ms (E2)", n->id, n->timers,
                  WINDOW_US / 1000);
    }
}

static void timer(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->node];
    if (!node_is(h) || h->b != n->timer_us) {
        return;
    }
    n->timer_us = UINT64_MAX;
    check_timer(n);
    if (node_time(n).boot_us >= replica_next_us(n->replica)) {
        replica_on_timer(n->replica, node_time(n));
    }
    node_after(n);
}

void node_after(struct sim_node *n)
{
    if (!n->up) {
        return;
    }
    if (n->failed) {
        uint64_t id = (uint64_t)n->id;
        node_crash(n, one_in(world.weather.power));
        happen(20000 + chance_below(400000), restart, 0)->a = id;
        return;
    }
    tier_run(n);
    check_node(n);
    keys_applied(n);
    principals_applied(n);
    uint64_t next_us = replica_next_us(n->replica);
    uint64_t tier_us = tier_next_us(n);
    next_us = tier_us < next_us ? tier_us : next_us;
    uint64_t now_us = node_time(n).boot_us;
    uint64_t in_us = next_us <= now_us ? 1 : (uint64_t)((double)(next_us - now_us) / n->rate) + 1;
    if (next_us == UINT64_MAX || world.now_us + in_us >= n->timer_us) {
        return;
    }
    n->timer_us = world.now_us + in_us;
    happen(in_us, timer, n->id)->b = n->timer_us;
}

/* S7.3: a leader says when a node has been gone for more than a second; once a life of it. */
static void declare_gone(struct sim_node *n)
{
    struct replica_member members[MAX_NODES];
    if (n->serving_since_us == 0 || world.now_us < n->serving_since_us + 1000000) {
        return;
    }
    uint32_t count = replica_members(n->replica, members, MAX_NODES);
    for (uint32_t i = 0; i < count; i++) {
        const struct sim_node *other = &world.nodes[members[i].id];
        struct command gone;
        command_init(&gone, COMMAND_NODE_GONE);
        gone.node_gone.node = (uint32_t)members[i].id;
        if (!other->up && world.now_us > other->down_since_us + 1000000 &&
            n->declared[other->id] != other->life &&
            replica_has_majority(n->replica, node_time(n)) &&
            replica_submit(n->replica, &gone, (void *)(uintptr_t)1, node_time(n)) == HF_OK) {
            n->declared[other->id] = other->life;
            tier_node_gone(n, &gone);
        }
    }
    replica_flush(n->replica, node_time(n));
}

/* Ten times a second, as the node's own. */
static void maintain(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->node];
    if (node_is(h)) {
        declare_gone(n);
        node_after(n);
    }
    if (node_is(h)) {
        snapshot_drop_log(n);
        disk_idle(n);
        times_look(n);
        happen(100000, maintain, n->id);
    }
}

/* ---- starting ---- */

static bool load(struct sim_node *n, struct replica_start *start, struct replica_entry **entries,
                 struct log_piece *piece, struct problem *problem)
{
    struct core_options options = {.memory = memory_system(), .hash_key = (uint64_t)n->id};
    const struct snapshot_info *newest = snapshots_newest(n->store.snapshots);
    struct log *log = n->store.log;
    if (newest != NULL) {
        start->snapshot = (struct replica_snapshot){
            newest->index, newest->term, newest->configuration_index, newest->configuration};
        if (state_load(&n->store, newest->index, newest->term, &options, &start->core, problem) !=
            STORAGE_OK) {
            return false;
        }
    }
    start->first = log_first(log);
    start->count = (uint32_t)(log_last(log) + 1 - log_first(log));
    if (start->count > 0 &&
        log_read(log, start->first, UINT64_MAX, SIZE_MAX, piece, problem) != STORAGE_OK) {
        *piece = (struct log_piece){0};
        return false;
    }
    *entries = calloc(start->count + 1, sizeof(**entries));
    for (uint32_t i = 0; i < start->count; i++) {
        const struct log_entry *e = &piece->entries[i];
        (*entries)[i] = (struct replica_entry){e->term, e->type, e->data};
    }
    start->entries = *entries;
    return true;
}

/* The shadow begins anew with what the disk holds, which must be what it promised. */
static void take_over(struct sim_node *n, const struct replica_start *start)
{
    shadow_opened(n, start);
    shadow_reset_changes(n);
    uint64_t base = start->snapshot.index;
    struct terms *both[] = {&n->memory, &n->durable};
    for (int i = 0; i < 2; i++) {
        terms_reset(both[i], base, start->snapshot.term);
        if (start->count > 0) {
            terms_put(both[i], start->first, start->entries, start->count);
        }
        if (both[i]->last < base) {
            both[i]->last = base;
        }
    }
    if (base != 0) {
        shadow_note_change(n, start->snapshot.members_index, start->snapshot.members);
    }
    for (uint32_t i = 0; i < start->count; i++) {
        if (start->entries[i].type == 3 &&
            start->first + i > (base == 0 ? 0 : start->snapshot.members_index)) {
            shadow_note_change(n, start->first + i, start->entries[i].bytes);
        }
    }
}

/* All run the same program. In every third world the others say so late, as while they are upgraded
 * one by one: until then the state is of the version before (decision 21). */
static uint32_t port_peer_version(void *ctx, uint64_t peer)
{
    enum { UPGRADED_US = 20000000 };
    (void)ctx;
    (void)peer;
    return world.options.seed % 3 == 0 && world.now_us < UPGRADED_US ? CORE_VERSION - 1
                                                                     : CORE_VERSION;
}

static struct replica *make_replica(struct sim_node *n, const struct replica_start *start,
                                    const char **reason)
{
    struct replica_options options = {
        .memory = memory_system(),
        .id = (uint64_t)n->id,
        .address = n->address,
        .hash_key = (uint64_t)n->id, /* each its own: nothing may depend on it (S2.2) */
        .seed = (uint32_t)chance(),
        .election_ms = 300,
        .heartbeat_ms = 50,
        .snapshot_bytes = snapshot_trigger(n),
        .cache_bytes = 8000,
        .message_bytes = one_in(2) ? 600 : 20000,
        .trailing = 20,
        .ports = {n, port_save_vote, port_write, port_read, port_send, port_take_snapshot,
                  port_fetch_snapshot, port_on_result, port_on_event, port_on_barrier,
                  port_on_change, port_peer_version, NULL},
    };
    return replica_new(&options, start, node_time(n), reason);
}

/* Damage that was done is found and named; a disk that nobody damaged is never refused. */
static void refused(struct sim_node *n, const struct problem *problem)
{
    trace("node %d does not start: %s", n->id, problem->text);
    if (problem->status == STORAGE_FULL) {
        happen(300000, restart, 0)->a = (uint64_t)n->id;
        return;
    }
    if (!n->flipped) {
        violation("node %d does not start: %s", n->id, problem->text);
    }
    world.counts.damage_found++;
    n->lost = true;
}

bool node_start(struct sim_node *n)
{
    struct problem problem = {.text = ""};
    struct replica_start start = {0};
    struct replica_entry *entries = NULL;
    struct log_piece piece = {0};
    n->failed = false;
    if (!disk_begin(n, &problem)) {
        refused(n, &problem);
        return false;
    }
    n->life++;
    if (!load(n, &start, &entries, &piece, &problem)) {
        core_free(start.core);
        disk_crash(n, false);
        refused(n, &problem);
        return false;
    }
    n->flipped = false;
    n->up = true;
    n->up_since_us = world.now_us;
    n->paused_until_us = 0;
    memset(n->answered_us, 0, sizeof(n->answered_us));
    n->serving_since_us = 0;
    n->looked_at = 0;
    n->commit_index = 0;
    n->pre_votes = 0;
    n->ordered_to_stand = 0;
    n->members_changed = true;
    n->committed_count = 0;
    n->heard_term = 0;
    n->heard_ms = 0;
    n->timer_us = UINT64_MAX;
    take_over(n, &start);
    start.term = n->store.meta.state.term;
    start.vote = n->store.meta.state.vote;
    const char *reason = "";
    tier_open(n);
    n->replica = make_replica(n, &start, &reason);
    free(entries);
    log_piece_free(&piece);
    if (n->replica == NULL) {
        violation("node %d does not start: %s", n->id, reason);
    }
    n->drop_before = replica_log_start(n->replica);
    trace("node %d starts, life %u, term %llu, log %llu..%llu, snapshot %llu", n->id, n->life,
          ull(start.term), ull(start.first), ull(start.first + start.count - 1),
          ull(start.snapshot.index));
    trace_mark(n->id, "starts");
    happen(100000, maintain, n->id);
    node_after(n);
    return true;
}

/* ---- dying ---- */

/* Who dials a machine whose process has ended is notified (E22); who loses power says nothing. */
static void hears_of_end(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->node];
    const struct sim_node *ended = &world.nodes[h->from];
    if (!node_is(h) || ended->up || world.links[h->node][h->from].cut ||
        world.links[h->from][h->node].cut) {
        return;
    }
    replica_peer_ended(n->replica, (uint64_t)h->from, node_time(n));
    node_after(n);
}

static void tell_end(const struct sim_node *n)
{
    for (int i = 1; i <= MAX_NODES; i++) {
        if (i != n->id && world.nodes[i].up) {
            struct happening *h = happen(1000 + chance_below(20000), hears_of_end, i);
            h->from = n->id;
        }
    }
}

void node_crash(struct sim_node *n, bool power)
{
    if (!n->up) {
        if (power) {
            disk_fake_power_cut(n->fake);
        }
        return;
    }
    trace("node %d %s", n->id, power ? "loses power" : "crashes");
    trace_mark(n->id, power ? "power cut" : "crash");
    world.counts.crashes++;
    world.counts.power_cuts += power;
    n->up = false;
    n->down_since_us = world.now_us;
    if (!power) {
        tell_end(n);
    }
    memset(n->declared, 0, sizeof(n->declared));
    /* What a write under way or an installation may have replaced is no longer promised. */
    uint64_t pending = disk_pending_from(n);
    if (pending <= n->durable.last) {
        n->durable.last = pending - 1 > n->durable.base ? pending - 1 : n->durable.base;
    }
    uint64_t fetched = snapshot_fetched_index(n);
    if (fetched != 0 && n->durable.last > fetched) {
        n->durable.last = fetched > n->durable.base ? fetched : n->durable.base;
    }
    disk_crash(n, power); /* its writes borrow the replica's bytes */
    replica_free(n->replica);
    n->replica = NULL;
    tier_close(n);
    clients_node_died(n);
}

/* ---- all of them ---- */

struct sim_node *leader_now(void)
{
    struct sim_node *best = NULL;
    uint64_t best_term = 0;
    for (int i = 1; i <= MAX_NODES; i++) {
        struct sim_node *n = &world.nodes[i];
        if (n->up && n->serving_since_us != 0) {
            struct replica_status s;
            replica_status(n->replica, node_time(n), &s);
            if (s.serving && s.term > best_term) {
                best = n;
                best_term = s.term;
            }
        }
    }
    return best;
}

void node_make(int id)
{
    struct sim_node *n = &world.nodes[id];
    n->used = true;
    n->fake = disk_fake_new(chance());
}

static void bootstrap(struct sim_node *n, struct slice entry)
{
    struct problem problem;
    if (!disk_begin(n, &problem)) {
        violation("node %d cannot begin a folder: %s", n->id, problem.text);
    }
    struct log_entry first = {.term = 1, .type = 3, .data = entry};
    bool fine = meta_save_vote(&n->store.meta, 1, 0, &problem) == STORAGE_OK &&
                log_append(n->store.log, 1, &first, 1, &problem) == STORAGE_OK;
    struct meta_state next = n->store.meta.state;
    next.cluster = world.cluster;
    next.bootstrapped = true;
    if (!fine || meta_save(&n->store.meta, &next, &problem) != STORAGE_OK) {
        violation("node %d cannot be bootstrapped: %s", n->id, problem.text);
    }
    disk_crash(n, false);
    disk_fake_settle(n->fake);
}

/* Half of the worlds begin with five voters, the others with one to seven, mostly few. */
static int first_voters(void)
{
    static const int few[] = {1, 1, 1, 2, 2, 3, 3, 4, 6, 7};
    if (world.options.calm || one_in(2)) {
        return 5;
    }
    return few[chance_below(sizeof(few) / sizeof(few[0]))];
}

/* Some compact their log often and others hardly ever, so that a follower's log may begin behind
 * what its leader sends (E17). */
static uint64_t snapshot_bytes(void)
{
    static const uint64_t paces[] = {8000, 30000, 200000, 100000000};
    return world.weather.own_snapshots ? paces[chance_below(4)] : world.weather.snapshot_bytes;
}

void nodes_begin(void)
{
    struct replica_member members[MAX_FIRST];
    int first = first_voters();
    world.counts.small_worlds += first < 3;
    world.target_voters = (uint32_t)first;
    uint8_t bytes[1024];
    world.cluster = (struct id){chance() | 1, chance()};
    for (int i = 1; i <= MAX_NODES; i++) {
        struct sim_node *n = &world.nodes[i];
        n->id = i;
        /* S1.6: the rates of two clocks are 0.1 % apart at most. */
        n->rate = 1.0 + ((double)chance_below(1000) - 500.0) / 1e6;
        n->offset_us = chance_below(1000000000);
        snprintf(n->address, sizeof(n->address), "n%d", i);
        n->snapshot_bytes = snapshot_bytes();
        if (i <= first) {
            members[i - 1] = (struct replica_member){(uint64_t)i, n->address, true};
        }
    }
    size_t len = replica_bootstrap_entry(members, (uint32_t)first, bytes, sizeof(bytes));
    for (int i = 1; i <= first; i++) {
        node_make(i);
        bootstrap(&world.nodes[i], slice_make(bytes, len));
        (void)node_start(&world.nodes[i]);
    }
}

void nodes_end(void)
{
    for (int i = 1; i <= MAX_NODES; i++) {
        struct sim_node *n = &world.nodes[i];
        if (n->up) {
            node_crash(n, false);
        }
        shadow_free(n);
        disk_fake_free(n->fake);
    }
}
