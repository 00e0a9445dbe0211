/* What must be true across nodes, whatever happened: one leader a term, the same events at the same
 * index on every node, the same state at the same index, tokens that rise, no lease cut short. */
#include "world.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { MAX_TERMS = 100000, MAX_INDEXES = 400000, MAX_TOKENS = 400000 };

static int leader_of[MAX_TERMS];

struct at_index {
    uint64_t *events; /* a hash each */
    uint32_t count;
    uint64_t state; /* hash of the snapshot, 0: nobody looked */
};
static struct at_index *seen;

struct lease {
    uint64_t asked_us;
    uint64_t ttl_ms;
};
static struct lease *leases; /* by token / 1024 */
static uint64_t last_token;

void check_leader(const struct node *n, uint64_t term)
{
    if (term >= MAX_TERMS) {
        violation("too many terms");
    }
    if (leader_of[term] == 0) {
        leader_of[term] = n->id;
        world.counts.elections++;
        trace("node %d leads in term %llu", n->id, (unsigned long long)term);
    } else if (leader_of[term] != n->id) {
        violation("term %llu has two leaders, %d and %d", (unsigned long long)term, leader_of[term],
                  n->id);
    }
}

static uint64_t hash_event(const struct event *e)
{
    uint64_t words[] = {(uint64_t)e->type,   e->index,           e->ordinal,        e->at_ms,
                        e->wall_ms,          e->token,           e->attachment,     e->deadline_ms,
                        e->session.high,     e->session.low,     e->lease.high,     e->lease.low,
                        (uint64_t)e->reason, (uint64_t)e->ended, (uint64_t)e->mode, e->node};
    uint64_t hash = XXH3_64bits(words, sizeof(words));
    hash = XXH3_64bits_withSeed(e->name.data, e->name.len, hash);
    return XXH3_64bits_withSeed(e->client.data, e->client.len, hash);
}

static void first_sight(const struct event *e)
{
    if (e->type == EVENT_GRANTED && e->part == 1) {
        if (e->token <= last_token) {
            violation("token %llu is not above %llu (S3.1)", (unsigned long long)e->token,
                      (unsigned long long)last_token);
        }
        last_token = e->token;
    }
    if (e->type == EVENT_EXPIRED && e->part == 1) {
        world.counts.expired++;
        uint64_t c = e->token / 1024;
        const struct lease *l = c < MAX_TOKENS ? &leases[c] : NULL;
        if (l != NULL && l->ttl_ms != 0) {
            /* The holder counted from its sending, on a clock that may run 0.1 % slow (S5, S1.6).
             */
            uint64_t until_us = l->asked_us + l->ttl_ms * 999 - 5000;
            if (world.now_us < until_us) {
                violation("token %llu was cut short by %llu us", (unsigned long long)e->token,
                          (unsigned long long)(until_us - world.now_us));
            }
        }
    }
}

void check_applied(const struct node *n, const struct event *e)
{
    if (seen == NULL) {
        seen = calloc(MAX_INDEXES, sizeof(*seen));
        leases = calloc(MAX_TOKENS, sizeof(*leases));
    }
    if (e->index >= MAX_INDEXES) {
        violation("too many entries");
    }
    struct at_index *a = &seen[e->index];
    uint64_t hash = hash_event(e);
    if (e->ordinal < a->count) {
        if (a->events[e->ordinal] != hash) {
            violation("node %d sees another event %llu-%u than others: %s %.*s", n->id,
                      (unsigned long long)e->index, e->ordinal, event_name(e->type),
                      (int)e->name.len, (const char *)e->name.data);
        }
        return;
    }
    if (e->ordinal != a->count) {
        violation("node %d: event %llu-%u leaves a gap", n->id, (unsigned long long)e->index,
                  e->ordinal);
    }
    a->events = realloc(a->events, (a->count + 1) * sizeof(*a->events));
    a->events[a->count++] = hash;
    first_sight(e);
    clients_event(n, e);
}

static bool add_hash(void *ctx, const void *data, size_t len)
{
    uint64_t *hash = ctx;
    *hash = XXH3_64bits_withSeed(data, len, *hash);
    return true;
}

/* Snapshots at equal indexes are equal, byte for byte. */
void check_state(const struct node *n)
{
    const struct core *core = replica_core(n->replica);
    uint64_t index = core_index(core);
    if (index == 0 || index % 16 != 0 || index >= MAX_INDEXES || seen == NULL) {
        return;
    }
    uint64_t hash = 1;
    (void)snapshot_write(core, add_hash, &hash);
    if (seen[index].state == 0) {
        seen[index].state = hash;
        world.counts.entries = index;
        const char *broken = core_check_invariants(core);
        if (broken != NULL) {
            violation("node %d at %llu: %s", n->id, (unsigned long long)index, broken);
        }
    } else if (seen[index].state != hash) {
        violation("node %d has another state at %llu than others", n->id,
                  (unsigned long long)index);
    }
}

void check_granted(uint64_t token, uint64_t asked_us, uint64_t ttl_ms)
{
    uint64_t c = token / 1024;
    if (c < MAX_TOKENS) {
        leases[c] = (struct lease){asked_us, ttl_ms};
    }
}

void checks_end(void)
{
    for (uint64_t i = 0; seen != NULL && i < MAX_INDEXES; i++) {
        free(seen[i].events);
    }
    free(seen);
    free(leases);
    seen = NULL;
    leases = NULL;
    last_token = 0;
    memset(leader_of, 0, sizeof(leader_of));
}
