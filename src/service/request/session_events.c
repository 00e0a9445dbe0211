/* See session_events.h. */
#include "service/request/session_events.h"

#include "service/request/watch_event.h"

/* In the tier EFFICIENCY a mirrored session ends after the replicated one, or is only forgotten. */
bool session_event_is_end(const struct event *e)
{
    return e->tier == TIER_CORRECTNESS &&
           (e->type == EVENT_SESSION_CLOSED || e->type == EVENT_SESSION_EXPIRED);
}

bool session_event_is_brief(const struct event *e)
{
    return e->type == EVENT_LOST || e->type == EVENT_REVOKE_REQUESTED || e->type == EVENT_EPOCH ||
           session_event_is_end(e);
}

bool session_events_is_gone(const struct api_request *x)
{
    struct session_view session;
    return x->watcher.is_brief &&
           !view_session(service_core(x->service), x->watcher.session, &session);
}

void api_session_events(struct api_request *x)
{
    x->watcher.kind = WATCH_SESSION;
    x->watcher.is_brief = true;
    x->watcher.session = x->id;
    if (watch_read_resume(x)) {
        watch_begin(x);
    }
}
