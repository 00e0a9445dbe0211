/* Transactions (S13): compare and apply. A node runs a Redis command (other than a plain SET NX) or
 * a script against applied state, and records the versions of the keys it read and the effects.
 *
 *   look up the id ─▶ the checks ─▶ what each effect needs ─▶ the effects, in order
 *                        │ conflict         │ refused            (nothing can fail any more)
 *
 * All or none: no two effects change one key, so all needs are checked before the first effect.
 * Effects interact only when two names of one multi-lock are dropped. */
#include "core/state.h"

static void refuse(struct result *out, enum reason reason, struct slice name)
{
    hf_assert(reason != REASON_NONE);
    out->outcome = OUTCOME_REFUSED;
    out->reason = reason;
    out->name = name;
}

static ref find_lock(const struct core *c, const struct command *cmd, struct slice name)
{
    return lock_find(c, cmd->tenant, name);
}

/* In a backlog: ends dead objects of the name first (S1.7). */
static void prune(struct core *c, const struct command *cmd, struct slice name)
{
    hf_assert(c->backlog);
    ref lock = find_lock(c, cmd, name);
    core_step(c, 1);
    counter_prune(c, cmd->tenant, name);
    if (lock != 0) {
        lock_prune(c, lock);
    }
}

static void prune_all(struct core *c, const struct command *cmd)
{
    struct reader checks = packed_reader(&cmd->transact.checks);
    struct reader effects = packed_reader(&cmd->transact.effects);
    struct key_check check;
    struct effect e;
    while (unpack_check(&checks, &check)) {
        prune(c, cmd, check.name);
    }
    while (unpack_effect(&effects, &e)) {
        if (e.kind != EFFECT_PUBLISH) {
            prune(c, cmd, e.name);
        }
    }
}

static bool compare(struct core *c, const struct command *cmd, struct result *out)
{
    struct reader r = packed_reader(&cmd->transact.checks);
    struct key_check check;
    while (unpack_check(&r, &check)) {
        struct key_view now;
        key_view_fill(c, cmd->tenant, check.name, &now);
        core_step(c, 1);
        if (!key_version_equal(now.version, check.version)) {
            refuse(out, REASON_CONFLICT, check.name);
            return false;
        }
    }
    return true;
}

struct needs {
    uint32_t sessions; /* to create */
    uint32_t counters;
    uint32_t budget; /* for queues, as of an acquire (S2.1) */
};

/* By the rules of acquire (S6.1). */
static bool can_take(struct core *c, ref lock, struct needs *needs, struct result *out)
{
    if (lock == 0) {
        return true;
    }
    hf_assert(needs->budget <= LIMIT_WAKE_STEPS);
    const struct lock *l = lock_at(c, lock);
    enum reason reason = REASON_NONE;
    bool unsure = false;
    if (lock_in_use(c, l) && mode_class((enum mode)l->mode) != MODE_EXCLUSIVE) {
        reason = REASON_MODE_MISMATCH;
    } else if (lock_is_delayed(c, l)) {
        reason = REASON_DELAYED;
    } else if (lock_in_use(c, l) &&
               (l->holders != 0 || queue_front(c, lock, &needs->budget, &unsure) != 0 || unsure)) {
        reason = REASON_HELD;
    }
    if (reason != REASON_NONE) {
        result_holder(c, lock, out);
        refuse(out, reason, lock_name(l));
    }
    return reason == REASON_NONE;
}

static bool is_lease_used(const struct core *c, uint32_t tenant, struct id lease)
{
    return session_find(c, lease) != 0 || lease_find(c, lease) != 0 ||
           history_by_lease(c, tenant, lease) != NULL ||
           history_session(c, tenant, lease) != ENDED_NOT;
}

static bool can_put(struct core *c, const struct command *cmd, const struct effect *e,
                    enum key_kind kind, struct needs *needs, struct result *out)
{
    hf_assert(e->kind == EFFECT_PUT && !id_is_zero(e->lease));
    ref lock = find_lock(c, cmd, e->name);
    switch (kind) {
    case KEY_STRING:
    case KEY_HASH:
    case KEY_LIST:
    case KEY_SORTED_SET:
    case KEY_SET:
        return true;
    case KEY_COUNTER:
        refuse(out, REASON_WRONG_KIND, e->name);
        return false;
    case KEY_LOCK:
        result_holder(c, lock, out);
        refuse(out, REASON_NOT_OWNER, e->name);
        return false;
    case KEY_ABSENT:
    case KEY_RESERVED:
        break;
    }
    if (e->ttl_ms == 0) { /* keeps that of a present key */
        refuse(out, REASON_CONFLICT, e->name);
        return false;
    }
    if (!can_take(c, lock, needs, out)) {
        return false;
    }
    if (is_lease_used(c, cmd->tenant, e->lease)) {
        out->error = HF_REQUEST_ID_REUSED;
        return false;
    }
    needs->sessions++;
    return true;
}

static bool can_drop(const struct core *c, const struct command *cmd, const struct effect *e,
                     const struct key_view *now, struct result *out)
{
    hf_assert(e->kind == EFFECT_DROP);
    switch (now->kind) {
    case KEY_COUNTER:
    case KEY_STRING:
    case KEY_HASH:
    case KEY_LIST:
    case KEY_SORTED_SET:
    case KEY_SET:
        return true;
    case KEY_ABSENT:
    case KEY_RESERVED:
        refuse(out, REASON_CONFLICT, e->name);
        return false;
    case KEY_LOCK:
        break;
    }
    if ((e->flags & EFFECT_FORCED) != 0 && now->holders == 1) {
        return true;
    }
    result_holder(c, find_lock(c, cmd, e->name), out);
    refuse(out, e->flags & EFFECT_FORCED ? REASON_MODE_MISMATCH : REASON_NOT_OWNER, e->name);
    return false;
}

static bool can_expire(const struct core *c, const struct command *cmd, const struct effect *e,
                       enum key_kind kind, struct result *out)
{
    hf_assert(e->kind == EFFECT_EXPIRE);
    if (key_kind_has_value(kind)) {
        return true;
    }
    if (kind == KEY_LOCK) {
        result_holder(c, find_lock(c, cmd, e->name), out);
    }
    refuse(out,
           kind == KEY_LOCK      ? REASON_NOT_OWNER
           : kind == KEY_COUNTER ? REASON_WRONG_KIND
                                 : REASON_CONFLICT,
           e->name);
    return false;
}

static bool can_count(const struct effect *e, enum key_kind kind, struct needs *needs,
                      struct result *out)
{
    hf_assert(e->kind == EFFECT_COUNTER && needs->counters < LIMIT_EFFECTS);
    if (kind != KEY_ABSENT && kind != KEY_COUNTER) {
        refuse(out, REASON_WRONG_KIND, e->name);
        return false;
    }
    needs->counters += kind == KEY_ABSENT;
    return true;
}

static bool can_do(struct core *c, const struct command *cmd, const struct effect *e,
                   struct needs *needs, struct result *out)
{
    struct key_view now = {.kind = KEY_ABSENT};
    core_step(c, 1);
    if (e->kind != EFFECT_PUBLISH) {
        key_view_fill(c, cmd->tenant, e->name, &now);
    }
    switch (e->kind) {
    case EFFECT_PUT:
        return can_put(c, cmd, e, now.kind, needs, out);
    case EFFECT_EXPIRE:
        return can_expire(c, cmd, e, now.kind, out);
    case EFFECT_DROP:
        return can_drop(c, cmd, e, &now, out);
    case EFFECT_COUNTER:
        return can_count(e, now.kind, needs, out);
    case EFFECT_PUBLISH:
        return true;
    case EFFECT_NONE:
    case EFFECT_COUNT:
        break;
    }
    hf_panic(__FILE__, __LINE__, "an effect of no kind passed its check");
}

static bool can_do_all(struct core *c, const struct command *cmd, struct result *out)
{
    struct reader r = packed_reader(&cmd->transact.effects);
    struct needs needs = {.budget = LIMIT_WAKE_STEPS};
    struct effect e;
    while (unpack_effect(&r, &e)) {
        if (!can_do(c, cmd, &e, &needs, out)) {
            return false;
        }
    }
    hf_assert(needs.sessions <= LIMIT_EFFECTS);
    if (needs.sessions > 0 && table_count(&c->sessions) + needs.sessions > LIMIT_SESSIONS) {
        out->error = HF_TOO_MANY_SESSIONS;
    } else if (needs.counters > 0 &&
               tenant_memory_look(c, cmd->tenant)->counter_count + needs.counters >
                   LIMIT_COUNTERS) {
        out->error = HF_TOO_MANY_COUNTERS;
    }
    return out->error == HF_OK;
}

static uint8_t key_flags(const struct effect *e)
{
    return (uint8_t)(GRANT_IS_KEY | (e->flags & EFFECT_HASH ? GRANT_IS_HASH : 0) |
                     (e->flags & EFFECT_LIST ? GRANT_IS_LIST : 0) |
                     (e->flags & EFFECT_SORTED_SET ? GRANT_IS_SORTED_SET : 0) |
                     (e->flags & EFFECT_SET ? GRANT_IS_SET : 0) |
                     (e->flags & EFFECT_VALUE ? GRANT_IS_VALUE : 0));
}

static ref take(struct core *c, const struct command *cmd, const struct effect *e, ref lock)
{
    hf_assert(e->kind == EFFECT_PUT && e->ttl_ms != 0);
    if (lock == 0) {
        lock = lock_new(c, hash_name(c, cmd->tenant, e->name), cmd->tenant, e->name);
    }
    if (!lock_in_use(c, lock_at(c, lock))) {
        lock_set_mode(c, lock, MODE_EXCLUSIVE, 0);
    }
    ref session = session_new(c, cmd->tenant, e->lease, cmd->transact.client, true, e->ttl_ms);
    session_at(c, session)->principal = cmd->principal;
    struct grant_terms terms = {.session = session,
                                .carried = {.value = e->value},
                                .lease = e->lease,
                                .ttl_ms = e->ttl_ms,
                                .key_flags = key_flags(e),
                                .mode = MODE_EXCLUSIVE};
    return grant_give(c, &lock, 1, &terms, NULL);
}

static void set_value(struct core *c, ref grant, const struct effect *e)
{
    struct detail *d = grant_detail_make(c, grant);
    struct grant *g = grant_at(c, grant);
    hf_assert((g->flags & GRANT_IS_KEY) != 0 && e->value.len <= LIMIT_KEY_VALUE);
    blob_free(c, d->carried.value);
    d->carried.value = blob_new(c, e->value);
    d->changes++;
    g->flags = (uint8_t)((g->flags & ~GRANT_TYPES) | (key_flags(e) & GRANT_TYPES));
    if (e->ttl_ms != 0) {
        grant_renew(c, grant, e->ttl_ms);
    }
}

static void put(struct core *c, const struct command *cmd, const struct effect *e,
                struct result *out)
{
    hf_assert(e->kind == EFFECT_PUT);
    ref lock = find_lock(c, cmd, e->name);
    ref grant = lock == 0 ? 0 : lock_at(c, lock)->holders;
    if (grant != 0) {
        set_value(c, grant, e);
    } else {
        grant = take(c, cmd, e, lock);
        out->token = grant_at(c, grant)->token;
    }
    out->deadline_ms = grant_deadline(c, grant_at(c, grant));
}

static void drop(struct core *c, const struct command *cmd, const struct effect *e)
{
    hf_assert(e->kind == EFFECT_DROP || e->kind == EFFECT_EXPIRE);
    ref counter = counter_ref(c, cmd->tenant, e->name);
    if (counter != 0) {
        counter_remove(c, counter);
        return;
    }
    ref lock = find_lock(c, cmd, e->name);
    ref grant = lock == 0 ? 0 : lock_at(c, lock)->holders;
    if (grant == 0) {
        return; /* released with its multi-lock */
    }
    core_step(c, grant_parts(c, grant_at(c, grant)));
    if ((e->flags & EFFECT_FORCED) == 0) {
        struct slice none = slice_make(NULL, 0);
        grant_end(c, grant, ENDED_RELEASED, c->now_ms, none, none, false);
        return;
    }
    const struct command_transact *t = &cmd->transact;
    uint8_t principal[PRINCIPAL_TEXT];
    struct slice actor = audit_actor(c, cmd, t->actor, principal);
    bool now = (e->flags & EFFECT_NOW) != 0;
    uint8_t bytes[LIMIT_TRACE];
    struct slice trace = audit_trace(c, lock, bytes);
    grant_end(c, grant, ENDED_FORCED, c->now_ms, actor, t->reason, now);
    audit_add(c, &(struct audit_entry){now ? AUDIT_FORCE_UNLOCK_NOW : AUDIT_FORCE_UNLOCK,
                                       cmd->tenant,
                                       1,
                                       {e->name, actor, t->reason, trace}});
}

static void expire(struct core *c, const struct command *cmd, const struct effect *e,
                   struct result *out)
{
    if (e->ttl_ms == 0) {
        drop(c, cmd, e);
        return;
    }
    ref grant = lock_at(c, find_lock(c, cmd, e->name))->holders;
    hf_assert(grant != 0);
    grant_renew(c, grant, e->ttl_ms);
    out->deadline_ms = grant_deadline(c, grant_at(c, grant));
}

static void count(struct core *c, const struct command *cmd, const struct effect *e)
{
    hf_assert(e->kind == EFFECT_COUNTER);
    ref obj = counter_ref(c, cmd->tenant, e->name);
    obj = obj != 0 ? obj : counter_add(c, cmd->tenant, e->name);
    struct counter *n = counter_at(c, obj);
    n->number = e->number;
    n->change = ++c->counter_change;
    hf_assert(c->counter_change < LIMIT_NUMBER);
    if ((e->flags & (EFFECT_TTL | EFFECT_PERSIST)) != 0) {
        counter_set_deadline(c, obj, e->flags & EFFECT_TTL ? c->now_ms + e->ttl_ms : 0);
    }
}

static void publish(struct core *c, const struct command *cmd, const struct effect *e)
{
    event_emit(c, &(struct event){.type = EVENT_PUBLISHED,
                                  .tenant = cmd->tenant,
                                  .name = e->name,
                                  .client = cmd->transact.client,
                                  .text = e->value,
                                  .parts = 1});
}

static void do_all(struct core *c, const struct command *cmd, struct result *out)
{
    struct reader r = packed_reader(&cmd->transact.effects);
    struct effect e;
    while (unpack_effect(&r, &e)) {
        core_step(c, 1);
        out->count++;
        hf_assert(out->count <= LIMIT_EFFECTS);
        switch (e.kind) {
        case EFFECT_PUT:
            put(c, cmd, &e, out);
            break;
        case EFFECT_EXPIRE:
            expire(c, cmd, &e, out);
            break;
        case EFFECT_DROP:
            drop(c, cmd, &e);
            break;
        case EFFECT_COUNTER:
            count(c, cmd, &e);
            break;
        case EFFECT_PUBLISH:
            publish(c, cmd, &e);
            break;
        case EFFECT_NONE:
        case EFFECT_COUNT:
            break;
        }
    }
}

/* Exactly once, in a memory of its own: in that of request ids (S8.3), script traffic would
 * displace those ids within seconds. */

const struct done_transact *transact_find(const struct core *c, uint32_t tenant, struct id id)
{
    const struct recent *memory = &tenant_memory_look(c, tenant)->transacts;
    struct recent_walk w = recent_find(memory, 0, hash_id(c, id));
    while (recent_next(&w)) {
        const struct done_transact *t = done_transact_at(c, w.who);
        if (id_equal(t->id, id)) {
            return t;
        }
    }
    return NULL;
}

void transact_add(struct core *c, const struct done_transact *done)
{
    hf_assert(done->count <= LIMIT_EFFECTS);
    ref obj = 0;
    struct done_transact *t = pool_alloc(&c->pool, sizeof(*t), &obj);
    *t = *done;
    c->remembered_bytes += sizeof(*t);
    transact_remember(c, obj);
    core_step(c, 1);
}

void transact_remember(struct core *c, ref obj)
{
    const struct done_transact *t = done_transact_at(c, obj);
    struct recent *memory = &tenant_memory(c, t->tenant)->transacts;
    uint32_t hash = hash_id(c, t->id);
    ref forgotten = recent_add(memory, obj, &hash);
    if (forgotten != 0) {
        c->remembered_bytes -= sizeof(*t);
        pool_free(&c->pool, forgotten, sizeof(*t));
        /* As in history.c. */
        __builtin_prefetch(pool_at(&c->pool, recent_at(memory, 0)), 1);
    }
}

static void replay(const struct command *cmd, const struct done_transact *t, struct result *out)
{
    hf_assert(id_equal(t->id, cmd->transact.id));
    if (t->tenant != cmd->tenant || t->digest != command_digest(cmd)) {
        out->error = HF_REQUEST_ID_REUSED;
        return;
    }
    out->replayed = true;
    out->outcome = (enum outcome)t->outcome;
    out->reason = (enum reason)t->reason;
    out->count = t->count;
    out->token = t->token;
    out->deadline_ms = t->deadline_ms;
}

void apply_transact(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_TRANSACT);
    const struct done_transact *known = transact_find(c, cmd->tenant, cmd->transact.id);
    if (known != NULL) {
        replay(cmd, known, out);
        return;
    }
    if (c->backlog) {
        prune_all(c, cmd);
    }
    if (compare(c, cmd, out) && can_do_all(c, cmd, out)) {
        do_all(c, cmd, out);
    }
    /* Repeating one that only compares is harmless: not remembered. */
    if (out->error == HF_OK && cmd->transact.effects.count > 0) {
        transact_add(c, &(struct done_transact){.tenant = cmd->tenant,
                                                .count = out->count,
                                                .outcome = (uint8_t)out->outcome,
                                                .reason = (uint8_t)out->reason,
                                                .id = cmd->transact.id,
                                                .digest = command_digest(cmd),
                                                .token = out->token,
                                                .deadline_ms = out->deadline_ms});
    }
}
