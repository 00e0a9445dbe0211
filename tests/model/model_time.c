/* True times, locks that are held too long, and positions of event sinks (S16). */
#include "model_state.h"

bool model_is_of_7(const struct command *c)
{
    return c->type == COMMAND_ALERT_SET || c->type == COMMAND_ALERT_REMOVE ||
           (c->type == COMMAND_NOTE && c->note.trace.len > 0) || c->type == COMMAND_LONG_HELD ||
           c->type == COMMAND_SINK_POSITION ||
           (c->type == COMMAND_ACQUIRE && c->acquire.max_hold_ms != 0) ||
           (c->type == COMMAND_FORCE_UNLOCK && c->force_unlock.if_token != 0) ||
           (c->type == COMMAND_REVOKE && c->revoke.if_token != 0);
}

static struct model_wall *wall_at(const struct model *m, size_t i)
{
    return m->walls.at[i];
}

static int64_t offset_of(uint64_t cluster_ms, uint64_t wall_ms)
{
    return (int64_t)wall_ms - (int64_t)cluster_ms;
}

/* A row is added for each step of more than LIMIT_WALL_STEP_MS; the oldest go. */
void model_note_wall(struct model *m)
{
    if (m->version < 7) {
        return;
    }
    if (m->walls.count > 0) {
        const struct model_wall *last = wall_at(m, m->walls.count - 1);
        int64_t step =
            offset_of(m->now_ms, m->wall_ms) - offset_of(last->cluster_ms, last->wall_ms);
        if (llabs(step) <= LIMIT_WALL_STEP_MS) {
            return;
        }
    }
    struct model_wall *row = model_alloc(sizeof(*row));
    *row = (struct model_wall){m->now_ms, m->wall_ms};
    model_list_add(&m->walls, row);
    if (m->walls.count > LIMIT_WALL_ROWS) {
        free(m->walls.at[0]);
        model_list_remove_at(&m->walls, 0);
    }
}

uint64_t model_wall_of(const struct model *m, uint64_t cluster_ms)
{
    int64_t offset = offset_of(m->now_ms, m->wall_ms);
    for (size_t i = 0; i < m->walls.count; i++) {
        const struct model_wall *row = wall_at(m, i);
        if (i == 0 || row->cluster_ms <= cluster_ms) {
            offset = offset_of(row->cluster_ms, row->wall_ms);
        }
    }
    int64_t wall_ms = (int64_t)cluster_ms + offset;
    return wall_ms > 0 ? (uint64_t)wall_ms : 0;
}

/* ---- long-held rules ---- */

static struct model_alert *find_alert(const struct model *m, uint32_t tenant, struct slice prefix)
{
    for (size_t i = 0; i < m->alerts.count; i++) {
        struct model_alert *a = m->alerts.at[i];
        if (a->tenant == tenant && slice_equal(owned_slice(&a->prefix), prefix)) {
            return a;
        }
    }
    return NULL;
}

static const struct model_alert *alert_of(const struct model *m, uint32_t tenant, struct slice name)
{
    const struct model_alert *best = NULL;
    for (size_t i = 0; i < m->alerts.count; i++) {
        const struct model_alert *a = m->alerts.at[i];
        if (a->tenant == tenant && slice_starts_with(name, owned_slice(&a->prefix)) &&
            (best == NULL || a->prefix.len > best->prefix.len)) {
            best = a;
        }
    }
    return best;
}

bool model_view_alert(const struct model *m, uint32_t tenant, struct slice name, uint64_t *held_ms)
{
    const struct model_alert *a = alert_of(m, tenant, name);
    if (a != NULL) {
        *held_ms = a->held_ms;
    }
    return a != NULL;
}

uint32_t model_alert_count(const struct model *m, uint32_t tenant)
{
    uint32_t count = 0;
    for (size_t i = 0; i < m->alerts.count; i++) {
        count += ((const struct model_alert *)m->alerts.at[i])->tenant == tenant;
    }
    return count;
}

static void audit(struct model *m, const struct command *c, const char *action, struct slice prefix,
                  struct slice actor, struct slice reason)
{
    model_audit(m, c->tenant, action, prefix.len > 0 ? prefix : slice_of("*"),
                model_actor(m, c, actor), reason, slice_make(NULL, 0), 1);
}

void model_alert_set(struct model *m, const struct command *c, struct result *out)
{
    const struct command_alert_set *set = &c->alert_set;
    if (model_once(m, c, NULL, out)) {
        return;
    }
    struct model_alert *a = find_alert(m, c->tenant, set->prefix);
    if (a == NULL && model_alert_count(m, c->tenant) == LIMIT_ALERTS) {
        out->error = HF_TOO_MANY_ALERTS;
        return;
    }
    if (a == NULL) {
        a = model_alloc(sizeof(*a));
        a->tenant = c->tenant;
        a->prefix = owned_copy(set->prefix);
        model_list_add(&m->alerts, a);
    }
    a->held_ms = set->held_ms;
    out->count = 1;
    audit(m, c, "ALERT_SET", set->prefix, set->actor, set->reason);
    model_remember(m, c, NULL, out, NULL);
}

static void alert_free(struct model_alert *a)
{
    owned_free(&a->prefix);
    free(a);
}

void model_alert_remove(struct model *m, const struct command *c, struct result *out)
{
    const struct command_alert_remove *r = &c->alert_remove;
    if (model_once(m, c, NULL, out)) {
        return;
    }
    struct model_alert *a = find_alert(m, c->tenant, r->prefix);
    if (a == NULL) {
        out->error = HF_ALERT_NOT_FOUND;
        return;
    }
    model_list_remove(&m->alerts, a);
    alert_free(a);
    out->count = 1;
    audit(m, c, "ALERT_REMOVE", r->prefix, r->actor, r->reason);
    model_remember(m, c, NULL, out, NULL);
}

void model_long_held(struct model *m, const struct command *c, struct result *out)
{
    const struct command_long_held *l = &c->long_held;
    struct model_name *name = model_find_name(m, c->tenant, l->name);
    for (size_t i = 0; name != NULL && i < name->holders.count; i++) {
        struct model_grant *g = name->holders.at[i];
        uint32_t part = 0;
        while (g->r.names[part] != name) {
            part++;
        }
        const struct model_alert *a = alert_of(m, c->tenant, l->name);
        if (g->token != l->token || model_grant_dead(m, g) || a == NULL ||
            (g->reported & UINT64_C(1) << part) != 0 || m->now_ms - g->since_ms < a->held_ms) {
            continue;
        }
        g->reported |= UINT64_C(1) << part;
        out->count = 1;
        struct event more;
        memset(&more, 0, sizeof(more));
        more.text = owned_slice(&a->prefix);
        model_emit_grant(m, EVENT_LONG_HELD, g, part, &more);
    }
}

/* ---- sinks ---- */

static void sink_free(struct model *m, size_t i)
{
    struct model_sink *s = m->sinks.at[i];
    model_list_remove_at(&m->sinks, i);
    owned_free(&s->name);
    free(s);
}

void model_sink_position(struct model *m, const struct command *c, struct result *out)
{
    const struct command_sink_position *p = &c->sink_position;
    for (size_t i = 0; i < m->sinks.count; i++) {
        const struct model_sink *s = m->sinks.at[i];
        if (!slice_equal(owned_slice(&s->name), p->name)) {
            continue;
        }
        bool forward = p->index != s->index ? p->index > s->index : p->ordinal > s->ordinal;
        if (!forward) {
            return;
        }
        sink_free(m, i);
        break;
    }
    struct model_sink *s = model_alloc(sizeof(*s));
    *s = (struct model_sink){owned_copy(p->name), p->index, p->ordinal};
    model_list_add(&m->sinks, s);
    if (m->sinks.count > LIMIT_SINKS) {
        sink_free(m, 0);
    }
    out->count = 1;
}

void model_view_sinks(const struct model *m, view_sink_fn on_sink, void *ctx)
{
    for (size_t i = 0; i < m->sinks.count; i++) {
        const struct model_sink *s = m->sinks.at[i];
        struct sink_view view = {owned_slice(&s->name), s->index, s->ordinal};
        on_sink(ctx, &view);
    }
}

void model_free_times(struct model *m)
{
    for (size_t i = 0; i < m->walls.count; i++) {
        free(m->walls.at[i]);
    }
    model_list_free(&m->walls);
    for (size_t i = 0; i < m->alerts.count; i++) {
        alert_free(m->alerts.at[i]);
    }
    model_list_free(&m->alerts);
    while (m->sinks.count > 0) {
        sink_free(m, 0);
    }
    model_list_free(&m->sinks);
}
