/* The operator of the cluster: replaces nodes whose disk is lost, brings it to the numbers of
 * voters and learners that are wanted now, which change, and otherwise adds, promotes, demotes,
 * removes and transfers as the weather has it. */
#include "world.h"

/* Whom the next leader shall demote or remove; 0: nobody. */
static uint64_t retiring;
static enum replica_change retiring_by;

static struct sim_node *unused_node(void)
{
    for (int i = 1; i <= MAX_NODES; i++) {
        if (!world.nodes[i].used) {
            return &world.nodes[i];
        }
    }
    return NULL;
}

uint32_t members_voters(const struct sim_node *leader)
{
    struct replica_member members[MAX_NODES];
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    uint32_t voters = 0;
    for (uint32_t i = 0; i < count; i++) {
        voters += members[i].voter;
    }
    return voters;
}

/* One that is up, neither the leader nor `except`; 0: there is none. */
int members_other_voter(const struct sim_node *leader, int except)
{
    struct replica_member members[MAX_NODES];
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    uint32_t from = (uint32_t)chance_below(count);
    for (uint32_t i = 0; i < count; i++) {
        const struct replica_member *m = &members[(from + i) % count];
        if (m->voter && m->id != (uint64_t)leader->id && m->id != (uint64_t)except &&
            world.nodes[m->id].up) {
            return (int)m->id;
        }
    }
    return 0;
}

/* One that is up; 0: there is none. */
int members_learner(const struct sim_node *leader)
{
    struct replica_member members[MAX_NODES];
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    uint32_t from = (uint32_t)chance_below(count);
    for (uint32_t i = 0; i < count; i++) {
        const struct replica_member *m = &members[(from + i) % count];
        if (!m->voter && world.nodes[m->id].up) {
            return (int)m->id;
        }
    }
    return 0;
}

/* While a disk is lost every voter counts: who would leave only makes it worse. */
static bool may_leave(const struct sim_node *leader, enum replica_change what, uint64_t id)
{
    struct replica_member members[MAX_NODES];
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    for (uint32_t i = 0; i < count; i++) {
        const struct sim_node *n = &world.nodes[members[i].id];
        if (n->lost || n->flipped) {
            return what != REPLICA_DEMOTE && (what != REPLICA_REMOVE || world.nodes[id].lost);
        }
    }
    return true;
}

enum hf_error members_change(struct sim_node *leader, enum replica_change what, uint64_t id)
{
    static const char *const words[] = {"add", "promote", "demote", "remove"};
    const char *problem = NULL;
    if (!may_leave(leader, what, id)) {
        return HF_MEMBERSHIP;
    }
    enum hf_error error = replica_change_member(leader->replica, what, id, world.nodes[id].address,
                                                node_time(leader), &problem);
    if (error == HF_OK) {
        world.counts.changes++;
        world.counts.leader_removals += what == REPLICA_REMOVE && id == (uint64_t)leader->id;
        world.counts.leaders_left +=
            (what == REPLICA_REMOVE || what == REPLICA_DEMOTE) && id == (uint64_t)leader->id;
        trace("node %d: %s node %llu", leader->id, words[what], ull(id));
    }
    return error;
}

bool members_add(struct sim_node *leader)
{
    struct sim_node *n = unused_node();
    struct problem problem;
    if (n == NULL || members_change(leader, REPLICA_ADD, (uint64_t)n->id) != HF_OK) {
        return false;
    }
    node_make(n->id);
    (void)node_start(n); /* with nothing on its disk */
    struct meta_state next = n->store.meta.state;
    next.cluster = world.cluster;
    next.bootstrapped = true;
    if (meta_save(&n->store.meta, &next, &problem) != STORAGE_OK) {
        node_fail(n, problem.text);
        node_after(n);
    }
    return true;
}

/* A leader that is to leave gives the lead away first; the next one does the rest, as the command
 * `member remove` has it. */
void members_retire(struct sim_node *leader, bool remove)
{
    retiring = (uint64_t)leader->id;
    retiring_by = remove ? REPLICA_REMOVE : REPLICA_DEMOTE;
    members_transfer(leader, 0);
}

/* Who was to leave and does not lead any more leaves. */
static bool retire(struct sim_node *leader, const struct replica_member *members, uint32_t count)
{
    if (retiring == 0 || !world.faults) {
        return false;
    }
    if (retiring == (uint64_t)leader->id) {
        members_transfer(leader, 0);
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].id == retiring) {
            if (members_change(leader, retiring_by, retiring) == HF_OK) {
                retiring = 0;
            }
            return true;
        }
    }
    retiring = 0;
    return false;
}

/* A voter leaves: any, also the leader, whom some try to remove directly, which may be refused. */
static void shrink(struct sim_node *leader, const struct replica_member *members, uint32_t count)
{
    const struct replica_member *m = &members[chance_below(count)];
    bool remove = one_in(2) && world.nodes[MAX_NODES - 8].used == false;
    if (!m->voter) {
        return;
    }
    if (m->id == (uint64_t)leader->id && one_in(2)) {
        members_retire(leader, remove);
    } else if (members_change(leader, remove ? REPLICA_REMOVE : REPLICA_DEMOTE, m->id) != HF_OK &&
               m->id == (uint64_t)leader->id) {
        world.counts.leaders_refused++;
        members_retire(leader, remove);
    }
}

/* What has to be done, if anything; whether something was tried. */
static bool repair(struct sim_node *leader, const struct replica_member *members, uint32_t count)
{
    uint32_t voters = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (world.nodes[members[i].id].lost) {
            (void)members_change(leader, REPLICA_REMOVE, members[i].id);
            return true;
        }
        voters += members[i].voter;
    }
    if (retire(leader, members, count)) {
        return true;
    }
    if (voters > world.target_voters && world.faults) { /* after them nobody may be missed */
        shrink(leader, members, count);
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        bool is_kept_down = world.nodes[members[i].id].held_down; /* and may not be needed */
        if (!members[i].voter && voters < world.target_voters && !is_kept_down) {
            (void)members_change(leader, REPLICA_PROMOTE, members[i].id);
            return true;
        }
    }
    if (count < world.target_voters + world.target_learners) {
        (void)members_add(leader);
        return true;
    }
    return false;
}

/* The operator wants other numbers: often one or two voters more or less, or as few as can be. */
void members_retarget(struct happening *h)
{
    (void)h;
    static const uint32_t wanted[] = {1, 1, 2, 2, 3, 3, 4, 5, 5, 6};
    world.counts.retargets++;
    world.target_voters = wanted[chance_below(sizeof(wanted) / sizeof(wanted[0]))];
    world.target_learners = (uint32_t)chance_below(3);
    trace("%u voters and %u learners are wanted", world.target_voters, world.target_learners);
}

/* S12.7: not with a batch in flight. E13: not with a change of members that is not committed. */
void members_transfer(struct sim_node *leader, uint64_t to)
{
    struct replica_status s;
    const char *problem = NULL;
    replica_status(leader->replica, node_time(leader), &s);
    uint64_t change =
        leader->change_count > 0 ? leader->changes[leader->change_count - 1].index : 0;
    if (replica_transfer(leader->replica, to, node_time(leader), &problem) != HF_OK) {
        return;
    }
    world.counts.transfers++;
    trace("node %d gives the lead to %llu", leader->id, ull(to));
    if (change > s.commit_index) {
        breach("E13",
               "node %d gives the lead away, and the change of members at %llu is not "
               "committed",
               leader->id, ull(change));
    } else if (s.last_index > s.commit_index) {
        violation("node %d gives the lead away with entry %llu in flight (S12.7)", leader->id,
                  ull(s.last_index));
    }
}

static void shuffle(struct sim_node *leader, const struct replica_member *members, uint32_t count)
{
    const struct replica_member *m = &members[chance_below(count)];
    bool may_remove = members_voters(leader) >= world.target_voters && world.target_voters > 1;
    switch (chance_below(6)) {
    case 0:
        if (count < 7) {
            (void)members_add(leader);
        }
        break;
    case 1:
        members_transfer(leader, one_in(2) ? 0 : m->id);
        break;
    case 2:
        if (m->voter && may_remove) {
            (void)members_change(leader, REPLICA_DEMOTE, m->id);
        }
        break;
    case 3:
        if (may_remove || !m->voter) {
            (void)members_change(leader, REPLICA_REMOVE, m->id);
        }
        break;
    case 4:
        if (may_remove) {
            (void)members_change(leader, REPLICA_REMOVE, (uint64_t)leader->id);
        }
        break;
    default:
        if (!m->voter) {
            (void)members_change(leader, REPLICA_PROMOTE, m->id);
        }
        break;
    }
}

/* Any change that may be made now. */
bool members_change_now(struct sim_node *leader)
{
    struct replica_member members[MAX_NODES];
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    for (uint32_t i = 0; i < count; i++) {
        if (!members[i].voter) {
            return members_change(leader, REPLICA_REMOVE, members[i].id) == HF_OK;
        }
    }
    const struct sim_node *n = unused_node();
    if (n == NULL || n->id > MAX_NODES - 6) { /* some are kept for the operator */
        return members_change(leader, REPLICA_DEMOTE, members[chance_below(count)].id) == HF_OK;
    }
    return members_add(leader);
}

/* Mostly who serves; sometimes whoever says that it leads, new or long deposed. */
static struct sim_node *some_leader(void)
{
    if (!world.faults || !one_in(3)) {
        return leader_now();
    }
    for (int i = 1; i <= MAX_NODES; i++) {
        struct sim_node *n = &world.nodes[i];
        struct replica_status s;
        if (n->up && n->serving_since_us == 0) {
            replica_status(n->replica, node_time(n), &s);
            if (s.is_leader) {
                return n;
            }
        }
    }
    return leader_now();
}

static void operate(struct happening *h)
{
    struct replica_member members[MAX_NODES];
    struct sim_node *leader = some_leader();
    bool busy = false;
    bool is_quiet = world.faults && !is_rough();
    if (leader != NULL && leader->paused_until_us <= world.now_us && !is_quiet) {
        uint32_t count = replica_members(leader->replica, members, MAX_NODES);
        busy = repair(leader, members, count);
        if (!busy && world.faults && world.weather.change != 0 && world.counts.beheadings == 0) {
            shuffle(leader, members, count);
        }
        node_after(leader);
    }
    uint64_t every = world.weather.change == 0 ? 2000000 : world.weather.change;
    happen(20000 + about(busy ? every / 4 : every), operate, 0);
    (void)h;
}

/* Whether a change that was begun never ends, which would forbid all others (E8). */
bool members_are_stuck(void)
{
    struct sim_node *leader = leader_now();
    const char *problem = "";
    if (leader == NULL) {
        return false;
    }
    (void)replica_change_member(leader->replica, REPLICA_DEMOTE, 999999, NULL, node_time(leader),
                                &problem);
    return strstr(problem, "another membership change") != NULL;
}

/* How long the cluster has one voter, or two. */
static void note_size(struct happening *h)
{
    enum { EVERY_US = 100000 };
    const struct sim_node *leader = leader_now();
    uint32_t voters = leader == NULL ? 0 : members_voters(leader);
    world.counts.sole_voter_us += voters == 1 ? EVERY_US : 0;
    world.counts.two_voters_us += voters == 2 ? EVERY_US : 0;
    happen(EVERY_US, note_size, 0);
    (void)h;
}

void members_schedule(void)
{
    retiring = 0;
    if (world.target_voters < 3 && !one_in(3)) { /* it grows at once, as new clusters do */
        world.target_voters = 2 + (uint32_t)chance_below(4);
    }
    if (!world.options.calm) {
        world.target_learners = (uint32_t)chance_below(3);
    }
    happen(100000, note_size, 0);
    happen(900000, operate, 0);
}
