/* Which event says what. Fields that do not apply stay zero. */
#include "model_state.h"

struct event model_event(struct model *m, enum event_type type, uint32_t tenant)
{
    struct event event;
    memset(&event, 0, sizeof(event));
    event.type = type;
    event.tenant = tenant;
    event.index = m->index;
    event.at_ms = m->now_ms;
    event.wall_ms = model_wall_of(m, m->now_ms);
    event.parts = 1;
    return event;
}

void model_emit(struct model *m, struct event *event)
{
    event->ordinal = m->ordinal++;
    m->on_event(m->event_ctx, event);
}

static void put_request(struct event *event, const struct request *r, uint32_t part)
{
    event->part = part + 1;
    event->parts = r->parts;
    event->session = r->session->is_private ? (struct id){0, 0} : r->session->id;
    event->lease = r->lease;
    event->mode = r->mode;
    event->name = owned_slice(&r->names[part]->text);
    event->client = owned_slice(&r->session->client);
    event->owner = owned_slice(&r->owner);
    event->trace = owned_slice(&r->trace);
}

/* The fields of `more` that only some events have. */
static void put_more(struct event *event, const struct event *more)
{
    if (more == NULL) {
        return;
    }
    event->reason = more->reason;
    event->ended = more->ended;
    event->actor = more->actor;
    event->text = more->text;
    event->deadline_ms = more->deadline_ms;
    event->attachment = more->attachment;
    event->node = more->node;
    event->waited_ms = more->waited_ms;
}

void model_emit_grant(struct model *m, enum event_type type, const struct model_grant *g,
                      uint32_t part, const struct event *more)
{
    struct event event = model_event(m, type, g->r.session->tenant);
    put_more(&event, more);
    put_request(&event, &g->r, part);
    event.token = g->token;
    event.slot = g->slot;
    event.since_ms = g->since_ms;
    event.since_wall_ms = model_wall_of(m, g->since_ms);
    model_emit(m, &event);
}

void model_emit_waiter(struct model *m, enum event_type type, const struct model_waiter *w,
                       uint32_t part, const struct event *more)
{
    struct event event = model_event(m, type, w->r.session->tenant);
    put_more(&event, more);
    put_request(&event, &w->r, part);
    event.attachment = w->attachment;
    event.node = w->node;
    event.deadline_ms = type == EVENT_DETACHED ? w->detached_until_ms : w->wait_deadline_ms;
    model_emit(m, &event);
}

void model_emit_session(struct model *m, enum event_type type, const struct model_session *s,
                        enum ended ended)
{
    struct event event = model_event(m, type, s->tenant);
    event.session = s->id;
    event.client = owned_slice(&s->client);
    event.deadline_ms = model_session_deadline(s);
    event.ended = ended;
    model_emit(m, &event);
}
