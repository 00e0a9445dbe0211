/* What must be true across nodes, whatever happened: one leader a term, nothing promised that is
 * not durable, nothing committed that a majority does not have, the same events at the same index
 * on every node, the same state at the same index. */
#include "world.h"

#include "core/snapshot.h"
#include "principals.h"
#include "times.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { MAX_TERMS = 20000, STATE_EVERY = 512 };

static struct {
    int node;
    uint32_t life;
} leader_of[MAX_TERMS];

struct at_index {
    uint64_t events; /* hashes of all of them */
    uint64_t state;  /* hash of the snapshot, 0: nobody looked */
    uint32_t count;
    uint32_t capacity;
    uint64_t *each;
};
static struct at_index *seen;
static uint64_t seen_capacity;
static uint64_t committed;
static uint64_t newest; /* index of the last event that was new to all */

static struct at_index *at(uint64_t index)
{
    if (index >= seen_capacity) {
        uint64_t capacity = index * 2 + 4096;
        seen = realloc(seen, capacity * sizeof(*seen));
        memset(seen + seen_capacity, 0, (capacity - seen_capacity) * sizeof(*seen));
        seen_capacity = capacity;
    }
    return &seen[index];
}

/* E7: a snapshot is of what is durable here. */
void check_snapshot(const struct sim_node *n, const struct core *core,
                    const struct replica_snapshot *about_it)
{
    if (core_index(core) > about_it->index || about_it->index > n->durable.last ||
        about_it->index >= disk_pending_from(n)) {
        violation("node %d takes a snapshot at %llu, durable is %llu", n->id, ull(about_it->index),
                  ull(n->durable.last));
    }
    if (terms_at(&n->durable, about_it->index) != about_it->term) {
        violation("node %d takes a snapshot at %llu of term %llu, the entry is of term %llu", n->id,
                  ull(about_it->index), ull(about_it->term),
                  ull(terms_at(&n->durable, about_it->index)));
    }
}

/* ---- leaders and commits ---- */

/* Who leads a term has voted for itself in it, durably, also as the only voter (E1, E13). */
static void check_own_vote(const struct sim_node *n, uint64_t term)
{
    const struct meta_state *meta = &n->store.meta.state;
    if (meta->term != term || meta->vote != (uint64_t)n->id) {
        breach("E13", "node %d leads term %llu, its disk says that it voted for %llu in term %llu",
               n->id, ull(term), ull(meta->vote), ull(meta->term));
    }
}

static void check_leader(const struct sim_node *n, uint64_t term, uint64_t cluster_ms)
{
    if (term >= MAX_TERMS) {
        violation("too many terms");
    }
    if (leader_of[term].node == 0) {
        leader_of[term].node = n->id;
        leader_of[term].life = n->life;
        world.counts.elections++;
        trace("node %d leads in term %llu", n->id, ull(term));
        trace_mark(n->id, "leads");
        check_own_vote(n, term);
        corners_elected(n);
        corners_led(n, term);
        if (cluster_ms < n->heard_ms) {
            violation("node %d leads and its clock shows %llu, it had heard of %llu (S1.3)", n->id,
                      ull(cluster_ms), ull(n->heard_ms));
        }
    } else if (leader_of[term].node != n->id) {
        breach("two leaders", "term %llu has two, %d and %d", ull(term), leader_of[term].node,
               n->id);
    } else if (leader_of[term].life != n->life) {
        breach("E13", "node %d leads term %llu in its life %u, and did in life %u", n->id,
               ull(term), n->life, leader_of[term].life);
    }
}

/* What a leader has committed is on the disks of a majority. */
static void check_commit(const struct sim_node *n, uint64_t index)
{
    struct replica_member members[MAX_NODES];
    uint32_t count = replica_members(n->replica, members, MAX_NODES);
    uint32_t voters = 0;
    uint32_t have = 0;
    uint64_t term = terms_at(&n->memory, index);
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].voter) {
            voters++;
            have += world.nodes[members[i].id].lost || /* it may have had it */
                    terms_has(&world.nodes[members[i].id].durable, index, term);
        }
    }
    if (have * 2 <= voters && term != 0) {
        for (uint32_t i = 0; i < count; i++) {
            const struct sim_node *v = &world.nodes[members[i].id];
            fprintf(stderr, "node %d%s: durable %llu to %llu, term %llu of %llu\n", v->id,
                    members[i].voter ? "" : " (no voter)", ull(v->durable.base),
                    ull(v->durable.last), ull(terms_at(&v->durable, index)), ull(term));
        }
        violation("node %d committed entry %llu, which is on the disks of %u of %u voters", n->id,
                  ull(index), have, voters);
    }
}

uint64_t check_committed(void)
{
    return committed;
}

static bool add_hash(void *ctx, const void *data, size_t len)
{
    uint64_t *hash = ctx;
    *hash = XXH3_64bits_withSeed(data, len, *hash);
    return true;
}

static uint64_t state_hash(const struct core *core)
{
    uint64_t hash = 1;
    (void)snapshot_write(core, add_hash, &hash);
    return hash;
}

/* Snapshots at equal indexes are equal, byte for byte. Once when a node comes to such an index, in
 * each of its lives: a state that was restored is looked at anew. */
static void check_state(struct sim_node *n, uint64_t every)
{
    const struct core *core = replica_core(n->replica);
    uint64_t index = core_index(core);
    if (index % every != 0 || index == n->looked_at) {
        return;
    }
    n->looked_at = index;
    struct at_index *a = at(index);
    uint64_t hash = state_hash(core);
    if (a->state == 0) {
        a->state = hash;
        const char *broken = core_check_invariants(core);
        if (broken != NULL) {
            violation("node %d at %llu: %s", n->id, ull(index), broken);
        }
    } else if (a->state != hash) {
        violation("node %d has another state at %llu than others", n->id, ull(index));
    }
}

void check_node(struct sim_node *n)
{
    struct replica_status s;
    replica_status(n->replica, node_time(n), &s);
    if (s.commit_index < n->commit_index) {
        breach("E21", "the commit index of node %d falls from %llu to %llu", n->id,
               ull(n->commit_index), ull(s.commit_index));
    }
    n->commit_index = s.commit_index;
    if (s.is_leader) {
        check_leader(n, s.term, s.cluster_ms);
        if (s.commit_index > committed) {
            check_commit(n, s.commit_index);
        }
    }
    if (s.commit_index > committed) {
        committed = s.commit_index;
        world.counts.entries = committed;
    }
    if (s.serving && n->serving_since_us == 0) {
        n->serving_since_us = world.now_us;
    } else if (!s.serving) {
        n->serving_since_us = 0;
    }
    shadow_check_members(n);
    check_state(n, STATE_EVERY);
}

/* ---- events ---- */

static uint64_t hash_event(const struct event *e)
{
    uint64_t words[] = {(uint64_t)e->type,   e->index,           e->ordinal,        e->at_ms,
                        e->wall_ms,          e->token,           e->attachment,     e->deadline_ms,
                        e->session.high,     e->session.low,     e->lease.high,     e->lease.low,
                        (uint64_t)e->reason, (uint64_t)e->ended, (uint64_t)e->mode, e->node};
    uint64_t hash = XXH3_64bits(words, sizeof(words));
    hash = XXH3_64bits_withSeed(e->name.data, e->name.len, hash);
    hash = XXH3_64bits_withSeed(e->client.data, e->client.len, hash);
    return XXH3_64bits_withSeed(e->trace.data, e->trace.len, hash);
}

void check_event(const struct sim_node *n, const struct event *e)
{
    struct at_index *a = at(e->index);
    uint64_t hash = hash_event(e);
    if (e->ordinal < a->count) {
        if (a->each[e->ordinal] != hash) {
            violation("node %d sees another event %llu-%u than others: %s %.*s", n->id,
                      ull(e->index), e->ordinal, event_name(e->type), (int)e->name.len,
                      (const char *)e->name.data);
        }
        return;
    }
    if (e->ordinal != a->count || e->index < newest) {
        violation("node %d sees an event %llu-%u that nobody saw before: %s %.*s", n->id,
                  ull(e->index), e->ordinal, event_name(e->type), (int)e->name.len,
                  (const char *)e->name.data);
    }
    newest = e->index;
    if (a->count == a->capacity) {
        a->capacity = a->capacity == 0 ? 4 : a->capacity * 2;
        a->each = realloc(a->each, a->capacity * sizeof(*a->each));
    }
    a->each[a->count++] = hash;
    principals_event(n, e);
    truth_event(e);
    times_event(n, e);
}

/* ---- the end ---- */

/* Whether all voters have applied the same, and then are in the same state. */
bool check_all_agree(char *why, size_t size)
{
    struct replica_member members[MAX_NODES];
    const struct sim_node *leader = leader_now();
    if (leader == NULL) {
        snprintf(why, size, "there is no leader");
        return false;
    }
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    uint64_t index = core_index(replica_core(leader->replica));
    uint64_t hash = state_hash(replica_core(leader->replica));
    for (uint32_t i = 0; i < count; i++) {
        const struct sim_node *n = &world.nodes[members[i].id];
        if (!members[i].voter || n->lost) {
            continue;
        }
        if (!n->up || core_index(replica_core(n->replica)) != index) {
            snprintf(why, size, "node %d is at %llu, the leader %d at %llu", n->id,
                     ull(n->up ? core_index(replica_core(n->replica)) : 0), leader->id, ull(index));
            return false;
        }
        if (state_hash(replica_core(n->replica)) != hash) {
            violation("node %d has another state at %llu than the leader", n->id, ull(index));
        }
    }
    return true;
}

void checks_end(void)
{
    for (uint64_t i = 0; i < seen_capacity; i++) {
        free(seen[i].each);
    }
    free(seen);
    seen = NULL;
    seen_capacity = 0;
    committed = 0;
    newest = 0;
    memset(leader_of, 0, sizeof(leader_of));
}
