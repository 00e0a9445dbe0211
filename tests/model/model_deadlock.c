/* Deadlock detection (S6.4): owners wait for the holders of a name and for those who were in its
 * queue before them; owners that hold nothing are skipped. The model follows all edges. Which of
 * several cycles the core names is its own choice, so the one it names is checked and taken. */
#include "model_state.h"

struct owner {
    const struct model_session *session;
    struct slice name;
};

struct graph {
    const struct model *m;
    struct owner *owners; /* reached from the requester */
    size_t count;
    size_t size;
    uint64_t edges;
    uint64_t visits;
    bool cycle;
    struct owner requester;
};

static bool owner_equal(struct owner a, struct owner b)
{
    return a.session == b.session && slice_equal(a.name, b.name);
}

static struct owner owner_of(const struct request *r)
{
    return (struct owner){r->session, owned_slice(&r->owner)};
}

static bool holds_something(struct graph *graph, struct owner who)
{
    for (size_t i = 0; i < who.session->grants.count; i++) {
        graph->visits += ((const struct model_grant *)who.session->grants.at[i])->r.parts;
        const struct model_grant *g = who.session->grants.at[i];
        if (owner_equal(owner_of(&g->r), who) && !model_grant_dead(graph->m, g)) {
            return true;
        }
    }
    return false;
}

static bool compatible(const struct request *a, const struct request *b)
{
    return a->mode == MODE_SHARED && b->mode == MODE_SHARED;
}

static void reach(struct graph *graph, struct owner who)
{
    graph->edges++;
    if (owner_equal(who, graph->requester)) {
        graph->cycle = true;
        return;
    }
    for (size_t i = 0; i < graph->count; i++) {
        if (owner_equal(graph->owners[i], who)) {
            return;
        }
    }
    if (!holds_something(graph, who)) {
        return;
    }
    if (graph->count == graph->size) {
        graph->size = graph->size == 0 ? 16 : graph->size * 2;
        graph->owners = realloc(graph->owners, graph->size * sizeof(*graph->owners));
        hf_assert(graph->owners != NULL);
    }
    graph->owners[graph->count++] = who;
}

/* Everything that stands in the way of `r` on one of its names; `self` is its waiter, if it is one
 * already. */
static void follow_name(struct graph *graph, const struct request *r,
                        const struct model_waiter *self, const struct model_name *name)
{
    for (size_t i = 0; i < name->holders.count; i++) {
        const struct model_grant *g = name->holders.at[i];
        graph->visits++;
        if (!compatible(&g->r, r) && !model_grant_dead(graph->m, g)) {
            reach(graph, owner_of(&g->r));
        }
    }
    for (size_t i = 0; i < name->queue.count && name->queue.at[i] != self; i++) {
        const struct model_waiter *w = name->queue.at[i];
        graph->visits++;
        if (!compatible(&w->r, r) && !model_waiter_detached(w) && !model_waiter_dead(graph->m, w)) {
            reach(graph, owner_of(&w->r));
        }
    }
}

static void follow_owner(struct graph *graph, struct owner who)
{
    for (size_t i = 0; i < who.session->waiters.count; i++) {
        const struct model_waiter *w = who.session->waiters.at[i];
        graph->visits++;
        if (!owner_equal(owner_of(&w->r), who) || model_waiter_dead(graph->m, w)) {
            continue;
        }
        for (uint32_t k = 0; k < w->r.parts; k++) {
            follow_name(graph, &w->r, w, w->r.names[k]);
        }
    }
}

/* Does a step of the cycle that the core named hold: is `next` in the way of `r` on `name`? */
static bool in_the_way(const struct request *r, const struct model_waiter *self, struct slice name,
                       const struct cycle_step *next)
{
    for (uint32_t k = 0; k < r->parts; k++) {
        const struct model_name *n = r->names[k];
        if (!slice_equal(owned_slice(&n->text), name)) {
            continue;
        }
        for (size_t i = 0; i < n->holders.count; i++) {
            const struct request *h = &((const struct model_grant *)n->holders.at[i])->r;
            if (slice_equal(owned_slice(&h->session->client), next->client) &&
                slice_equal(owned_slice(&h->owner), next->owner) && !compatible(h, r)) {
                return true;
            }
        }
        for (size_t i = 0; i < n->queue.count && n->queue.at[i] != self; i++) {
            const struct request *h = &((const struct model_waiter *)n->queue.at[i])->r;
            if (slice_equal(owned_slice(&h->session->client), next->client) &&
                slice_equal(owned_slice(&h->owner), next->owner) && !compatible(h, r)) {
                return true;
            }
        }
    }
    return false;
}

static bool step_holds(const struct model *m, const struct request *requester, uint32_t number,
                       const struct cycle_step *step, const struct cycle_step *next)
{
    if (number == 0) {
        return slice_equal(step->client, owned_slice(&requester->session->client)) &&
               slice_equal(step->owner, owned_slice(&requester->owner)) &&
               in_the_way(requester, NULL, step->name, next);
    }
    for (size_t i = 0; i < m->waiters.count; i++) {
        const struct model_waiter *w = m->waiters.at[i];
        if (slice_equal(owned_slice(&w->r.session->client), step->client) &&
            slice_equal(owned_slice(&w->r.owner), step->owner) &&
            in_the_way(&w->r, w, step->name, next)) {
            return true;
        }
    }
    return false;
}

static bool cycle_holds(const struct model *m, const struct request *requester,
                        const struct result *seen)
{
    if (seen->cycle_length == 0 || seen->cycle_length > LIMIT_DEADLOCK_CYCLE) {
        return false;
    }
    for (uint32_t i = 0; i < seen->cycle_length; i++) {
        bool last = i + 1 == seen->cycle_length;
        if (last && seen->cycle_length == LIMIT_DEADLOCK_CYCLE) {
            return true; /* cut short */
        }
        const struct cycle_step *next = last ? &seen->cycle[0] : &seen->cycle[i + 1];
        if (!step_holds(m, requester, i, &seen->cycle[i], next)) {
            return false;
        }
    }
    return true;
}

enum deadlock model_deadlock(struct model *m, const struct request *requester, struct result *out)
{
    if (requester->session->is_private) {
        return DEADLOCK_NONE; /* it holds nothing else */
    }
    struct graph graph = {.m = m, .requester = owner_of(requester)};
    bool holds = holds_something(&graph, owner_of(requester)); /* else nobody waits for it */
    for (uint32_t k = 0; holds && k < requester->parts; k++) {
        follow_name(&graph, requester, NULL, requester->names[k]);
    }
    for (size_t i = 0; i < graph.count; i++) {
        follow_owner(&graph, graph.owners[i]);
    }
    free(graph.owners);
    bool large = graph.edges > LIMIT_DEADLOCK_EDGES || graph.visits > LIMIT_DEADLOCK_VISITS;
    bool gave_up = m->seen != NULL && (m->seen->deadlock_unchecked || m->seen->error != HF_OK);
    if (large && gave_up) {
        return DEADLOCK_UNCHECKED;
    }
    if (!graph.cycle) {
        return DEADLOCK_NONE;
    }
    if (m->seen != NULL && m->seen->cycle_length > 0 && cycle_holds(m, requester, m->seen)) {
        out->cycle = m->seen->cycle;
        out->cycle_length = m->seen->cycle_length;
    }
    return DEADLOCK_FOUND;
}
