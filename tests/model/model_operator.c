/* Operators: force-unlock, revoke, the audit trail; and the fence check. */
#include "model_state.h"

enum {
    HOLDERS_AT_ONCE = 5000 /* that one command deals with */
};

void model_audit(struct model *m, uint32_t tenant, const char *action, struct slice resource,
                 struct slice actor, struct slice reason, struct slice trace, uint32_t count)
{
    struct model_share *share = model_share(m, tenant);
    struct audit_record *a = model_alloc(sizeof(*a));
    a->texts[0] = owned_copy(slice_of(action));
    a->texts[1] = owned_copy(resource);
    a->texts[2] = owned_copy(actor);
    a->texts[3] = owned_copy(reason);
    a->texts[4] = owned_copy(trace);
    a->view = (struct audit_view){
        .number = ++share->audit_next,
        .index = m->index,
        .wall_ms = model_wall_of(m, m->now_ms),
        .tenant = tenant,
        .action = owned_slice(&a->texts[0]),
        .resource = owned_slice(&a->texts[1]),
        .actor = owned_slice(&a->texts[2]),
        .reason = owned_slice(&a->texts[3]),
        .trace = owned_slice(&a->texts[4]),
        .count = count,
        .is_of_cluster = slice_equal(slice_of(action), slice_of("RECOVER")) ||
                         slice_equal(slice_of(action), slice_of("POLICY")) ||
                         slice_equal(slice_of(action), slice_of("PEER_REFUSED")) ||
                         slice_equal(slice_of(action), slice_of("BOOTSTRAP")) ||
                         slice_equal(slice_of(action), slice_of("RESCUE")) ||
                         slice_starts_with(slice_of(action), slice_of("MEMBER_")) ||
                         slice_equal(slice_of(action), slice_of("TRANSFER")) ||
                         slice_equal(slice_of(action), slice_of("SETTING")),
    };
    model_list_add(&share->audit, a);
    /* By number: the upgrade to version 6 takes records of other tenants out of the middle. */
    while (((struct audit_record *)share->audit.at[0])->view.number + LIMIT_AUDIT <=
           share->audit_next) {
        struct audit_record *oldest = share->audit.at[0];
        for (size_t i = 0; i < MODEL_AUDIT_TEXTS; i++) {
            owned_free(&oldest->texts[i]);
        }
        free(oldest);
        model_list_remove_at(&share->audit, 0);
    }
}

/* Of the first holder. */
static struct slice holder_trace(struct model *m, const struct model_name *name)
{
    if (name->holders.count == 0) {
        return slice_make(NULL, 0);
    }
    const struct model_grant *first = name->holders.at[0];
    return model_keep(m, owned_slice(&first->r.trace));
}

/* An error that is remembered, since version 3. */
static void nobody_holds(struct model *m, const struct command *c, struct result *out)
{
    out->error = HF_NOT_HELD;
    if (m->version >= 3) {
        model_remember(m, c, NULL, out, NULL);
    }
}

/* Whether one of the holders has the token; `only`: that one. */
static bool holds(const struct model_name *name, uint64_t token, struct model_grant **only)
{
    for (size_t i = 0; name != NULL && i < name->holders.count; i++) {
        struct model_grant *g = name->holders.at[i];
        if (g->token == token) {
            *only = g;
            return true;
        }
    }
    return false;
}

void model_force_unlock(struct model *m, const struct command *c, struct result *out)
{
    const struct command_force_unlock *f = &c->force_unlock;
    if (model_once(m, c, NULL, out)) {
        return;
    }
    struct model_name *name = model_find_name(m, c->tenant, f->name);
    if (name != NULL) {
        model_prune_name(m, name);
    }
    struct model_grant *only = NULL;
    if (f->if_token != 0 && !holds(name, f->if_token, &only)) {
        out->error = HF_TOKEN_MISMATCH;
        return;
    }
    bool delayed = name != NULL && name->delayed_until_ms > m->now_ms;
    if (name == NULL || (name->holders.count == 0 && !(f->now != 0 && delayed))) {
        nobody_holds(m, c, out);
        return;
    }
    struct slice actor = model_actor(m, c, f->actor);
    struct end end = {.ended = ENDED_FORCED,
                      .clean = false,
                      .delay_from_ms = m->now_ms,
                      .actor = actor,
                      .text = f->reason};
    struct slice trace = holder_trace(m, name);
    while (name->holders.count > 0 && out->count < HOLDERS_AT_ONCE) {
        struct model_grant *g = only != NULL ? only : name->holders.at[0];
        if (f->now != 0) {
            g->r.delay_ms = 0; /* with `now` no delay follows */
        }
        model_end_grant(m, g, &end);
        out->count++;
        if (only != NULL) {
            break;
        }
    }
    out->more = only == NULL && name->holders.count > 0;
    if (f->now != 0 && name->delayed_until_ms > 0) {
        name->delayed_until_ms = 0;
        model_wake(m, name);
    }
    model_audit(m, c->tenant, f->now != 0 ? "FORCE_UNLOCK_NOW" : "FORCE_UNLOCK", f->name, actor,
                f->reason, trace, out->count);
    model_remember(m, c, NULL, out, NULL);
}

static void request_release(struct model *m, const struct model_grant *g,
                            const struct model_name *name, const struct command *c)
{
    uint32_t part = 0;
    while (g->r.names[part] != name) {
        part++;
    }
    struct event more;
    memset(&more, 0, sizeof(more));
    more.deadline_ms = g->revoke_at_ms;
    more.actor = model_actor(m, c, c->revoke.actor);
    more.text = c->revoke.reason;
    model_emit_grant(m, EVENT_REVOKE_REQUESTED, g, part, &more);
}

void model_revoke(struct model *m, const struct command *c, struct result *out)
{
    struct model_share *share = model_share(m, c->tenant);
    const struct command_revoke *r = &c->revoke;
    if (model_once(m, c, NULL, out)) {
        return;
    }
    struct model_name *name = model_find_name(m, c->tenant, r->name);
    if (name != NULL) {
        model_prune_name(m, name);
    }
    struct model_grant *only = NULL;
    if (r->if_token != 0 && !holds(name, r->if_token, &only)) {
        out->error = HF_TOKEN_MISMATCH;
        return;
    }
    if (name == NULL || name->holders.count == 0) {
        nobody_holds(m, c, out);
        return;
    }
    model_audit(m, c->tenant, "REVOKE", r->name, model_actor(m, c, r->actor), r->reason,
                holder_trace(m, name), 0);
    struct audit_record *record = share->audit.at[share->audit.count - 1];
    out->deadline_ms = m->now_ms + r->grace_ms;
    for (size_t i = 0; i < name->holders.count && !out->more; i++) {
        struct model_grant *g = name->holders.at[i];
        if (only != NULL && g != only) {
            continue;
        }
        if (out->count == HOLDERS_AT_ONCE) {
            out->more = true;
        } else if (g->revoke_at_ms == 0 || g->revoke_at_ms > out->deadline_ms) {
            out->count++;
            g->revoke_at_ms = out->deadline_ms;
            g->revoke_record = record->view.number;
            model_grant_reschedule(g);
            request_release(m, g, name, c);
        }
    }
    record->view.count = out->count;
    if (r->grace_ms == 0) {
        m->backlog = true; /* they are due now */
    }
    model_remember(m, c, NULL, out, NULL);
}

/* The longest TTL that anybody may still rely on, but not more than a lock-delay may be. */
static uint32_t longest_ttl(const struct model *m)
{
    uint64_t longest = 0;
    for (size_t i = 0; i < m->sessions.count; i++) {
        const struct model_session *s = m->sessions.at[i];
        longest = s->ttl_ms > longest ? s->ttl_ms : longest;
    }
    for (size_t i = 0; i < m->grants.count; i++) {
        uint64_t ttl_ms = model_grant_ttl(m->grants.at[i]);
        longest = ttl_ms > longest ? ttl_ms : longest;
    }
    return longest > LIMIT_DELAY_MAX_MS ? LIMIT_DELAY_MAX_MS : (uint32_t)longest;
}

void model_recover(struct model *m, struct slice actor, struct slice reason)
{
    uint32_t delay_ms = longest_ttl(m);
    uint32_t sessions = 0;
    for (size_t i = 0; i < m->grants.count; i++) {
        ((struct model_grant *)m->grants.at[i])->r.delay_ms = delay_ms;
    }
    while (m->sessions.count > 0) { /* in the order they came */
        model_end_session(m, m->sessions.at[0], ENDED_RECOVERED);
        sessions++;
    }
    m->counter += UINT64_C(1) << 32;
    model_audit(m, 0, "RECOVER", slice_of("*"), actor, reason, slice_make(NULL, 0), sessions);
    do {
        model_serve(m);
    } while (model_has_woken(m));
    model_drop_unused_names(m);
}

static struct mark *find_mark(const struct model *m, uint32_t tenant, struct slice resource,
                              uint32_t slot)
{
    struct model_share *share = model_share(m, tenant);
    uint64_t print = model_print(model_print(tenant, slice_make(&slot, sizeof(slot))), resource);
    for (size_t i = 0; i < share->marks.count; i++) {
        struct mark *mark = share->mark_prints[i] == print ? share->marks.at[i] : NULL;
        if (mark != NULL && mark->slot == slot && mark->tenant == tenant &&
            slice_equal(owned_slice(&mark->resource), resource)) {
            return mark;
        }
    }
    return NULL;
}

static bool mark_before(const struct mark *a, const struct mark *b)
{
    if (a->highest != b->highest) {
        return a->highest < b->highest;
    }
    if (a->tenant != b->tenant) {
        return a->tenant < b->tenant;
    }
    int order = slice_compare(owned_slice(&a->resource), owned_slice(&b->resource));
    return order != 0 ? order < 0 : a->slot < b->slot;
}

/* Any e of the tier without a log may have been given under the newest C. */
static uint64_t highest_issued(const struct model *m)
{
    return m->counter * 1024 + 1023;
}

static bool model_issued(const struct model *m, uint64_t token)
{
    return m->version < 4 || token <= highest_issued(m);
}

void model_fence_upgrade(struct model *m)
{
    struct model_share *share = &m->shares[0]; /* others have a floor since version 6 only */
    if (!model_issued(m, share->floor)) {
        share->floor = highest_issued(m);
    }
}

static void drop_lowest_mark(struct model *m, struct model_share *share)
{
    size_t lowest = 0;
    for (size_t i = 1; i < share->marks.count; i++) {
        if (mark_before(share->marks.at[i], share->marks.at[lowest])) {
            lowest = i;
        }
    }
    struct mark *mark = share->marks.at[lowest];
    uint64_t lowest_token = model_issued(m, mark->highest) ? mark->highest : highest_issued(m);
    share->floor = lowest_token > share->floor ? lowest_token : share->floor;
    memmove(&share->mark_prints[lowest], &share->mark_prints[lowest + 1],
            (share->marks.count - lowest - 1) * sizeof(*share->mark_prints));
    model_list_remove_at(&share->marks, lowest);
    owned_free(&mark->resource);
    free(mark);
}

static void check_mark(struct model *m, const struct command *c, struct result *out)
{
    const struct command_fence_check *f = &c->fence_check;
    struct model_share *share = model_share(m, c->tenant);
    struct mark *mark = find_mark(m, c->tenant, f->resource, f->slot);
    if (!model_issued(m, f->token)) {
        out->reason = REASON_NOT_ISSUED;
        out->highest = mark != NULL ? mark->highest : share->floor;
    } else if (mark == NULL && f->token <= share->floor) {
        out->reason = REASON_BELOW_FLOOR;
        out->highest = share->floor;
    } else if (mark != NULL && f->token < mark->highest) {
        out->reason = REASON_STALE_TOKEN;
        out->highest = mark->highest;
    } else {
        out->accepted = true;
        out->highest = f->token;
        if (mark == NULL) {
            mark = model_alloc(sizeof(*mark));
            mark->tenant = c->tenant;
            mark->resource = owned_copy(f->resource);
            mark->slot = f->slot;
            share->mark_prints[share->marks.count] = model_print(
                model_print(c->tenant, slice_make(&f->slot, sizeof(f->slot))), f->resource);
            model_list_add(&share->marks, mark);
        }
        mark->highest = f->token;
        if (share->marks.count > LIMIT_FENCE_MARKS) {
            drop_lowest_mark(m, share);
        }
    }
}

void model_fence_check(struct model *m, const struct command *c, struct result *out)
{
    const struct command_fence_check *f = &c->fence_check;
    if (model_once(m, c, NULL, out)) {
        return;
    }
    check_mark(m, c, out);
    if (!out->accepted) {
        out->outcome = OUTCOME_REFUSED;
        model_share(m, c->tenant)->rejections++;
        struct event event = model_event(m, EVENT_FENCE_REJECTED, c->tenant);
        event.token = f->token;
        event.slot = f->slot;
        event.name = f->resource;
        event.reason = out->reason;
        model_emit(m, &event);
    }
    model_remember(m, c, NULL, out, NULL);
}

void model_fence_reset(struct model *m, const struct command *c, struct result *out)
{
    struct model_share *share = model_share(m, c->tenant);
    const struct command_fence_reset *f = &c->fence_reset;
    if (model_once(m, c, NULL, out)) {
        return;
    }
    struct mark *mark = find_mark(m, c->tenant, f->resource, f->slot);
    if (mark == NULL) {
        out->error = HF_FENCE_NOT_FOUND;
        return;
    }
    if (!model_issued(m, f->token)) {
        out->error = HF_TOKEN_NOT_ISSUED;
        return;
    }
    uint64_t token = f->token;
    if (token == 0) {
        m->counter++;
        token = m->counter * 1024;
    }
    out->token = mark->highest;
    mark->highest = token > share->floor ? token : share->floor;
    out->highest = mark->highest;
    model_audit(m, c->tenant, "FENCE_RESET", f->resource, model_actor(m, c, f->actor), f->reason,
                slice_make(NULL, 0), 0);
    struct audit_view *record =
        &((struct audit_record *)share->audit.at[share->audit.count - 1])->view;
    record->is_fence_reset = true;
    record->slot = f->slot;
    record->mark_before = out->token;
    record->mark_after = out->highest;
    model_remember(m, c, NULL, out, NULL);
}

bool model_view_fence(struct model *m, uint32_t tenant, struct slice resource, uint32_t slot,
                      uint64_t *highest, uint64_t *floor)
{
    const struct mark *mark = find_mark(m, tenant, resource, slot);
    const struct model_share *share = model_share(m, tenant);
    *floor = share->floor;
    *highest = mark != NULL ? mark->highest : 0;
    return mark != NULL;
}

/* Denied calls of a principal share the record of the last minute. */
static void note_denied(struct model *m, const struct command *c, struct model_share *share,
                        struct slice actor)
{
    const struct command_note *n = &c->note;
    for (size_t i = share->audit.count; i > 0; i--) {
        struct audit_view *v = &((struct audit_record *)share->audit.at[i - 1])->view;
        bool is_next =
            i == share->audit.count
                ? v->number == share->audit_next
                : v->number + 1 == ((struct audit_record *)share->audit.at[i])->view.number;
        if (!is_next || v->wall_ms + LIMIT_DENIED_MS <= model_wall_of(m, m->now_ms)) {
            break;
        }
        if (slice_equal(v->action, slice_of("DENIED")) && slice_equal(v->actor, actor)) {
            v->count = n->count < UINT32_MAX - v->count ? v->count + n->count : UINT32_MAX;
            return;
        }
    }
    model_audit(m, c->tenant, "DENIED", n->name, actor, n->reason, slice_make(NULL, 0), n->count);
}

void model_note(struct model *m, const struct command *c, struct result *out)
{
    struct model_share *share = model_share(m, c->tenant);
    static const char *const actions[] = {"FORCE_UNLOCK", "FORCE_UNLOCK_NOW", "REVOKE",
                                          "REVOKE_TAKEN"};
    const struct command_note *n = &c->note;
    struct slice actor = model_actor(m, c, n->actor);
    if (n->action == NOTE_DENIED && m->version >= 6) {
        note_denied(m, c, share, actor);
        out->count = n->count;
        return;
    }
    const char *action = n->action <= 3 ? actions[n->action] : NULL;
    bool is_refusal = false; /* ... or another note about the cluster */
    if (m->version >= 6 && n->action == NOTE_PEER_REFUSED) {
        action = "PEER_REFUSED";
        is_refusal = true;
    } else if (m->version >= 7 && n->action >= NOTE_MEMBER_ADD && n->action <= NOTE_SETTING) {
        static const char *const later[] = {"MEMBER_ADD",    "MEMBER_PROMOTE", "MEMBER_DEMOTE",
                                            "MEMBER_REMOVE", "TRANSFER",       "SETTING"};
        action = later[n->action - NOTE_MEMBER_ADD];
        is_refusal = true;
    }
    if (action == NULL) {
        out->error = HF_MALFORMED;
        return;
    }
    model_audit(m, c->tenant, action, n->name, actor, n->reason, n->trace, n->count);
    ((struct audit_record *)share->audit.at[share->audit.count - 1])->view.is_note =
        m->version >= 3 && !is_refusal;
    out->count = n->count;
}
