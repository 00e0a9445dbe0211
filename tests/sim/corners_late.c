/* Messages that stay in a socket while terms go by (E14, E17, E18), candidates that are cut off
 * (E19), and leaders that die while a follower fetches their snapshot (E20). */
#include "world.h"

/* ---- a socket that nobody reads ---- */

/* Often the leader's: to a follower that stands still, or only to one that reads nothing. */
void corners_stall(struct happening *h)
{
    (void)h;
    static const uint32_t sockets[] = {3, 30, 1000};
    const struct sim_node *leader = leader_now();
    int from = leader != NULL && !one_in(3) ? leader->id : some_node();
    int to = some_node();
    if (from == 0 || to == 0 || from == to) {
        return;
    }
    uint64_t for_us = 100000 + about(one_in(2) ? 400000 : 2500000);
    network_stall(from, to, sockets[chance_below(3)], for_us);
    if (one_in(3)) {
        node_pause(&world.nodes[to], for_us);
    }
}

/* ---- a leader that comes back in the term that its old messages meet (E14) ---- */

/* The leader tells another to stand in its place. That one's call for votes reaches only the
 * follower which does not get the leader's messages, so the follower is in the next term; nobody
 * answers the leader, who steps down, stands in the same next term, and wins it. Then its messages
 * of the term before arrive at the follower. */
enum { RIVAL_POLL_US = 100, RIVAL_POLLS = 3000, RIVAL_US = 3000000, GIVE_AGAIN = 300 };

static struct {
    int leader;
    int rival;
    int follower;
    uint64_t term; /* of the leader, before */
    uint64_t until_us;
} rivals;

static bool rivals_go_on(void)
{
    return rivals.leader != 0 && is_rough() && world.now_us < rivals.until_us &&
           world.nodes[rivals.leader].up && world.nodes[rivals.rival].up &&
           world.nodes[rivals.follower].up;
}

static uint64_t term_of(int node)
{
    return world.nodes[node].store.meta.state.term;
}

/* Everybody hears the leader, which hears nobody until it steps down, and never the rival. The
 * others do not hear each other, so that only the leader can win. */
static void part_rivals(void)
{
    uint64_t for_us = 1600000;
    world.undisturbed_until_us = world.now_us + for_us;
    for (int i = 1; i <= MAX_NODES; i++) {
        for (int k = 1; k <= MAX_NODES; k++) {
            if (i == k || !world.nodes[i].used || !world.nodes[k].used || i == rivals.leader) {
                continue;
            }
            bool is_answer = k == rivals.leader && i != rivals.rival;
            network_cut(i, k, is_answer ? 330000 + chance_below(60000) : for_us);
        }
    }
}

static void wait_for_rival(struct happening *h)
{
    if (!rivals_go_on() || h->b == 0) {
        return;
    }
    if (term_of(rivals.follower) > rivals.term) {
        world.counts.rivals++;
        trace("node %d stands against node %d, and only node %d has heard of it", rivals.rival,
              rivals.leader, rivals.follower);
        part_rivals();
        return;
    }
    happen(RIVAL_POLL_US, wait_for_rival, 0)->b = h->b - 1;
}

static void give_lead(struct happening *h)
{
    struct sim_node *leader = &world.nodes[rivals.leader];
    if (!rivals_go_on() || leader_now() != leader) {
        return;
    }
    uint64_t before = world.counts.transfers;
    members_transfer(leader, (uint64_t)rivals.rival);
    node_after(leader);
    if (world.counts.transfers == before) {
        if (h->b < GIVE_AGAIN) {
            happen(200 + chance_below(400), give_lead, 0)->b = h->b + 1;
        }
        return;
    }
    for (int i = 1; i <= MAX_NODES; i++) {
        if (world.nodes[i].used && i != rivals.follower && i != rivals.rival) {
            network_cut(rivals.rival, i, 400000);
        }
    }
    happen(RIVAL_POLL_US, wait_for_rival, 0)->b = RIVAL_POLLS;
}

/* `follower` 0: any. */
static bool choose_rivals(const struct sim_node *leader, int follower)
{
    struct replica_member members[MAX_NODES];
    int voters[MAX_NODES];
    uint32_t voter_count = 0;
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].voter && members[i].id != (uint64_t)leader->id &&
            world.nodes[members[i].id].up) {
            voters[voter_count++] = (int)members[i].id;
        }
    }
    if (voter_count < 4) { /* two of them must be enough with the leader */
        return false;
    }
    uint32_t first = (uint32_t)chance_below(voter_count);
    for (uint32_t i = 0; i < voter_count; i++) {
        first = voters[i] == follower ? i : first;
    }
    if (follower != 0 && voters[first] != follower) {
        return false;
    }
    rivals.leader = leader->id;
    rivals.follower = voters[first];
    rivals.rival = voters[(first + 1 + chance_below(voter_count - 1)) % voter_count];
    rivals.term = term_of(leader->id);
    rivals.until_us = world.now_us + RIVAL_US;
    return true;
}

static void begin_rivals(const struct sim_node *leader, int follower)
{
    if ((rivals.leader != 0 && world.now_us < rivals.until_us) ||
        !choose_rivals(leader, follower)) {
        return;
    }
    network_stall(rivals.leader, rivals.follower, 1000, RIVAL_US);
    happen(1000 + chance_below(150000), give_lead, 0);
}

/* A snapshot is announced: that message will wait. */
void corners_announcing(const struct sim_node *n, int to)
{
    if (is_rough() && world.weather.late != 0 && world.counts.beheadings == 0 && one_in(2)) {
        begin_rivals(n, to);
    }
}

void corners_led(const struct sim_node *n, uint64_t term)
{
    if (rivals_go_on() && n->id == rivals.leader) {
        world.counts.rivals_won += term == term_of(rivals.follower);
        trace("node %d leads term %llu, node %d is in term %llu", n->id, ull(term), rivals.follower,
              ull(term_of(rivals.follower)));
        network_release(rivals.leader, rivals.follower);
        rivals.leader = 0;
    }
}

/* ---- answers to a pre-vote that come late (E18) ---- */

static void stall_answers(struct happening *h)
{
    const struct sim_node *leader = leader_now();
    if (leader == NULL || !is_rough() || leader->id == (int)h->a) {
        return;
    }
    for (int i = 1; i <= MAX_NODES; i++) {
        if (world.nodes[i].used && i != leader->id && i != (int)h->a) {
            network_stall(i, (int)h->a, 1000, 700000);
        }
    }
}

/* A follower does not hear the leader and calls for pre-votes; when it hears it again, the answers
 * come. */
static void late_pre_votes(const struct sim_node *leader)
{
    int node = some_node();
    if (node == 0 || node == leader->id) {
        return;
    }
    world.counts.late_pre_votes++;
    network_cut(leader->id, node, 650000);
    happen(200000, stall_answers, 0)->a = (uint64_t)node;
}

/* ---- a candidate that is cut off (E19) ---- */

static void cut_candidate(struct happening *h)
{
    if (is_rough() && world.nodes[h->a].up) {
        uint64_t for_us = 400000 + about(1500000);
        network_cut_off((int)h->a, for_us);
        trace("candidate %d is cut off", (int)h->a);
    }
}

void corners_stood(const struct sim_node *n, uint64_t term)
{
    (void)term;
    if (is_rough() && world.weather.late != 0 && world.counts.beheadings == 0 && one_in(12)) {
        world.counts.candidates_cut++;
        happen(0, cut_candidate, 0)->a = (uint64_t)n->id;
    }
}

/* ---- a source that dies (E20) ---- */

static void kill_source(struct happening *h)
{
    struct sim_node *source = &world.nodes[h->a];
    const struct sim_node *n = &world.nodes[h->from];
    if (!is_rough() || world.counts.beheadings > 0 || !source->up || source->lost || !n->up ||
        n->life != h->from_life || snapshot_fetched_index(n) == 0) {
        return;
    }
    source->held_down = true;
    if (!shadow_has_majority()) {
        source->held_down = false;
        return;
    }
    world.counts.installs_beheaded++;
    trace("node %d dies while node %d fetches its snapshot", source->id, n->id);
    node_crash(source, one_in(2));
    quiet_after(1000, source->id, "the source of a snapshot died");
}

void corners_fetching(const struct sim_node *n, uint64_t source)
{
    if (is_rough() && one_in(world.weather.kill_installer)) {
        struct happening *h = happen(chance_below(20000), kill_source, 0);
        h->a = source;
        h->from = n->id;
        h->from_life = n->life;
    }
}

/* A follower misses so much that it needs a snapshot. */
static void leave_behind(const struct sim_node *leader)
{
    int node = some_node();
    if (node != 0 && node != leader->id) {
        network_cut(leader->id, node, 500000 + about(2500000));
    }
}

/* ---- a follower whose log begins above what its leader knows that it has (E17) ---- */

static void compact(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->node];
    if (node_is(h) && !n->failed) {
        replica_want_snapshot(n->replica, node_time(n));
        node_after(n);
    }
}

static void leader_compacts_again(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->node];
    if (node_is(h)) {
        replica_set_snapshot_bytes(n->replica, snapshot_trigger(n));
    }
}

/* The leader does not hear the follower, which gets more entries and takes a snapshot. The leader
 * takes none, so that it sends entries when it hears the follower again. */
static void lose_answers(const struct sim_node *leader)
{
    int node = some_node();
    if (node == 0 || node == leader->id) {
        return;
    }
    uint64_t for_us = 400000 + about(400000);
    world.counts.answers_lost++;
    trace("the leader does not hear node %d", node);
    replica_set_snapshot_bytes(leader->replica, UINT64_MAX);
    happen(for_us + 3000000, leader_compacts_again, leader->id);
    network_cut(node, leader->id, for_us);
    happen(200000 + chance_below(150000), compact, node);
    quiet_after(for_us, 0, "a follower's answers were lost");
}

/* ---- all of them ---- */

void corners_late(struct happening *h)
{
    (void)h;
    const struct sim_node *leader = leader_now();
    if (leader == NULL || leader->failed || leader->paused_until_us > world.now_us) {
        return;
    }
    switch (chance_below(5)) {
    case 0:
    case 1:
        begin_rivals(leader, 0);
        break;
    case 2:
        late_pre_votes(leader);
        break;
    case 3:
        lose_answers(leader);
        break;
    default:
        leave_behind(leader);
        break;
    }
}

void corners_late_begin(void)
{
    memset(&rivals, 0, sizeof(rivals));
}
