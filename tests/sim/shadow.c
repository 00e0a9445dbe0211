/* What each node has promised to keep: the terms of its log, as the engine knows it and as the disk
 * has said that it is durable, and the members in force. Kept beside the node, from the calls that
 * go through its ports, so that a promise can be held against what is really there. */
#include "world.h"

#include <raft.h>

/* ---- terms ---- */

static void reserve(struct terms *t, uint64_t index)
{
    if (index >= t->capacity) {
        uint64_t capacity = index * 2 + 1024;
        t->at = realloc(t->at, capacity * sizeof(*t->at));
        memset(t->at + t->capacity, 0, (capacity - t->capacity) * sizeof(*t->at));
        t->capacity = capacity;
    }
}

void terms_put(struct terms *t, uint64_t first, const struct replica_entry *entries, uint32_t count)
{
    reserve(t, first + count);
    for (uint32_t i = 0; i < count; i++) {
        t->at[first + i] = (uint32_t)entries[i].term;
    }
    t->last = first + count - 1;
}

void terms_reset(struct terms *t, uint64_t base, uint64_t base_term)
{
    t->base = base;
    t->base_term = base_term;
    t->last = base;
}

uint64_t terms_at(const struct terms *t, uint64_t index)
{
    if (index == t->base) {
        return t->base_term;
    }
    return index > t->base && index <= t->last ? t->at[index] : 0;
}

bool terms_has(const struct terms *t, uint64_t index, uint64_t term)
{
    return index <= t->base || terms_at(t, index) == term;
}

/* ---- the log on the disk ---- */

void shadow_wrote(struct sim_node *n, uint64_t first, const struct replica_entry *entries,
                  uint32_t count)
{
    if (first > n->durable.last + 1) {
        violation("node %d: a write at %llu leaves a gap behind %llu", n->id, ull(first),
                  ull(n->durable.last));
    }
    terms_put(&n->durable, first, entries, count);
}

/* Everything that was durable is still there. */
void shadow_opened(struct sim_node *n, const struct replica_start *found)
{
    uint64_t covered = found->snapshot.index;
    uint64_t last = found->first + found->count - 1;
    if (n->durable.base > covered) {
        violation("node %d lost its snapshot at %llu", n->id, ull(n->durable.base));
    }
    if (n->durable.last > covered && n->durable.last > last) {
        violation("node %d lost entries that were durable: it had %llu, it has %llu", n->id,
                  ull(n->durable.last), ull(last));
    }
    for (uint32_t i = 0; i < found->count; i++) {
        uint64_t index = found->first + i;
        uint64_t was = index > covered ? terms_at(&n->durable, index) : 0;
        if (was != 0 && was != found->entries[i].term) {
            violation("node %d has entry %llu of term %llu, it was of term %llu and durable", n->id,
                      ull(index), ull(found->entries[i].term), ull(was));
        }
    }
}

/* ---- members ---- */

void shadow_note_change(struct sim_node *n, uint64_t index, struct slice bytes)
{
    const uint32_t max = sizeof(n->changes) / sizeof(n->changes[0]);
    if (n->change_count == max) {
        free(n->changes[0].bytes);
        n->change_count--;
        memmove(n->changes, n->changes + 1, n->change_count * sizeof(n->changes[0]));
    }
    n->changes[n->change_count].index = index;
    n->changes[n->change_count].bytes = malloc(bytes.len);
    n->changes[n->change_count].len = bytes.len;
    memcpy(n->changes[n->change_count].bytes, bytes.data, bytes.len);
    n->change_count++;
    n->members_moved = true;
}

void shadow_truncated(struct sim_node *n, uint64_t first)
{
    while (n->change_count > 0 && n->changes[n->change_count - 1].index >= first) {
        free(n->changes[--n->change_count].bytes);
        n->members_moved = true;
    }
}

void shadow_reset_changes(struct sim_node *n)
{
    shadow_truncated(n, 0);
}

static bool is_voter(const struct raft_configuration *conf, uint64_t id)
{
    for (unsigned i = 0; i < conf->n; i++) {
        if (conf->servers[i].id == id) {
            return conf->servers[i].role == RAFT_VOTER;
        }
    }
    return false;
}

/* A server that votes before and after has the change before. One that votes from now on has what is
 * committed. */
static void check_voters(const struct sim_node *n, const struct raft_configuration *now,
                         const struct raft_configuration *next, uint64_t commit)
{
    uint64_t last = n->changes[n->change_count - 1].index;
    for (unsigned i = 0; i < next->n; i++) {
        const struct sim_node *v = &world.nodes[next->servers[i].id];
        if (next->servers[i].role != RAFT_VOTER || v == n || v->lost || v->flipped) {
            continue;
        }
        bool voted = is_voter(now, next->servers[i].id);
        uint64_t needs = voted ? last : commit;
        if (v->durable.last < needs && v->durable.base < needs) {
            violation("node %d changes the members, and node %d, which %s, has only %llu of %llu",
                      n->id, v->id, voted ? "votes" : "is promoted", ull(v->durable.last),
                      ull(needs));
        }
    }
}

/* E5, when a leader begins a change: one at a time, not before it has committed something of its
 * own, and everybody who votes is where it must be. */
void shadow_check_change(const struct sim_node *n, uint64_t index, struct slice bytes)
{
    struct replica_status s;
    struct raft_configuration now, next;
    if (!n->up || n->replica == NULL || n->change_count == 0) {
        return;
    }
    replica_status(n->replica, node_time(n), &s);
    if (!s.is_leader) {
        return;
    }
    if (n->changes[n->change_count - 1].index > s.commit_index) {
        violation("node %d begins a change of members at %llu, that at %llu is not committed",
                  n->id, ull(index), ull(n->changes[n->change_count - 1].index));
    }
    if (terms_at(&n->memory, s.commit_index) != s.term) {
        violation("node %d begins a change of members and has committed nothing in term %llu",
                  n->id, ull(s.term));
    }
    struct raft_buffer old = {n->changes[n->change_count - 1].bytes,
                              n->changes[n->change_count - 1].len};
    struct raft_buffer new = {(void *)(uintptr_t)bytes.data, bytes.len};
    if (raft_configuration_decode(&old, &now) == 0) {
        if (raft_configuration_decode(&new, &next) == 0) {
            check_voters(n, &now, &next, s.commit_index);
            raft_configuration_close(&next);
        }
        raft_configuration_close(&now);
    }
}

/* The members in force are those of the last membership entry in the log, committed or not. */
void shadow_check_members(struct sim_node *n)
{
    struct replica_member members[MAX_NODES];
    struct raft_configuration conf;
    if (!n->members_moved || n->change_count == 0 || n->failed) {
        return;
    }
    n->members_moved = false;
    uint32_t count = replica_members(n->replica, members, MAX_NODES);
    struct raft_buffer buffer = {n->changes[n->change_count - 1].bytes,
                                 n->changes[n->change_count - 1].len};
    if (raft_configuration_decode(&buffer, &conf) != 0) {
        violation("node %d: the members at %llu cannot be decoded", n->id,
                  ull(n->changes[n->change_count - 1].index));
    }
    bool same = conf.n == count;
    for (uint32_t i = 0; i < count && same; i++) {
        same = conf.servers[i].id == members[i].id &&
               (conf.servers[i].role == RAFT_VOTER) == members[i].voter;
    }
    raft_configuration_close(&conf);
    if (!same) {
        violation("node %d: the members in force are not those of entry %llu, the last membership "
                  "entry of its log (S12.6)",
                  n->id, ull(n->changes[n->change_count - 1].index));
    }
}

/* ---- whether somebody can be elected ---- */

/* Who comes back, or is here. */
static bool is_there(uint64_t id)
{
    const struct sim_node *n = &world.nodes[id];
    return n->used && !n->lost && !n->flipped && !n->held_down;
}

/* The change `back` before the last of a node's log, if it has so many: `majority` stays true if
 * most of its voters are there. */
static void count_change(const struct sim_node *n, uint32_t back, bool *majority)
{
    if (n->change_count <= back) {
        return;
    }
    struct raft_buffer buffer = {n->changes[n->change_count - 1 - back].bytes,
                                 n->changes[n->change_count - 1 - back].len};
    struct raft_configuration conf;
    uint32_t voters = 0;
    uint32_t there = 0;
    if (raft_configuration_decode(&buffer, &conf) != 0) {
        *majority = false;
        return;
    }
    for (unsigned i = 0; i < conf.n; i++) {
        if (conf.servers[i].role == RAFT_VOTER) {
            voters++;
            there += is_there(conf.servers[i].id);
        }
    }
    raft_configuration_close(&conf);
    *majority = *majority && there * 2 > voters;
}

static const struct sim_node *with_newest_change(void)
{
    const struct sim_node *newest = NULL;
    for (int i = 1; i <= MAX_NODES; i++) {
        const struct sim_node *n = &world.nodes[i];
        if (n->change_count > 0 &&
            (newest == NULL || n->changes[n->change_count - 1].index >
                                   newest->changes[newest->change_count - 1].index)) {
            newest = n;
        }
    }
    return newest;
}

/* Whether all members of the last change have it. Counts the last two changes of each of them. */
static bool look_at_members(const struct sim_node *newest, bool *majority)
{
    const uint32_t last = newest->change_count - 1;
    struct raft_buffer buffer = {newest->changes[last].bytes, newest->changes[last].len};
    struct raft_configuration conf;
    bool settled = true;
    if (raft_configuration_decode(&buffer, &conf) != 0) {
        *majority = false;
        return false;
    }
    for (unsigned i = 0; i < conf.n; i++) {
        const struct sim_node *n = &world.nodes[conf.servers[i].id];
        uint64_t index = newest->changes[last].index;
        /* Durably: a crash takes back what is not. */
        settled = settled && n->change_count > 0 &&
                  n->changes[n->change_count - 1].index == index &&
                  (n->durable.last >= index || n->durable.base >= index);
        if (is_there(conf.servers[i].id)) {
            count_change(n, 0, majority);
            count_change(n, 1, majority);
        }
    }
    raft_configuration_close(&conf);
    return settled;
}

/* Whether those who are to be up must be able to elect a leader: a majority by the last change of
 * members that all of its members have; or, while one is on its way, by the last two changes of
 * each of them. */
bool shadow_has_majority(void)
{
    const struct sim_node *newest = with_newest_change();
    bool last = true;
    bool each = true;
    if (newest == NULL) {
        return false;
    }
    count_change(newest, 0, &last);
    count_change(newest, 1, &each);
    return last && (look_at_members(newest, &each) || each);
}

void shadow_free(struct sim_node *n)
{
    shadow_reset_changes(n);
    free(n->memory.at);
    free(n->durable.at);
}
