/* The rules of command_check: lengths, text, ranges. */
#include "base/panic.h"
#include "base/text.h"
#include "core/policy.h"

static bool plain_between(struct slice text, size_t min, size_t max)
{
    hf_assert(min <= max);
    return text.len >= min && text.len <= max && text_is_plain(text);
}

static bool ttl_ok(uint64_t ttl_ms)
{
    return ttl_ms >= LIMIT_TTL_MIN_MS && ttl_ms <= LIMIT_TTL_MAX_MS;
}

static enum hf_error check_mode(const struct command_acquire *a)
{
    if (a->mode >= MODE_COUNT || (a->names.count > 1 && a->mode != MODE_EXCLUSIVE)) {
        return HF_INVALID_MODE;
    }
    if (a->mode == MODE_SEMAPHORE) {
        return a->limit >= 1 && a->limit <= LIMIT_HOLDERS && a->permits >= 1 ? HF_OK
                                                                             : HF_INVALID_LIMIT;
    }
    return a->limit == 0 && a->permits == 0 ? HF_OK : HF_INVALID_LIMIT;
}

enum hf_error carried_check(const struct carried *carried, enum mode mode, bool is_key)
{
    if (carried->metadata.len > LIMIT_METADATA || !text_is_utf8(carried->metadata) ||
        carried->value.len > (is_key ? LIMIT_KEY_VALUE : LIMIT_VALUE)) {
        return HF_INVALID_METADATA;
    }
    if (carried->trace.len > 0 && !text_is_traceparent(carried->trace)) {
        return HF_INVALID_TRACE;
    }
    if (is_key) {
        return HF_OK; /* any bytes (S13.1) */
    }
    bool may_have_value = carried->value.len == 0 || mode == MODE_ELECTION;
    return may_have_value && text_is_utf8(carried->value) ? HF_OK : HF_INVALID_METADATA;
}

/* Most acquires have none of these fields and need no further check. */
static bool has_carried(const struct command_acquire *a)
{
#define F(role, since, type, name, limit) || a->name.len > 0
    return false CARRIED_FIELDS(F);
#undef F
}

static enum hf_error check_carried_of(const struct command_acquire *a, bool is_key)
{
    struct carried carried = carried_by(a, CORE_VERSION);
    if (a->value.len > LIMIT_VALUE) {
        return HF_INVALID_METADATA; /* only a PUT makes a longer one */
    }
    return carried_check(&carried, (enum mode)a->mode, is_key);
}

static enum hf_error check_acquire(const struct command *c)
{
    hf_assert(c->type == COMMAND_ACQUIRE);
    const struct command_acquire *a = &c->acquire;
    if (id_is_zero(a->lease)) {
        return HF_INVALID_ID;
    }
    bool in_session = !id_is_zero(c->session);
    if (!plain_between(a->client, in_session ? 0 : 1, LIMIT_CLIENT)) {
        return HF_INVALID_CLIENT; /* the session has the client id */
    }
    if (!plain_between(a->owner, 0, LIMIT_OWNER)) {
        return HF_INVALID_OWNER;
    }
    if (a->names.count == 0 || a->names.count > LIMIT_MULTILOCK_NAMES) {
        return HF_INVALID_NAME;
    }
    for (uint32_t i = 0; i < a->names.count; i++) {
        if (!text_is_name(a->names.at[i])) {
            return HF_INVALID_NAME;
        }
    }
    enum hf_error error = check_mode(a);
    if (error != HF_OK) {
        return error;
    }
    bool is_key = (a->flags & ACQUIRE_KEY) != 0;
    if (!(in_session && a->ttl_ms == 0) &&
        !(is_key ? key_ttl_is_valid(a->ttl_ms) : ttl_ok(a->ttl_ms))) {
        return HF_INVALID_TTL;
    }
    if (a->delay_ms > LIMIT_DELAY_MAX_MS) {
        return HF_INVALID_DELAY;
    }
    if (a->max_hold_ms != 0 &&
        (a->max_hold_ms < LIMIT_TTL_MIN_MS || a->max_hold_ms > LIMIT_HELD_MAX_MS)) {
        return HF_INVALID_HOLD;
    }
    error = has_carried(a) ? check_carried_of(a, is_key) : HF_OK;
    if (error != HF_OK) {
        return error;
    }
    if (is_key && (in_session || a->mode != MODE_EXCLUSIVE || a->names.count != 1)) {
        return HF_INVALID_MODE;
    }
    return a->flags <= ACQUIRE_FLAGS ? HF_OK : HF_MALFORMED;
}

static enum hf_error check_session_open(const struct command_session_open *o)
{
    if (id_is_zero(o->id)) {
        return HF_INVALID_ID;
    }
    if (!plain_between(o->client, 1, LIMIT_CLIENT)) {
        return HF_INVALID_CLIENT;
    }
    if (!ttl_ok(o->ttl_ms)) {
        return HF_INVALID_TTL;
    }
    if (o->linger_ms > LIMIT_LINGER_MAX_MS) {
        return HF_INVALID_DELAY;
    }
    return o->metadata.len <= LIMIT_METADATA && text_is_utf8(o->metadata) ? HF_OK
                                                                          : HF_INVALID_METADATA;
}

/* How release and renew identify a grant. */
static enum hf_error check_grant(struct slice name, struct slice client, struct id lease,
                                 uint64_t token)
{
    if (name.len > 0 && !text_is_name(name)) {
        return HF_INVALID_NAME;
    }
    if (!plain_between(client, 0, LIMIT_CLIENT)) {
        return HF_INVALID_CLIENT;
    }
    if (token >= LIMIT_NUMBER || (token == 0 && id_is_zero(lease))) {
        return HF_INVALID_TOKEN;
    }
    return HF_OK;
}

static enum hf_error check_operator(struct slice name, struct slice actor, struct slice reason)
{
    if (!text_is_name(name)) {
        return HF_INVALID_NAME;
    }
    return plain_between(actor, 1, LIMIT_ACTOR) && plain_between(reason, 1, LIMIT_REASON)
               ? HF_OK
               : HF_INVALID_ACTOR;
}

static enum hf_error check_proclaim(const struct command_proclaim *p)
{
    if (!text_is_name(p->name)) {
        return HF_INVALID_NAME;
    }
    enum hf_error error = check_grant(p->name, p->client, (struct id){0, 0}, p->token);
    if (error != HF_OK) {
        return error;
    }
    return p->value.len <= LIMIT_VALUE && text_is_utf8(p->value) ? HF_OK : HF_INVALID_METADATA;
}

static enum hf_error check_fence(const struct command_fence_check *f)
{
    if (!text_is_name(f->resource)) {
        return HF_INVALID_NAME;
    }
    if (f->slot >= LIMIT_HOLDERS) {
        return HF_INVALID_LIMIT;
    }
    return f->token > 0 && f->token < LIMIT_NUMBER ? HF_OK : HF_INVALID_TOKEN;
}

static enum hf_error check_fence_reset(const struct command_fence_reset *f)
{
    if (f->slot >= LIMIT_HOLDERS) {
        return HF_INVALID_LIMIT;
    }
    if (f->token >= LIMIT_NUMBER) {
        return HF_INVALID_TOKEN;
    }
    return check_operator(f->resource, f->actor, f->reason);
}

/* A transaction has its own id and no session. */
static enum hf_error check_transact(const struct command *c)
{
    hf_assert(c->type == COMMAND_TRANSACT);
    const struct command_transact *t = &c->transact;
    if (c->request_id.len > 0) {
        return HF_INVALID_REQUEST_ID;
    }
    if (id_is_zero(t->id) || !id_is_zero(c->session)) {
        return HF_INVALID_ID;
    }
    if (!plain_between(t->client, 1, LIMIT_CLIENT)) {
        return HF_INVALID_CLIENT;
    }
    if (t->checks.count + t->effects.count == 0) {
        return HF_MALFORMED;
    }
    if (t->checks.bytes.len + t->effects.bytes.len > LIMIT_TRANSACT_BYTES) {
        return HF_TRANSACT_TOO_LARGE;
    }
    bool forced = false;
    enum hf_error error = checks_check(&t->checks);
    error = error != HF_OK ? error : effects_check(&t->effects, &forced);
    if (error != HF_OK) {
        return error;
    }
    size_t least = forced ? 1 : 0;
    return plain_between(t->actor, least, LIMIT_ACTOR) &&
                   plain_between(t->reason, least, LIMIT_REASON)
               ? HF_OK
               : HF_INVALID_ACTOR;
}

static enum hf_error check_header(const struct command *c)
{
    if (c->request_id.len > 0 && (c->seq != 0 || !text_is_request_id(c->request_id))) {
        return HF_INVALID_REQUEST_ID;
    }
    if ((c->seq != 0 || c->acked_through != 0) && id_is_zero(c->session)) {
        return HF_INVALID_REQUEST_ID;
    }
    if (c->seq >= LIMIT_NUMBER || c->acked_through >= LIMIT_NUMBER) {
        return HF_INVALID_REQUEST_ID;
    }
    return HF_OK;
}

static enum hf_error check_policy_change(const struct command_policy_change *p)
{
    if (p->origin >= POLICY_ORIGINS || p->end_sessions > 1 || p->changes.count == 0) {
        return HF_INVALID_POLICY;
    }
    if (!plain_between(p->actor, 1, LIMIT_ACTOR) || !plain_between(p->reason, 1, LIMIT_REASON)) {
        return HF_INVALID_ACTOR;
    }
    return policy_changes_check(&p->changes);
}

/* An empty prefix is of every name. */
static enum hf_error check_alert(struct slice prefix, uint64_t held_ms, struct slice actor,
                                 struct slice reason)
{
    if (!policy_prefix_is_valid(prefix) || held_ms < LIMIT_HELD_MIN_MS ||
        held_ms > LIMIT_HELD_MAX_MS) {
        return HF_INVALID_ALERT;
    }
    return plain_between(actor, 1, LIMIT_ACTOR) && plain_between(reason, 1, LIMIT_REASON)
               ? HF_OK
               : HF_INVALID_ACTOR;
}

static enum hf_error check_sink_position(const struct command_sink_position *p)
{
    if (!plain_between(p->name, 1, LIMIT_SINK_NAME)) {
        return HF_INVALID_NAME;
    }
    return p->index < LIMIT_NUMBER ? HF_OK : HF_MALFORMED;
}

static enum hf_error check_long_held(const struct command_long_held *l)
{
    if (!text_is_name(l->name)) {
        return HF_INVALID_NAME;
    }
    return l->token != 0 && l->token < LIMIT_NUMBER ? HF_OK : HF_INVALID_TOKEN;
}

static enum hf_error check_force_unlock(const struct command_force_unlock *f)
{
    return f->if_token < LIMIT_NUMBER ? check_operator(f->name, f->actor, f->reason)
                                      : HF_INVALID_TOKEN;
}

static enum hf_error check_revoke(const struct command_revoke *r)
{
    if (r->grace_ms > LIMIT_DELAY_MAX_MS) {
        return HF_INVALID_DELAY;
    }
    return r->if_token < LIMIT_NUMBER ? check_operator(r->name, r->actor, r->reason)
                                      : HF_INVALID_TOKEN;
}

static enum hf_error check_body(const struct command *c)
{
    switch (c->type) {
    case COMMAND_SESSION_OPEN:
        return check_session_open(&c->session_open);
    case COMMAND_SESSION_CLOSE:
    case COMMAND_STREAM_UP:
    case COMMAND_STREAM_THROUGH:
    case COMMAND_STREAM_DOWN:
        return id_is_zero(c->session) ? HF_INVALID_ID : HF_OK;
    case COMMAND_ACQUIRE:
        return check_acquire(c);
    case COMMAND_CANCEL:
        return id_is_zero(c->cancel.lease) ? HF_INVALID_ID : HF_OK;
    case COMMAND_DETACH:
        return id_is_zero(c->detach.lease) ? HF_INVALID_ID : HF_OK;
    case COMMAND_RELEASE:
        return check_grant(c->release.name, c->release.client, c->release.lease, c->release.token);
    case COMMAND_RENEW:
        if (c->renew.ttl_ms != 0 && !ttl_ok(c->renew.ttl_ms)) {
            return HF_INVALID_TTL;
        }
        return check_grant(c->renew.name, c->renew.client, c->renew.lease, c->renew.token);
    case COMMAND_PROCLAIM:
        return check_proclaim(&c->proclaim);
    case COMMAND_FORCE_UNLOCK:
        return check_force_unlock(&c->force_unlock);
    case COMMAND_REVOKE:
        return check_revoke(&c->revoke);
    case COMMAND_ALERT_SET:
        return check_alert(c->alert_set.prefix, c->alert_set.held_ms, c->alert_set.actor,
                           c->alert_set.reason);
    case COMMAND_ALERT_REMOVE:
        return check_alert(c->alert_remove.prefix, LIMIT_HELD_MIN_MS, c->alert_remove.actor,
                           c->alert_remove.reason);
    case COMMAND_LONG_HELD:
        return check_long_held(&c->long_held);
    case COMMAND_SINK_POSITION:
        return check_sink_position(&c->sink_position);
    case COMMAND_FENCE_CHECK:
        return check_fence(&c->fence_check);
    case COMMAND_FENCE_RESET:
        return check_fence_reset(&c->fence_reset);
    case COMMAND_NOTE:
        return c->note.trace.len > 0 && !text_is_traceparent(c->note.trace)
                   ? HF_INVALID_TRACE
                   : check_operator(c->note.name, c->note.actor, c->note.reason);
    case COMMAND_TRANSACT:
        return check_transact(c);
    case COMMAND_POLICY_CHANGE:
        return check_policy_change(&c->policy_change);
    case COMMAND_KEEPALIVE:
        return c->keepalive.sessions.count <= LIMIT_KEEPALIVE_IDS ? HF_OK : HF_MALFORMED;
    case COMMAND_LEAD:
    case COMMAND_TICK:
    case COMMAND_ADVANCE:
    case COMMAND_UPGRADE:
    case COMMAND_NODE_GONE:
        return HF_OK;
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
    return HF_MALFORMED;
}

enum hf_error command_check(const struct command *c)
{
    enum hf_error error = check_header(c);
    return error != HF_OK ? error : check_body(c);
}
