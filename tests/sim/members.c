/* The operator of the cluster: replaces nodes whose disk is lost, keeps five voters, and otherwise
 * adds, promotes, demotes, removes and transfers as the weather has it. */
#include "world.h"

static struct node *unused_node(void)
{
    for (int i = 1; i <= MAX_NODES; i++) {
        if (!world.nodes[i].used) {
            return &world.nodes[i];
        }
    }
    return NULL;
}

static enum hf_error change(struct node *leader, enum replica_change what, uint64_t id)
{
    static const char *const words[] = {"add", "promote", "demote", "remove"};
    const char *problem = NULL;
    enum hf_error error = replica_change_member(leader->replica, what, id, world.nodes[id].address,
                                                node_time(leader), &problem);
    if (error == HF_OK) {
        world.counts.changes++;
        world.counts.leader_removals += what == REPLICA_REMOVE && id == (uint64_t)leader->id;
        trace("node %d: %s node %llu", leader->id, words[what], ull(id));
    }
    return error;
}

static void add(struct node *leader)
{
    struct node *n = unused_node();
    struct problem problem;
    if (n == NULL || change(leader, REPLICA_ADD, (uint64_t)n->id) != HF_OK) {
        return;
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
}

/* What has to be done, if anything; whether something was tried. */
static bool repair(struct node *leader, const struct replica_member *members, uint32_t count)
{
    uint32_t voters = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (world.nodes[members[i].id].lost) {
            (void)change(leader, REPLICA_REMOVE, members[i].id);
            return true;
        }
        voters += members[i].voter;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!members[i].voter && voters < 5) {
            (void)change(leader, REPLICA_PROMOTE, members[i].id);
            return true;
        }
    }
    if (count < 5) {
        add(leader);
        return true;
    }
    return false;
}

/* S12.7: not with a batch in flight. A change of members on its way is none. */
void members_transfer(struct node *leader, uint64_t to)
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
    if (s.last_index > s.commit_index && change <= s.commit_index) {
        violation("node %d gives the lead away with entry %llu in flight (S12.7)", leader->id,
                  ull(s.last_index));
    }
}

static void shuffle(struct node *leader, const struct replica_member *members, uint32_t count)
{
    const struct replica_member *m = &members[chance_below(count)];
    uint32_t voters = 0;
    for (uint32_t i = 0; i < count; i++) {
        voters += members[i].voter;
    }
    switch (chance_below(6)) {
    case 0:
        if (count < 7) {
            add(leader);
        }
        break;
    case 1:
        members_transfer(leader, one_in(2) ? 0 : m->id);
        break;
    case 2:
        if (m->voter && voters > 3) {
            (void)change(leader, REPLICA_DEMOTE, m->id);
        }
        break;
    case 3:
        if (voters > 3 || !m->voter) {
            (void)change(leader, REPLICA_REMOVE, m->id);
        }
        break;
    case 4:
        if (voters > 3) {
            (void)change(leader, REPLICA_REMOVE, (uint64_t)leader->id);
        }
        break;
    default:
        if (!m->voter) {
            (void)change(leader, REPLICA_PROMOTE, m->id);
        }
        break;
    }
}

/* Any change that may be made now. */
bool members_change_now(struct node *leader)
{
    struct replica_member members[MAX_NODES];
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    for (uint32_t i = 0; i < count; i++) {
        if (!members[i].voter) {
            return change(leader, REPLICA_REMOVE, members[i].id) == HF_OK;
        }
    }
    const struct node *n = unused_node();
    if (n == NULL || n->id > MAX_NODES - 4) { /* some are kept for the operator */
        return change(leader, REPLICA_DEMOTE, members[chance_below(count)].id) == HF_OK;
    }
    add(leader);
    return n->used;
}

/* Mostly who serves; sometimes whoever says that it leads, new or long deposed. */
static struct node *some_leader(void)
{
    if (!world.faults || !one_in(3)) {
        return leader_now();
    }
    for (int i = 1; i <= MAX_NODES; i++) {
        struct node *n = &world.nodes[i];
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
    struct node *leader = some_leader();
    bool busy = false;
    if (leader != NULL && leader->paused_until_us <= world.now_us) {
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
    struct node *leader = leader_now();
    const char *problem = "";
    if (leader == NULL) {
        return false;
    }
    (void)replica_change_member(leader->replica, REPLICA_DEMOTE, 999999, NULL, node_time(leader),
                                &problem);
    return strstr(problem, "another membership change") != NULL;
}

void members_schedule(void)
{
    happen(900000, operate, 0);
}
