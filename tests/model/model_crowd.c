/* Crowds: the private waiters of each node, who are detached together when it is gone (S7.3). */
#include "model_state.h"

struct model_crowd *model_crowd_for(struct model *m, uint32_t node)
{
    for (size_t i = 0; i < m->crowds.count; i++) {
        struct model_crowd *crowd = m->crowds.at[i];
        if (crowd->node == node && !crowd->gone) {
            return crowd;
        }
    }
    if (m->crowds.count >= LIMIT_NODES) {
        return NULL;
    }
    struct model_crowd *crowd = model_alloc(sizeof(*crowd));
    crowd->number = ++m->last_crowd;
    crowd->node = node;
    model_list_add(&m->crowds, crowd);
    return crowd;
}

void model_crowd_join(struct model_crowd *crowd, struct model_waiter *w)
{
    w->crowd = crowd;
    model_list_add(&crowd->waiters, w);
}

static void revisit_next(struct model *m, struct model_crowd *crowd)
{
    for (size_t i = 0; i < crowd->waiters.count; i++) {
        if (crowd->waiters.at[i] == crowd->revisit) {
            crowd->revisit = i + 1 < crowd->waiters.count ? crowd->waiters.at[i + 1] : NULL;
            break;
        }
    }
    if (crowd->revisit == NULL) {
        hf_assert(model_list_remove(&m->revisits, crowd));
    }
}

void model_crowd_part(struct model *m, struct model_waiter *w)
{
    struct model_crowd *crowd = w->crowd;
    if (crowd == NULL) {
        return;
    }
    if (crowd->revisit == w) {
        revisit_next(m, crowd);
    }
    hf_assert(model_list_remove(&crowd->waiters, w));
    w->crowd = NULL;
    if (crowd->waiters.count == 0) {
        hf_assert(model_list_remove(&m->crowds, crowd));
        model_list_free(&crowd->waiters);
        free(crowd);
    }
}

void model_crowd_revisit(struct model *m, uint32_t *steps)
{
    while (m->revisits.count > 0 && *steps > 0) {
        struct model_crowd *crowd = m->revisits.at[0];
        struct model_waiter *w = crowd->revisit;
        for (uint32_t i = 0; i < w->r.parts; i++) {
            model_wake(m, w->r.names[i]);
        }
        *steps -= w->r.parts < *steps ? w->r.parts : *steps;
        revisit_next(m, crowd);
    }
}

void model_node_gone(struct model *m, const struct command *c, struct result *out)
{
    for (size_t i = 0; i < m->crowds.count; i++) {
        struct model_crowd *crowd = m->crowds.at[i];
        if (crowd->node != c->node_gone.node || crowd->gone) {
            continue;
        }
        crowd->gone = true;
        crowd->until_ms = m->now_ms + LIMIT_DETACHED_MS;
        crowd->revisit = crowd->waiters.at[0];
        model_list_add(&m->revisits, crowd);
        out->count = 1;
        struct event event = model_event(m, EVENT_DETACHED, 0);
        event.node = crowd->node;
        event.deadline_ms = crowd->until_ms;
        model_emit(m, &event);
    }
}
