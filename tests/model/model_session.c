/* Sessions: open, keep-alive, close, streams (S4). */
#include "model_state.h"

/* The session that the command names. One that is past its deadline and not swept yet ends here. */
enum hf_error model_named_session(struct model *m, const struct command *c,
                                  struct model_session **out)
{
    struct model_session *s = model_find_session(m, c->session);
    if (s != NULL && (s->is_private || !model_owns(c, s))) {
        return HF_SESSION_NOT_FOUND;
    }
    if (s != NULL && model_session_dead(m, s)) {
        model_bury_session(m, s);
        return HF_SESSION_EXPIRED;
    }
    if (s == NULL) {
        return model_ended_session(m, c->tenant, c->session) != NULL ? HF_SESSION_EXPIRED
                                                                     : HF_SESSION_NOT_FOUND;
    }
    *out = s;
    return HF_OK;
}

static void result_from_session(const struct model_session *s, struct result *out)
{
    out->lease = s->id;
    out->deadline_ms = model_session_deadline(s);
    out->ttl_ms = s->ttl_ms;
}

void model_session_open(struct model *m, const struct command *c, struct result *out)
{
    const struct command_session_open *o = &c->session_open;
    if (model_once(m, c, NULL, out)) {
        return;
    }
    struct model_session *s = model_find_session(m, o->id);
    if (s != NULL) {
        if (s->is_private || !model_owns(c, s) ||
            !slice_equal(owned_slice(&s->client), o->client)) {
            out->error = HF_REQUEST_ID_REUSED;
            return;
        }
        if (model_session_dead(m, s)) {
            model_bury_session(m, s);
            out->error = HF_SESSION_EXPIRED;
            return;
        }
        result_from_session(s, out);
        out->replayed = true;
        model_remember(m, c, NULL, out, NULL);
        return;
    }
    if (model_ended_session_anywhere(m, c->tenant, o->id)) {
        out->error = HF_SESSION_EXPIRED;
        return;
    }
    if (model_lease_lives(m, o->id)) {
        out->error = HF_REQUEST_ID_REUSED;
        return;
    }
    if (m->sessions.count >= LIMIT_SESSIONS) {
        out->error = HF_TOO_MANY_SESSIONS;
        return;
    }
    s = model_alloc(sizeof(*s));
    s->id = o->id;
    s->tenant = c->tenant;
    s->principal = c->principal;
    s->client = owned_copy(o->client);
    s->metadata = owned_copy(o->metadata);
    s->ttl_ms = o->ttl_ms;
    s->linger_ms = o->linger_ms;
    s->alive_ms = m->now_ms;
    s->timer_ms = model_session_deadline(s);
    model_list_add(&m->sessions, s);
    model_emit_session(m, EVENT_SESSION_OPENED, s, ENDED_NOT);
    result_from_session(s, out);
    model_remember(m, c, NULL, out, NULL);
}

void model_keepalive(struct model *m, const struct command *c, struct result *out)
{
    const struct ids *ids = &c->keepalive.sessions;
    uint8_t *alive = model_scratch(m, ids->count);
    for (uint32_t i = 0; i < ids->count; i++) {
        struct id id = ids_at(ids, i);
        struct model_session *s = model_find_session(m, id);
        if (s != NULL &&
            (s->is_private || !model_owns(c, s) || !model_principal_exists(m, s->principal))) {
            alive[i] = HF_SESSION_NOT_FOUND;
        } else if (s != NULL && !model_session_dead(m, s)) {
            s->alive_ms = m->now_ms;
            alive[i] = HF_OK;
        } else if (s != NULL || model_ended_session(m, c->tenant, id) != NULL) {
            alive[i] = HF_SESSION_EXPIRED;
        } else {
            alive[i] = HF_SESSION_NOT_FOUND;
        }
    }
    out->count = ids->count; /* sessions reported */
    out->alive = alive;
}

void model_session_close(struct model *m, const struct command *c, struct result *out)
{
    struct model_session *s = NULL;
    enum hf_error error = model_named_session(m, c, &s);
    if (error != HF_OK) {
        const struct ended_session *e = model_ended_session(m, c->tenant, c->session);
        if (error == HF_SESSION_EXPIRED && e != NULL && e->ended == ENDED_SESSION_CLOSED) {
            out->replayed = true;
        } else {
            out->error = error;
        }
        return;
    }
    model_end_session(m, s, ENDED_SESSION_CLOSED);
}

void model_stream_up(struct model *m, const struct command *c, struct result *out)
{
    struct model_session *s = NULL;
    out->error = model_named_session(m, c, &s);
    if (out->error != HF_OK) {
        return;
    }
    s->stream = ++m->last_attachment;
    s->node = 0;
    s->broken = false;
    out->attachment = s->stream;
    result_from_session(s, out);
}

void model_stream_through(struct model *m, const struct command *c, struct result *out)
{
    struct model_session *s = NULL;
    model_stream_up(m, c, out);
    if (model_named_session(m, c, &s) == HF_OK) {
        s->node = c->stream_through.node;
    }
}

void model_stream_down(struct model *m, const struct command *c, struct result *out)
{
    struct model_session *s = NULL;
    out->error = model_named_session(m, c, &s);
    if (out->error != HF_OK) {
        return;
    }
    if (s->stream == 0 || s->stream != c->stream_down.stream) {
        out->outcome = OUTCOME_REFUSED;
        out->reason = REASON_SUPERSEDED;
        return;
    }
    if (s->linger_ms > 0 && !s->broken) {
        s->broken = true;
        s->broken_ms = m->now_ms;
        model_timer_lower(&s->timer_ms, model_session_deadline(s));
        if (m->version >= 4) {
            struct event event = model_event(m, EVENT_LINGERS, s->tenant);
            event.session = s->id;
            event.client = owned_slice(&s->client);
            event.deadline_ms = model_session_deadline(s);
            event.attachment = s->stream;
            event.node = s->node;
            model_emit(m, &event);
        }
    }
    result_from_session(s, out);
}
