/* A core next to a replicated one (core.h): tokens of the caller, its own attachment numbers,
 * sessions of the other core. */
#include "core/state.h"

void core_set_tokens(struct core *c, uint64_t first, uint64_t end)
{
    hf_assert(first > 0 && first <= end && end >= c->token_end && end <= LIMIT_NUMBER);
    c->token_next = first > c->token_next ? first : c->token_next;
    c->token_end = end;
}

uint64_t token_highest(const struct core *c)
{
    return c->token_end != 0 ? c->token_next - 1 : c->counter << 10;
}

/* Tokens below it that belong to the other core. */
static uint64_t multiples_below(uint64_t token)
{
    return (token + TOKEN_SCALE - 1) / TOKEN_SCALE;
}

uint64_t core_tokens_left(const struct core *c)
{
    if (c->token_end == 0) {
        return UINT64_MAX;
    }
    hf_assert(c->token_next <= c->token_end);
    return c->token_end - c->token_next -
           (multiples_below(c->token_end) - multiples_below(c->token_next));
}

uint32_t core_name_hash(const struct core *c, uint32_t tenant, struct slice name)
{
    return hash_name(c, tenant, name);
}

uint64_t core_audited(const struct core *c)
{
    return c->own.audit_number;
}

uint64_t core_attachments(const struct core *c)
{
    return c->attachment;
}

void core_set_attachments(struct core *c, uint64_t last)
{
    hf_assert(c->attachment == 0 && last < LIMIT_NUMBER);
    c->attachment = last;
}

/* As session_for, read-only. */
static enum hf_error find_alive(const struct core *c, const struct core *from, uint32_t tenant,
                                struct id id, const struct session **out)
{
    ref obj = session_find(from, id);
    if (obj == 0) {
        return history_session_of(from, tenant, id) == ENDED_NOT ? HF_SESSION_NOT_FOUND
                                                                 : HF_SESSION_EXPIRED;
    }
    const struct session *s = session_at(from, obj);
    if (s->is_private || s->tenant != tenant) {
        return HF_SESSION_NOT_FOUND;
    }
    if (session_deadline(from, s) <= c->now_ms) {
        return HF_SESSION_EXPIRED; /* swept or not (S1.7) */
    }
    *out = s;
    return HF_OK;
}

enum hf_error core_mirror_session(struct core *c, const struct core *from, uint32_t tenant,
                                  struct id id)
{
    hf_assert(c != from && c->token_end != 0 && from->token_end == 0);
    const struct session *there = NULL;
    enum hf_error error = find_alive(c, from, tenant, id, &there);
    if (error != HF_OK) {
        return error;
    }
    tenant_charge(c, tenant);
    ref obj = session_find(c, id);
    if (obj == 0) {
        if (history_session(c, tenant, id) != ENDED_NOT) {
            return HF_SESSION_EXPIRED;
        }
        if (lease_find(c, id) != 0) {
            return HF_REQUEST_ID_REUSED;
        }
        if (table_count(&c->sessions) >= LIMIT_SESSIONS) {
            return HF_TOO_MANY_SESSIONS;
        }
        obj = session_new(c, tenant, id, session_client(there), false, there->ttl_ms);
        session_at(c, obj)->principal = there->principal;
    }
    struct session *s = session_at(c, obj);
    if (s->is_private) {
        return HF_REQUEST_ID_REUSED; /* in use as a lease id */
    }
    const struct session_extra *extra = session_extra_get(from, there);
    uint64_t lingers_until_ms = extra == NULL ? 0 : extra->lingers_until_ms;
    if (lingers_until_ms != 0 || s->extra != 0) {
        session_extra_make(c, obj)->lingers_until_ms = lingers_until_ms;
    }
    s->life_ms = there->life_ms;
    timer_lower(c, obj, session_deadline(c, s));
    return HF_OK;
}

bool session_is_mirrored(const struct core *c, const struct session *s)
{
    return c->token_end != 0 && !s->is_private;
}

/* The deadline passed, but the other core has not ended the session: a keep-alive may be in flight
 * there. Extends it by a moment until the other core decides. */
void session_put_off(struct core *c, ref obj)
{
    enum { MOMENT_MS = 20 };
    struct session *s = session_at(c, obj);
    hf_assert(session_is_mirrored(c, s));
    struct session_extra *x = session_extra_get(c, s);
    uint64_t until_ms = c->now_ms + MOMENT_MS;
    if (s->life_ms + s->ttl_ms < until_ms) {
        hf_assert(until_ms >= s->ttl_ms);
        s->life_ms = until_ms - s->ttl_ms;
    }
    if (x != NULL && x->lingers_until_ms != 0 && x->lingers_until_ms < until_ms) {
        x->lingers_until_ms = until_ms;
    }
    timer_set(c, obj, session_deadline(c, s));
}

void core_end_session(struct core *c, struct id id, bool expired)
{
    hf_assert(c->token_end != 0); /* else commands end sessions */
    ref obj = session_find(c, id);
    if (obj != 0 && !session_at(c, obj)->is_private) {
        session_end(c, obj, expired ? ENDED_SESSION_EXPIRED : ENDED_SESSION_CLOSED);
    }
}

static void end_lease(struct core *c, struct id lease, enum ended how)
{
    bool is_grant = false;
    ref obj = lease_target(c, lease, &is_grant);
    if (obj != 0 && is_grant) {
        struct slice none = slice_make(NULL, 0);
        grant_end(c, obj, how, c->now_ms, none, none, false);
        wake_all(c);
    }
}

void core_take_back(struct core *c, struct id lease)
{
    hf_assert(!c->is_taking_back && c->token_end != 0);
    c->is_taking_back = true;
    end_lease(c, lease, ENDED_RELEASED);
    c->is_taking_back = false;
}

uint64_t core_set_ttl(struct core *c, struct id lease, uint64_t ttl_ms)
{
    hf_assert(c->token_end != 0);
    bool is_grant = false;
    ref obj = lease_target(c, lease, &is_grant);
    if (obj == 0 || !is_grant || grant_is_dead(c, grant_at(c, obj))) {
        return 0;
    }
    grant_renew(c, obj, ttl_ms);
    return grant_deadline(c, grant_at(c, obj));
}

void core_expire(struct core *c, struct id lease)
{
    hf_assert(c->token_end != 0);
    end_lease(c, lease, ENDED_EXPIRED);
}
