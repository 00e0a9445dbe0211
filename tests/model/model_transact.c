/* Transactions, keys and counters, from S13 of SEMANTICS.md. */
#include "model_state.h"

static struct model_counter *find_any(const struct model *m, uint32_t tenant, struct slice text)
{
    for (size_t i = 0; i < m->counters.count; i++) {
        struct model_counter *n = m->counters.at[i];
        if (n->tenant == tenant && slice_equal(owned_slice(&n->text), text)) {
            return n;
        }
    }
    return NULL;
}

struct model_counter *model_find_counter(const struct model *m, uint32_t tenant, struct slice text)
{
    struct model_counter *n = find_any(m, tenant, text);
    return n == NULL || n->deadline_ms <= m->now_ms ? NULL : n;
}

static void counter_free(struct model_counter *n)
{
    owned_free(&n->text);
    free(n);
}

void model_remove_counter(struct model *m, struct model_counter *n)
{
    hf_assert(model_list_remove(&m->counters, n));
    counter_free(n);
}

void model_prune_counter(struct model *m, uint32_t tenant, struct slice text)
{
    struct model_counter *n = m->backlog ? find_any(m, tenant, text) : NULL;
    if (n != NULL && n->deadline_ms <= m->now_ms) {
        model_remove_counter(m, n);
    }
}

void model_free_counters(struct model *m)
{
    for (size_t i = 0; i < m->counters.count; i++) {
        counter_free(m->counters.at[i]);
    }
    model_list_free(&m->counters);
}

void model_view_counters(struct model *m, model_counter_fn on_counter, void *ctx)
{
    for (size_t i = 0; i < m->counters.count; i++) {
        const struct model_counter *n = m->counters.at[i];
        if (n->deadline_ms <= m->now_ms) {
            continue;
        }
        on_counter(ctx, n->tenant, owned_slice(&n->text), n->number);
    }
}

/* What a key is. */
void model_view_key(struct model *m, uint32_t tenant, struct slice text, struct key_view *out)
{
    memset(out, 0, sizeof(*out));
    const struct model_name *name = model_find_name(m, tenant, text);
    const struct model_counter *n = model_find_counter(m, tenant, text);
    bool delayed = name != NULL && name->delayed_until_ms > m->now_ms;
    if (name != NULL && name->holders.count > 0 && !model_grant_dead(m, name->holders.at[0])) {
        const struct model_grant *g = name->holders.at[0];
        out->kind = g->r.is_key ? g->r.kind : KEY_LOCK;
        out->client = owned_slice(&g->r.session->client);
        out->holders = (uint32_t)name->holders.count;
        out->token = g->token;
        out->principal = g->r.session->principal;
        out->is_value = g->r.is_value;
        out->deadline_ms = model_grant_deadline(g) == NEVER ? 0 : model_grant_deadline(g);
        out->value = g->r.is_key ? owned_slice(&g->r.value) : slice_make(NULL, 0);
        out->version = (struct key_version){g->token, g->r.changes, out->deadline_ms};
    } else if (name != NULL && (name->holders.count > 0 || name->queue.count > 0 || delayed)) {
        out->kind = KEY_RESERVED;
        out->deadline_ms = name->holders.count == 0 && delayed ? name->delayed_until_ms : 0;
        out->version = (struct key_version){1, 0, out->deadline_ms};
    } else if (n != NULL) {
        out->kind = KEY_COUNTER;
        out->number = n->number;
        out->deadline_ms = n->deadline_ms == NEVER ? 0 : n->deadline_ms;
        out->version = m->version < 8
                           ? (struct key_version){n->change, 0, UINT64_MAX}
                           : (struct key_version){(uint64_t)n->number, UINT32_MAX, n->deadline_ms};
    }
}

/* ---- what must be true before anything is done ---- */

struct plan {
    uint32_t sessions;
    uint32_t counters;
    uint32_t steps;
};

static bool no(struct model *m, struct result *out, enum reason reason, struct slice text)
{
    out->outcome = OUTCOME_REFUSED;
    out->reason = reason;
    out->name = model_keep(m, text);
    return false;
}

static bool no_because_of(struct model *m, struct result *out, enum reason reason,
                          struct model_name *name)
{
    model_refuse(m, out, reason, name);
    return false;
}

static bool may_take(struct model *m, const struct command *c, const struct effect *e,
                     struct model_name *name, struct plan *plan, struct result *out)
{
    enum mode mode = MODE_EXCLUSIVE;
    uint32_t limit = 0;
    bool unsure = false;
    if (name != NULL) {
        (void)model_name_mode(name, &mode, &limit);
        if (mode_class(mode) != MODE_EXCLUSIVE) {
            return no_because_of(m, out, REASON_MODE_MISMATCH, name);
        }
        if (name->delayed_until_ms > m->now_ms) {
            return no_because_of(m, out, REASON_DELAYED, name);
        }
        if (name->holders.count > 0 || model_front(m, name, &plan->steps, &unsure) != NULL ||
            unsure) {
            return no_because_of(m, out, REASON_HELD, name);
        }
    }
    if (model_lease_lives(m, e->lease) || model_find_session(m, e->lease) != NULL ||
        model_ended_lease_anywhere(m, c->tenant, e->lease) ||
        model_ended_session_anywhere(m, c->tenant, e->lease)) {
        out->error = HF_REQUEST_ID_REUSED;
        return false;
    }
    plan->sessions++;
    return true;
}

static bool may_do(struct model *m, const struct command *c, const struct effect *e,
                   struct plan *plan, struct result *out)
{
    struct key_view key;
    if (e->kind == EFFECT_PUBLISH) {
        return true;
    }
    model_view_key(m, c->tenant, e->name, &key);
    struct model_name *name = model_find_name(m, c->tenant, e->name);
    bool is_key = key.kind == KEY_STRING || key.kind == KEY_HASH || key.kind == KEY_LIST ||
                  key.kind == KEY_SORTED_SET || key.kind == KEY_SET;
    bool is_absent = key.kind == KEY_ABSENT || key.kind == KEY_RESERVED;
    if (e->kind == EFFECT_COUNTER) {
        plan->counters += key.kind == KEY_ABSENT;
        return key.kind == KEY_ABSENT || key.kind == KEY_COUNTER
                   ? true
                   : no(m, out, REASON_WRONG_KIND, e->name);
    }
    if (is_key || (key.kind == KEY_COUNTER && e->kind == EFFECT_DROP)) {
        return true;
    }
    if (key.kind == KEY_COUNTER) {
        return no(m, out, REASON_WRONG_KIND, e->name);
    }
    if (is_absent && e->kind == EFFECT_PUT && e->ttl_ms != 0) {
        return may_take(m, c, e, name, plan, out);
    }
    if (is_absent) {
        return no(m, out, REASON_CONFLICT, e->name);
    }
    if ((e->flags & EFFECT_FORCED) == 0) { /* another's lock */
        return no_because_of(m, out, REASON_NOT_OWNER, name);
    }
    return name->holders.count == 1 ? true : no_because_of(m, out, REASON_MODE_MISMATCH, name);
}

/* Those that count for the limit of the tenant. */
static size_t count_counters(const struct model *m, uint32_t tenant)
{
    size_t count = 0;
    for (size_t i = 0; i < m->counters.count; i++) {
        const struct model_counter *n = m->counters.at[i];
        count += m->version < 6 || n->tenant == tenant;
    }
    return count;
}

static bool may_do_all(struct model *m, const struct command *c, struct result *out)
{
    struct reader r = packed_reader(&c->transact.checks);
    struct key_check check;
    while (unpack_check(&r, &check)) {
        struct key_view key;
        model_view_key(m, c->tenant, check.name, &key);
        if (key.version.number != check.version.number ||
            key.version.changes != check.version.changes ||
            key.version.deadline_ms != check.version.deadline_ms) {
            return no(m, out, REASON_CONFLICT, check.name);
        }
    }
    struct plan plan = {0, 0, LIMIT_WAKE_STEPS};
    struct effect e;
    r = packed_reader(&c->transact.effects);
    while (unpack_effect(&r, &e)) {
        if (!may_do(m, c, &e, &plan, out)) {
            return false;
        }
    }
    if (plan.sessions > 0 && m->sessions.count + plan.sessions > LIMIT_SESSIONS) {
        out->error = HF_TOO_MANY_SESSIONS;
    } else if (plan.counters > 0 && count_counters(m, c->tenant) + plan.counters > LIMIT_COUNTERS) {
        out->error = HF_TOO_MANY_COUNTERS;
    }
    return out->error == HF_OK;
}

bool model_sets_a_ttl_of_a_counter(const struct command *c)
{
    struct reader r = packed_reader(&c->transact.effects);
    struct effect e;
    bool found = false;
    while (unpack_effect(&r, &e)) {
        found = found || (e.flags & (EFFECT_TTL | EFFECT_PERSIST)) != 0;
    }
    return found;
}

static bool is_later_ttl(uint64_t ttl_ms)
{
    return ttl_ms < 100 || ttl_ms > 86400000;
}

bool model_is_of_8(const struct command *c)
{
    if (c->type == COMMAND_ACQUIRE) {
        return (c->acquire.flags & ACQUIRE_KEY) != 0 && is_later_ttl(c->acquire.ttl_ms);
    }
    if (c->type != COMMAND_TRANSACT) {
        return false;
    }
    struct reader r = packed_reader(&c->transact.effects);
    struct effect e;
    bool found = false;
    while (unpack_effect(&r, &e)) {
        bool is_key = e.kind == EFFECT_PUT || e.kind == EFFECT_EXPIRE;
        found = found || (e.flags & EFFECT_VALUE) != 0 ||
                (is_key && e.ttl_ms != 0 && is_later_ttl(e.ttl_ms)) ||
                (e.kind == EFFECT_COUNTER && e.ttl_ms > UINT64_C(31) * 86400000);
    }
    return found;
}

bool model_is_of_9(const struct command *c)
{
    if (c->type != COMMAND_TRANSACT) {
        return false;
    }
    struct reader r = packed_reader(&c->transact.effects);
    struct effect e;
    bool found = false;
    while (unpack_effect(&r, &e)) {
        found = found || (e.kind == EFFECT_PUT &&
                          ((e.flags & (EFFECT_LIST | EFFECT_SORTED_SET | EFFECT_SET)) != 0 ||
                           e.value.len > 4096));
    }
    return found || c->transact.checks.bytes.len + c->transact.effects.bytes.len > 40960;
}

/* ---- doing it ---- */

static enum key_kind type_of(const struct effect *e)
{
    switch (e->flags & EFFECT_TYPES) {
    case EFFECT_HASH:
        return KEY_HASH;
    case EFFECT_LIST:
        return KEY_LIST;
    case EFFECT_SORTED_SET:
        return KEY_SORTED_SET;
    case EFFECT_SET:
        return KEY_SET;
    default:
        return KEY_STRING;
    }
}

static struct model_grant *take(struct model *m, const struct command *c, const struct effect *e)
{
    struct request r;
    memset(&r, 0, sizeof(r));
    r.lease = e->lease;
    r.session = model_private_session(m, c, e->lease, c->transact.client, e->ttl_ms);
    r.owner = owned_copy(slice_make(NULL, 0));
    r.parts = 1;
    r.names[0] = model_make_name(m, c->tenant, e->name);
    r.mode = MODE_EXCLUSIVE;
    r.metadata = owned_copy(slice_make(NULL, 0));
    r.value = owned_copy(e->value);
    r.trace = owned_copy(slice_make(NULL, 0));
    r.is_key = true;
    r.kind = type_of(e);
    r.is_value = (e->flags & EFFECT_VALUE) != 0;
    return model_grant(m, &r, NULL);
}

static void put(struct model *m, const struct command *c, const struct effect *e,
                struct result *out)
{
    struct model_name *name = model_find_name(m, c->tenant, e->name);
    struct model_grant *g = name == NULL || name->holders.count == 0 ? NULL : name->holders.at[0];
    if (g == NULL) {
        g = take(m, c, e);
        out->token = g->token;
    } else {
        owned_free(&g->r.value);
        g->r.value = owned_copy(e->value);
        g->r.kind = type_of(e);
        g->r.changes++;
        if (e->ttl_ms != 0) {
            model_renew_grant(m, g, e->ttl_ms);
        }
    }
    out->deadline_ms = model_grant_deadline(g);
}

static void drop(struct model *m, const struct command *c, const struct effect *e)
{
    struct model_counter *n = model_find_counter(m, c->tenant, e->name);
    if (n != NULL) {
        model_remove_counter(m, n);
        return;
    }
    const struct model_name *name = model_find_name(m, c->tenant, e->name);
    if (name->holders.count == 0) {
        return; /* it was of a multi-lock that an effect before this one dropped */
    }
    struct model_grant *g = name->holders.at[0];
    struct end end = {.ended = ENDED_RELEASED, .clean = true};
    bool forced = (e->flags & EFFECT_FORCED) != 0;
    bool now = (e->flags & EFFECT_NOW) != 0;
    struct slice trace = model_keep(m, owned_slice(&g->r.trace));
    if (forced) {
        end = (struct end){.ended = ENDED_FORCED,
                           .delay_from_ms = m->now_ms,
                           .actor = model_actor(m, c, c->transact.actor),
                           .text = c->transact.reason};
        g->r.delay_ms = now ? 0 : g->r.delay_ms;
    }
    model_end_grant(m, g, &end);
    if (forced) {
        model_audit(m, c->tenant, now ? "FORCE_UNLOCK_NOW" : "FORCE_UNLOCK", e->name,
                    model_actor(m, c, c->transact.actor), c->transact.reason, trace, 1);
    }
}

static void count(struct model *m, const struct command *c, const struct effect *e)
{
    struct model_counter *n = model_find_counter(m, c->tenant, e->name);
    if (n == NULL) {
        n = model_alloc(sizeof(*n));
        n->tenant = c->tenant;
        n->text = owned_copy(e->name);
        n->deadline_ms = NEVER;
        model_list_add(&m->counters, n);
    }
    n->number = e->number;
    n->change = ++m->counter_changes;
    if (e->flags & EFFECT_PERSIST) {
        n->deadline_ms = NEVER;
    }
    if (e->flags & EFFECT_TTL) {
        n->deadline_ms = m->now_ms + e->ttl_ms;
    }
}

static void do_effect(struct model *m, const struct command *c, const struct effect *e,
                      struct result *out)
{
    if (e->kind == EFFECT_PUT) {
        put(m, c, e, out);
    } else if (e->kind == EFFECT_DROP || (e->kind == EFFECT_EXPIRE && e->ttl_ms == 0)) {
        drop(m, c, e);
    } else if (e->kind == EFFECT_EXPIRE) {
        struct model_grant *g = model_find_name(m, c->tenant, e->name)->holders.at[0];
        model_renew_grant(m, g, e->ttl_ms);
        out->deadline_ms = model_grant_deadline(g);
    } else if (e->kind == EFFECT_COUNTER) {
        count(m, c, e);
    } else {
        struct event event = model_event(m, EVENT_PUBLISHED, c->tenant);
        event.name = e->name;
        event.client = c->transact.client;
        event.text = e->value;
        model_emit(m, &event);
    }
    out->count++;
}

/* ---- exactly once ---- */

static const struct model_transact *find_done(const struct model *m, uint32_t tenant, struct id id)
{
    const struct model_share *share = model_share(m, tenant);
    size_t used =
        share->transact_count < LIMIT_TRANSACTS ? (size_t)share->transact_count : LIMIT_TRANSACTS;
    for (size_t i = 0; i < used; i++) {
        if (share->transact_prints[i] == id.low && id_equal(share->transacts[i].id, id)) {
            return &share->transacts[i];
        }
    }
    return NULL;
}

static void prune(struct model *m, const struct command *c, struct slice text)
{
    struct model_name *name = model_find_name(m, c->tenant, text);
    model_prune_counter(m, c->tenant, text);
    if (name != NULL) {
        model_prune_name(m, name);
    }
}

static void prune_all(struct model *m, const struct command *c)
{
    struct reader r = packed_reader(&c->transact.checks);
    struct key_check check;
    struct effect e;
    while (unpack_check(&r, &check)) {
        prune(m, c, check.name);
    }
    r = packed_reader(&c->transact.effects);
    while (unpack_effect(&r, &e)) {
        if (e.kind != EFFECT_PUBLISH) {
            prune(m, c, e.name);
        }
    }
}

void model_transact(struct model *m, const struct command *c, struct result *out)
{
    const struct model_transact *done = find_done(m, c->tenant, c->transact.id);
    if (done != NULL && (done->tenant != c->tenant || done->digest != model_digest(c))) {
        out->error = HF_REQUEST_ID_REUSED;
        return;
    }
    if (done != NULL) {
        *out = done->reply;
        out->replayed = true;
        return;
    }
    prune_all(m, c);
    if (may_do_all(m, c, out)) {
        struct reader r = packed_reader(&c->transact.effects);
        struct effect e;
        while (unpack_effect(&r, &e)) {
            do_effect(m, c, &e, out);
        }
    }
    if (out->error != HF_OK || c->transact.effects.count == 0) {
        return;
    }
    struct model_share *share = model_share(m, c->tenant);
    size_t at = share->transact_count++ % LIMIT_TRANSACTS;
    share->transact_prints[at] = c->transact.id.low;
    share->transacts[at] = (struct model_transact){.id = c->transact.id,
                                                   .tenant = c->tenant,
                                                   .digest = model_digest(c),
                                                   .reply = {.type = c->type,
                                                             .outcome = out->outcome,
                                                             .reason = out->reason,
                                                             .count = out->count,
                                                             .token = out->token,
                                                             .deadline_ms = out->deadline_ms}};
}
