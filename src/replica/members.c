/* Membership: the first members, and the rules of changes (E5). */
#include "base/panic.h"
#include "replica/engine.h"
#include "replica/internal.h"

/* A reachable member answered within so many heartbeats. */
#define ANSWER_HEARTBEATS 2

size_t replica_bootstrap_entry(const struct replica_member *members, uint32_t count, void *buffer,
                               size_t size)
{
    struct raft_configuration conf;
    hf_assert(count > 0 && buffer != NULL);
    raft_configuration_init(&conf);
    for (uint32_t i = 0; i < count; i++) {
        if (raft_configuration_add(&conf, members[i].id, members[i].address,
                                   members[i].voter ? RAFT_VOTER : RAFT_STANDBY) != 0) {
            raft_configuration_close(&conf);
            return 0;
        }
    }
    struct raft_buffer encoded;
    int error = raft_configuration_encode(&conf, &encoded);
    raft_configuration_close(&conf);
    if (error != 0) {
        return 0;
    }
    size_t len = encoded.len <= size ? encoded.len : 0;
    if (len > 0) {
        memcpy(buffer, encoded.base, len);
    }
    raft_free(encoded.base);
    return len;
}

static const struct raft_server *find(const struct raft *raft, uint64_t id)
{
    for (unsigned i = 0; i < raft->configuration.n; i++) {
        if (raft->configuration.servers[i].id == id) {
            return &raft->configuration.servers[i];
        }
    }
    return NULL;
}

static bool has_committed_in_its_term(const struct engine *e)
{
    uint64_t commit = raft_commit_index(&e->raft);
    const struct entry_slot *s = entries_at(&e->log, commit);
    return s != NULL && s->term == raft_current_term(&e->raft);
}

/* NULL: it may; else the reason. */
const char *members_may_change(const struct engine *e)
{
    const struct raft *raft = &e->raft;
    hf_assert(engine_is_leader(e)); /* a follower has no match indexes */
    if (raft->configuration_uncommitted_index != 0) {
        return "another membership change is under way; try again when it is done";
    }
    if (raft_transferee(raft) != 0) {
        return "the leadership is being transferred; try again";
    }
    if (!has_committed_in_its_term(e)) {
        return "the leader is new and has committed nothing yet; try again";
    }
    for (unsigned i = 0; i < raft->configuration.n; i++) {
        const struct raft_server *server = &raft->configuration.servers[i];
        raft_index match = 0;
        if (server->id == raft->id || server->role != RAFT_VOTER) {
            continue;
        }
        if (raft_match_index(raft, server->id, &match) != 0 ||
            match < raft->configuration_committed_index) {
            return "a voter does not have the current membership yet; wait for it, or remove it "
                   "if it is gone for good";
        }
    }
    return NULL;
}

/* A voter that is down for ever would block every change, so it may be removed without the last
 * configuration. */
static const char *may_remove(const struct engine *e, uint64_t id)
{
    const struct raft *raft = &e->raft;
    const char *problem = members_may_change(e);
    if (problem == NULL || raft->configuration_uncommitted_index != 0 ||
        raft_transferee(raft) != 0 || !has_committed_in_its_term(e)) {
        return problem;
    }
    for (unsigned i = 0; i < raft->configuration.n; i++) {
        const struct raft_server *server = &raft->configuration.servers[i];
        raft_index match = 0;
        if (server->id != raft->id && server->id != id && server->role == RAFT_VOTER &&
            (raft_match_index(raft, server->id, &match) != 0 ||
             match < raft->configuration_committed_index)) {
            return problem;
        }
    }
    return NULL;
}

static unsigned voters(const struct raft *raft)
{
    unsigned count = 0;
    for (unsigned i = 0; i < raft->configuration.n; i++) {
        count += raft->configuration.servers[i].role == RAFT_VOTER;
    }
    return count;
}

/* E15: an unreachable member might not learn that it is a voter. The receive time counts: over a
 * long round trip, each answered message is older than the limit. */
static bool answered_lately(const struct replica *r, uint64_t id, struct replica_time now)
{
    uint64_t within_us = ANSWER_HEARTBEATS * UINT64_C(1000) * r->options.heartbeat_ms;
    uint64_t heard_us = contact_heard_us(&r->contact, id);
    return heard_us != 0 && now.boot_us - heard_us <= within_us;
}

/* E5 */
static bool has_caught_up(const struct engine *e, uint64_t id)
{
    raft_index match = 0;
    hf_assert(engine_is_leader(e) && id != e->raft.id);
    return raft_match_index(&e->raft, id, &match) == 0 && match >= raft_commit_index(&e->raft);
}

static const char *check(const struct replica *r, enum replica_change change, uint64_t id,
                         struct replica_time now)
{
    const struct engine *e = &r->engine;
    const struct raft *raft = &e->raft;
    const struct raft_server *server = find(raft, id);
    const char *problem = change == REPLICA_REMOVE ? may_remove(e, id) : members_may_change(e);
    if (problem != NULL) {
        return problem;
    }
    if (change == REPLICA_ADD) {
        return server == NULL ? NULL : "this id is a member already; ids are never used again";
    }
    if (server == NULL) {
        return "no member has this id";
    }
    if (id == raft->id && change != REPLICA_PROMOTE) { /* E16 */
        return "this node leads; transfer the leadership first, then repeat the request";
    }
    switch (change) {
    case REPLICA_PROMOTE:
        if (server->role == RAFT_VOTER) {
            return "it is a voter already";
        }
        if (!has_caught_up(e, id)) {
            return "it has not caught up with the log yet; try again when its lag is 0";
        }
        if (!answered_lately(r, id, now)) {
            return "it does not answer the leader; check its network and try again";
        }
        return NULL;
    case REPLICA_DEMOTE:
        return server->role != RAFT_VOTER ? "it is not a voter"
               : voters(raft) == 1        ? "it is the only voter"
                                          : NULL;
    case REPLICA_REMOVE:
        return server->role == RAFT_VOTER && voters(raft) == 1 ? "it is the only voter" : NULL;
    case REPLICA_ADD:
        break;
    }
    return NULL;
}

static int copy_changed(const struct raft *raft, struct raft_configuration *to,
                        enum replica_change change, uint64_t id, const char *address)
{
    hf_assert(raft->configuration_uncommitted_index == 0); /* E5: one at a time */
    for (unsigned i = 0; i < raft->configuration.n; i++) {
        const struct raft_server *server = &raft->configuration.servers[i];
        int role = server->role;
        if (server->id == id) {
            if (change == REPLICA_REMOVE) {
                continue;
            }
            role = change == REPLICA_PROMOTE ? RAFT_VOTER : RAFT_STANDBY;
        }
        int error = raft_configuration_add(to, server->id, server->address, role);
        if (error != 0) {
            return error;
        }
    }
    return change == REPLICA_ADD ? raft_configuration_add(to, id, address, RAFT_STANDBY) : 0;
}

enum hf_error replica_change_member(struct replica *r, enum replica_change change, uint64_t id,
                                    const char *address, struct replica_time now,
                                    const char **problem)
{
    struct engine *e = &r->engine;
    hf_assert(id != 0 && problem != NULL);
    hf_assert(change != REPLICA_ADD || address != NULL);
    if (!engine_is_leader(e) || !r->serving) {
        *problem = "this node does not lead";
        return HF_UNAVAILABLE;
    }
    *problem = check(r, change, id, now);
    if (*problem != NULL) {
        return HF_MEMBERSHIP;
    }
    struct raft_configuration conf;
    raft_configuration_init(&conf);
    struct slice bytes = slice_make(NULL, 0);
    if (copy_changed(&e->raft, &conf, change, id, address) != 0 ||
        !members_encode(&conf, &bytes, e->memory)) {
        raft_configuration_close(&conf);
        *problem = "another member has this id or address";
        return HF_MEMBERSHIP;
    }
    raft_configuration_close(&conf);
    replica_enter(r, now);
    enum hf_error error = engine_submit(e, RAFT_CHANGE, bytes, now.boot_us / 1000);
    memory_free(e->memory, (void *)(uintptr_t)bytes.data, bytes.len);
    if (error != HF_OK) {
        *problem = "the engine refused it";
    }
    replica_leave(r, now);
    return error;
}

uint32_t replica_members(const struct replica *r, struct replica_member *out, uint32_t max)
{
    const struct raft_configuration *conf = &r->engine.raft.configuration;
    uint32_t count = 0;
    hf_assert(out != NULL);
    for (unsigned i = 0; i < conf->n && count < max; i++) {
        out[count++] = (struct replica_member){conf->servers[i].id, conf->servers[i].address,
                                               conf->servers[i].role == RAFT_VOTER};
    }
    return count;
}

uint64_t replica_match_index(const struct replica *r, uint64_t id)
{
    raft_index match = 0;
    if (!engine_is_leader(&r->engine)) {
        return 0;
    }
    if (id == r->engine.raft.id) {
        return r->engine.reported;
    }
    return find(&r->engine.raft, id) != NULL && raft_match_index(&r->engine.raft, id, &match) == 0
               ? match
               : 0;
}

bool replica_has_members(const struct replica *r, uint64_t id)
{
    return replica_match_index(r, id) >= r->engine.raft.configuration_committed_index;
}

/* S10.1. */
bool replica_has_majority(struct replica *r, struct replica_time now)
{
    if (!r->serving) {
        return false;
    }
    const struct raft *raft = &r->engine.raft;
    contact_members(&r->contact, raft->configuration_uncommitted_index != 0
                                     ? raft->configuration_uncommitted_index
                                     : raft->configuration_committed_index);
    if (now.boot_us <= r->contact.until_us) {
        return true;
    }
    struct replica_member members[LIMIT_NODES];
    uint64_t voters[LIMIT_NODES];
    uint32_t voter_count = 0;
    uint32_t count = replica_members(r, members, LIMIT_NODES);
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].voter) {
            voters[voter_count++] = members[i].id;
        }
    }
    return contact_is_majority(&r->contact, voters, voter_count, r->options.id,
                               r->options.election_ms * UINT64_C(1000), now.boot_us);
}
