/* How the last grants and sessions ended: exact answers to late release, renew and retries (S8.3).
 * Two bounded memories, by token, lease id and session id. */
#include "core/state.h"

/* Tokens mostly end in the order of granting, so neighbours share cache lines of the index. C rises
 * in the replicated tier, e in the other (S3.1); e is mapped to the bits above those that 64 of its
 * blocks need. */
static uint32_t place_token(uint64_t token)
{
    return (uint32_t)((token >> 10) + ((token & 1023) << 6));
}

void history_add_grant(struct core *c, uint32_t tenant, uint64_t token, struct id lease,
                       enum ended how)
{
    hf_assert(how != ENDED_NOT && token != 0);
    hf_assert((unsigned)how < ENDED_COUNT && !id_is_zero(lease));
    ref obj = 0;
    struct ended_grant *e = pool_alloc(&c->pool, sizeof(*e), &obj);
    e->tenant = tenant;
    e->how = (uint8_t)how;
    e->token = token;
    e->lease = lease;
    c->remembered_bytes += sizeof(*e);
    history_remember(c, obj);
}

void history_remember(struct core *c, ref obj)
{
    const struct ended_grant *e = ended_grant_at(c, obj);
    const uint32_t hashes[] = {
        [ENDED_BY_LEASE] = hash_id(c, e->lease), [ENDED_BY_TOKEN] = place_token(e->token)};
    struct recent *memory = &tenant_memory(c, e->tenant)->ended_grants;
    ref forgotten = recent_add(memory, obj, hashes);
    if (forgotten != 0) {
        c->remembered_bytes -= sizeof(*e);
        pool_free(&c->pool, forgotten, sizeof(*e));
        /* The oldest entry is dropped next and is not in the cache. */
        __builtin_prefetch(pool_at(&c->pool, recent_at(memory, 0)), 1);
    }
}

static void forget_session(struct core *c, struct tenant *t)
{
    hf_assert(t->ended_sessions != 0 && t->ended_session_count > 0);
    ref obj = RING_FIRST(c, t->ended_sessions, ended_session, ring);
    const struct ended_session *e = ended_session_at(c, obj);
    table_remove(&c->ended_sessions, hash_id(c, e->id), obj);
    RING_REMOVE(c, &t->ended_sessions, obj, ended_session, ring);
    c->remembered_bytes -= sizeof(*e);
    pool_free(&c->pool, obj, sizeof(*e));
    t->ended_session_count--;
}

void history_add_session(struct core *c, uint32_t tenant, struct id id, enum ended how)
{
    hf_assert(how != ENDED_NOT && (unsigned)how < ENDED_COUNT);
    struct tenant *t = tenant_memory(c, tenant);
    hf_assert(t->ended_session_count <= LIMIT_ENDED);
    if (t->ended_session_count == LIMIT_ENDED) {
        forget_session(c, t);
    }
    ref obj = 0;
    struct ended_session *e = pool_alloc(&c->pool, sizeof(*e), &obj);
    e->tenant = tenant;
    e->how = (uint8_t)how;
    e->id = id;
    table_insert(&c->ended_sessions, hash_id(c, id), obj);
    RING_APPEND(c, &t->ended_sessions, obj, ended_session, ring);
    c->remembered_bytes += sizeof(*e);
    t->ended_session_count++;
}

const struct ended_grant *history_by_token(const struct core *c, uint32_t tenant, uint64_t token)
{
    const struct recent *memory = &tenant_memory_look(c, tenant)->ended_grants;
    struct recent_walk w = recent_find(memory, ENDED_BY_TOKEN, place_token(token));
    while (recent_next(&w)) {
        const struct ended_grant *e = ended_grant_at(c, w.who);
        if (e->token == token) {
            return e;
        }
    }
    return NULL;
}

const struct ended_grant *history_by_lease(const struct core *c, uint32_t tenant, struct id lease)
{
    const struct recent *memory = &tenant_memory_look(c, tenant)->ended_grants;
    struct recent_walk w = recent_find(memory, ENDED_BY_LEASE, hash_id(c, lease));
    while (recent_next(&w)) {
        const struct ended_grant *e = ended_grant_at(c, w.who);
        if (id_equal(e->lease, lease)) {
            return e;
        }
    }
    return NULL;
}

static const struct ended_session *find_session(const struct core *c, uint32_t tenant, bool any,
                                                struct id id)
{
    ref obj = table_first(&c->ended_sessions, hash_id(c, id));
    while (obj != 0) {
        const struct ended_session *e = ended_session_at(c, obj);
        if (id_equal(e->id, id) && (any || e->tenant == tenant)) {
            return e;
        }
        obj = e->next;
    }
    return NULL;
}

enum ended history_session(const struct core *c, uint32_t tenant, struct id id)
{
    const struct ended_session *e = find_session(c, tenant, c->version < TENANT_VERSION, id);
    return e == NULL ? ENDED_NOT : (enum ended)e->how;
}

enum ended history_session_of(const struct core *c, uint32_t tenant, struct id id)
{
    const struct ended_session *e = find_session(c, tenant, false, id);
    return e == NULL ? ENDED_NOT : (enum ended)e->how;
}
