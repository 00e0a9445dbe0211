/* AdminService, without the listings (list.c). */
#include <holdfast/v1/admin.pb-c.h>

#include "service/grpc/rpc.h"
#include "service/request/operator.h"

enum { MEMBERS_MAX = 64 };

static void put_record(struct api_request *x, const struct result *r, const char *action,
                       Holdfast__V1__OperatorResponse *out)
{
    struct service *s = x->service;
    struct slice texts = buffer_bytes(&x->kept);
    rpc_render_begin(s);
    holdfast__v1__operator_response__init(out);
    out->action = (char *)(uintptr_t)action;
    out->resource = rpc_string(s, x->name);
    out->actor_id = rpc_string(s, slice_make(texts.data, x->kept_first));
    out->reason = rpc_string(s, slice_make(texts.data + x->kept_first, texts.len - x->kept_first));
    out->created_at = rpc_time(s, s->gateway.wall_ms(s->gateway.ctx));
    out->holders = r->count;
    out->more = r->more;
    out->replayed = r->replayed;
}

static void render_force(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__OperatorResponse out;
    put_record(x, r, x->now ? "FORCE_UNLOCK_NOW" : "FORCE_UNLOCK", &out);
    rpc_put(x, &out.base);
}

static void render_revoke(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__OperatorResponse out;
    put_record(x, r, "REVOKE", &out);
    out.revoked_in = rpc_left(x->service, r->deadline_ms);
    rpc_put(x, &out.base);
}

void rpc_force_unlock(struct api_request *x, const void *message)
{
    const Holdfast__V1__ForceUnlockRequest *m = message;
    struct body b;
    rpc_body_init(&b);
    b.f.actor_id = slice_of(m->actor_id);
    b.f.reason = slice_of(m->reason);
    b.f.now = m->now;
    b.f.if_token = m->if_token;
    b.f.request_id = slice_of(m->request_id);
    if (operator_is_allowed(x) && rpc_name(x, m->resource_id)) {
        operator_force_unlock(x, &b, render_force);
    }
}

void rpc_revoke(struct api_request *x, const void *message)
{
    const Holdfast__V1__RevokeRequest *m = message;
    struct body b;
    rpc_body_init(&b);
    b.f.actor_id = slice_of(m->actor_id);
    b.f.reason = slice_of(m->reason);
    b.f.request_id = slice_of(m->request_id);
    b.f.if_token = m->if_token;
    if (operator_is_allowed(x) && rpc_name(x, m->resource_id) &&
        rpc_duration(x, m->deadline, "deadline", LIMIT_DELAY_MAX_MS, &b.f.deadline_ms)) {
        operator_revoke(x, &b, render_revoke);
    }
}

static void render_fence_reset(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__ResetFenceResponse out = HOLDFAST__V1__RESET_FENCE_RESPONSE__INIT;
    out.previous = r->token;
    out.highest = r->highest;
    out.replayed = r->replayed;
    rpc_put(x, &out.base);
}

void rpc_reset_fence(struct api_request *x, const void *message)
{
    const Holdfast__V1__ResetFenceRequest *m = message;
    struct body b;
    rpc_body_init(&b);
    b.f.resource = slice_of(m->resource_id);
    b.f.slot = m->slot;
    b.f.fencing_token = m->fence_token;
    b.f.actor_id = slice_of(m->actor_id);
    b.f.reason = slice_of(m->reason);
    b.f.request_id = slice_of(m->request_id);
    if (operator_is_allowed(x)) {
        operator_fence_reset(x, &b, render_fence_reset);
    }
}

static Holdfast__V1__Member *put_member(const struct service *s, const struct gateway_member *m,
                                        uint64_t leader)
{
    Holdfast__V1__Member *out = rpc_alloc(s, sizeof(*out));
    holdfast__v1__member__init(out);
    out->id = m->id;
    out->peer_address = rpc_string(s, slice_of(m->peer_address));
    out->client_address = rpc_string(s, slice_of(m->client_address));
    out->role = (char *)(uintptr_t)(m->id == leader ? "leader" : m->voter ? "voter" : "learner");
    out->healthy = m->healthy;
    out->lag_known = m->lag != UINT64_MAX;
    out->lag = out->lag_known ? m->lag : 0;
    return out;
}

static void render_cluster(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct service *s = x->service;
    const struct gateway *g = &s->gateway;
    struct gateway_status status;
    struct gateway_member members[MEMBERS_MAX];
    Holdfast__V1__Member *rows[MEMBERS_MAX];
    Holdfast__V1__ClusterResponse out = HOLDFAST__V1__CLUSTER_RESPONSE__INIT;
    g->status(g->ctx, &status);
    rpc_render_begin(s);
    out.node = status.node;
    out.leader = status.leader;
    out.term = status.term;
    out.epoch = status.epoch;
    out.serving = status.serving;
    out.members = rows;
    out.program_version = s->options.program_version == NULL
                              ? NULL
                              : rpc_string(s, slice_of(s->options.program_version));
    uint32_t count = g->members == NULL ? 0 : g->members(g->ctx, members, MEMBERS_MAX);
    for (uint32_t i = 0; i < count && i < MEMBERS_MAX; i++) {
        rows[out.n_members++] = put_member(s, &members[i], status.leader);
    }
    rpc_put(x, &out.base);
}

void rpc_cluster(struct api_request *x, const void *message)
{
    api_request_answer_json(x, 200, render_cluster);
}

static void render_change(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__MemberResponse out = HOLDFAST__V1__MEMBER_RESPONSE__INIT;
    out.accepted = true;
    rpc_put(x, &out.base);
}

static void change(struct api_request *x, enum gateway_change kind, uint64_t id,
                   struct slice address, const char *actor)
{
    uint64_t least = kind == GATEWAY_TRANSFER ? 0 : 1;
    if (!member_is_allowed(x)) {
        return;
    }
    if (id < least || id > UINT32_MAX) {
        api_request_fail(x, HF_FIELD_RANGE, "id: must be a number from 1 to 4294967295");
        return;
    }
    if (kind == GATEWAY_ADD && (address.len < 3 || address.len > MEMBER_ADDRESS_MAX)) {
        api_request_fail(x, HF_FIELD_RANGE, "peer_address: must be HOST:PORT");
        return;
    }
    if (strlen(actor) > LIMIT_ACTOR) {
        api_request_fail(x, HF_FIELD_RANGE, "actor_id: must be at most 255 bytes");
        return;
    }
    x->member = id;
    member_start(x, kind, address, slice_of(actor), render_change);
}

void rpc_member_add(struct api_request *x, const void *message)
{
    const Holdfast__V1__AddMemberRequest *m = message;
    change(x, GATEWAY_ADD, m->id, slice_of(m->peer_address), m->actor_id);
}

static void change_one(struct api_request *x, enum gateway_change kind, const void *message)
{
    const Holdfast__V1__MemberRequest *m = message;
    change(x, kind, m->id, slice_make(NULL, 0), m->actor_id);
}

void rpc_member_promote(struct api_request *x, const void *message)
{
    change_one(x, GATEWAY_PROMOTE, message);
}

void rpc_member_demote(struct api_request *x, const void *message)
{
    change_one(x, GATEWAY_DEMOTE, message);
}

void rpc_member_remove(struct api_request *x, const void *message)
{
    change_one(x, GATEWAY_REMOVE, message);
}

void rpc_member_transfer(struct api_request *x, const void *message)
{
    change_one(x, GATEWAY_TRANSFER, message);
}
