/* Field by field: what the core says against what the model says. */
#include "driver.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/panic.h"

static bool differs(const char *what, uint64_t core, uint64_t model)
{
    if (core != model) {
        printf("  differs in %s: core %" PRIu64 ", model %" PRIu64 "\n", what, core, model);
    }
    return core != model;
}

static bool slice_differs(const char *what, struct slice core, struct slice model)
{
    bool different = !slice_equal(core, model);
    if (different) {
        printf("  differs in %s: core \"%.*s\", model \"%.*s\"\n", what, (int)core.len,
               core.len > 0 ? (const char *)core.data : "", (int)model.len,
               model.len > 0 ? (const char *)model.data : "");
    }
    return different;
}

static bool id_differs(const char *what, struct id core, struct id model)
{
    return differs(what, core.high, model.high) || differs(what, core.low, model.low);
}

#define NUMBER(field) bad |= differs(#field, (uint64_t)a->field, (uint64_t)b->field)
#define ID(field) bad |= id_differs(#field, a->field, b->field)
#define SLICE(field) bad |= slice_differs(#field, a->field, b->field)

static bool holder_differs(const struct holder_view *a, const struct holder_view *b)
{
    bool bad = false;
    SLICE(client);
    SLICE(owner);
    SLICE(metadata);
    NUMBER(mode);
    NUMBER(permits);
    NUMBER(since_ms);
    NUMBER(deadline_ms);
    SLICE(trace);
    NUMBER(since_wall_ms);
    return bad;
}

static bool cycle_differs(const struct result *a, const struct result *b)
{
    bool bad = false;
    NUMBER(cycle_length);
    for (uint32_t i = 0; !bad && i < a->cycle_length; i++) {
        SLICE(cycle[i].client);
        SLICE(cycle[i].owner);
        SLICE(cycle[i].name);
    }
    return bad;
}

bool compare_results(const struct result *a, const struct result *b, uint32_t ids)
{
    bool bad = false;
    NUMBER(type);
    NUMBER(error);
    NUMBER(outcome);
    NUMBER(reason);
    NUMBER(ended);
    NUMBER(replayed);
    NUMBER(deadlock_unchecked);
    NUMBER(accepted);
    if (a->has_holder || a->outcome == OUTCOME_GRANTED || a->outcome == OUTCOME_DONE) {
        NUMBER(mode); /* of a name that nobody holds it says nothing */
    }
    NUMBER(token);
    ID(lease);
    NUMBER(deadline_ms);
    NUMBER(ttl_ms);
    NUMBER(attachment);
    NUMBER(wait_deadline_ms);
    NUMBER(delayed_until_ms);
    NUMBER(highest);
    NUMBER(slot);
    NUMBER(depth);
    NUMBER(queue_length);
    NUMBER(queue_position);
    NUMBER(count);
    NUMBER(more);
    NUMBER(has_holder);
    NUMBER(holders);
    SLICE(reserved_for);
    SLICE(name);
    NUMBER(hold_until_ms);
    if (!bad && a->has_holder) {
        bad |= holder_differs(&a->holder, &b->holder);
    }
    bad |= cycle_differs(a, b);
    for (uint32_t i = 0; !bad && i < ids; i++) {
        bad |= differs("alive", a->alive[i], b->alive[i]);
    }
    return !bad;
}

static bool event_differs(const struct event *a, const struct event *b)
{
    bool bad = false;
    NUMBER(type);
    NUMBER(tenant);
    NUMBER(index);
    NUMBER(ordinal);
    NUMBER(part);
    NUMBER(parts);
    NUMBER(node);
    NUMBER(at_ms);
    NUMBER(wall_ms);
    NUMBER(token);
    NUMBER(attachment);
    NUMBER(deadline_ms);
    ID(session);
    ID(lease);
    NUMBER(reason);
    NUMBER(ended);
    NUMBER(mode);
    NUMBER(slot);
    SLICE(name);
    SLICE(client);
    SLICE(owner);
    SLICE(actor);
    SLICE(text);
    SLICE(trace);
    NUMBER(since_ms);
    NUMBER(since_wall_ms);
    NUMBER(waited_ms);
    return bad;
}

bool compare_events(const struct recorder *core, const struct recorder *model)
{
    size_t common = core->count < model->count ? core->count : model->count;
    for (size_t i = 0; i < common; i++) {
        if (event_differs(&core->events[i], &model->events[i])) {
            printf("  event %zu of %zu (core) and %zu (model)\n", i, core->count, model->count);
            return false;
        }
    }
    if (core->count != model->count) {
        printf("  core has %zu events, model %zu\n", core->count, model->count);
        return false;
    }
    return true;
}

/* ---- the whole state ---- */

struct pass {
    const struct core *core;
    struct model *model;
    uint64_t seen;
    bool bad;
};

static bool grant_differs(const struct grant_view *a, const struct grant_view *b)
{
    bool bad = holder_differs(&a->holder, &b->holder);
    NUMBER(token);
    ID(session);
    ID(lease);
    NUMBER(slot);
    NUMBER(depth);
    NUMBER(parts);
    NUMBER(revoke_at_ms);
    SLICE(value);
    NUMBER(is_key);
    NUMBER(hold_until_ms);
    NUMBER(long_held);
    return bad;
}

static bool waiter_differs(const struct waiter_view *a, const struct waiter_view *b)
{
    bool bad = false;
    SLICE(client);
    SLICE(owner);
    SLICE(metadata);
    NUMBER(mode);
    NUMBER(permits);
    NUMBER(parts);
    NUMBER(node);
    NUMBER(detached);
    NUMBER(ticket);
    NUMBER(attachment);
    NUMBER(wait_deadline_ms);
    ID(session);
    ID(lease);
    SLICE(trace);
    NUMBER(since_ms);
    NUMBER(since_wall_ms);
    return bad;
}

static bool lock_differs(const struct lock_view *a, const struct lock_view *b)
{
    bool bad = false;
    SLICE(name);
    NUMBER(tenant);
    NUMBER(holders);
    NUMBER(queue_length);
    NUMBER(delayed_until_ms);
    SLICE(reserved_for);
    NUMBER(has_holder);
    NUMBER(long_held);
    NUMBER(waiting_ms);
    NUMBER(waiting_wall_ms);
    if (a->holders > 0) {
        NUMBER(mode);
    }
    if (a->holders + a->queue_length > 0) {
        NUMBER(limit);
        NUMBER(permits_used);
    }
    if (!bad && a->has_holder) {
        bad |= grant_differs(&a->first, &b->first);
    }
    return bad;
}

static bool key_differs(const struct pass *pass, uint32_t tenant, struct slice name)
{
    struct key_view core_view;
    struct key_view model_view;
    view_key(pass->core, tenant, name, &core_view);
    model_view_key(pass->model, tenant, name, &model_view);
    const struct key_view *a = &core_view;
    const struct key_view *b = &model_view;
    bool bad = false;
    NUMBER(kind);
    NUMBER(version.number);
    NUMBER(version.changes);
    NUMBER(version.deadline_ms);
    SLICE(value);
    NUMBER(number);
    SLICE(client);
    NUMBER(holders);
    NUMBER(token);
    NUMBER(principal);
    NUMBER(deadline_ms);
    if (bad) {
        printf("  at the key \"%.*s\"\n", (int)name.len, (const char *)name.data);
    }
    return bad;
}

static bool session_differs(const struct session_view *a, const struct session_view *b)
{
    bool bad = false;
    ID(id);
    NUMBER(tenant);
    SLICE(client);
    SLICE(metadata);
    NUMBER(ttl_ms);
    NUMBER(linger_ms);
    NUMBER(lingers);
    NUMBER(stream);
    NUMBER(node);
    NUMBER(deadline_ms);
    NUMBER(entries);
    NUMBER(is_private);
    NUMBER(principal);
    return bad;
}

static bool audit_differs(const struct audit_view *a, const struct audit_view *b)
{
    bool bad = false;
    NUMBER(number);
    NUMBER(index);
    NUMBER(wall_ms);
    NUMBER(tenant);
    SLICE(action);
    SLICE(resource);
    SLICE(actor);
    SLICE(reason);
    SLICE(trace);
    NUMBER(count);
    NUMBER(is_note);
    NUMBER(is_of_cluster);
    NUMBER(is_fence_reset);
    NUMBER(slot);
    NUMBER(mark_before);
    NUMBER(mark_after);
    return bad;
}

/* The holders and waiters of one name, gathered from the model. */
struct gathered {
    struct grant_view *grants;
    struct waiter_view *waiters;
    uint32_t grant_count;
    uint32_t waiter_count;
    uint32_t next_grant;
    uint32_t next_waiter;
    bool bad;
};

static void gather_grant(void *ctx, const struct grant_view *grant)
{
    struct gathered *g = ctx;
    g->grants[g->grant_count++] = *grant;
}

static void gather_waiter(void *ctx, const struct waiter_view *waiter)
{
    struct gathered *g = ctx;
    g->waiters[g->waiter_count++] = *waiter;
}

static void check_grant(void *ctx, const struct grant_view *grant)
{
    struct gathered *g = ctx;
    if (g->next_grant < g->grant_count) {
        g->bad |= grant_differs(grant, &g->grants[g->next_grant]);
    }
    g->next_grant++;
}

static void check_waiter(void *ctx, const struct waiter_view *waiter)
{
    struct gathered *g = ctx;
    if (g->next_waiter < g->waiter_count) {
        g->bad |= waiter_differs(waiter, &g->waiters[g->next_waiter]);
    }
    g->next_waiter++;
}

static void compare_lock(void *ctx, const struct lock_view *b)
{
    struct pass *pass = ctx;
    struct lock_view a;
    pass->seen++;
    if (!view_lock(pass->core, b->tenant, b->name, &a)) {
        printf("  the core does not know the name \"%.*s\"\n", (int)b->name.len,
               (const char *)b->name.data);
        pass->bad = true;
        return;
    }
    pass->bad |= lock_differs(&a, b) || key_differs(pass, b->tenant, b->name);
    struct gathered g = {.grants = calloc(b->holders + 1, sizeof(*g.grants)),
                         .waiters = calloc(b->queue_length + 1, sizeof(*g.waiters))};
    hf_assert(g.grants != NULL && g.waiters != NULL);
    model_view_holders_and_waiters(pass->model, b->tenant, b->name, gather_grant, gather_waiter,
                                   &g);
    view_holders_and_waiters(pass->core, b->tenant, b->name, UINT32_MAX, check_grant, check_waiter,
                             &g);
    pass->bad |= g.bad || differs("number of holders", g.next_grant, g.grant_count) ||
                 differs("number of waiters", g.next_waiter, g.waiter_count);
    if (pass->bad) {
        printf("  at the name \"%.*s\"\n", (int)b->name.len, (const char *)b->name.data);
    }
    free(g.grants);
    free(g.waiters);
}

/* A row of the core's list of one session's names, looked for in the model. */
struct name_row {
    const struct session_name_view *row;
    bool is_found;
};

static void match_grant(void *ctx, const struct grant_view *grant)
{
    struct name_row *match = ctx;
    const struct grant_view *a = &match->row->grant;
    match->is_found |= match->row->is_held && a->token == grant->token &&
                       id_equal(a->session, grant->session) && !grant_differs(a, grant);
}

static void match_waiter(void *ctx, const struct waiter_view *waiter)
{
    struct name_row *match = ctx;
    const struct waiter_view *a = &match->row->waiter;
    match->is_found |=
        !match->row->is_held && id_equal(a->lease, waiter->lease) && !waiter_differs(a, waiter);
}

struct name_pass {
    struct pass *pass;
    uint32_t tenant;
    uint64_t last; /* token or ticket */
    bool waits;
    uint32_t count;
};

static void check_name(void *ctx, const struct session_name_view *row)
{
    struct name_pass *n = ctx;
    struct name_row match = {row, false};
    uint64_t number = row->is_held ? row->grant.token : row->waiter.ticket;
    bool is_first_waiter = !row->is_held && !n->waits;
    n->count++;
    if (!is_first_waiter && (number < n->last || row->is_held == n->waits)) {
        printf("  the names of a session are out of order\n");
        n->pass->bad = true;
    }
    n->waits = !row->is_held;
    n->last = number;
    model_view_holders_and_waiters(n->pass->model, n->tenant, row->name, match_grant, match_waiter,
                                   &match);
    if (!match.is_found) {
        printf("  the model does not know that a session has the name \"%.*s\"\n",
               (int)row->name.len, (const char *)row->name.data);
        n->pass->bad = true;
    }
}

/* Page by page: as many names as the model has, each of them one of the model's. */
static void compare_names(struct pass *pass, const struct session_view *b)
{
    struct name_pass n = {.pass = pass, .tenant = b->tenant};
    uint64_t cursor = 0;
    do {
        cursor = view_session_names(pass->core, b->tenant, b->id, cursor, 2, check_name, &n);
    } while (cursor != VIEW_NAMES_END);
    pass->bad |= differs("names of a session", n.count, b->entries);
}

static void compare_session(void *ctx, const struct session_view *b)
{
    struct pass *pass = ctx;
    struct session_view a;
    pass->seen++;
    compare_names(pass, b);
    if (!view_session(pass->core, b->id, &a)) {
        printf("  the core does not know the session %" PRIx64 "\n", b->id.high);
        pass->bad = true;
        return;
    }
    pass->bad |= session_differs(&a, b);
}

static void count_session(void *ctx, const struct session_view *session)
{
    struct pass *pass = ctx;
    struct session_view found;
    pass->seen++;
    if (!model_view_session(pass->model, session->id, &found)) {
        printf("  the model does not know the session %" PRIx64 "\n", session->id.high);
        pass->bad = true;
    }
}

static void count_lock(void *ctx, const struct lock_view *lock)
{
    struct pass *pass = ctx;
    struct lock_view found;
    pass->seen++;
    if (!model_view_lock(pass->model, lock->tenant, lock->name, &found)) {
        printf("  the model does not know the name \"%.*s\"\n", (int)lock->name.len,
               (const char *)lock->name.data);
        pass->bad = true;
    }
}

/* The core's own lists, page by page: nothing in them that the model does not know, nothing missing
 * (what the model knows is compared one by one, above). */
static void compare_lists(struct pass *pass, uint64_t visible)
{
    uint64_t locks = 0;
    uint64_t sessions = 0;
    for (uint32_t tenant = 0; tenant < 2; tenant++) {
        uint64_t cursor = 0;
        pass->seen = 0;
        do {
            cursor =
                view_locks(pass->core, tenant, slice_make(NULL, 0), cursor, 7, count_lock, pass);
        } while (cursor != VIEW_END);
        locks += pass->seen;
        cursor = 0;
        pass->seen = 0;
        do {
            cursor = view_sessions(pass->core, tenant, cursor, 7, count_session, pass);
        } while (cursor != VIEW_END);
        sessions += pass->seen;
    }
    struct core_stats stats;
    model_stats(pass->model, &stats);
    if (locks < visible || sessions < stats.sessions) {
        printf("  the core lists %" PRIu64 " locks and %" PRIu64 " sessions, there are %" PRIu64
               " and %" PRIu64 "\n",
               locks, sessions, visible, stats.sessions);
        pass->bad = true;
    }
}

static void compare_counter(void *ctx, uint32_t tenant, struct slice name, int64_t number)
{
    struct pass *pass = ctx;
    (void)number;
    pass->seen++;
    pass->bad |= key_differs(pass, tenant, name);
}

static void count_counter(void *ctx, struct slice name, int64_t number)
{
    struct pass *pass = ctx;
    (void)name;
    (void)number;
    pass->seen++;
}

static void compare_counters(struct pass *pass)
{
    pass->seen = 0;
    model_view_counters(pass->model, compare_counter, pass);
    uint64_t expected = pass->seen;
    pass->seen = 0;
    for (uint32_t tenant = 0; tenant < 2; tenant++) {
        uint64_t cursor = 0;
        do {
            cursor = view_counters(pass->core, tenant, cursor, 3, count_counter, pass);
        } while (cursor != VIEW_END);
    }
    pass->bad |= differs("number of counters listed", pass->seen, expected);
    pass->bad |= key_differs(pass, 0, slice_of("a")) || key_differs(pass, 0, slice_of("job"));
}

struct audit_pass {
    struct audit_view *records;
    size_t count;
    size_t next;
    bool bad;
};

static void gather_audit(void *ctx, const struct audit_view *record)
{
    struct audit_pass *pass = ctx;
    pass->records[pass->count++] = *record;
}

static void check_audit(void *ctx, const struct audit_view *record)
{
    struct audit_pass *pass = ctx;
    if (pass->next < pass->count) {
        pass->bad |= audit_differs(record, &pass->records[pass->next]);
    }
    pass->next++;
}

static bool compare_audit(const struct core *core, struct model *model, uint32_t tenant)
{
    struct audit_pass pass = {.records = calloc(LIMIT_AUDIT, sizeof(*pass.records))};
    hf_assert(pass.records != NULL);
    model_view_audit(model, tenant, 0, gather_audit, &pass);
    view_audit(core, tenant, 0, UINT32_MAX, check_audit, &pass);
    bool good = !pass.bad && !differs("audit records", pass.next, pass.count);
    free(pass.records);
    return good;
}

static bool compare_counts(const struct core *core, struct model *model)
{
    struct core_stats core_counts;
    struct core_stats model_counts;
    core_stats(core, &core_counts);
    model_stats(model, &model_counts);
    const struct core_stats *a = &core_counts;
    const struct core_stats *b = &model_counts;
    bool bad = false;
    NUMBER(names);
    NUMBER(grants);
    NUMBER(waiters);
    NUMBER(sessions);
    NUMBER(fence_marks);
    NUMBER(fence_rejections);
    NUMBER(audit_records);
    NUMBER(counters);
    NUMBER(long_held);
    NUMBER(alerts);
    bad |= differs("now", core_now_ms(core), model_now_ms(model));
    bad |= differs("counter", core_counter(core), model_counter(model));
    bad |= differs("epoch", core_epoch(core), model_epoch(model));
    bad |= differs("version", core_version(core), model_version(model));
    bad |= differs("next due", core_next_due_ms(core), model_next_due_ms(model));
    return !bad;
}

static bool compare_usage(const struct core *core, struct model *model)
{
    bool bad = false;
    for (uint32_t tenant = 0; tenant < 2; tenant++) {
        struct tenant_usage core_usage;
        struct tenant_usage model_usage;
        core_tenant_usage(core, tenant, &core_usage);
        model_tenant_usage(model, tenant, &model_usage);
        const struct tenant_usage *a = &core_usage;
        const struct tenant_usage *b = &model_usage;
        NUMBER(names);
        NUMBER(sessions);
        NUMBER(waiters);
    }
    return !bad;
}

static void compare_sink(void *ctx, const struct sink_view *b)
{
    struct pass *pass = ctx;
    struct sink_view known = {.name = b->name};
    const struct sink_view *a = &known;
    bool bad = !view_sink(pass->core, b->name, &known);
    NUMBER(index);
    NUMBER(ordinal);
    pass->seen++;
    pass->bad |= bad;
}

static void count_sink(void *ctx, const struct sink_view *sink)
{
    (void)sink;
    ((struct pass *)ctx)->seen++;
}

static void compare_rule(struct pass *pass, uint32_t tenant, struct slice name)
{
    struct alert_view rule = {.held_ms = 0};
    uint64_t model_ms = 0;
    bool known = view_alert_for(pass->core, tenant, name, &rule);
    pass->bad |= differs("rule", known, model_view_alert(pass->model, tenant, name, &model_ms)) ||
                 differs("rule's duration", rule.held_ms, model_ms);
}

/* S16: the rules of some names, sinks, and the wall clock of some times. */
static void compare_times(struct pass *pass)
{
    static const char *const names[] = {"a", "job", "job/1", "b/c", "zz", "client"};
    for (uint32_t i = 0; i < 2 * sizeof(names) / sizeof(names[0]); i++) {
        compare_rule(pass, i % 2, slice_of(names[i / 2]));
    }
    pass->seen = 0;
    model_view_sinks(pass->model, compare_sink, pass);
    uint64_t expected = pass->seen;
    pass->seen = 0;
    view_sinks(pass->core, count_sink, pass);
    pass->bad |= differs("number of sinks", pass->seen, expected);
    uint64_t now_ms = core_now_ms(pass->core);
    for (uint64_t back_ms = 0; back_ms <= now_ms && back_ms < 100000; back_ms = back_ms * 3 + 7) {
        pass->bad |= differs("wall clock", core_wall_ms(pass->core, now_ms - back_ms),
                             model_wall_of(pass->model, now_ms - back_ms));
    }
}

bool compare_state(const struct core *core, struct model *model)
{
    struct pass pass = {.core = core, .model = model};
    if (!compare_counts(core, model)) {
        return false;
    }
    model_view_locks(model, compare_lock, &pass);
    uint64_t visible = pass.seen;
    model_view_sessions(model, compare_session, &pass);
    compare_lists(&pass, visible);
    compare_counters(&pass);
    compare_times(&pass);
    const char *const resources[] = {"db", "db/table", "file"};
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t tenant = i / 6;
        uint32_t slot = i / 3 % 2;
        uint64_t core_mark[2] = {0, 0};
        uint64_t model_mark[2] = {0, 0};
        struct slice resource = slice_of(resources[i % 3]);
        bool known = view_fence(core, tenant, resource, slot, &core_mark[0], &core_mark[1]);
        bool expected =
            model_view_fence(model, tenant, resource, slot, &model_mark[0], &model_mark[1]);
        pass.bad |= differs("fence mark known", known, expected) ||
                    differs("floor", core_mark[1], model_mark[1]) ||
                    (known && differs("fence mark", core_mark[0], model_mark[0]));
    }
    return !pass.bad && compare_audit(core, model, 0) && compare_audit(core, model, 1) &&
           compare_usage(core, model) && compare_policy(core_policy(core), model_policy_of(model));
}
