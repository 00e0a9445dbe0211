/* Which nodes this node admits (S12.10), and which store ids it has recorded (S12.1).
 *
 * Our log defines the members, but may lack one that was added since and may lead. So this node
 * also admits a node whose store id another member reported, unless it saw that node removed. */
#include "node/node_state.h"

#include <stdio.h>

static bool is_in_options(const struct node *n, uint64_t id)
{
    for (uint32_t i = 0; i < n->options.member_count; i++) {
        if (n->options.members[i].id == id) {
            return true;
        }
    }
    return false;
}

bool node_admits(void *ctx, uint64_t id, char sentence[PEER_SENTENCE_MAX])
{
    struct node *n = ctx;
    bool has_members =
        n->replica != NULL && replica_members(n->replica, n->member_scratch, LIMIT_NODES) > 0;
    if (n->replica != NULL && replica_is_member(n->replica, id)) {
        return true;
    }
    if (has_members && id <= n->known.removed) {
        snprintf(sentence, PEER_SENTENCE_MAX,
                 "node %llu is no member of this cluster any more; ids are never used again",
                 ull(id));
        return false;
    }
    /* A joining node knows the others by its settings, until the log has it as a member: all
     * members in the first entries may be gone. */
    bool is_joining = !has_members || !replica_is_member(n->replica, n->options.id);
    if (is_joining && is_in_options(n, id)) {
        return true;
    }
    if (n->replica != NULL && id <= KNOWN_STORES_ID_MAX &&
        known_stores_find(&n->known, id) != NULL) {
        return true; /* above KNOWN_STORES_ID_MAX an entry outlives the membership */
    }
    snprintf(
        sentence, PEER_SENTENCE_MAX,
        "node %llu is not a member of this cluster: holdfast member add %llu HOST:PORT adds it",
        ull(id), ull(id));
    return false;
}

void node_publish_stores(struct node *n)
{
    n->self.stores_len = 0;
    for (uint32_t i = 0; i < n->known.count; i++) {
        n->self.stores_len += peer_stores_put(n->self.stores + n->self.stores_len,
                                              n->known.at[i].node, n->known.at[i].store);
    }
    n->self.used_ids = n->known.used;
}

static void save(struct node *n)
{
    struct problem problem;
    if (known_stores_save(&n->known, n->disk, &problem) != STORAGE_OK) {
        node_fail(n, problem.text);
    }
    node_publish_stores(n);
}

enum peer_store node_find_store(void *ctx, uint64_t id, struct id store)
{
    const struct node *n = ctx;
    const struct known_store *known = known_stores_find(&n->known, id);
    if (known != NULL) {
        return id_equal(known->store, store) ? PEER_STORE_SAME : PEER_STORE_OTHER;
    }
    known = known_stores_find(&n->met, id);
    return known != NULL && id_equal(known->store, store) ? PEER_STORE_SAME : PEER_STORE_UNKNOWN;
}

static struct known_members committed(const struct node *n)
{
    return (struct known_members){n->committed_ids, n->committed_count};
}

/* An entry in `known` marks its id as used. So the store id of a non-member is kept only in memory
 * (`met`): two nodes that wait to be added may connect without using up their ids. */
void node_note_store(void *ctx, uint64_t id, struct id store)
{
    struct node *n = ctx;
    if (n->replica == NULL || !replica_is_member(n->replica, id)) {
        known_stores_remove(&n->met, id);
        if (!known_stores_add(&n->met, id, store)) {
            n->met.count = 0; /* added again when they reconnect */
        }
        return;
    }
    known_stores_evict(&n->known, committed(n));
    if (known_stores_add(&n->known, id, store)) {
        save(n);
    }
}

static void note_met(struct node *n)
{
    for (uint32_t i = n->met.count; i > 0; i--) {
        struct known_store met = n->met.at[i - 1];
        if (replica_is_member(n->replica, met.node)) {
            known_stores_remove(&n->met, met.node);
            if (known_stores_find(&n->known, met.node) == NULL) {
                node_note_store(n, met.node, met.store);
            }
        }
    }
}

/* Adds missing store ids, and keeps free entries for all members. */
void node_on_introduced(void *ctx, const struct peer_introduction *intro)
{
    struct node *n = ctx;
    bool changed = known_stores_raise_used(&n->known, intro->used_ids);
    uint64_t id;
    struct id store;
    for (struct slice left = intro->stores; peer_stores_next(&left, &id, &store);) {
        bool is_gone =
            id <= n->known.removed && (n->replica == NULL || !replica_is_member(n->replica, id));
        if (id != n->options.id && id <= UINT32_MAX && !is_gone &&
            known_stores_find(&n->known, id) == NULL &&
            n->known.count < KNOWN_STORES_MAX - LIMIT_NODES) {
            changed = known_stores_add(&n->known, id, store) || changed;
        }
    }
    if (changed) {
        save(n);
    }
}

void node_follow_stores(struct node *n)
{
    note_met(n);
    uint64_t now[LIMIT_NODES];
    uint32_t count = replica_committed_ids(n->replica, now, LIMIT_NODES);
    if (count == 0) {
        return;
    }
    bool changed = known_stores_follow(&n->known, committed(n), (struct known_members){now, count});
    memcpy(n->committed_ids, now, count * sizeof(now[0]));
    n->committed_count = count;
    if (changed) {
        save(n);
    }
}
