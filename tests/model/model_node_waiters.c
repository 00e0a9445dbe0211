/* Groups of waiters: the private waiters of each node, who are detached together when it is gone (S7.3). */
#include "model_state.h"

struct model_node_waiters *model_node_waiters_for(struct model *m, uint32_t node)
{
    for (size_t i = 0; i < m->node_waiters_all.count; i++) {
        struct model_node_waiters *node_waiters = m->node_waiters_all.at[i];
        if (node_waiters->node == node && !node_waiters->gone) {
            return node_waiters;
        }
    }
    if (m->node_waiters_all.count >= LIMIT_NODES) {
        return NULL;
    }
    struct model_node_waiters *node_waiters = model_alloc(sizeof(*node_waiters));
    node_waiters->number = ++m->last_node_waiters;
    node_waiters->node = node;
    model_list_add(&m->node_waiters_all, node_waiters);
    return node_waiters;
}

void model_node_waiters_join(struct model_node_waiters *node_waiters, struct model_waiter *w)
{
    w->node_waiters = node_waiters;
    model_list_add(&node_waiters->waiters, w);
}

static void revisit_next(struct model *m, struct model_node_waiters *node_waiters)
{
    for (size_t i = 0; i < node_waiters->waiters.count; i++) {
        if (node_waiters->waiters.at[i] == node_waiters->revisit) {
            node_waiters->revisit =
                i + 1 < node_waiters->waiters.count ? node_waiters->waiters.at[i + 1] : NULL;
            break;
        }
    }
    if (node_waiters->revisit == NULL) {
        hf_assert(model_list_remove(&m->revisits, node_waiters));
    }
}

void model_node_waiters_part(struct model *m, struct model_waiter *w)
{
    struct model_node_waiters *node_waiters = w->node_waiters;
    if (node_waiters == NULL) {
        return;
    }
    if (node_waiters->revisit == w) {
        revisit_next(m, node_waiters);
    }
    hf_assert(model_list_remove(&node_waiters->waiters, w));
    w->node_waiters = NULL;
    if (node_waiters->waiters.count == 0) {
        hf_assert(model_list_remove(&m->node_waiters_all, node_waiters));
        model_list_free(&node_waiters->waiters);
        free(node_waiters);
    }
}

void model_node_waiters_revisit(struct model *m, uint32_t *steps)
{
    while (m->revisits.count > 0 && *steps > 0) {
        struct model_node_waiters *node_waiters = m->revisits.at[0];
        struct model_waiter *w = node_waiters->revisit;
        for (uint32_t i = 0; i < w->r.parts; i++) {
            model_wake(m, w->r.names[i]);
        }
        *steps -= w->r.parts < *steps ? w->r.parts : *steps;
        revisit_next(m, node_waiters);
    }
}

void model_node_gone(struct model *m, const struct command *c, struct result *out)
{
    for (size_t i = 0; i < m->node_waiters_all.count; i++) {
        struct model_node_waiters *node_waiters = m->node_waiters_all.at[i];
        if (node_waiters->node != c->node_gone.node || node_waiters->gone) {
            continue;
        }
        node_waiters->gone = true;
        node_waiters->until_ms = m->now_ms + LIMIT_DETACHED_MS;
        node_waiters->revisit = node_waiters->waiters.at[0];
        model_list_add(&m->revisits, node_waiters);
        out->count = 1;
        struct event event = model_event(m, EVENT_DETACHED, 0);
        event.node = node_waiters->node;
        event.deadline_ms = node_waiters->until_ms;
        model_emit(m, &event);
    }
}
