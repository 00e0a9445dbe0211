/* Situations that chance alone would seldom make, in which rules for driving the engine were
 * missed: changes of members that only a few have and that are taken back (E6, E12), and a majority
 * of whom one has the longer log and the others the higher term (E4). */
#include "world.h"

/* ---- a change that is taken back ---- */

/* A leader and one follower are cut off from the others with a change of members that only they
 * have. The others elect a leader that never saw it, and it is truncated away again. */
static void cut_off_with_change(const struct sim_node *leader, int friend)
{
    uint64_t for_us = 400000 + about(world.weather.cut_for);
    world.counts.corners++;
    trace("nodes %d and %d are cut off with a change of members", leader->id, friend);
    for (int i = 1; i <= MAX_NODES; i++) {
        if (world.nodes[i].used && i != leader->id && i != friend) {
            network_cut(leader->id, i, for_us);
            network_cut(i, leader->id, for_us);
            network_cut(friend, i, for_us);
            network_cut(i, friend, for_us);
        }
    }
}

/* The leader that it began with is there, and the faults go on: who comes back after them is a
 * majority by the members of then, so nobody may change these any more. */
static bool goes_on(const struct happening *h)
{
    const struct sim_node *n = &world.nodes[h->from];
    return is_rough() && n->up && !n->failed && n->life == h->from_life;
}

/* ---- two changes, of which the follower has not heard that the first is committed (E12) ---- */

enum { POLL_US = 40, POLLS = 500 };

static void poll_again(const struct happening *h, void (*run)(struct happening *h), uint64_t polls)
{
    struct happening *next = happen(POLL_US, run, 0);
    next->from = h->from;
    next->from_life = h->from_life;
    next->a = h->a;
    next->b = polls;
    next->len = h->len;
}

/* The second is begun as soon as it may be, and the first thing that the follower hears since. */
static void begin_second(struct happening *h)
{
    struct sim_node *leader = &world.nodes[h->from];
    struct sim_link *l = &world.links[h->from][h->a];
    if (!goes_on(h) || h->b == 0) {
        return;
    }
    l->cut = false;
    if (members_change_now(leader)) {
        cut_off_with_change(leader, (int)h->a);
        node_after(leader);
    } else {
        l->cut = true;
        poll_again(h, begin_second, h->b - 1);
    }
}

/* Once the follower has the first it hears nothing more; but its answer is heard. */
static void wait_for_first(struct happening *h)
{
    const struct sim_node *leader = &world.nodes[h->from];
    const struct sim_node *friend = &world.nodes[h->a];
    if (!goes_on(h) || h->b == 0) {
        return;
    }
    if (friend->up && terms_at(&friend->memory, h->len) != 0 &&
        terms_at(&friend->memory, h->len) == terms_at(&leader->memory, h->len)) {
        network_cut(leader->id, friend->id, (uint64_t)POLL_US * POLLS * 2);
        poll_again(h, begin_second, POLLS);
    } else {
        poll_again(h, wait_for_first, h->b - 1);
    }
}

/* The follower gets the change in one message with what it missed (S12.6). */
static void corner_now(struct happening *h)
{
    struct sim_node *leader = &world.nodes[h->from];
    world.links[leader->id][h->a].cut = false;
    if (!goes_on(h) || !members_change_now(leader)) {
        return;
    }
    if (one_in(2)) {
        cut_off_with_change(leader, (int)h->a);
    } else {
        h->len = leader->memory.last; /* the change */
        poll_again(h, wait_for_first, POLLS);
    }
    node_after(leader);
}

void corners_make(struct happening *h)
{
    (void)h;
    const struct sim_node *leader = leader_now();
    int friend = some_node();
    if (leader == NULL || friend == 0 || friend == leader->id) {
        return;
    }
    uint64_t behind_us = 20000 + chance_below(80000);
    network_cut(leader->id, friend, behind_us + 1000);
    struct happening *next = happen(behind_us, corner_now, 0);
    next->from = leader->id;
    next->from_life = leader->life;
    next->a = (uint64_t) friend;
}

/* ---- logs and terms ---- */

/* Shortly before the faults stop the leader is cut off with what only it has in its log, and the
 * next two die as soon as they are elected, and stay away. Whoever is left is a majority: one of
 * them has the longer log, the others the higher term (E4). */
enum { BEHEADED = 2, BEHEADING_US = 4000000, RETRY_US = 50000 };

static bool may_behead(const struct sim_node *leader)
{
    struct replica_member members[MAX_NODES];
    uint32_t voters = 0;
    if (leader == NULL || !shadow_has_majority()) {
        return false;
    }
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    for (uint32_t i = 0; i < count; i++) {
        const struct sim_node *n = &world.nodes[members[i].id];
        voters += members[i].voter;
        if (members[i].voter && (!n->up || n->paused_until_us > world.now_us)) {
            return false;
        }
    }
    return voters == 2 * BEHEADED + 1;
}

static void behead(struct happening *h)
{
    const struct sim_node *leader = leader_now();
    if (!may_behead(leader)) {
        if (h->b > 0) {
            happen(RETRY_US, behead, 0)->b = h->b - 1;
        }
        return;
    }
    world.counts.beheadings++;
    world.to_behead = BEHEADED;
    trace("node %d is cut off, and the next %d leaders will die", leader->id, BEHEADED);
    for (int i = 1; i <= MAX_NODES; i++) {
        if (i != leader->id) {
            network_cut(leader->id, i, BEHEADING_US);
            network_cut(i, leader->id, BEHEADING_US);
        }
    }
}

static void die(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->a];
    if (!world.faults || !n->up || n->life != h->from_life || n->lost) {
        return;
    }
    n->held_down = true;
    if (!shadow_has_majority()) {
        n->held_down = false;
        return;
    }
    world.to_behead--;
    node_crash(n, false);
}

void corners_elected(const struct sim_node *n)
{
    if (world.to_behead > 0) {
        struct happening *h = happen(1, die, 0); /* before anybody hears of it */
        h->a = (uint64_t)n->id;
        h->from_life = n->life;
    }
}

void corners_schedule(void)
{
    if (world.weather.beheads && world.options.seconds * 1000000 > BEHEADING_US) {
        happen(world.options.seconds * 1000000 - BEHEADING_US, behead, 0)->b =
            BEHEADING_US / 2 / RETRY_US;
    }
}
