/* Long-held rules and the grants past them (S16.2). The rules of a tenant are sorted by prefix; the one
 * with the longest prefix of a name counts. */
#include "core/view.h"

#include "core/state.h"

/* A core next to a replicated one has no rules of its own. */
static const struct core *rules_of(const struct core *c)
{
    return c->policy_source != NULL ? c->policy_source : c;
}

struct slice alert_prefix(const struct alert_rule *rule)
{
    return slice_make(rule->prefix, rule->prefix_len);
}

static size_t rule_size(const struct alert_rule *rule)
{
    return sizeof(*rule) + rule->prefix_len;
}

/* How many rules have a prefix that sorts before `text`, or is equal to it. */
static uint32_t rules_up_to(const struct tenant *t, struct slice text)
{
    uint32_t from = 0;
    uint32_t to = t->alert_count;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (slice_compare(alert_prefix(t->alerts[middle]), text) <= 0) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

static size_t common_len(struct slice a, struct slice b)
{
    size_t len = 0;
    while (len < a.len && len < b.len && a.data[len] == b.data[len]) {
        len++;
    }
    return len;
}

/* The last rule up to `text` is the one wanted, or shares with it the bytes of which the one wanted is
 * a prefix. Each turn shortens `text`. */
const struct alert_rule *alert_for(const struct core *c, uint32_t tenant, struct slice name)
{
    const struct tenant *t = tenant_look(rules_of(c), tenant);
    struct slice text = name;
    for (;;) {
        uint32_t count = rules_up_to(t, text);
        if (count == 0) {
            return NULL;
        }
        const struct alert_rule *rule = t->alerts[count - 1];
        size_t common = common_len(alert_prefix(rule), text);
        if (common == rule->prefix_len) {
            return rule;
        }
        text.len = common;
    }
}

/* The place of the rule of exactly this prefix; UINT32_MAX: none. */
static uint32_t place_of(const struct tenant *t, struct slice prefix)
{
    uint32_t count = rules_up_to(t, prefix);
    bool found = count > 0 && slice_equal(alert_prefix(t->alerts[count - 1]), prefix);
    return found ? count - 1 : UINT32_MAX;
}

bool alert_put(struct core *c, uint32_t tenant, struct slice prefix, uint64_t held_ms)
{
    struct tenant *t = tenant_get(c, tenant);
    uint32_t at = place_of(t, prefix);
    if (at != UINT32_MAX) {
        t->alerts[at]->held_ms = held_ms;
        return true;
    }
    if (t->alert_count == LIMIT_ALERTS) {
        return false;
    }
    if (t->alerts == NULL) {
        t->alerts = memory_alloc(c->memory, sizeof(*t->alerts) * LIMIT_ALERTS);
    }
    struct alert_rule *rule = memory_alloc(c->memory, sizeof(*rule) + prefix.len);
    rule->held_ms = held_ms;
    rule->prefix_len = (uint32_t)prefix.len;
    if (prefix.len > 0) {
        memcpy(rule->prefix, prefix.data, prefix.len);
    }
    at = rules_up_to(t, prefix);
    memmove(t->alerts + at + 1, t->alerts + at, sizeof(*t->alerts) * (t->alert_count - at));
    t->alerts[at] = rule;
    t->alert_count++;
    return true;
}

static void drop_rule(struct core *c, struct tenant *t, uint32_t at)
{
    hf_assert(at < t->alert_count);
    memory_free(c->memory, t->alerts[at], rule_size(t->alerts[at]));
    t->alert_count--;
    memmove(t->alerts + at, t->alerts + at + 1, sizeof(*t->alerts) * (t->alert_count - at));
}

void alerts_free(struct core *c, struct tenant *t)
{
    while (t->alert_count > 0) {
        drop_rule(c, t, t->alert_count - 1);
    }
    if (t->alerts != NULL) {
        memory_free(c->memory, t->alerts, sizeof(*t->alerts) * LIMIT_ALERTS);
        t->alerts = NULL;
    }
}

uint64_t alerts_bytes(const struct tenant *t)
{
    uint64_t bytes = t->alerts == NULL ? 0 : sizeof(*t->alerts) * LIMIT_ALERTS;
    for (uint32_t i = 0; i < t->alert_count; i++) {
        bytes += rule_size(t->alerts[i]);
    }
    return bytes;
}

static void audit_rule(struct core *c, const struct command *cmd, enum audit_action action,
                       struct slice prefix, struct slice said, struct slice reason)
{
    uint8_t principal[PRINCIPAL_TEXT];
    struct slice actor = audit_actor(c, cmd, said, principal);
    struct slice resource = prefix.len == 0 ? slice_of("*") : prefix;
    audit_add(c, &(struct audit_entry){action, cmd->tenant, 1, {resource, actor, reason}});
}

static void set_new(struct core *c, const struct command *cmd, ref session, struct result *out)
{
    (void)session;
    const struct command_alert_set *a = &cmd->alert_set;
    core_step(c, 1);
    if (!alert_put(c, cmd->tenant, a->prefix, a->held_ms)) {
        out->error = HF_TOO_MANY_ALERTS;
        return;
    }
    out->count = 1;
    audit_rule(c, cmd, AUDIT_ALERT_SET, a->prefix, a->actor, a->reason);
}

void apply_alert_set(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_ALERT_SET && c->policy_source == NULL);
    request_once(c, cmd, 0, set_new, out);
}

static void remove_new(struct core *c, const struct command *cmd, ref session, struct result *out)
{
    (void)session;
    const struct command_alert_remove *a = &cmd->alert_remove;
    struct tenant *t = tenant_get(c, cmd->tenant);
    uint32_t at = place_of(t, a->prefix);
    core_step(c, 1);
    if (at == UINT32_MAX) {
        out->error = HF_ALERT_NOT_FOUND;
        return;
    }
    drop_rule(c, t, at);
    out->count = 1;
    audit_rule(c, cmd, AUDIT_ALERT_REMOVE, a->prefix, a->actor, a->reason);
}

void apply_alert_remove(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_ALERT_REMOVE && c->policy_source == NULL);
    request_once(c, cmd, 0, remove_new, out);
}

void grant_mark_long_held(struct core *c, struct grant *g)
{
    hf_assert((g->flags & GRANT_IS_LONG_HELD) == 0);
    g->flags |= GRANT_IS_LONG_HELD;
    c->long_held++;
}

/* Not reported yet. */
static bool is_past(const struct grant *g, const struct alert_rule *rule, uint64_t now_ms)
{
    return (g->flags & GRANT_IS_LONG_HELD) == 0 && g->since_ms + rule->held_ms <= now_ms;
}

/* The part of the grant with this token that holds the name; 0: none. */
static ref holder_of(const struct core *c, uint32_t tenant, struct slice name, uint64_t token)
{
    ref lock = lock_find(c, tenant, name);
    return lock == 0 ? 0 : grant_of_lock(c, lock, token);
}

void apply_long_held(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_LONG_HELD);
    const struct command_long_held *l = &cmd->long_held;
    ref obj = holder_of(c, cmd->tenant, l->name, l->token);
    core_step(c, 1);
    if (obj == 0 || grant_is_dead(c, grant_at(c, obj))) {
        return;
    }
    struct grant *g = grant_at(c, obj);
    const struct alert_rule *rule = alert_for(c, cmd->tenant, l->name);
    if (rule == NULL || !is_past(g, rule, c->now_ms)) {
        return;
    }
    grant_mark_long_held(c, g);
    out->count = 1;
    struct event e = {.type = EVENT_LONG_HELD};
    event_about_grant(c, g, &e);
    event_set_part(c, obj, &e);
    e.trace = grant_trace(c, g);
    e.text = alert_prefix(rule);
    event_emit(c, &e);
}

/* ---- views ---- */

void view_alerts(const struct core *c, uint32_t tenant, view_alert_fn on_rule, void *ctx)
{
    const struct tenant *t = tenant_look(rules_of(c), tenant);
    hf_assert(on_rule != NULL);
    for (uint32_t i = 0; i < t->alert_count; i++) {
        on_rule(ctx, alert_prefix(t->alerts[i]), t->alerts[i]->held_ms);
    }
}

bool view_alert_for(const struct core *c, uint32_t tenant, struct slice name,
                    struct alert_view *out)
{
    const struct alert_rule *rule = alert_for(c, tenant, name);
    if (rule != NULL) {
        *out = (struct alert_view){.prefix = alert_prefix(rule), .held_ms = rule->held_ms};
    }
    return rule != NULL;
}

bool view_has_alerts(const struct core *c)
{
    TENANT_EACH(rules_of(c), t)
    {
        if (t->alert_count > 0) {
            return true;
        }
    }
    return false;
}

struct long_held_page {
    const struct core *c;
    uint64_t now_ms;
    uint32_t visits;
    view_long_held_fn on_grant;
    void *ctx;
};

static void visit_holders(void *ctx, ref obj)
{
    struct long_held_page *page = ctx;
    const struct core *c = page->c;
    const struct lock *l = lock_at(c, obj);
    const struct alert_rule *rule = alert_for(c, l->tenant, lock_name(l));
    page->visits++;
    if (rule == NULL) {
        return;
    }
    RING_EACH(c, held, l->holders, grant, in_lock)
    {
        const struct grant *g = grant_at(c, held);
        page->visits++;
        if (is_past(g, rule, page->now_ms)) {
            page->on_grant(page->ctx, l->tenant, lock_name(l), g->token);
        }
    }
}

uint64_t view_long_held(const struct core *c, uint64_t now_ms, uint64_t cursor, uint32_t visits,
                        view_long_held_fn on_grant, void *ctx)
{
    hf_assert(on_grant != NULL && visits > 0);
    struct long_held_page page = {.c = c, .now_ms = now_ms, .on_grant = on_grant, .ctx = ctx};
    if (!view_has_alerts(c)) {
        return VIEW_END;
    }
    do {
        cursor = table_scan(&c->locks, cursor, visit_holders, &page);
        page.visits++; /* also an empty bucket */
    } while (cursor != VIEW_END && page.visits < visits);
    return cursor;
}
