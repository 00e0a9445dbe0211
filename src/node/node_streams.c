/* Streams of sessions whose node is gone (S4.6).
 *
 * The node that carries a stream reports its end. If that node has ended or is unreachable, the
 * leader does: each `node_gone` that the leader applies starts an iteration over the sessions. It
 * reports the node's streams up to then as broken, by their numbers; a resumed stream has a later
 * one. A node that was declared gone by mistake opens its streams again. */
#include "core/view.h"
#include "node/node_state.h"

enum { STREAMS_A_STEP = 1000 }; /* sessions in one step, approximately */

void node_streams_gone(struct node *n, uint32_t node)
{
    struct node_stream_walk *walk = NULL;
    for (uint32_t i = 0; i < LIMIT_NODES; i++) {
        struct node_stream_walk *w = &n->stream_walks[i];
        if (w->node == node) {
            walk = w;
            break;
        }
        if (w->node == 0 && walk == NULL) {
            walk = w;
        }
    }
    if (walk == NULL) {
        return; /* more than a cluster has: none is a member */
    }
    *walk =
        (struct node_stream_walk){.node = node, .last = core_attachments(replica_core(n->replica))};
}

struct visit {
    struct node *n;
    const struct node_stream_walk *walk;
    struct replica_time now;
    bool is_refused; /* the batch is full, or this node no longer leads */
};

static void visit_session(void *ctx, const struct session_view *session)
{
    struct visit *visit = ctx;
    if (visit->is_refused || session->node != visit->walk->node || session->linger_ms == 0 ||
        session->lingers || session->stream > visit->walk->last) {
        return;
    }
    struct command down;
    command_init(&down, COMMAND_STREAM_DOWN);
    down.tenant = session->tenant;
    down.session = session->id;
    down.stream_down.stream = session->stream;
    visit->is_refused =
        replica_submit(visit->n->replica, &down, forward_no_cookie(), visit->now) != HF_OK;
}

/* An incomplete page is done again: reporting an end twice is harmless. */
static void step(struct node *n, struct node_stream_walk *walk, struct replica_time now)
{
    struct visit visit = {.n = n, .walk = walk, .now = now};
    uint64_t next = view_sessions(replica_core(n->replica), 0, walk->cursor, STREAMS_A_STEP,
                                  visit_session, &visit);
    if (visit.is_refused) {
        return;
    }
    walk->cursor = next;
    if (next == VIEW_END) {
        walk->node = 0;
    }
}

void node_step_streams(struct node *n, struct replica_time now)
{
    for (uint32_t i = 0; i < LIMIT_NODES; i++) {
        struct node_stream_walk *walk = &n->stream_walks[i];
        if (walk->node != 0 && n->serving) {
            step(n, walk, now);
        } else {
            walk->node = 0; /* the next leader declares nodes gone itself */
        }
    }
}
