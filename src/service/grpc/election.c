/* ElectionService, unary calls; rules: api_election.c. */
#include <holdfast/v1/election.pb-c.h>

#include "service/grpc/rpc.h"
#include "service/request/acquire.h"
#include "service/request/election.h"

static void render_campaign(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__CampaignResponse out = HOLDFAST__V1__CAMPAIGN_RESPONSE__INIT;
    Holdfast__V1__LockHandle handle;
    rpc_render_begin(x->service);
    out.elected = acquire_is_held(r);
    if (out.elected) {
        out.epoch = r->token;
        rpc_put_grant(x, r, &handle);
        out.lock_handle = &handle;
    } else {
        out.reason = rpc_reason_out(acquire_reason(r));
        out.leader = r->has_holder ? rpc_holder(x->service, &r->holder) : NULL;
        out.candidates = r->queue_length;
    }
    out.replayed = r->replayed;
    rpc_put(x, &out.base);
}

void rpc_campaign(struct api_request *x, const void *message)
{
    const Holdfast__V1__CampaignRequest *m = message;
    struct body b;
    rpc_body_init(&b);
    b.f.session_id = slice_of(m->session_id);
    b.f.client_id = slice_of(m->client_id);
    b.f.owner = slice_of(m->owner);
    b.f.trace = slice_of(m->trace);
    b.f.value = slice_of(m->value);
    b.f.cancel = m->cancel;
    b.f.request_id = slice_of(m->request_id);
    b.f.seq = m->seq;
    b.f.acked_through = m->acked_through;
    if (rpc_name(x, m->name) && rpc_duration(x, m->ttl, "ttl", LIMIT_TTL_MAX_MS, &b.f.ttl_ms) &&
        rpc_wait(x, m->wait_timeout, &b) &&
        rpc_duration(x, m->lock_delay, "lock_delay", LIMIT_DELAY_MAX_MS, &b.f.lock_delay_ms) &&
        rpc_duration(x, m->max_hold, "max_hold", BODY_MOST, &b.f.max_hold_ms) &&
        rpc_metadata(x, m->metadata, &b)) {
        election_campaign(x, &b, render_campaign);
    }
    body_close(&b);
}

static void render_proclaim(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__ProclaimResponse out = HOLDFAST__V1__PROCLAIM_RESPONSE__INIT;
    out.proclaimed = r->outcome == OUTCOME_DONE;
    out.reason = rpc_reason_out(r->reason);
    rpc_put(x, &out.base);
}

void rpc_proclaim(struct api_request *x, const void *message)
{
    const Holdfast__V1__ProclaimRequest *m = message;
    struct body b;
    rpc_body_init(&b);
    b.f.session_id = slice_of(m->session_id);
    b.f.client_id = slice_of(m->client_id);
    b.f.fencing_token = m->epoch;
    b.f.value = slice_of(m->value);
    b.f.request_id = slice_of(m->request_id);
    b.f.seq = m->seq;
    b.f.acked_through = m->acked_through;
    if (rpc_name(x, m->name)) {
        election_proclaim(x, &b, render_proclaim);
    }
}

static void render_resign(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__ResignResponse out = HOLDFAST__V1__RESIGN_RESPONSE__INIT;
    out.resigned = r->outcome == OUTCOME_DONE;
    out.reason = rpc_reason_out(r->reason);
    rpc_put(x, &out.base);
}

void rpc_resign(struct api_request *x, const void *message)
{
    const Holdfast__V1__ResignRequest *m = message;
    struct body b;
    rpc_body_init(&b);
    b.f.session_id = slice_of(m->session_id);
    b.f.client_id = slice_of(m->client_id);
    b.f.fencing_token = m->epoch;
    b.f.request_id = slice_of(m->request_id);
    b.f.seq = m->seq;
    b.f.acked_through = m->acked_through;
    if (rpc_name(x, m->name)) {
        holder_release(x, &b, x->name, render_resign);
    }
}

void rpc_leader_response(struct api_request *x, const struct lock_view *lock,
                         Holdfast__V1__LeaderResponse *out)
{
    const struct service *s = x->service;
    holdfast__v1__leader_response__init(out);
    out->name = rpc_string(s, x->name);
    out->vacant = !lock->has_holder || lock->mode != MODE_ELECTION;
    if (!out->vacant) {
        out->value = rpc_string(s, lock->first.value);
        out->leader = rpc_holder(s, &lock->first.holder);
    }
    out->candidates = lock->mode == MODE_ELECTION ? lock->queue_length : 0;
}

static void render_leader(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct lock_view lock = {.has_holder = false};
    Holdfast__V1__LeaderResponse out;
    (void)view_lock(service_core(x->service), x->caller.id.tenant, x->name, &lock);
    rpc_render_begin(x->service);
    rpc_leader_response(x, &lock, &out);
    rpc_put(x, &out.base);
}

void rpc_leader(struct api_request *x, const void *message)
{
    const Holdfast__V1__LeaderRequest *m = message;
    if (rpc_name(x, m->name)) {
        api_request_read(x, render_leader);
    }
}
