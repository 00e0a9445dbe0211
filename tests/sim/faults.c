/* What goes wrong, and when: by the weather of the seed. Each kind of fault comes again and again
 * by itself until the faults stop. */
#include "world.h"

int some_node(void)
{
    int up[MAX_NODES];
    int count = 0;
    for (int i = 1; i <= MAX_NODES; i++) {
        if (world.nodes[i].used && world.nodes[i].up) {
            up[count++] = i;
        }
    }
    return count == 0 ? 0 : up[chance_below((uint64_t)count)];
}

/* Often the leader, on whom most depends. */
static int some_target(void)
{
    const struct sim_node *leader = leader_now();
    return leader != NULL && one_in(2) ? leader->id : some_node();
}

static void restart(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->a];
    if (n->used && !n->up && !n->lost && !n->held_down) {
        (void)node_start(n);
    }
}

static void restart_in(int node, uint64_t in_us)
{
    happen(in_us, restart, 0)->a = (uint64_t)node;
}

/* ---- nodes ---- */

static void crash(struct happening *h)
{
    (void)h;
    int node = some_target();
    if (node != 0) {
        node_crash(&world.nodes[node], one_in(world.weather.power));
        restart_in(node, 20000 + about(one_in(2) ? 100000 : 1200000));
    }
}

/* All at once, or all but a few. */
static void blackout(struct happening *h)
{
    (void)h;
    bool power = world.weather.power != 0;
    world.counts.blackouts++;
    for (int i = 1; i <= MAX_NODES; i++) {
        if (world.nodes[i].used && !world.nodes[i].lost && !one_in(5)) {
            node_crash(&world.nodes[i], power);
            restart_in(i, 20000 + about(300000));
        }
    }
}

static void paused(struct happening *h)
{
    (void)h;
    int node = some_target();
    if (node != 0) {
        world.counts.pauses++;
        uint64_t for_us = 1000 + about(world.weather.pause_for);
        node_pause(&world.nodes[node], for_us);
        trace("node %d stands still for %llu ms", node, ull(for_us / 1000));
        trace_mark(node, "pause");
    }
}

static void jump(struct happening *h)
{
    (void)h;
    int node = some_node();
    world.nodes[node].wall_ms = chance_below(3) == 0 ? 0 : chance_below(7200000);
}

/* ---- disks ---- */

static void slow_disk(struct happening *h)
{
    (void)h;
    struct sim_node *n = &world.nodes[some_target()];
    n->slow_us = 20000 + chance_below(400000);
    n->slow_until_us = world.now_us + about(2000000);
    world.counts.slow_disks++;
}

static void space_again(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->a];
    n->full_until_us = 0;
    disk_fake_set_capacity(n->fake, UINT64_MAX);
}

static void full_disk(struct happening *h)
{
    (void)h;
    int node = some_target();
    struct sim_node *n = &world.nodes[node];
    if (node == 0 || n->full_until_us != 0) {
        return;
    }
    world.counts.full_disks++;
    trace("the disk of node %d is full", node);
    disk_fake_set_capacity(n->fake, disk_fake_bytes(n->fake) + chance_below(40000));
    uint64_t for_us = 100000 + about(2000000);
    n->full_until_us = world.now_us + for_us;
    happen(for_us, space_again, 0)->a = (uint64_t)node;
}

/* The process dies at the disk's next operation but so many. */
static void stop_disk(struct happening *h)
{
    (void)h;
    int node = some_target();
    if (node != 0) {
        world.counts.stops++;
        disk_fake_stop_after(world.nodes[node].fake, chance_below(12));
    }
}

/* ---- lost disks ---- */

/* A leader that stood still may not know its successor, and who votes now. */
static bool has_later_term(uint64_t term)
{
    for (int i = 1; i <= MAX_NODES; i++) {
        const struct sim_node *n = &world.nodes[i];
        if (n->up) {
            struct replica_status s;
            replica_status(n->replica, node_time(n), &s);
            if (s.term > term) {
                return true;
            }
        }
    }
    return false;
}

/* One at a time, and only with a majority of voters besides it: more is the end of any cluster. */
static bool may_lose(int node)
{
    struct replica_member members[MAX_NODES];
    const struct sim_node *leader = leader_now();
    if (leader == NULL || node == 0) {
        return false;
    }
    struct replica_status s;
    replica_status(leader->replica, node_time(leader), &s);
    if (s.members_change || has_later_term(s.term)) { /* a change may be undone: fewer vote then */
        return false;
    }
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    uint32_t voters = 0;
    for (uint32_t i = 0; i < count; i++) {
        voters += members[i].voter;
        const struct sim_node *n = &world.nodes[members[i].id];
        if (n->lost || n->flipped || n->held_down) { /* a second loss may end the majority */
            return false;
        }
    }
    return voters >= 3;
}

static void visit_file(void *ctx, const char *name)
{
    char(*best)[DISK_NAME_MAX + 1] = ctx;
    if (strcmp(name, "lock") != 0 && (*best[0] == '\0' || one_in(3))) {
        snprintf(*best, sizeof(*best), "%s", name);
    }
}

/* A bit of some file. The log must be sealed: until then damage in its last batch looks like a
 * write that the power cut (log.h). */
static void flip(struct sim_node *n)
{
    char name[DISK_NAME_MAX + 1] = "";
    struct problem problem;
    if (log_wants_seal(n->store.log) || disk_pending_from(n) != UINT64_MAX) {
        return;
    }
    node_crash(n, false);
    (void)disk_list(disk_fake_disk(n->fake), visit_file, &name, &problem);
    uint64_t size = 0;
    if (name[0] == '\0' || disk_fake_file(n->fake, name, &size) == NULL || size == 0) {
        restart_in(n->id, 1000);
        return;
    }
    n->flipped = true;
    world.counts.flips++;
    trace("a bit flips in %s of node %d", name, n->id);
    disk_fake_flip(n->fake, name, chance_below(size), (unsigned)chance_below(8));
    restart_in(n->id, 100000 + about(200000));
}

/* Comes back with an empty disk under its old id: nobody may listen to it (S12.1). */
static void wipe(struct sim_node *n)
{
    world.counts.wiped++;
    node_crash(n, true);
    trace("node %d lost its disk", n->id);
    disk_fake_free(n->fake);
    n->fake = disk_fake_new(chance());
    n->known = (struct known_stores){0};
    n->lost = true;
    terms_reset(&n->durable, 0, 0);
    terms_reset(&n->memory, 0, 0);
    shadow_reset_changes(n);
    (void)node_start(n);
}

static void lose_disk(struct happening *h)
{
    (void)h;
    int node = some_node();
    if (!may_lose(node)) {
        return;
    }
    if (one_in(2)) {
        wipe(&world.nodes[node]);
    } else {
        flip(&world.nodes[node]);
    }
}

/* ---- the network ---- */

static void cut(struct happening *h)
{
    (void)h;
    int from = some_node();
    int to = some_node();
    uint64_t for_us = 20000 + about(world.weather.cut_for);
    world.counts.cuts++;
    network_cut(from, to, for_us);
    if (one_in(2)) {
        network_cut(to, from, for_us);
    }
}

/* Whom nobody hears, who hears nobody, or both; alone or with a companion. */
static void isolate(struct happening *h)
{
    (void)h;
    int node = some_target();
    int friend = one_in(3) ? some_node() : 0;
    uint64_t for_us = 50000 + about(world.weather.cut_for);
    uint64_t how = chance_below(3);
    world.counts.isolations++;
    trace("node %d is cut off", node);
    for (int i = 1; i <= MAX_NODES; i++) {
        if (i == node || i == friend || !world.nodes[i].used) {
            continue;
        }
        if (how != 0) {
            network_cut(node, i, for_us);
        }
        if (how != 1) {
            network_cut(i, node, for_us);
        }
    }
}

/* ---- the lead ---- */

/* Under load there is nearly always a batch in flight: it is tried again for a while. */
static void give_lead(struct happening *h)
{
    struct sim_node *leader = leader_now();
    if (leader == NULL || leader->failed || leader->paused_until_us > world.now_us) {
        return;
    }
    uint64_t before = world.counts.transfers;
    members_transfer(leader, one_in(2) ? 0 : (uint64_t)some_node());
    node_after(leader);
    if (world.counts.transfers == before && h->b < 20) {
        happen(200 + chance_below(400), give_lead, 0)->b = h->b + 1;
    }
}

static void transfer(struct happening *h)
{
    (void)h;
    happen(0, give_lead, 0);
}

static void slow_link(struct happening *h)
{
    (void)h;
    world.links[some_node()][some_node()].slow_until_us = world.now_us + about(1500000);
}

static void broken(struct happening *h)
{
    (void)h;
    network_break(some_node(), some_node());
}

static void calm(struct happening *h)
{
    (void)h;
    world.calm_until_us = world.now_us + about(3000000);
}

/* ---- again and again ---- */

static struct fault_source {
    uint64_t *every;
    void (*make)(struct happening *h);
} faults[] = {
    {&world.weather.crash, crash},
    {&world.weather.blackout, blackout},
    {&world.weather.pause, paused},
    {&world.weather.jump, jump},
    {&world.weather.slow_disk, slow_disk},
    {&world.weather.full, full_disk},
    {&world.weather.stop, stop_disk},
    {&world.weather.loss_of_disk, lose_disk},
    {&world.weather.cut, cut},
    {&world.weather.isolate, isolate},
    {&world.weather.slow_link, slow_link},
    {&world.weather.broken, broken},
    {&world.weather.calm, calm},
    {&world.weather.corner, corners_make},
    {&world.weather.transfer, transfer},
    {&world.weather.target, members_retarget},
    {&world.weather.small, corners_small},
    {&world.weather.stall, corners_stall},
    {&world.weather.late, corners_late},
};

static void again(struct happening *h)
{
    if (!world.faults) {
        return;
    }
    const struct fault_source *f = &faults[h->a];
    if (world.counts.beheadings == 0 && /* that ends a world, and nothing else comes between */
        is_rough() && world.now_us >= world.undisturbed_until_us) {
        f->make(h);
    }
    happen(1000 + about(*f->every), again, 0)->a = h->a;
}

void faults_schedule(void)
{
    world.faults = true;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (*faults[i].every != 0) {
            happen(500000 + about(*faults[i].every), again, 0)->a = i;
        }
    }
    corners_schedule();
    corners_late_begin();
    members_schedule();
}

/* What is broken is whole again, and whoever is down starts. */
void faults_mend(void)
{
    for (int i = 1; i <= MAX_NODES; i++) {
        struct sim_node *n = &world.nodes[i];
        for (int k = 1; k <= MAX_NODES; k++) {
            world.links[i][k].cut = false;
            world.links[i][k].slow_until_us = 0;
            if (world.links[i][k].stalled) {
                network_release(i, k);
            }
        }
        n->slow_until_us = 0; /* whoever stands still goes on in its time */
        if (n->used) {
            n->full_until_us = 0;
            disk_fake_set_capacity(n->fake, UINT64_MAX);
            if (!disk_fake_has_stopped(n->fake)) {
                disk_fake_stop_after(n->fake, UINT64_MAX);
            }
        }
        if (n->used && !n->up && !n->lost && !n->held_down) {
            (void)node_start(n);
        }
    }
}

/* In half of the worlds no more than a majority of voters comes back at first: that must do. A
 * majority by every configuration that a node has in its log, since any may be in force. */
static void keep_some_down(void)
{
    if (one_in(2) || world.counts.beheadings > 0) { /* that keeps down whom it chose */
        return;
    }
    for (int i = 0; i < 8; i++) {
        struct sim_node *n = &world.nodes[some_node()];
        if (n->id != 0 && !n->lost) {
            n->held_down = true;
            if (!shadow_has_majority()) {
                n->held_down = false;
            }
        }
    }
    for (int i = 1; i <= MAX_NODES; i++) {
        if (world.nodes[i].held_down) {
            node_crash(&world.nodes[i], false);
        }
    }
}

void faults_release(void)
{
    for (int i = 1; i <= MAX_NODES; i++) {
        struct sim_node *n = &world.nodes[i];
        if (n->held_down) {
            n->held_down = false;
            (void)node_start(n);
        }
    }
}

void faults_stop(void)
{
    world.faults = false;
    world.to_behead = 0;
    world.calm_until_us = 0;
    trace("the faults stop");
    keep_some_down();
    faults_mend();
}
