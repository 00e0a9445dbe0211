/* LockService, the unary calls. */
#include "service/grpc/rpc.h"
#include "service/request/acquire.h"

void rpc_put_grant(struct api_request *x, const struct result *r, Holdfast__V1__LockHandle *out)
{
    const struct service *s = x->service;
    holdfast__v1__lock_handle__init(out);
    out->resource_id = rpc_string(s, x->name);
    out->fence_token = r->token;
    out->expires_at = rpc_when(s, r->deadline_ms);
    out->expires_in = rpc_left(s, r->deadline_ms);
    out->lease_id = rpc_id(s, r->lease);
    out->tier = rpc_tier_out(tier_of_token(r->token));
    out->mode = rpc_mode_out(r->mode);
    out->slot = r->slot;
    out->depth = r->depth;
    out->hold_until = rpc_when(s, r->hold_until_ms);
    out->waited = r->waited_ms == 0 ? NULL : rpc_ms(s, r->waited_ms);
}

/* x->kept: the other names of a multi-lock, each with NUL. */
static void put_names(struct api_request *x, Holdfast__V1__LockHandle *out)
{
    struct slice all = buffer_bytes(&x->kept);
    if (all.len == 0) {
        return;
    }
    size_t count = 0;
    for (size_t i = 0; i < all.len; i++) {
        count += all.data[i] == 0;
    }
    out->resource_ids = rpc_alloc(x->service, count * sizeof(char *));
    for (size_t at = 0; at < all.len; at += strlen((const char *)all.data + at) + 1) {
        out->resource_ids[out->n_resource_ids++] = (char *)(uintptr_t)(all.data + at);
    }
}

static void put_refusal(struct api_request *x, const struct result *r,
                        Holdfast__V1__LockResponse *out)
{
    const struct service *s = x->service;
    out->reason = rpc_reason_out(acquire_reason(r));
    out->holder = r->has_holder ? rpc_holder(s, &r->holder) : NULL;
    out->queue_length = r->queue_length;
    out->delayed_until = rpc_when(s, r->delayed_until_ms);
    out->reserved_for = rpc_string(s, r->reserved_for);
    out->name = rpc_string(s, r->name);
    if (r->cycle_length == 0) {
        return;
    }
    out->cycle = rpc_alloc(s, r->cycle_length * sizeof(*out->cycle));
    for (uint32_t i = 0; i < r->cycle_length; i++) {
        Holdfast__V1__CycleStep *step = rpc_alloc(s, sizeof(*step));
        holdfast__v1__cycle_step__init(step);
        step->client_id = rpc_string(s, r->cycle[i].client);
        step->owner = rpc_string(s, r->cycle[i].owner);
        step->waits_for = rpc_string(s, r->cycle[i].name);
        out->cycle[out->n_cycle++] = step;
    }
}

static void render_lock(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__LockResponse out = HOLDFAST__V1__LOCK_RESPONSE__INIT;
    Holdfast__V1__LockHandle handle;
    rpc_render_begin(x->service);
    out.acquired = acquire_is_held(r);
    if (out.acquired) {
        rpc_put_grant(x, r, &handle);
        put_names(x, &handle);
        out.lock_handle = &handle;
    } else {
        put_refusal(x, r, &out);
    }
    out.replayed = r->replayed;
    out.deadlock_unchecked = r->deadlock_unchecked;
    out.epoch = rpc_epoch(x->service);
    out.leader_epoch = out.epoch;
    rpc_put(x, &out.base);
}

void rpc_lock(struct api_request *x, const void *message)
{
    const Holdfast__V1__LockRequest *m = message;
    struct body b;
    struct command c;
    bool keeps_place = false;
    rpc_body_init(&b);
    b.f.session_id = slice_of(m->session_id);
    b.f.client_id = slice_of(m->client_id);
    b.f.owner = slice_of(m->owner);
    b.f.trace = slice_of(m->trace);
    b.f.mode = rpc_mode(m->mode);
    b.f.tier = rpc_tier(m->tier);
    b.f.limit = m->limit;
    b.f.permits = m->permits;
    b.f.reentrant = m->reentrant;
    b.f.detect_deadlock = m->detect_deadlock;
    b.f.cancel = m->cancel;
    b.f.request_id = slice_of(m->request_id);
    b.f.seq = m->seq;
    b.f.acked_through = m->acked_through;
    if (rpc_name(x, m->resource_id) &&
        rpc_duration(x, m->ttl, "ttl", LIMIT_TTL_MAX_MS, &b.f.ttl_ms) &&
        rpc_wait(x, m->wait_timeout, &b) &&
        rpc_duration(x, m->lock_delay, "lock_delay", LIMIT_DELAY_MAX_MS, &b.f.lock_delay_ms) &&
        rpc_duration(x, m->max_hold, "max_hold", BODY_MOST, &b.f.max_hold_ms) &&
        rpc_metadata(x, m->metadata, &b) && acquire_read(x, &b, &c, &keeps_place)) {
        c.acquire.names.count = 1;
        c.acquire.names.at[0] = x->name;
        acquire_submit(x, &b, &c, keeps_place, render_lock);
    }
    body_close(&b);
}

static bool read_names(struct api_request *x, const Holdfast__V1__MultiLockRequest *m,
                       struct names *out)
{
    if (m->n_resource_ids == 0 || m->n_resource_ids > LIMIT_MULTILOCK_NAMES) {
        api_request_fail(x, HF_FIELD_RANGE, "resource_ids: must be 1 to 64 names");
        return false;
    }
    buffer_close(&x->kept);
    buffer_init(&x->kept, x->service->memory, LIMIT_MULTILOCK_NAMES * (LIMIT_NAME + 1));
    for (size_t i = 0; i < m->n_resource_ids; i++) {
        struct slice name = slice_of(m->resource_ids[i]);
        out->at[i] = name;
        if (name.len > LIMIT_NAME || !buffer_append(&x->kept, m->resource_ids[i], name.len + 1)) {
            api_request_fail(x, HF_INVALID_NAME, NULL);
            return false;
        }
    }
    out->count = (uint32_t)m->n_resource_ids;
    return true;
}

void rpc_multilock(struct api_request *x, const void *message)
{
    const Holdfast__V1__MultiLockRequest *m = message;
    struct body b;
    struct command c;
    struct names names;
    bool keeps_place = false;
    rpc_body_init(&b);
    b.f.session_id = slice_of(m->session_id);
    b.f.client_id = slice_of(m->client_id);
    b.f.owner = slice_of(m->owner);
    b.f.trace = slice_of(m->trace);
    b.f.tier = rpc_tier(m->tier);
    b.f.detect_deadlock = m->detect_deadlock;
    b.f.cancel = m->cancel;
    b.f.request_id = slice_of(m->request_id);
    b.f.seq = m->seq;
    b.f.acked_through = m->acked_through;
    if (read_names(x, m, &names) && rpc_name(x, m->resource_ids[0]) &&
        rpc_duration(x, m->ttl, "ttl", LIMIT_TTL_MAX_MS, &b.f.ttl_ms) &&
        rpc_wait(x, m->wait_timeout, &b) &&
        rpc_duration(x, m->lock_delay, "lock_delay", LIMIT_DELAY_MAX_MS, &b.f.lock_delay_ms) &&
        rpc_duration(x, m->max_hold, "max_hold", BODY_MOST, &b.f.max_hold_ms) &&
        rpc_metadata(x, m->metadata, &b) && acquire_read(x, &b, &c, &keeps_place)) {
        c.acquire.names = names;
        acquire_submit(x, &b, &c, keeps_place, render_lock);
    }
    body_close(&b);
}

static void render_unlock(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__UnlockResponse out = HOLDFAST__V1__UNLOCK_RESPONSE__INIT;
    out.released = r->outcome == OUTCOME_DONE;
    out.reason = rpc_reason_out(r->reason);
    rpc_put(x, &out.base);
}

void rpc_unlock(struct api_request *x, const void *message)
{
    const Holdfast__V1__UnlockRequest *m = message;
    struct body b;
    rpc_body_init(&b);
    b.f.session_id = slice_of(m->session_id);
    b.f.client_id = slice_of(m->client_id);
    b.f.lease_id = slice_of(m->lease_id);
    b.f.fencing_token = m->fence_token;
    b.f.request_id = slice_of(m->request_id);
    b.f.seq = m->seq;
    b.f.acked_through = m->acked_through;
    holder_release(x, &b, slice_of(m->resource_id), render_unlock);
}

static void render_renew(struct api_request *x, const struct result *r, struct json_writer *w)
{
    const struct service *s = x->service;
    Holdfast__V1__RenewResponse out = HOLDFAST__V1__RENEW_RESPONSE__INIT;
    rpc_render_begin(x->service);
    out.renewed = r->outcome == OUTCOME_DONE;
    out.reason = rpc_reason_out(r->reason);
    if (out.renewed) {
        out.expires_at = rpc_when(s, r->deadline_ms);
        out.expires_in = rpc_left(s, r->deadline_ms);
    }
    if (r->ended != ENDED_NOT) {
        out.ended = (char *)(uintptr_t)ended_name(r->ended);
    }
    out.epoch = rpc_epoch(x->service);
    out.leader_epoch = out.epoch;
    rpc_put(x, &out.base);
}

void rpc_renew(struct api_request *x, const void *message)
{
    const Holdfast__V1__RenewRequest *m = message;
    struct body b;
    rpc_body_init(&b);
    b.f.session_id = slice_of(m->session_id);
    b.f.client_id = slice_of(m->client_id);
    b.f.lease_id = slice_of(m->lease_id);
    b.f.fencing_token = m->fence_token;
    if (rpc_duration(x, m->ttl, "ttl", LIMIT_TTL_MAX_MS, &b.f.ttl_ms)) {
        holder_renew(x, &b, slice_of(m->resource_id), render_renew);
    }
}

static void render_check(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__CheckFenceResponse out = HOLDFAST__V1__CHECK_FENCE_RESPONSE__INIT;
    out.accepted = r->accepted;
    out.highest = r->highest;
    out.reason = rpc_reason_out(r->reason);
    out.advisory = true; /* see api_fence.c */
    rpc_put(x, &out.base);
}

void rpc_check_fence(struct api_request *x, const void *message)
{
    const Holdfast__V1__CheckFenceRequest *m = message;
    struct body b;
    rpc_body_init(&b);
    b.f.resource = slice_of(m->resource_id);
    b.f.lock = slice_of(m->lock_id);
    b.f.fencing_token = m->fence_token;
    b.f.slot = m->slot;
    fence_check(x, &b, render_check);
}
