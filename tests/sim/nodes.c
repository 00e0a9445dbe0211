/* Nodes: a production replica on a faked disk and network, crashes, cuts and changes of members. */
#include "world.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static struct node *node_of(void *ctx)
{
    return ctx;
}

/* Disk. Term and vote are durable at once; entries after a while and in order; a crash loses what
 * is on its way. */

static struct stored_entry *disk_at(struct disk *d, uint64_t index)
{
    if (index < d->first || index >= d->first + d->count) {
        return NULL;
    }
    return &d->entries[index - d->first];
}

static void disk_put(struct disk *d, uint64_t index, const struct stored_entry *entry)
{
    if (index < d->first || index > d->first + d->count) {
        violation("a write at %llu leaves a gap behind %llu", (unsigned long long)index,
                  (unsigned long long)(d->first + d->count - 1));
    }
    while (d->first + d->count > index) {
        free(d->entries[--d->count].bytes);
    }
    if (d->count == d->capacity) {
        d->capacity = d->capacity == 0 ? 256 : d->capacity * 2;
        d->entries = realloc(d->entries, d->capacity * sizeof(*d->entries));
    }
    d->entries[d->count++] = *entry;
}

static void disk_drop_before(struct disk *d, uint64_t index)
{
    uint64_t n = index <= d->first ? 0 : index - d->first;
    n = n < d->count ? n : d->count;
    for (uint64_t i = 0; i < n; i++) {
        free(d->entries[i].bytes);
    }
    if (n > 0) {
        memmove(d->entries, d->entries + n, (d->count - n) * sizeof(*d->entries));
    }
    d->count -= n;
    d->first += n;
}

static void snapshot_free(struct stored_snapshot *s)
{
    free(s->bytes);
    free((void *)(uintptr_t)s->about.members.data);
    memset(s, 0, sizeof(*s));
}

struct pending_write {
    uint64_t first;
    uint32_t count;
    struct stored_entry entries[];
};

static bool is_of_this_life(const struct happening *h)
{
    const struct node *n = &world.nodes[h->node];
    return n->up && n->life == h->life;
}

static void write_lost(struct happening *h)
{
    struct pending_write *p = h->data;
    for (uint32_t i = 0; i < p->count; i++) {
        free(p->entries[i].bytes);
    }
}

static void write_done(struct happening *h)
{
    struct pending_write *p = h->data;
    struct node *n = &world.nodes[h->node];
    if (!is_of_this_life(h)) {
        write_lost(h);
        return;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        disk_put(&n->disk, p->first + i, &p->entries[i]);
    }
    replica_written(n->replica, p->first + p->count - 1, node_time(n));
    node_after(n);
}

static uint64_t io_delay(struct node *n)
{
    uint64_t slow = world.faults && one_in(50) ? 60000 : 2000;
    uint64_t at = world.now_us + 100 + chance_below(slow);
    if (at < n->last_io_us) {
        at = n->last_io_us;
    }
    n->last_io_us = at;
    return at - world.now_us;
}

static void port_save_vote(void *ctx, uint64_t term, uint64_t vote)
{
    struct node *n = node_of(ctx);
    if (term < n->disk.term) {
        violation("node %d: the term goes back", n->id);
    }
    n->disk.term = term;
    n->disk.vote = vote;
}

static void port_write(void *ctx, uint64_t first, const struct replica_entry *entries,
                       uint32_t count)
{
    struct node *n = node_of(ctx);
    struct pending_write *p = malloc(sizeof(*p) + count * sizeof(p->entries[0]));
    p->first = first;
    p->count = count;
    for (uint32_t i = 0; i < count; i++) {
        p->entries[i] =
            (struct stored_entry){entries[i].term, entries[i].type,
                                  malloc(entries[i].bytes.len + 1), entries[i].bytes.len};
        memcpy(p->entries[i].bytes, entries[i].bytes.data, entries[i].bytes.len);
    }
    struct happening *h = happen(io_delay(n), write_done, n->id);
    h->data = p;
    h->drop = write_lost;
}

static bool port_read(void *ctx, uint64_t index, struct replica_entry *out)
{
    const struct stored_entry *e = disk_at(&node_of(ctx)->disk, index);
    if (e == NULL) {
        return false;
    }
    *out = (struct replica_entry){e->term, e->type, slice_make(e->bytes, e->len)};
    return true;
}

/* Network: each pair in order, a message at most once; what belongs to an earlier life of either
 * end is dropped. */

static void deliver(struct happening *h)
{
    struct node *n = &world.nodes[h->node];
    const struct node *from = &world.nodes[h->from];
    if (!is_of_this_life(h) || !from->up || from->life != h->from_life ||
        world.cut[h->from][h->node]) {
        return;
    }
    if (!replica_receive(n->replica, (uint64_t)h->from, slice_make(h->data, h->len),
                         node_time(n))) {
        violation("node %d could not read a message of node %d", n->id, h->from);
    }
    node_after(n);
}

static void port_send(void *ctx, uint64_t peer, struct slice message)
{
    struct node *n = node_of(ctx);
    if (peer == 0 || peer > MAX_NODES || !world.nodes[peer].used || (world.faults && one_in(60))) {
        return;
    }
    uint64_t *last = &world.last_delivery_us[n->id][peer];
    uint64_t slow = world.faults && one_in(30) ? 150000 : 3000;
    uint64_t at = world.now_us + 50 + chance_below(slow);
    if (at < *last) {
        at = *last;
    }
    *last = at;
    struct happening *h = happen(at - world.now_us, deliver, (int)peer);
    h->from = n->id;
    h->from_life = n->life;
    h->data = malloc(message.len + 1);
    h->len = message.len;
    memcpy(h->data, message.data, message.len);
}

/* Snapshots. */

struct growing {
    uint8_t *data;
    size_t len;
    size_t size;
};

static bool grow(void *ctx, const void *data, size_t len)
{
    struct growing *g = ctx;
    if (g->len + len > g->size) {
        g->size = (g->len + len) * 2;
        g->data = realloc(g->data, g->size);
    }
    memcpy(g->data + g->len, data, len);
    g->len += len;
    return true;
}

static void own_about(struct replica_snapshot *to, const struct replica_snapshot *from)
{
    *to = *from;
    uint8_t *copy = malloc(from->members.len);
    memcpy(copy, from->members.data, from->members.len);
    to->members = slice_make(copy, from->members.len);
}

static void snapshot_lost(struct happening *h)
{
    snapshot_free(h->data);
}

static void snapshot_written(struct happening *h)
{
    struct stored_snapshot *s = h->data;
    struct node *n = &world.nodes[h->node];
    if (!is_of_this_life(h) || one_in(10)) {
        snapshot_free(s);
        if (is_of_this_life(h)) { /* the child died */
            replica_snapshot_failed(n->replica, node_time(n));
            node_after(n);
        }
        return;
    }
    uint64_t index = s->about.index;
    if (index > n->disk.snapshot.about.index) {
        snapshot_free(&n->disk.snapshot);
        n->disk.snapshot = *s;
        world.counts.snapshots++;
    } else {
        snapshot_free(s);
    }
    replica_snapshot_taken(n->replica, index, node_time(n));
    disk_drop_before(&n->disk, replica_log_start(n->replica));
    node_after(n);
}

static void port_take_snapshot(void *ctx, const struct core *core,
                               const struct replica_snapshot *about)
{
    struct node *n = node_of(ctx);
    struct stored_snapshot *s = calloc(1, sizeof(*s));
    struct growing g = {NULL, 0, 0};
    if (!snapshot_write(core, grow, &g)) {
        violation("node %d could not write a snapshot", n->id);
    }
    s->bytes = g.data;
    s->len = g.len;
    own_about(&s->about, about);
    struct happening *h = happen(1000 + chance_below(60000), snapshot_written, n->id);
    h->data = s;
    h->drop = snapshot_lost;
}

static struct core *restore(const struct stored_snapshot *s, int id)
{
    struct core_options options = {.memory = memory_system(), .hash_key = (uint64_t)id};
    struct snapshot_reader *reader = snapshot_reader_new(&options);
    (void)snapshot_reader_feed(reader, s->bytes, s->len);
    struct core *core = NULL;
    struct snapshot_problem problem;
    if (snapshot_reader_finish(reader, &core, &problem) != HF_OK) {
        violation("node %d: a snapshot does not restore: %s", id, problem.text);
    }
    return core;
}

static void snapshot_fetched(struct happening *h)
{
    struct stored_snapshot *s = h->data;
    struct node *n = &world.nodes[h->node];
    if (!is_of_this_life(h)) {
        snapshot_free(s);
        return;
    }
    snapshot_free(&n->disk.snapshot);
    n->disk.snapshot = *s;
    disk_drop_before(&n->disk, UINT64_MAX);
    n->disk.first = s->about.index + 1;
    n->disk.count = 0;
    world.counts.installs++;
    replica_snapshot_installed(n->replica, restore(&n->disk.snapshot, n->id), node_time(n));
    node_after(n);
}

/* The sender keeps the file that it promised until it was fetched (S12.4); here its state is gone
 * when it crashed or took another one in the same instant, and then the fetch fails for good: the
 * node exits and is started again. */
static void exit_and_restart(struct happening *h)
{
    if (is_of_this_life(h)) {
        node_crash(&world.nodes[h->node]);
        node_start(&world.nodes[h->node]);
    }
}

static void port_fetch_snapshot(void *ctx, uint64_t peer, const struct replica_snapshot *about)
{
    struct node *n = node_of(ctx);
    const struct stored_snapshot *from = &world.nodes[peer].disk.snapshot;
    if (from->about.index != about->index) {
        happen(1000, exit_and_restart, n->id);
        return;
    }
    struct stored_snapshot *s = calloc(1, sizeof(*s));
    own_about(&s->about, about);
    s->bytes = malloc(from->len);
    s->len = from->len;
    memcpy(s->bytes, from->bytes, from->len);
    uint64_t delay = 1000 + chance_below(80000);
    if (world.now_us + delay < n->last_io_us) {
        delay = n->last_io_us - world.now_us;
    }
    n->last_io_us = world.now_us + delay;
    struct happening *h = happen(delay, snapshot_fetched, n->id);
    h->data = s;
    h->drop = snapshot_lost;
}

/* What happened. */

static void port_on_result(void *ctx, void *cookie, enum replica_outcome outcome,
                           const struct command *command, const struct result *result)
{
    clients_result(node_of(ctx), cookie, outcome, command, result);
}

static void port_on_event(void *ctx, const struct event *event)
{
    check_applied(node_of(ctx), event);
}

static void port_on_barrier(void *ctx, void *cookie, bool reached)
{
    (void)ctx;
    (void)cookie;
    (void)reached;
}

static void port_on_change(void *ctx)
{
    (void)ctx;
}

/* Life and death. */

static void timer(struct happening *h)
{
    struct node *n = &world.nodes[h->node];
    if (!is_of_this_life(h) || h->at_us != n->timer_us) {
        return;
    }
    n->timer_us = UINT64_MAX;
    replica_on_timer(n->replica, node_time(n));
    node_after(n);
}

void node_after(struct node *n)
{
    struct replica_status status;
    replica_status(n->replica, node_time(n), &status);
    if (status.is_leader) {
        check_leader(n, status.term);
    }
    check_state(n);
    uint64_t next_us = replica_next_us(n->replica);
    uint64_t now_us = node_time(n).boot_us;
    uint64_t in_us = next_us <= now_us ? 1 : (uint64_t)((double)(next_us - now_us) / n->rate) + 1;
    if (next_us == UINT64_MAX || world.now_us + in_us >= n->timer_us) {
        return;
    }
    n->timer_us = world.now_us + in_us;
    happen(in_us, timer, n->id);
}

void node_start(struct node *n)
{
    struct disk *d = &n->disk;
    n->life++;
    n->up = true;
    n->last_io_us = world.now_us;
    n->timer_us = UINT64_MAX;
    struct replica_entry *entries = calloc(d->count + 1, sizeof(*entries));
    for (uint64_t i = 0; i < d->count; i++) {
        entries[i] = (struct replica_entry){d->entries[i].term, d->entries[i].type,
                                            slice_make(d->entries[i].bytes, d->entries[i].len)};
    }
    struct replica_options options = {
        .memory = memory_system(),
        .id = (uint64_t)n->id,
        .address = n->address,
        .hash_key = (uint64_t)n->id, /* each its own: nothing may depend on it (S2.2) */
        .seed = (uint32_t)chance(),
        .election_ms = 300,
        .heartbeat_ms = 50,
        .snapshot_bytes = 20000,
        .cache_bytes = 4000,
        .message_bytes = 600,
        .trailing = 20,
        .ports = {n, port_save_vote, port_write, port_read, port_send, port_take_snapshot,
                  port_fetch_snapshot, port_on_result, port_on_event, port_on_barrier,
                  port_on_change},
    };
    struct replica_start start = {
        .term = d->term,
        .vote = d->vote,
        .snapshot = d->snapshot.about,
        .core = d->snapshot.about.index == 0 ? NULL : restore(&d->snapshot, n->id),
        .first = d->first,
        .entries = entries,
        .count = (uint32_t)d->count,
    };
    const char *problem = NULL;
    n->replica = replica_new(&options, &start, node_time(n), &problem);
    free(entries);
    if (n->replica == NULL) {
        violation("node %d does not start: %s", n->id, problem);
    }
    trace("node %d starts, life %u, log %llu..%llu", n->id, n->life, (unsigned long long)d->first,
          (unsigned long long)(d->first + d->count - 1));
    node_after(n);
}

void node_crash(struct node *n)
{
    if (n->up) {
        trace("node %d crashes", n->id);
        world.counts.crashes++;
        n->up = false;
        replica_free(n->replica);
        n->replica = NULL;
    }
}

struct node *leader_now(void)
{
    struct node *best = NULL;
    uint64_t best_term = 0;
    for (int i = 1; i <= MAX_NODES; i++) {
        struct node *n = &world.nodes[i];
        if (n->up) {
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

void nodes_begin(int count)
{
    struct replica_member members[MAX_NODES];
    for (int i = 1; i <= count; i++) {
        struct node *n = &world.nodes[i];
        snprintf(n->address, sizeof(n->address), "n%d", i);
        members[i - 1] = (struct replica_member){(uint64_t)i, n->address, true};
    }
    uint8_t bytes[1024];
    size_t len = replica_bootstrap_entry(members, (uint32_t)count, bytes, sizeof(bytes));
    for (int i = 1; i <= MAX_NODES; i++) {
        struct node *n = &world.nodes[i];
        n->id = i;
        n->rate = 1.0 + ((double)chance_below(1000) - 500.0) / 1e6; /* S1.6: 0.1 % apart at most */
        n->offset_us = chance_below(1000000000);
        n->disk.first = 1;
        snprintf(n->address, sizeof(n->address), "n%d", i);
        if (i <= count) {
            struct stored_entry first = {1, 3, malloc(len), len};
            memcpy(first.bytes, bytes, len);
            n->used = true;
            n->disk.term = 1;
            disk_put(&n->disk, 1, &first);
            node_start(n);
        }
    }
}

void nodes_end(void)
{
    for (int i = 1; i <= MAX_NODES; i++) {
        struct node *n = &world.nodes[i];
        if (n->up) {
            replica_free(n->replica);
        }
        disk_drop_before(&n->disk, UINT64_MAX);
        free(n->disk.entries);
        snapshot_free(&n->disk.snapshot);
    }
}

/* Faults. */

static void restart(struct happening *h)
{
    struct node *n = &world.nodes[h->node];
    if (n->used && !n->up) {
        node_start(n);
    }
}

static void heal(struct happening *h)
{
    world.cut[h->from][h->node] = false;
}

static void add_member(struct node *leader)
{
    for (int i = 1; i <= MAX_NODES; i++) {
        struct node *n = &world.nodes[i];
        const char *problem = NULL;
        if (!n->used && replica_change_member(leader->replica, REPLICA_ADD, (uint64_t)i, n->address,
                                              node_time(leader), &problem) == HF_OK) {
            n->used = true;
            node_start(n); /* with nothing on its disk */
            world.counts.changes++;
            return;
        }
        if (!n->used) {
            return;
        }
    }
}

static void change_members(struct happening *h)
{
    (void)h;
    struct node *leader = leader_now();
    if (leader == NULL || !world.faults) {
        return;
    }
    struct replica_member members[MAX_NODES];
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    uint32_t voters = 0;
    for (uint32_t i = 0; i < count; i++) {
        voters += members[i].voter;
    }
    const struct replica_member *m = &members[chance_below(count)];
    const char *problem = NULL;
    enum hf_error error = HF_BUSY;
    switch (chance_below(5)) {
    case 0:
        if (count < 6) {
            add_member(leader);
        }
        break;
    case 1:
        error = replica_transfer(leader->replica, 0, node_time(leader), &problem);
        world.counts.transfers += error == HF_OK;
        break;
    case 2:
        if (m->voter && voters > 3) {
            error = replica_change_member(leader->replica, REPLICA_DEMOTE, m->id, NULL,
                                          node_time(leader), &problem);
        }
        break;
    case 3:
        if (voters > 3 || !m->voter) {
            error = replica_change_member(leader->replica, REPLICA_REMOVE, m->id, NULL,
                                          node_time(leader), &problem);
        }
        break;
    default:
        if (!m->voter) {
            error = replica_change_member(leader->replica, REPLICA_PROMOTE, m->id, NULL,
                                          node_time(leader), &problem);
        }
        break;
    }
    world.counts.changes += error == HF_OK;
    node_after(leader);
}

static void fault(struct happening *h)
{
    (void)h;
    if (!world.faults) {
        return;
    }
    int node = 1 + (int)chance_below(MAX_NODES);
    if (one_in(3)) {
        if (world.nodes[node].up) {
            node_crash(&world.nodes[node]);
            happen(50000 + chance_below(2500000), restart, node);
        }
    } else {
        int from = 1 + (int)chance_below(MAX_NODES);
        world.cut[from][node] = true;
        world.counts.cuts++;
        happen(50000 + chance_below(3000000), heal, node)->from = from;
    }
    happen(100000 + chance_below(600000), fault, 0);
}

static void next_change(struct happening *h)
{
    change_members(h);
    if (world.faults) {
        happen(200000 + chance_below(1500000), next_change, 0);
    }
}

void faults_schedule(void)
{
    world.faults = true;
    happen(500000, fault, 0);
    happen(900000, next_change, 0);
}

void faults_stop(void)
{
    world.faults = false;
    memset(world.cut, 0, sizeof(world.cut));
    for (int i = 1; i <= MAX_NODES; i++) {
        if (world.nodes[i].used && !world.nodes[i].up) {
            node_start(&world.nodes[i]);
        }
    }
}
