/* Changes of members where few vote, and faults at that moment: a voter is promoted and cut off
 * (E15), a leader leaves and is cut off, dies or gives the lead away (E13, E16), a sole voter with
 * learners loses power with entries that they have and its disk does not (E13). */
#include "world.h"

enum { POLL_US = 40, POLLS = 2000 };

static bool is_same(const struct sim_node *n, uint32_t life)
{
    return is_rough() && n->up && !n->failed && n->life == life;
}

/* ---- what goes wrong at that moment ---- */

static void lose_power(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->a];
    if (is_same(n, h->from_life)) {
        node_crash(n, h->b != 0);
    }
}

static void die_in(const struct sim_node *n, uint64_t in_us, bool power)
{
    struct happening *h = happen(in_us, lose_power, 0);
    h->a = (uint64_t)n->id;
    h->b = power;
    h->from_life = n->life;
}

/* The links between two nodes, or one of them, or all of the leader's. */
static void cut_somehow(int leader, int other, uint64_t for_us)
{
    switch (chance_below(4)) {
    case 0:
        network_cut(leader, other, for_us);
        break;
    case 1:
        network_cut(other, leader, for_us);
        break;
    case 2:
        network_cut(leader, other, for_us);
        network_cut(other, leader, for_us);
        break;
    default:
        network_cut_off(leader, for_us);
        break;
    }
}

/* Often one of four voters, or of three that become four, is down during the pause: then all others
 * are needed. 0: none. */
static int keep_one_down(const struct sim_node *leader, int except, uint32_t voters)
{
    struct sim_node *n = &world.nodes[members_other_voter(leader, except)];
    if (voters != 4 || n->id == 0 || n->held_down || n->lost || one_in(3)) {
        return 0;
    }
    n->held_down = true;
    if (!shadow_has_majority()) {
        n->held_down = false;
        return 0;
    }
    world.counts.kept_down++;
    trace("node %d stays down", n->id);
    node_crash(n, one_in(2));
    return n->id;
}

/* ---- a promotion (E15) ---- */

static void promote_and_cut(struct sim_node *leader)
{
    int learner = members_learner(leader);
    if (learner == 0) {
        (void)members_add(leader);
        return;
    }
    uint64_t for_us = 50000 + about(600000);
    bool before = one_in(2); /* whether the entry is on its way */
    if (before) {
        cut_somehow(leader->id, learner, for_us);
    }
    if (members_change(leader, REPLICA_PROMOTE, (uint64_t)learner) != HF_OK) {
        return;
    }
    world.counts.promotions_cut++;
    trace("node %d is promoted and cut off", learner);
    if (!before) {
        cut_somehow(leader->id, learner, for_us);
    }
    if (one_in(3)) {
        die_in(leader, chance_below(4000), one_in(2));
    }
    int down = keep_one_down(leader, learner, members_voters(leader));
    quiet_after(for_us + 1000, down, "a promotion that was cut off");
}

/* ---- a leader that leaves (E13, E16) ---- */

/* Once the other has the change, neither hears the other any more. */
static void wait_for_change(struct happening *h)
{
    const struct sim_node *leader = &world.nodes[h->from];
    const struct sim_node *other = &world.nodes[h->a];
    if (!is_same(leader, h->from_life) || h->b == 0) {
        return;
    }
    if (other->up && terms_at(&other->memory, h->len) != 0 &&
        terms_at(&other->memory, h->len) == terms_at(&leader->memory, h->len)) {
        uint64_t for_us = 400000 + about(900000);
        network_cut(leader->id, other->id, for_us);
        network_cut(other->id, leader->id, for_us);
        trace("node %d has the change, and is cut off from node %d", other->id, leader->id);
        quiet_after(for_us + 1000, 0, "a leader left and was cut off");
        return;
    }
    struct happening *next = happen(POLL_US, wait_for_change, 0);
    next->from = h->from;
    next->from_life = h->from_life;
    next->a = h->a;
    next->b = h->b - 1;
    next->len = h->len;
}

static void after_leaving(struct sim_node *leader, int other)
{
    uint64_t for_us = 20000 + about(500000);
    switch (chance_below(4)) {
    case 0: /* nobody gets it, and the leader dies with it on its disk, or nearly */
        network_cut_off(leader->id, for_us);
        die_in(leader, 200 + chance_below(5000), one_in(3));
        quiet_after(for_us + 1000, 0, "a leader left, and died");
        break;
    case 1: /* the lead is given away at the same time */
        members_transfer(leader, (uint64_t)other);
        if (one_in(2)) {
            network_cut(other, leader->id, for_us);
        }
        break;
    case 2:
        network_cut_off(leader->id, for_us);
        quiet_after(for_us + 1000, 0, "a leader left, cut off");
        break;
    default: {
        struct happening *h = happen(POLL_US, wait_for_change, 0);
        h->from = leader->id;
        h->from_life = leader->life;
        h->a = (uint64_t)other;
        h->b = POLLS;
        h->len = leader->memory.last;
        if (one_in(2)) { /* nor is its answer heard */
            network_cut(other, leader->id, (uint64_t)POLL_US * POLLS);
        }
        break;
    }
    }
}

static void leader_leaves(struct sim_node *leader)
{
    int other = members_other_voter(leader, 0);
    bool remove = one_in(2);
    if (other == 0) {
        return;
    }
    if (members_change(leader, remove ? REPLICA_REMOVE : REPLICA_DEMOTE, (uint64_t)leader->id) !=
        HF_OK) {
        world.counts.leaders_refused++;
        members_retire(leader, remove);
        return;
    }
    trace("leader %d leaves", leader->id);
    after_leaving(leader, other);
}

/* ---- a follower that leaves, and has heard of it ---- */

static void other_leaves(struct sim_node *leader)
{
    int other = members_other_voter(leader, 0);
    if (other == 0 || members_change(leader, one_in(2) ? REPLICA_REMOVE : REPLICA_DEMOTE,
                                     (uint64_t)other) != HF_OK) {
        return;
    }
    uint64_t for_us = 20000 + about(500000);
    cut_somehow(leader->id, one_in(2) ? other : members_other_voter(leader, 0), for_us);
    if (one_in(2)) {
        die_in(leader, chance_below(4000), one_in(2));
    }
    int down = keep_one_down(leader, other, members_voters(leader) + 1);
    quiet_after(for_us + 1000, down, "a voter left");
}

/* ---- a voter loses power (E13) ---- */

static void cut_power(struct sim_node *leader)
{
    world.counts.voters_cut_power++;
    leader->slow_us = 20000 + chance_below(100000);
    leader->slow_until_us = world.now_us + 200000;
    die_in(leader, 5000 + chance_below(100000), !one_in(4));
    quiet_after(300000, 0, "the power of a leader was cut");
}

/* ---- all of them ---- */

/* Larger clusters meet the same now and then. */
void corners_small(struct happening *h)
{
    (void)h;
    struct sim_node *leader = leader_now();
    if (leader == NULL || leader->paused_until_us > world.now_us || leader->failed ||
        (members_voters(leader) > 4 && !one_in(3))) {
        return;
    }
    if (one_in(3)) {
        corners_transfer(leader);
        node_after(leader);
        return;
    }
    switch (chance_below(5)) {
    case 0:
    case 1:
        promote_and_cut(leader);
        break;
    case 2:
        leader_leaves(leader);
        break;
    case 3:
        other_leaves(leader);
        break;
    default:
        cut_power(leader);
        break;
    }
    node_after(leader);
}
