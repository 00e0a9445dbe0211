/* Transfers of the lead around a change of members (E13): one that is requested while the change is
 * not committed, and a TimeoutNow that arrives after its receiver was demoted. */
#include "world.h"

enum {
    CALM_US = 1500000,
    TRY_US = 100,
    TRIES = 300,
    HOLD_US = 180000,      /* the answers of the other voter */
    HEARTBEATS_US = 60000, /* at least one of them */
    EXPIRY_US = 300000,    /* libraft drops a transfer after an election timeout */
    STALL_US = 2000000,
};

static bool goes_on(const struct happening *h)
{
    const struct sim_node *leader = &world.nodes[h->from];
    return is_rough() && leader->up && !leader->failed && leader->life == h->from_life &&
           leader_now() == leader;
}

/* The next step, for the same leader and the same other voter. */
static struct happening *then(const struct happening *h, uint64_t in_us,
                              void (*run)(struct happening *h))
{
    struct happening *next = happen(in_us, run, 0);
    next->from = h->from;
    next->from_life = h->from_life;
    next->a = h->a;
    return next;
}

/* ---- a transfer while a change is not committed ---- */

static void try_transfer(struct happening *h)
{
    struct sim_node *leader = &world.nodes[h->from];
    if (!goes_on(h) || h->b == 0 || leader->commit_index >= h->len) {
        return;
    }
    members_transfer(leader, h->a);
    node_after(leader);
    struct happening *next = then(h, TRY_US, try_transfer);
    next->b = h->b - 1;
    next->len = h->len;
}

/* The answers that commit the change come late. */
static void change_and_transfer(struct happening *h)
{
    struct sim_node *leader = &world.nodes[h->from];
    if (!goes_on(h)) {
        return;
    }
    int learner = members_learner(leader);
    int other = members_other_voter(leader, 0);
    bool promote = learner != 0 && (other == 0 || one_in(2));
    int changed = promote ? learner : other;
    int heir = promote ? other : members_other_voter(leader, other);
    heir = heir == 0 ? changed : heir;
    if (changed == 0 || members_change(leader, promote ? REPLICA_PROMOTE : REPLICA_DEMOTE,
                                       (uint64_t)changed) != HF_OK) {
        return;
    }
    world.counts.transfers_in_change++;
    for (int i = 1; i <= MAX_NODES; i++) {
        if (world.nodes[i].used && i != leader->id && one_in(2)) {
            network_stall(i, leader->id, 1000, (uint64_t)TRY_US * TRIES);
        }
    }
    struct happening *next = then(h, 1, try_transfer);
    next->a = (uint64_t)heir;
    next->b = TRIES;
    next->len = leader->memory.last;
    node_after(leader);
}

/* ---- a TimeoutNow that comes late ---- */

/* Two vote. The leader tells the other to stand, which stays in the socket until libraft has given
 * the transfer up and the leader has demoted the other. Then the other's call for votes makes the
 * leader a follower in the next term, and the only voter. */
static void release_late(struct happening *h)
{
    network_release(h->from, (int)h->a);
    quiet_after(500000, 0, "a TimeoutNow that came after a demotion");
}

static void demote_late(struct happening *h)
{
    struct sim_node *leader = &world.nodes[h->from];
    if (!goes_on(h) || h->b == 0) {
        network_release(h->from, (int)h->a);
        return;
    }
    if (members_change(leader, REPLICA_DEMOTE, h->a) == HF_OK) {
        world.counts.late_timeouts++;
        (void)then(h, chance_below(3000), release_late);
        node_after(leader);
        return;
    }
    then(h, TRY_US * 5, demote_late)->b = h->b - 1;
}

static void give_late(struct happening *h)
{
    struct sim_node *leader = &world.nodes[h->from];
    if (!goes_on(h) || h->b == 0) {
        network_release(h->from, (int)h->a);
        return;
    }
    uint64_t before = world.counts.transfers;
    members_transfer(leader, h->a);
    node_after(leader);
    if (world.counts.transfers > before) {
        then(h, EXPIRY_US, demote_late)->b = TRIES;
    } else {
        then(h, TRY_US * 10, give_late)->b = h->b - 1;
    }
}

static void stall_leader(struct happening *h)
{
    if (goes_on(h)) {
        network_stall(h->from, (int)h->a, 1000, STALL_US);
        then(h, 1, give_late)->b = TRIES / 3;
    }
}

/* Answers that come after the transfer began keep the leader from stepping down before it expires.
 */
static void hold_answers(struct happening *h)
{
    if (goes_on(h)) {
        network_stall((int)h->a, h->from, 1000, HOLD_US);
        (void)then(h, HEARTBEATS_US + chance_below(30000), stall_leader);
    }
}

/* ---- both ---- */

/* The clients rest: with a batch in flight the lead is not given away (E9). */
void corners_transfer(struct sim_node *leader)
{
    int other = members_other_voter(leader, 0);
    bool late = other != 0 && members_voters(leader) == 2 && !one_in(4);
    struct happening begin = {.from = leader->id, .from_life = leader->life, .a = (uint64_t)other};
    world.calm_until_us = world.now_us + CALM_US;
    if (late) {
        world.undisturbed_until_us = world.now_us + CALM_US;
    }
    (void)then(&begin, 100000 + chance_below(150000), late ? hold_answers : change_and_transfer);
}
