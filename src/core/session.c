/* Sessions (S4): own grants and waiters, which a keep-alive confirms. */
#include "core/state.h"

size_t session_size(const struct session *s)
{
    return offsetof(struct session, client) + s->client_len;
}

struct slice session_client(const struct session *s)
{
    return slice_make(s->client, s->client_len);
}

ref session_find(const struct core *c, struct id id)
{
    ref obj = table_first(&c->sessions, hash_id(c, id));
    while (obj != 0) {
        const struct session *s = session_at(c, obj);
        if (id_equal(s->id, id)) {
            return obj;
        }
        obj = s->next;
    }
    return 0;
}

struct session_extra *session_extra_get(const struct core *c, const struct session *s)
{
    return s->extra == 0 ? NULL : session_extra_at(c, s->extra);
}

struct session_extra *session_extra_make(struct core *c, ref session)
{
    struct session *s = session_at(c, session);
    hf_assert(s->kind == KIND_SESSION);
    if (s->extra == 0) {
        (void)pool_alloc(&c->pool, sizeof(struct session_extra), &s->extra);
    }
    return session_extra_at(c, s->extra);
}

uint64_t session_deadline(const struct core *c, const struct session *s)
{
    if (s->is_private && s->holds == 0) {
        return UINT64_MAX; /* waiting private session: the wait has the deadline (S4.3) */
    }
    uint64_t deadline = s->ttl_ms == TTL_NONE ? UINT64_MAX : s->life_ms + s->ttl_ms;
    const struct session_extra *x = session_extra_get(c, s);
    if (x != NULL && x->lingers_until_ms != 0 && x->lingers_until_ms < deadline) {
        deadline = x->lingers_until_ms;
    }
    if (deadline <= c->now_ms && session_is_mirrored(c, s)) {
        deadline = c->now_ms + 1; /* only after the other core has ended it */
    }
    return deadline;
}

bool session_is_dead(const struct core *c, const struct session *s)
{
    return session_deadline(c, s) <= c->now_ms;
}

bool session_is_of(const struct session *s, const struct command *cmd)
{
    return s->tenant == cmd->tenant &&
           (s->principal == cmd->principal || s->principal == 0 || cmd->principal == 0);
}

enum hf_error session_for(struct core *c, const struct command *cmd, ref *out)
{
    ref obj = session_find(c, cmd->session);
    if (obj == 0) {
        return history_session_of(c, cmd->tenant, cmd->session) == ENDED_NOT ? HF_SESSION_NOT_FOUND
                                                                             : HF_SESSION_EXPIRED;
    }
    const struct session *s = session_at(c, obj);
    if (s->is_private || !session_is_of(s, cmd)) {
        return HF_SESSION_NOT_FOUND;
    }
    if (c->backlog && session_is_dead(c, s)) {
        session_end(c, obj, ENDED_SESSION_EXPIRED);
        return HF_SESSION_EXPIRED;
    }
    *out = obj;
    return HF_OK;
}

ref session_new(struct core *c, uint32_t tenant, struct id id, struct slice client, bool is_private,
                uint64_t ttl_ms)
{
    hf_assert(client.len >= 1 && client.len <= LIMIT_CLIENT);
    hf_assert(!id_is_zero(id));
    ref obj = 0;
    struct session *s = pool_alloc(&c->pool, offsetof(struct session, client) + client.len, &obj);
    s->kind = KIND_SESSION;
    s->is_private = is_private;
    s->tenant = tenant;
    s->id = id;
    s->ttl_ms = ttl_ms;
    s->life_ms = c->now_ms;
    s->client_len = (uint8_t)client.len;
    memcpy(s->client, client.data, client.len);
    table_insert(&c->sessions, hash_id(c, id), obj);
    RING_APPEND(c, &c->all_sessions, obj, session, all);
    tenant_get(c, tenant)->usage.sessions++;
    core_step(c, 1);
    return obj;
}

static void session_remove(struct core *c, ref obj)
{
    struct session *s = session_at(c, obj);
    hf_assert(s->holds == 0 && s->waits == 0 && s->entries == 0);
    if (s->timer != 0) {
        timer_set(c, obj, UINT64_MAX);
    }
    if (s->extra != 0) {
        request_drop_all(c, obj);
        blob_free(c, session_extra_at(c, s->extra)->metadata);
        pool_free(&c->pool, s->extra, sizeof(struct session_extra));
    }
    table_remove(&c->sessions, hash_id(c, s->id), obj);
    if (c->purge_at == obj) {
        c->purge_at = ring_after(&c->pool, c->all_sessions, obj, offsetof(struct session, all));
    }
    RING_REMOVE(c, &c->all_sessions, obj, session, all);
    tenant_get(c, s->tenant)->usage.sessions--;
    pool_free(&c->pool, obj, session_size(s));
}

void session_drop_if_empty(struct core *c, ref obj)
{
    const struct session *s = session_at(c, obj);
    if (s->is_private && s->holds == 0 && s->waits == 0) {
        session_remove(c, obj);
    }
}

static void announce(struct core *c, enum event_type type, const struct session *s, enum ended how)
{
    event_emit(c, &(struct event){.type = type,
                                  .tenant = s->tenant,
                                  .session = s->id,
                                  .client = session_client(s),
                                  .deadline_ms = session_deadline(c, s),
                                  .ended = how,
                                  .parts = 1});
}

/* Waiters first: no lock of the session is granted to the session itself. A private session is
 * removed with its only waiter or grant. */
void session_end(struct core *c, ref obj, enum ended how)
{
    struct session *s = session_at(c, obj);
    struct slice none = slice_make(NULL, 0);
    hf_assert(how != ENDED_NOT && how != ENDED_RELEASED);
    tenant_charge(c, s->tenant);
    hf_assert(!s->is_private || (s->waits != 0) != (s->holds != 0));
    /* A mirrored session ends before its deadline. */
    uint64_t at_ms =
        how == ENDED_SESSION_EXPIRED && session_is_dead(c, s) ? session_deadline(c, s) : c->now_ms;
    enum reason reason = how == ENDED_REVOKED ? REASON_DENIED : REASON_SESSION_ENDED;
    if (s->is_private) {
        if (s->waits != 0) {
            waiter_end(c, RING_FIRST(c, s->waits, waiter, in_session), reason);
        } else {
            grant_end(c, RING_FIRST(c, s->holds, grant, in_session),
                      how == ENDED_SESSION_EXPIRED ? ENDED_EXPIRED : how, at_ms, none, none, false);
        }
        return;
    }
    while (s->waits != 0) {
        waiter_end(c, RING_FIRST(c, s->waits, waiter, in_session), reason);
    }
    while (s->holds != 0) {
        grant_end(c, RING_FIRST(c, s->holds, grant, in_session), how, at_ms, none, none, false);
    }
    announce(c, how == ENDED_SESSION_CLOSED ? EVENT_SESSION_CLOSED : EVENT_SESSION_EXPIRED, s, how);
    history_add_session(c, s->tenant, s->id, how);
    session_remove(c, obj);
    core_step(c, 1);
}

static void answer_about(const struct core *c, ref obj, struct result *out)
{
    const struct session *s = session_at(c, obj);
    out->lease = s->id;
    out->deadline_ms = session_deadline(c, s);
    out->ttl_ms = s->ttl_ms;
}

static void open_new(struct core *c, const struct command *cmd, ref session, struct result *out)
{
    (void)session;
    const struct command_session_open *o = &cmd->session_open;
    ref obj = session_find(c, o->id);
    if (obj != 0) {
        const struct session *s = session_at(c, obj);
        if (s->is_private || !session_is_of(s, cmd) || !slice_equal(session_client(s), o->client)) {
            out->error = HF_REQUEST_ID_REUSED;
        } else if (session_is_dead(c, s)) {
            session_end(c, obj, ENDED_SESSION_EXPIRED);
            out->error = HF_SESSION_EXPIRED;
        } else {
            out->replayed = true;
            answer_about(c, obj, out);
        }
        return;
    }
    if (history_session(c, cmd->tenant, o->id) != ENDED_NOT) {
        out->error = HF_SESSION_EXPIRED;
        return;
    }
    if (lease_find(c, o->id) != 0) {
        out->error = HF_REQUEST_ID_REUSED;
        return;
    }
    if (table_count(&c->sessions) >= LIMIT_SESSIONS) {
        out->error = HF_TOO_MANY_SESSIONS;
        return;
    }
    hf_assert(o->ttl_ms != 0 && o->metadata.len <= LIMIT_METADATA);
    obj = session_new(c, cmd->tenant, o->id, o->client, false, o->ttl_ms);
    session_at(c, obj)->principal = cmd->principal;
    if (o->linger_ms != 0 || o->metadata.len > 0) {
        struct session_extra *x = session_extra_make(c, obj);
        x->linger_ms = o->linger_ms;
        x->metadata = blob_new(c, o->metadata);
    }
    timer_set(c, obj, session_deadline(c, session_at(c, obj)));
    announce(c, EVENT_SESSION_OPENED, session_at(c, obj), ENDED_NOT);
    answer_about(c, obj, out);
}

void apply_session_open(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_SESSION_OPEN);
    request_once(c, cmd, 0, open_new, out);
}

void apply_session_close(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_SESSION_CLOSE);
    ref obj = 0;
    enum hf_error error = session_for(c, cmd, &obj);
    if (error == HF_SESSION_EXPIRED &&
        history_session(c, cmd->tenant, cmd->session) == ENDED_SESSION_CLOSED) {
        out->replayed = true;
        return;
    }
    if (error != HF_OK) {
        out->error = error;
        return;
    }
    session_end(c, obj, ENDED_SESSION_CLOSED);
}

void apply_keepalive(struct core *c, const struct command *cmd, struct result *out)
{
    const struct ids *ids = &cmd->keepalive.sessions;
    hf_assert(cmd->type == COMMAND_KEEPALIVE && ids->count <= LIMIT_KEEPALIVE_IDS);
    for (uint32_t i = 0; i < ids->count; i++) {
        ref obj = session_find(c, ids_at(ids, i));
        enum hf_error error = HF_OK;
        core_step(c, 1);
        if (obj == 0) {
            error = history_session_of(c, cmd->tenant, ids_at(ids, i)) == ENDED_NOT
                        ? HF_SESSION_NOT_FOUND
                        : HF_SESSION_EXPIRED;
        } else {
            struct session *s = session_at(c, obj);
            if (s->is_private || !session_is_of(s, cmd) || principal_is_removed(c, s->principal)) {
                error = HF_SESSION_NOT_FOUND; /* S14.4 */
            } else if (session_is_dead(c, s)) {
                error = HF_SESSION_EXPIRED; /* the sweep ends it: too much work here */
            } else {
                s->life_ms = c->now_ms;
            }
        }
        c->alive[i] = (uint8_t)error;
    }
    out->count = ids->count;
    out->alive = c->alive;
}

static void stream_begin(struct core *c, const struct command *cmd, uint32_t node,
                         struct result *out)
{
    ref obj = 0;
    out->error = session_for(c, cmd, &obj);
    if (out->error == HF_OK) {
        struct session_extra *x = session_extra_make(c, obj);
        hf_assert(c->attachment < LIMIT_NUMBER && x->stream <= c->attachment);
        x->stream = ++c->attachment;
        x->node = node;
        x->lingers_until_ms = 0;
        out->attachment = x->stream;
        answer_about(c, obj, out);
    }
}

void apply_stream_up(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_STREAM_UP);
    stream_begin(c, cmd, 0, out);
}

void apply_stream_through(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_STREAM_THROUGH);
    stream_begin(c, cmd, cmd->stream_through.node, out);
}

/* To the node of the stream, which announces it again if it is up. */
static void announce_lingers(struct core *c, const struct session *s, const struct session_extra *x)
{
    if (c->version >= 4) {
        event_emit(c, &(struct event){.type = EVENT_LINGERS,
                                      .tenant = s->tenant,
                                      .session = s->id,
                                      .client = session_client(s),
                                      .node = x->node,
                                      .attachment = x->stream,
                                      .deadline_ms = session_deadline(c, s),
                                      .parts = 1});
    }
}

void apply_stream_down(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_STREAM_DOWN);
    ref obj = 0;
    out->error = session_for(c, cmd, &obj);
    if (out->error != HF_OK) {
        return;
    }
    struct session_extra *x = session_extra_get(c, session_at(c, obj));
    if (x == NULL || x->stream == 0 || x->stream != cmd->stream_down.stream) {
        out->outcome = OUTCOME_REFUSED;
        out->reason = REASON_SUPERSEDED;
        return;
    }
    hf_assert(x->linger_ms <= LIMIT_LINGER_MAX_MS);
    if (x->linger_ms != 0 && x->lingers_until_ms == 0) {
        x->lingers_until_ms = c->now_ms + x->linger_ms;
        timer_lower(c, obj, session_deadline(c, session_at(c, obj)));
        announce_lingers(c, session_at(c, obj), x);
    }
    answer_about(c, obj, out);
}
