/* Questions to the state: show, list, sessions, audit, stats. They change nothing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/view.h"
#include "words.h"

/* Names collected on the way, to be reported in one fact. */
struct gathered {
    struct runner *runner;
    const char **at;
    size_t count;
    size_t capacity;
    uint32_t private_sessions;
    const char *detached;
    const char *waiting;
    const char *holders;
    uint64_t waits_since_ms; /* of the first waiter; 0: unknown */
};

static void gather(struct gathered *g, const char *text)
{
    if (g->count == g->capacity) {
        g->at = arena_grow(&g->runner->step, g->at, g->count, &g->capacity, sizeof(*g->at));
    }
    g->at[g->count++] = text;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One fact with all names in order, and how many they are. */
static void tell_gathered(struct gathered *g, struct facts *out)
{
    if (g->count > 0) {
        qsort(g->at, g->count, sizeof(*g->at), compare_texts);
    }
    const char *text = g->count == 0 ? "nothing" : "";
    for (size_t i = 0; i < g->count && g->count <= 100; i++) {
        text = arena_format(out->arena, "%s%s%s", text, i == 0 ? "" : " ", g->at[i]);
    }
    fact(out, "%s", text);
    fact(out, "count %zu", g->count);
}

/* client, or client/owner */
static const char *person(struct arena *arena, struct slice client, struct slice owner)
{
    const char *name = slice_text(arena, client);
    return owner.len == 0 ? name : arena_format(arena, "%s/%s", name, slice_text(arena, owner));
}

static void on_grant(void *ctx, const struct grant_view *v)
{
    struct gathered *g = ctx;
    struct arena *arena = &g->runner->step;
    g->holders =
        arena_format(arena, "%s %s", g->holders, person(arena, v->holder.client, v->holder.owner));
}

static void on_waiter(void *ctx, const struct waiter_view *v)
{
    struct gathered *g = ctx;
    struct arena *arena = &g->runner->step;
    const char *name = person(arena, v->client, v->owner);
    g->waiting = arena_format(arena, "%s %s", g->waiting, name);
    g->waits_since_ms = g->waits_since_ms == 0 ? v->since_wall_ms : g->waits_since_ms;
    if (v->detached) {
        g->detached = arena_format(arena, "%s %s", g->detached, name);
    }
}

static void tell_first(struct runner *p, const struct grant_view *v, struct facts *out)
{
    const struct drawn *session = cast_drawn(p, v->session);
    const struct drawn *lease = cast_drawn(p, v->lease);
    fact(out, "token %s", token_text(out->arena, v->token));
    if (session != NULL) {
        fact(out, "session %s", session->name);
    }
    if (lease != NULL) {
        fact(out, "lease %s", lease->name);
    }
    if (v->holder.metadata.len > 0) {
        fact(out, "metadata \"%s\"", slice_text(out->arena, v->holder.metadata));
    }
    if (v->holder.trace.len > 0) {
        fact(out, "trace \"%s\"", slice_text(out->arena, v->holder.trace));
    }
    if (v->value.len > 0) {
        fact(out, "value \"%s\"", slice_text(out->arena, v->value));
    }
    fact(out, "since %s", span_text(out->arena, v->holder.since_ms));
    fact(out, "shown since %s", span_text(out->arena, v->holder.since_wall_ms - WALL_MS));
    if (v->hold_until_ms != 0) {
        fact(out, "hold until %s", span_text(out->arena, v->hold_until_ms));
    }
    if (v->long_held) {
        fact(out, "long held");
    }
    fact(out, "until %s", span_text(out->arena, v->holder.deadline_ms));
    fact(out, "depth %u", v->depth);
    fact(out, "parts %u", v->parts);
    if (v->revoke_at_ms != 0) {
        fact(out, "revoked at %s", span_text(out->arena, v->revoke_at_ms));
    }
}

static void show_lock(struct runner *p, struct slice name, uint32_t tenant, struct facts *out)
{
    struct lock_view v;
    if (!view_lock(p->core, tenant, name, &v)) {
        fact(out, "nothing");
        return;
    }
    struct gathered g = {.runner = p, .detached = "", .waiting = "", .holders = ""};
    view_holders_and_waiters(p->core, tenant, name, 100, on_grant, on_waiter, &g);
    fact(out, "%s", v.has_holder ? "held" : "free");
    fact(out, "mode %s", mode_name(v.mode));
    if (v.limit != 0) {
        fact(out, "permits %u of %u", v.permits_used, v.limit);
    }
    fact(out, "holders %u", v.holders);
    fact(out, "queue %u", v.queue_length);
    if (v.has_holder) {
        fact(out, "held by%s", g.holders);
        tell_first(p, &v.first, out);
    }
    if (v.queue_length > 0) {
        fact(out, "waiting%s", g.waiting);
        if (g.waits_since_ms != 0) {
            fact(out, "first waits since %s", span_text(out->arena, g.waits_since_ms - WALL_MS));
        }
    }
    if (*g.detached != '\0') {
        fact(out, "detached%s", g.detached);
    }
    if (v.delayed_until_ms != 0) {
        fact(out, "delayed until %s", span_text(out->arena, v.delayed_until_ms));
    }
    if (v.reserved_for.len > 0) {
        fact(out, "reserved for %s", slice_text(out->arena, v.reserved_for));
    }
}

static void show_session(struct runner *p, const char *name, struct facts *out)
{
    struct session_view v;
    const struct actor_session *s = cast_session(p, name);
    if (s == NULL || !view_session(p->core, s->id, &v)) {
        fact(out, "nothing");
        return;
    }
    fact(out, "open");
    fact(out, "client %s", slice_text(out->arena, v.client));
    fact(out, "ttl %s", span_text(out->arena, v.ttl_ms));
    fact(out, "until %s", span_text(out->arena, v.deadline_ms));
    fact(out, "entries %u", v.entries);
    if (v.linger_ms != 0) {
        fact(out, "linger %s", span_text(out->arena, v.linger_ms));
    }
    if (v.metadata.len > 0) {
        fact(out, "metadata \"%s\"", slice_text(out->arena, v.metadata));
    }
}

static uint32_t take_tenant(struct words *w)
{
    return words_take(w, "tenant") ? words_number32(w, "a number") : 0;
}

static void show_fence(struct runner *p, struct words *w, struct facts *out)
{
    struct slice resource = slice_of(words_quoted(w, "a resource in quotes"));
    uint32_t slot = words_take(w, "slot") ? words_number32(w, "the slot") : 0;
    uint32_t tenant = take_tenant(w);
    uint64_t highest = 0;
    uint64_t floor = 0;
    bool known = view_fence(p->core, tenant, resource, slot, &highest, &floor);
    fact(out, "%s", known ? "known" : "nothing");
    if (known) {
        fact(out, "highest %s", token_text(out->arena, highest));
    }
    fact(out, "floor %s", token_text(out->arena, floor));
}

static void show_usage(struct runner *p, uint32_t tenant, struct facts *out)
{
    struct tenant_usage u;
    core_tenant_usage(p->core, tenant, &u);
    fact(out, "names %" PRIu64, u.names);
    fact(out, "sessions %" PRIu64, u.sessions);
    fact(out, "waiters %" PRIu64, u.waiters);
    fact(out, "bytes %" PRIu64, u.bytes);
}

static void on_lock(void *ctx, const struct lock_view *v)
{
    struct gathered *g = ctx;
    struct arena *arena = &g->runner->step;
    gather(g, arena_format(arena, "\"%s\"", slice_text(arena, v->name)));
}

static void on_session(void *ctx, const struct session_view *v)
{
    struct gathered *g = ctx;
    if (v->is_private) {
        g->private_sessions++;
    } else {
        gather(g, slice_text(&g->runner->step, v->client));
    }
}

/* Pages are unordered and may repeat; the state does not change meanwhile, so they do not here. */
static void list_locks(struct runner *p, struct slice prefix, uint32_t tenant, struct facts *out)
{
    struct gathered g = {.runner = p};
    uint64_t cursor = 0;
    uint32_t pages = 0;
    do {
        cursor = view_locks(p->core, tenant, prefix, cursor, 100, on_lock, &g);
        pages++;
    } while (cursor != VIEW_END);
    tell_gathered(&g, out);
    fact(out, "pages %u", pages);
}

static void list_sessions(struct runner *p, uint32_t tenant, struct facts *out)
{
    struct gathered g = {.runner = p};
    uint64_t cursor = 0;
    do {
        cursor = view_sessions(p->core, tenant, cursor, 100, on_session, &g);
    } while (cursor != VIEW_END);
    tell_gathered(&g, out);
    fact(out, "private %u", g.private_sessions);
}

static void tell_stats(struct runner *p, struct facts *out)
{
    struct core_stats s;
    core_stats(p->core, &s);
    fact(out, "names %" PRIu64, s.names);
    fact(out, "grants %" PRIu64, s.grants);
    fact(out, "waiters %" PRIu64, s.waiters);
    fact(out, "sessions %" PRIu64, s.sessions);
    fact(out, "fence marks %" PRIu64, s.fence_marks);
    fact(out, "fence rejections %" PRIu64, s.fence_rejections);
    fact(out, "audit records %" PRIu64, s.audit_records);
    fact(out, "counters %" PRIu64, s.counters);
    fact(out, "long held %" PRIu64, s.long_held);
    fact(out, "rules %" PRIu64, s.alerts);
    fact(out, "counter %" PRIu64, core_counter(p->core));
    fact(out, "epoch %" PRIu64, core_epoch(p->core));
    fact(out, "version %u", core_version(p->core));
}

static void tell_next_due(struct runner *p, struct facts *out)
{
    uint64_t due = core_next_due_ms(p->core);
    if (due == UINT64_MAX) {
        fact(out, "never");
    } else if (due <= core_now_ms(p->core)) {
        fact(out, "now");
    } else {
        fact(out, "at %s", span_text(out->arena, due));
    }
}

bool look(struct runner *p, struct words *w, struct facts *out)
{
    if (look_at_key(p, w, out) || look_at_times(p, w, out)) {
        /* It is a fact. */
    } else if (words_take(w, "show session")) {
        show_session(p, words_plain(w, "the name of a session"), out);
    } else if (words_take(w, "show fence")) {
        show_fence(p, w, out);
    } else if (words_take(w, "usage")) {
        show_usage(p, take_tenant(w), out);
    } else if (words_take(w, "show")) {
        struct slice name = slice_of(words_quoted(w, "the name of a lock in quotes"));
        show_lock(p, name, take_tenant(w), out);
    } else if (words_take(w, "list")) {
        struct slice prefix = slice_of(words_next_is_quoted(w) ? words_quoted(w, "") : "");
        list_locks(p, prefix, take_tenant(w), out);
    } else if (words_take(w, "sessions")) {
        list_sessions(p, take_tenant(w), out);
    } else if (words_take(w, "stats")) {
        tell_stats(p, out);
    } else if (words_take(w, "next due")) {
        tell_next_due(p, out);
    } else {
        return false;
    }
    words_finish(w);
    return true;
}

/* The audit trail. */

struct trail {
    struct runner *runner;
    struct facts *records;
    size_t count;
    size_t capacity;
};

static void on_record(void *ctx, const struct audit_view *v)
{
    struct trail *t = ctx;
    struct arena *arena = &t->runner->step;
    if (t->count == t->capacity) {
        t->records = arena_grow(arena, t->records, t->count, &t->capacity, sizeof(*t->records));
    }
    struct facts *out = &t->records[t->count++];
    facts_init(out, arena);
    fact(out, "%s \"%s\"", slice_text(arena, v->action), slice_text(arena, v->resource));
    fact(out, "by %s", slice_text(arena, v->actor));
    fact(out, "because \"%s\"", slice_text(arena, v->reason));
    fact(out, "holders %u", v->count);
    if (v->trace.len > 0) {
        fact(out, "trace \"%s\"", slice_text(arena, v->trace));
    }
    fact(out, "shown at %s", span_text(out->arena, v->wall_ms - WALL_MS));
    if (v->is_fence_reset) {
        fact(out, "slot %u", v->slot);
        fact(out, "mark %s to %s", token_text(out->arena, v->mark_before),
             token_text(out->arena, v->mark_after));
    }
    fact(out, "number %" PRIu64, v->number);
    fact(out, "index %" PRIu64, v->index);
}

struct facts *look_at_audit(struct runner *p, uint32_t tenant, size_t *count)
{
    struct trail trail = {.runner = p};
    view_audit(p->core, tenant, 0, LIMIT_AUDIT, on_record, &trail);
    *count = trail.count;
    return trail.records;
}
