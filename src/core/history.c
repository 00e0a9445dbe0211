/* How the last grants and sessions ended, so that release, renew and late retries can be told
 * apart after the fact (S8.3). Two bounded rings, found by token, lease id and session id. */
#include "core/state.h"

static void forget_grant(struct core *c)
{
    ref who = RING_FIRST(c, c->ended_grants_ring, ended_grant, ring);
    const struct ended_grant *e = ended_grant_at(c, who);
    table_remove(&c->ended_by_token, hash_token(c, e->token), who);
    table_remove(&c->ended_by_lease, hash_id(c, e->lease), who);
    RING_REMOVE(c, &c->ended_grants_ring, who, ended_grant, ring);
    pool_free(&c->pool, who, sizeof(*e));
    /* Who goes next is the oldest of all in memory, too: have its places ready, and the one after
     * it, whose own are found then. */
    who = RING_FIRST(c, c->ended_grants_ring, ended_grant, ring);
    e = ended_grant_at(c, who);
    TABLE_PREFETCH(&c->ended_by_token, hash_token(c, e->token));
    TABLE_PREFETCH(&c->ended_by_lease, hash_id(c, e->lease));
    __builtin_prefetch(pool_at(&c->pool, e->ring.next));
}

void history_add_grant(struct core *c, uint32_t tenant, uint64_t token, struct id lease,
                       enum ended how)
{
    hf_assert(how != ENDED_NOT && token != 0);
    if (table_count(&c->ended_by_token) == LIMIT_ENDED) {
        forget_grant(c);
    }
    ref who = 0;
    struct ended_grant *e = pool_alloc(&c->pool, sizeof(*e), &who);
    e->tenant = tenant;
    e->how = (uint8_t)how;
    e->token = token;
    e->lease = lease;
    table_insert(&c->ended_by_token, hash_token(c, token), who);
    table_insert(&c->ended_by_lease, hash_id(c, lease), who);
    RING_APPEND(c, &c->ended_grants_ring, who, ended_grant, ring);
}

static void forget_session(struct core *c)
{
    ref who = RING_FIRST(c, c->ended_sessions_ring, ended_session, ring);
    const struct ended_session *e = ended_session_at(c, who);
    table_remove(&c->ended_sessions, hash_id(c, e->id), who);
    RING_REMOVE(c, &c->ended_sessions_ring, who, ended_session, ring);
    pool_free(&c->pool, who, sizeof(*e));
}

void history_add_session(struct core *c, uint32_t tenant, struct id id, enum ended how)
{
    hf_assert(how != ENDED_NOT);
    if (table_count(&c->ended_sessions) == LIMIT_ENDED) {
        forget_session(c);
    }
    ref who = 0;
    struct ended_session *e = pool_alloc(&c->pool, sizeof(*e), &who);
    e->tenant = tenant;
    e->how = (uint8_t)how;
    e->id = id;
    table_insert(&c->ended_sessions, hash_id(c, id), who);
    RING_APPEND(c, &c->ended_sessions_ring, who, ended_session, ring);
}

const struct ended_grant *history_by_token(const struct core *c, uint64_t token)
{
    ref who = table_first(&c->ended_by_token, hash_token(c, token));
    while (who != 0) {
        const struct ended_grant *e = ended_grant_at(c, who);
        if (e->token == token) {
            return e;
        }
        who = e->token_next;
    }
    return NULL;
}

const struct ended_grant *history_by_lease(const struct core *c, struct id lease)
{
    ref who = table_first(&c->ended_by_lease, hash_id(c, lease));
    while (who != 0) {
        const struct ended_grant *e = ended_grant_at(c, who);
        if (id_equal(e->lease, lease)) {
            return e;
        }
        who = e->lease_next;
    }
    return NULL;
}

static const struct ended_session *find_session(const struct core *c, struct id id)
{
    ref who = table_first(&c->ended_sessions, hash_id(c, id));
    while (who != 0) {
        const struct ended_session *e = ended_session_at(c, who);
        if (id_equal(e->id, id)) {
            return e;
        }
        who = e->next;
    }
    return NULL;
}

enum ended history_session(const struct core *c, struct id id)
{
    const struct ended_session *e = find_session(c, id);
    return e == NULL ? ENDED_NOT : (enum ended)e->how;
}

enum ended history_session_of(const struct core *c, uint32_t tenant, struct id id)
{
    const struct ended_session *e = find_session(c, id);
    return e == NULL || e->tenant != tenant ? ENDED_NOT : (enum ended)e->how;
}
