/* The stream of a session in the replicated state (S4.6): registers it, and again if the cluster
 * treated this node as failed while the stream works. */
#include "core/view.h"
#include "service/request/api_request.h"
#include "service/request/session.h"
#include "service/state.h"

void session_stream_command(const struct service *s, struct caller_id who, struct id session,
                            struct command *out)
{
    /* Before version 4 the state does not record the node of a stream. */
    bool names_node = core_version(service_core(s)) >= 4;
    command_init(out, names_node ? COMMAND_STREAM_THROUGH : COMMAND_STREAM_UP);
    caller_sign(out, who);
    out->session = session;
    if (names_node) {
        out->stream_through.node = s->node;
    }
}

static uint64_t *watch_stream(struct service *s, struct id session, uint64_t stream)
{
    for (struct list *link = s->streams.next; link != &s->streams; link = link->next) {
        struct watcher *watcher = LIST_OBJECT(link, struct watcher, link);
        if (watcher->stream == stream && id_equal(watcher->session, session)) {
            return &watcher->stream;
        }
    }
    return NULL;
}

/* Where its number is stored; NULL: not on this node. */
static uint64_t *find_stream(struct service *s, struct id session, uint64_t stream)
{
    uint64_t *found = session_call_stream(s, session, stream);
    return found != NULL ? found : watch_stream(s, session, stream);
}

void session_stream_on_event(struct service *s, const struct event *e)
{
    if (e->type == EVENT_LINGERS && e->node == s->node &&
        find_stream(s, e->session, e->attachment) != NULL) {
        pending_stream_up(s, caller_node(e->tenant), e->session, e->attachment);
    }
}

void session_stream_check(struct service *s, struct caller_id who, struct id session,
                          uint64_t stream)
{
    struct session_view view;
    if (stream != 0 && view_session(service_core(s), session, &view) && view.lingers &&
        view.stream == stream) {
        pending_stream_up(s, who, session, stream);
    }
}

void session_stream_raised(struct service *s, struct caller_id who, struct id session, uint64_t old,
                           uint64_t stream)
{
    uint64_t *kept = find_stream(s, session, old);
    if (kept != NULL) {
        *kept = stream;
        session_stream_check(s, who, session, stream);
    } else {
        pending_stream_down(s, who, session, stream); /* it broke meanwhile */
    }
}
