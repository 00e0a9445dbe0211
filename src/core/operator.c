/* Operator commands on locks: force-unlock, revocation with a deadline, audit. The audit trail is
 * replicated, bounded and in every snapshot. */
#include "base/codec.h"
#include "core/state.h"
#include "core/view.h"

/* Holders per command; the answer reports the rest (S2.1). */
#define HOLDERS_AT_ONCE 5000

_Static_assert((int)AUDIT_DENIED == (int)NOTE_DENIED &&
                   (int)AUDIT_PEER_REFUSED == (int)NOTE_PEER_REFUSED &&
                   (int)AUDIT_MEMBER_ADD == (int)NOTE_MEMBER_ADD &&
                   (int)AUDIT_MEMBER_REMOVE == (int)NOTE_MEMBER_REMOVE &&
                   (int)AUDIT_TRANSFER == (int)NOTE_TRANSFER &&
                   (int)AUDIT_SETTING == (int)NOTE_SETTING,
               "the numbers are part of logs and snapshots");

const char *audit_action_name(enum audit_action action)
{
    static const char *const names[AUDIT_COUNT] = {
        "FORCE_UNLOCK", "FORCE_UNLOCK_NOW", "REVOKE",         "REVOKE_TAKEN",  "RECOVER",
        "FENCE_RESET",  "POLICY",           "BOOTSTRAP",      "RESCUE",        "DENIED",
        "PEER_REFUSED", "MEMBER_ADD",       "MEMBER_PROMOTE", "MEMBER_DEMOTE", "MEMBER_REMOVE",
        "TRANSFER",     "SETTING",          "ALERT_SET",      "ALERT_REMOVE"};
    hf_assert((unsigned)action < AUDIT_COUNT);
    return names[action];
}

const char *view_audit_action(unsigned number)
{
    return number < AUDIT_COUNT ? audit_action_name((enum audit_action)number) : NULL;
}

bool view_is_audit_action(struct slice action)
{
    const char *name;
    for (unsigned i = 0; (name = view_audit_action(i)) != NULL; i++) {
        if (slice_equal(action, slice_of(name))) {
            return true;
        }
    }
    return false;
}

struct slice audit_text(const struct audit_record *a, enum audit_text which)
{
    size_t before = 0;
    for (unsigned i = 0; i < (unsigned)which; i++) {
        before += a->text_len[i];
    }
    return slice_make(a->text + before, a->text_len[which]);
}

size_t audit_size(const struct audit_record *a)
{
    size_t size = sizeof(*a);
    for (unsigned i = 0; i < AUDIT_TEXTS; i++) {
        size += a->text_len[i];
    }
    return size;
}

ref audit_record_new(struct core *c, const struct slice text[AUDIT_TEXTS])
{
    hf_assert(text[AUDIT_RESOURCE].len <= LIMIT_NAME && text[AUDIT_ACTOR].len <= LIMIT_ACTOR);
    hf_assert(text[AUDIT_REASON].len <= LIMIT_REASON && text[AUDIT_TRACE].len <= LIMIT_TRACE);
    ref obj = 0;
    size_t size = sizeof(struct audit_record);
    for (unsigned i = 0; i < AUDIT_TEXTS; i++) {
        size += text[i].len;
    }
    struct audit_record *a = pool_alloc(&c->pool, size, &obj);
    struct writer w = writer_make(a->text, size - sizeof(*a));
    for (unsigned i = 0; i < AUDIT_TEXTS; i++) {
        a->text_len[i] = (uint16_t)text[i].len;
        write_bytes(&w, text[i].data, text[i].len);
    }
    hf_assert(!w.full);
    return obj;
}

uint64_t audit_add(struct core *c, const struct audit_entry *entry)
{
    struct tenant *t = tenant_get(c, tenant_of_audit(c, entry->tenant));
    hf_assert((unsigned)entry->action < AUDIT_COUNT && t->audit_number < LIMIT_NUMBER);
    ref obj = audit_record_new(c, entry->text);
    struct audit_record *a = audit_record_at(c, obj);
    a->tenant = entry->tenant;
    a->count = entry->count;
    a->number = ++t->audit_number;
    a->index = c->index;
    a->wall_ms = core_wall_ms(c, c->now_ms);
    a->action = (uint8_t)entry->action;
    audit_append(c, t, obj);
    c->audits++;
    core_step(c, 1);
    return t->audit_number;
}

/* Its number gives the place in the array. */
const struct audit_record *audit_find(const struct core *c, uint32_t tenant, uint64_t number)
{
    const struct tenant *t = tenant_look(c, tenant_of_audit(c, tenant));
    ref obj = t->audit_at == NULL ? 0 : t->audit_at[number % LIMIT_AUDIT];
    if (obj == 0 || audit_record_at(c, obj)->number != number) {
        return NULL;
    }
    return audit_record_at(c, obj);
}

struct audit_record *audit_newest(struct core *c, uint32_t tenant)
{
    const struct tenant *t = tenant_look(c, tenant_of_audit(c, tenant));
    struct audit_record *a = audit_record_at(c, t->audit);
    hf_assert(a->number == t->audit_number);
    return a;
}

void audit_append(struct core *c, struct tenant *t, ref obj)
{
    const struct audit_record *a = audit_record_at(c, obj);
    if (t->audit_at == NULL) {
        t->audit_at = memory_alloc(c->memory, sizeof(ref) * LIMIT_AUDIT);
        memset(t->audit_at, 0, sizeof(ref) * LIMIT_AUDIT);
    }
    ref oldest = t->audit_at[a->number % LIMIT_AUDIT];
    hf_assert(t->audit_count <= LIMIT_AUDIT);
    if (oldest != 0) {
        hf_assert(audit_record_at(c, oldest)->number < a->number);
        RING_REMOVE(c, &t->audit, oldest, audit_record, ring);
        c->remembered_bytes -= pool_rounded(audit_size(audit_record_at(c, oldest)));
        pool_free(&c->pool, oldest, audit_size(audit_record_at(c, oldest)));
        t->audit_count--;
    }
    c->remembered_bytes += pool_rounded(audit_size(a));
    t->audit_at[a->number % LIMIT_AUDIT] = obj;
    RING_APPEND(c, &t->audit, obj, audit_record, ring);
    t->audit_count++;
}

/* With a token only that holder. */
static uint32_t gather_holders(struct core *c, ref lock, uint64_t token, ref *out, bool *more)
{
    uint32_t count = 0;
    hf_assert(lock_at(c, lock)->holders != 0);
    if (token != 0) {
        out[0] = grant_of_lock(c, lock, token);
        hf_assert(out[0] != 0);
        return 1;
    }
    RING_EACH(c, obj, lock_at(c, lock)->holders, grant, in_lock)
    {
        if (count == HOLDERS_AT_ONCE) {
            *more = true;
            break;
        }
        core_step(c, 1);
        out[count++] = obj;
    }
    return count;
}

/* 0: no live holder. */
static ref held_lock(struct core *c, uint32_t tenant, struct slice name)
{
    ref lock = lock_find(c, tenant, name);
    if (lock != 0 && c->backlog) {
        lock_prune(c, lock);
        lock = lock_find(c, tenant, name);
    }
    return lock != 0 && lock_at(c, lock)->holders != 0 ? lock : 0;
}

/* `now` also ends a running delay. */
static bool lift_delay(struct core *c, const struct command *cmd)
{
    hf_assert(cmd->type == COMMAND_FORCE_UNLOCK);
    ref lock = lock_find(c, cmd->tenant, cmd->force_unlock.name);
    if (!cmd->force_unlock.now || lock == 0 || !lock_is_delayed(c, lock_at(c, lock))) {
        return false;
    }
    lock_delay_over(c, lock);
    return true;
}

/* `if_token` names no holder: the lock has changed since the operator looked at it. */
static bool has_other_holder(const struct core *c, ref lock, uint64_t if_token)
{
    return if_token != 0 && (lock == 0 || grant_of_lock(c, lock, if_token) == 0);
}

struct slice audit_trace(const struct core *c, ref lock, uint8_t bytes[LIMIT_TRACE])
{
    if (lock == 0) {
        return slice_make(NULL, 0);
    }
    ref first = RING_FIRST(c, lock_at(c, lock)->holders, grant, in_lock);
    return grant_trace_copy(c, grant_at(c, first), bytes);
}

static void force_unlock_new(struct core *c, const struct command *cmd, ref session,
                             struct result *out)
{
    (void)session;
    const struct command_force_unlock *f = &cmd->force_unlock;
    uint8_t principal[PRINCIPAL_TEXT];
    struct slice actor = audit_actor(c, cmd, f->actor, principal);
    ref lock = held_lock(c, cmd->tenant, f->name);
    if (has_other_holder(c, lock, f->if_token)) {
        out->error = HF_TOKEN_MISMATCH;
        return;
    }
    bool lifted = lift_delay(c, cmd);
    if (lock == 0 && !lifted) {
        out->error = HF_NOT_HELD;
        return;
    }
    hf_assert(f->actor.len > 0 && f->reason.len > 0);
    ref holders[HOLDERS_AT_ONCE];
    uint8_t bytes[LIMIT_TRACE];
    struct slice trace = audit_trace(c, lock, bytes);
    out->count = lock == 0 ? 0 : gather_holders(c, lock, f->if_token, holders, &out->more);
    for (uint32_t i = 0; i < out->count; i++) {
        grant_end(c, holders[i], ENDED_FORCED, c->now_ms, actor, f->reason, f->now);
    }
    audit_add(c, &(struct audit_entry){f->now ? AUDIT_FORCE_UNLOCK_NOW : AUDIT_FORCE_UNLOCK,
                                       cmd->tenant,
                                       out->count,
                                       {f->name, actor, f->reason, trace}});
}

void apply_force_unlock(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_FORCE_UNLOCK);
    request_once(c, cmd, 0, force_unlock_new, out);
}

/* Sets the time of release of one grant; false: an earlier one is set. */
static bool revoke_request(struct core *c, const struct command_revoke *r, ref grant,
                           uint64_t at_ms, uint64_t record)
{
    hf_assert(at_ms >= c->now_ms && record != 0);
    struct detail *d = grant_detail_make(c, grant_first_part(c, grant));
    if (d->revoke_at_ms != 0 && d->revoke_at_ms <= at_ms) {
        return false;
    }
    d->revoke_at_ms = at_ms;
    d->revoke_record = record;
    grant_reschedule(c, grant);
    struct event e = {.type = EVENT_REVOKE_REQUESTED};
    event_about_grant(c, grant_at(c, grant), &e);
    e.trace = grant_trace(c, grant_at(c, grant));
    event_set_part(c, grant, &e);
    e.deadline_ms = at_ms;
    e.actor = r->actor;
    e.text = r->reason;
    event_emit(c, &e);
    return true;
}

static void revoke_all(struct core *c, const struct command_revoke *r, ref lock, uint64_t at_ms,
                       uint64_t record, struct result *out)
{
    hf_assert(lock_at(c, lock)->holders != 0);
    RING_EACH(c, obj, lock_at(c, lock)->holders, grant, in_lock)
    {
        if (out->count == HOLDERS_AT_ONCE) {
            out->more = true;
            break;
        }
        core_step(c, 1);
        out->count += revoke_request(c, r, obj, at_ms, record);
    }
}

static void revoke_new(struct core *c, const struct command *cmd, ref session, struct result *out)
{
    (void)session;
    uint8_t principal[PRINCIPAL_TEXT];
    struct command_revoke r = cmd->revoke;
    r.actor = audit_actor(c, cmd, r.actor, principal);
    ref lock = held_lock(c, cmd->tenant, r.name);
    if (has_other_holder(c, lock, r.if_token)) {
        out->error = HF_TOKEN_MISMATCH;
        return;
    }
    if (lock == 0) {
        out->error = HF_NOT_HELD;
        return;
    }
    uint8_t bytes[LIMIT_TRACE];
    struct slice trace = audit_trace(c, lock, bytes);
    uint64_t at_ms = c->now_ms + r.grace_ms;
    uint64_t record = audit_add(
        c, &(struct audit_entry){AUDIT_REVOKE, cmd->tenant, 0, {r.name, r.actor, r.reason, trace}});
    if (r.if_token != 0) {
        core_step(c, 1);
        out->count += revoke_request(c, &r, grant_of_lock(c, lock, r.if_token), at_ms, record);
    } else {
        revoke_all(c, &r, lock, at_ms, record, out);
    }
    audit_newest(c, cmd->tenant)->count = out->count;
    if (r.grace_ms == 0) {
        /* Due now: the following commands treat them as dead (S1.7). */
        c->backlog = true;
    }
    out->deadline_ms = at_ms;
}

void apply_revoke(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_REVOKE);
    request_once(c, cmd, 0, revoke_new, out);
}

/* Revoked holders of one name in one entry share a record. */
static bool audit_add_to_newest(struct core *c, const struct audit_entry *entry)
{
    const struct tenant *t = tenant_look(c, tenant_of_audit(c, entry->tenant));
    if (t->audit == 0) {
        return false;
    }
    struct audit_record *a = audit_record_at(c, t->audit);
    if (a->action != entry->action || a->is_note || a->index != c->index ||
        a->tenant != entry->tenant) {
        return false;
    }
    for (unsigned i = 0; i <= AUDIT_REASON; i++) {
        if (!slice_equal(audit_text(a, (enum audit_text)i), entry->text[i])) {
            return false;
        }
    }
    a->count++;
    return true;
}

/* The grant is held past its deadline. */
void revoke_take(struct core *c, ref grant)
{
    ref first = grant_first_part(c, grant);
    const struct grant *g = grant_at(c, first);
    const struct detail *d = grant_detail(c, g);
    hf_assert(d != NULL && d->revoke_at_ms != 0 && d->revoke_at_ms <= c->now_ms);
    uint32_t tenant = session_at(c, g->session)->tenant;
    const struct audit_record *requested = audit_find(c, tenant, d->revoke_record);
    uint8_t actor_bytes[LIMIT_ACTOR];
    uint8_t reason_bytes[LIMIT_REASON];
    uint8_t name_bytes[LIMIT_NAME];
    struct slice actor =
        requested == NULL ? slice_of("unknown") : audit_text(requested, AUDIT_ACTOR);
    struct slice reason =
        requested == NULL ? slice_of("unknown") : audit_text(requested, AUDIT_REASON);
    uint8_t trace_bytes[LIMIT_TRACE];
    struct slice trace = grant_trace_copy(c, g, trace_bytes);
    struct slice name =
        requested == NULL ? lock_name(lock_at(c, g->lock)) : audit_text(requested, AUDIT_RESOURCE);
    hf_assert(actor.len <= LIMIT_ACTOR && reason.len <= LIMIT_REASON && name.len <= LIMIT_NAME);
    memcpy(actor_bytes, actor.data, actor.len);
    memcpy(reason_bytes, reason.data, reason.len);
    memcpy(name_bytes, name.data, name.len);
    actor.data = actor_bytes;
    reason.data = reason_bytes;
    name.data = name_bytes;
    grant_end(c, first, ENDED_REVOKED, c->now_ms, actor, reason, false);
    struct audit_entry entry = {AUDIT_REVOKE_TAKEN, tenant, 1, {name, actor, reason, trace}};
    if (!audit_add_to_newest(c, &entry)) {
        audit_add(c, &entry);
    }
}

/* The record of denied calls of this actor that is younger than a minute; NULL: none. */
static struct audit_record *recent_denial(struct core *c, uint32_t tenant, struct slice actor)
{
    const struct tenant *t = tenant_look(c, tenant_of_audit(c, tenant));
    uint64_t now_ms = core_wall_ms(c, c->now_ms);
    for (uint64_t number = t->audit_number; number > 0; number--) {
        ref obj = t->audit_at == NULL ? 0 : t->audit_at[number % LIMIT_AUDIT];
        struct audit_record *a = obj == 0 ? NULL : audit_record_at(c, obj);
        if (a == NULL || a->number != number || a->wall_ms + LIMIT_DENIED_MS <= now_ms) {
            return NULL;
        }
        core_step(c, 1);
        if (a->action == AUDIT_DENIED && slice_equal(audit_text(a, AUDIT_ACTOR), actor)) {
            return a;
        }
    }
    return NULL;
}

/* Every node notes what it denied: one record a principal and minute counts all of it. */
static void note_denied(struct core *c, const struct command *cmd, struct slice actor)
{
    const struct command_note *n = &cmd->note;
    struct audit_record *a = recent_denial(c, cmd->tenant, actor);
    if (a != NULL) {
        a->count = n->count < UINT32_MAX - a->count ? a->count + n->count : UINT32_MAX;
        return;
    }
    audit_add(
        c, &(struct audit_entry){AUDIT_DENIED, cmd->tenant, n->count, {n->name, actor, n->reason}});
}

/* An action in the tier without a log, denied calls, or refused nodes, for the common audit trail. */
void apply_note(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_NOTE);
    const struct command_note *n = &cmd->note;
    uint8_t principal[PRINCIPAL_TEXT];
    struct slice actor = audit_actor(c, cmd, n->actor, principal);
    if (n->action == AUDIT_DENIED && c->version >= TENANT_VERSION) {
        note_denied(c, cmd, actor);
        out->count = n->count;
        return;
    }
    bool is_refusal = n->action == AUDIT_PEER_REFUSED && c->version >= TENANT_VERSION;
    bool is_of_cluster = is_refusal || (n->action >= AUDIT_MEMBER_ADD &&
                                        n->action <= AUDIT_SETTING && c->version >= 7);
    if (n->action >= AUDIT_RECOVER && !is_of_cluster) {
        out->error = HF_MALFORMED;
        return;
    }
    audit_add(c, &(struct audit_entry){(enum audit_action)n->action,
                                       cmd->tenant,
                                       n->count,
                                       {n->name, actor, n->reason, n->trace}});
    audit_newest(c, cmd->tenant)->is_note = c->version >= 3 && !is_of_cluster;
    out->count = n->count;
}
