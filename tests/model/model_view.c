/* Looking at the model's state from outside. */
#include "model_state.h"

void model_stats(const struct model *m, struct core_stats *out)
{
    memset(out, 0, sizeof(*out));
    out->names = m->names.count;
    for (size_t i = 0; i < m->grants.count; i++) {
        out->grants += ((const struct model_grant *)m->grants.at[i])->r.parts;
    }
    out->waiters = m->waiters.count;
    out->sessions = m->sessions.count;
    for (uint32_t i = 0; i < MODEL_TENANTS; i++) {
        out->fence_marks += m->shares[i].marks.count;
        out->fence_rejections += m->shares[i].rejections;
        out->audit_records += m->shares[i].audit.count;
    }
    out->counters = m->counters.count;
    out->alerts = m->alerts.count;
    for (size_t i = 0; i < m->grants.count; i++) {
        uint64_t reported = ((const struct model_grant *)m->grants.at[i])->reported;
        out->long_held += (uint64_t)__builtin_popcountll(reported);
    }
}

static bool is_reported(const struct model_grant *g, const struct model_name *name)
{
    uint32_t part = 0;
    while (g->r.names[part] != name) {
        part++;
    }
    return (g->reported & UINT64_C(1) << part) != 0;
}

static struct grant_view view_of_grant(const struct model *m, const struct model_name *name,
                                       const struct model_grant *g)
{
    return (struct grant_view){
        .holder = {.client = owned_slice(&g->r.session->client),
                   .owner = owned_slice(&g->r.owner),
                   .metadata = owned_slice(&g->r.metadata),
                   .mode = g->r.mode,
                   .permits = g->r.permits,
                   .since_ms = g->since_ms,
                   .deadline_ms = model_grant_deadline(g),
                   .trace = owned_slice(&g->r.trace),
                   .since_wall_ms = model_wall_of(m, g->since_ms)},
        .token = g->token,
        .session = g->r.session->is_private ? (struct id){0, 0} : g->r.session->id,
        .lease = g->r.lease,
        .slot = g->slot,
        .depth = g->depth,
        .parts = g->r.parts,
        .revoke_at_ms = g->revoke_at_ms,
        .value = owned_slice(&g->r.value),
        .is_key = g->r.is_key,
        .hold_until_ms = model_grant_hold_until(g),
        .long_held = is_reported(g, name),
    };
}

static void view_of_lock(struct model *m, struct model_name *name, struct lock_view *out)
{
    memset(out, 0, sizeof(*out));
    struct result about;
    memset(&about, 0, sizeof(about));
    model_result_about_name(m, name, &about);
    out->name = owned_slice(&name->text);
    out->tenant = name->tenant;
    model_name_mode(name, &out->mode, &out->limit);
    out->permits_used = model_name_permits_used(name);
    out->holders = about.holders;
    out->queue_length = about.queue_length;
    out->delayed_until_ms = about.delayed_until_ms;
    out->reserved_for = about.reserved_for;
    out->has_holder = about.has_holder;
    if (about.has_holder) {
        out->first = view_of_grant(m, name, name->holders.at[0]);
        out->long_held = out->first.long_held;
    }
    if (name->queue.count > 0) {
        const struct model_waiter *first = name->queue.at[0];
        out->waiting_ms = first->since_ms;
        out->waiting_wall_ms = first->since_ms != 0 ? model_wall_of(m, first->since_ms) : 0;
    }
}

/* A name that is left woken may be nothing else any more. */
static bool visible(const struct model *m, const struct model_name *name)
{
    return name->holders.count > 0 || name->queue.count > 0 || name->delayed_until_ms > m->now_ms;
}

bool model_view_lock(struct model *m, uint32_t tenant, struct slice text, struct lock_view *out)
{
    struct model_name *name = model_find_name(m, tenant, text);
    if (name == NULL || !visible(m, name)) {
        return false;
    }
    view_of_lock(m, name, out);
    return true;
}

void model_view_locks(struct model *m, view_lock_fn on_lock, void *ctx)
{
    for (size_t i = 0; i < m->names.count; i++) {
        struct lock_view view;
        if (visible(m, m->names.at[i])) {
            view_of_lock(m, m->names.at[i], &view);
            on_lock(ctx, &view);
        }
    }
}

bool model_view_holders_and_waiters(struct model *m, uint32_t tenant, struct slice text,
                                    view_grant_fn on_grant, view_waiter_fn on_waiter, void *ctx)
{
    struct model_name *name = model_find_name(m, tenant, text);
    if (name == NULL) {
        return false;
    }
    for (size_t i = 0; i < name->holders.count; i++) {
        struct grant_view view = view_of_grant(m, name, name->holders.at[i]);
        on_grant(ctx, &view);
    }
    for (size_t i = 0; i < name->queue.count; i++) {
        const struct model_waiter *w = name->queue.at[i];
        struct waiter_view view = {
            .client = owned_slice(&w->r.session->client),
            .owner = owned_slice(&w->r.owner),
            .metadata = owned_slice(&w->r.metadata),
            .mode = w->r.mode,
            .permits = w->r.permits,
            .parts = w->r.parts,
            .node = w->node,
            .detached = model_waiter_detached(w),
            .ticket = w->ticket,
            .attachment = w->attachment,
            .wait_deadline_ms = w->wait_deadline_ms,
            .session = w->r.session->is_private ? (struct id){0, 0} : w->r.session->id,
            .lease = w->r.lease,
            .trace = owned_slice(&w->r.trace),
            .since_ms = w->since_ms,
            .since_wall_ms = w->since_ms != 0 ? model_wall_of(m, w->since_ms) : 0,
        };
        on_waiter(ctx, &view);
    }
    return true;
}

static struct session_view view_of_session(const struct model_session *s)
{
    struct session_view view = {
        .id = s->id,
        .tenant = s->tenant,
        .client = owned_slice(&s->client),
        .metadata = owned_slice(&s->metadata),
        .ttl_ms = s->ttl_ms,
        .linger_ms = s->linger_ms,
        .lingers = s->broken,
        .stream = s->stream,
        .node = s->node,
        .deadline_ms = model_session_deadline(s),
        .is_private = s->is_private,
        .principal = s->principal,
    };
    for (size_t i = 0; i < s->grants.count; i++) {
        view.entries += ((const struct model_grant *)s->grants.at[i])->r.parts;
    }
    for (size_t i = 0; i < s->waiters.count; i++) {
        view.entries += ((const struct model_waiter *)s->waiters.at[i])->r.parts;
    }
    return view;
}

void model_view_sessions(struct model *m, view_session_fn on_session, void *ctx)
{
    for (size_t i = 0; i < m->sessions.count; i++) {
        struct session_view view = view_of_session(m->sessions.at[i]);
        on_session(ctx, &view);
    }
}

bool model_view_session(struct model *m, struct id id, struct session_view *out)
{
    const struct model_session *s = model_find_session(m, id);
    if (s != NULL) {
        *out = view_of_session(s);
    }
    return s != NULL;
}

void model_view_audit(struct model *m, uint32_t tenant, uint64_t from, view_audit_fn on_record,
                      void *ctx)
{
    const struct model_share *share = model_share(m, tenant);
    for (size_t i = 0; i < share->audit.count; i++) {
        const struct audit_record *a = share->audit.at[i];
        if (a->view.number >= from && a->view.tenant == tenant) {
            on_record(ctx, &a->view);
        }
    }
}

size_t model_grant_count(const struct model *m)
{
    return m->grants.count;
}

void model_grant_at(const struct model *m, size_t i, struct model_grant_info *out)
{
    const struct model_grant *g = m->grants.at[i];
    const struct model_session *s = g->r.session;
    *out = (struct model_grant_info){
        .tenant = s->tenant,
        .principal = s->principal,
        .token = g->token,
        .lease = g->r.lease,
        .session = s->is_private ? (struct id){0, 0} : s->id,
        .client = owned_slice(&s->client),
        .name = owned_slice(&g->r.names[0]->text),
        .parts = g->r.parts,
        .mode = g->r.mode,
        .slot = g->slot,
    };
}

size_t model_waiter_count(const struct model *m)
{
    return m->waiters.count;
}

void model_waiter_at(const struct model *m, size_t i, struct model_waiter_info *out)
{
    const struct model_waiter *w = m->waiters.at[i];
    const struct model_session *s = w->r.session;
    *out = (struct model_waiter_info){
        .tenant = s->tenant,
        .principal = s->principal,
        .lease = w->r.lease,
        .session = s->is_private ? (struct id){0, 0} : s->id,
        .attachment = w->attachment,
        .node = w->node,
        .name = owned_slice(&w->r.names[0]->text),
    };
}

/* Without the bytes, which are those of the core's objects. */
void model_tenant_usage(struct model *m, uint32_t tenant, struct tenant_usage *out)
{
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < m->names.count; i++) {
        out->names += ((const struct model_name *)m->names.at[i])->tenant == tenant;
    }
    for (size_t i = 0; i < m->counters.count; i++) {
        out->names += ((const struct model_counter *)m->counters.at[i])->tenant == tenant;
    }
    for (size_t i = 0; i < m->sessions.count; i++) {
        out->sessions += ((const struct model_session *)m->sessions.at[i])->tenant == tenant;
    }
    for (size_t i = 0; i < m->waiters.count; i++) {
        out->waiters +=
            ((const struct model_waiter *)m->waiters.at[i])->r.session->tenant == tenant;
    }
}
