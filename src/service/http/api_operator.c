/* Operator actions. Each change leaves an audit record, in the terms of seed 001. */
#include "service/http/api.h"
#include "service/http/body.h"
#include "service/http/reply.h"
#include "service/request/operator.h"

#define REVOKE_DEFAULT_MS 30000u

#define IF_TOKEN BODY_NUMBER(if_token, false, 1, BODY_MOST)
#define OPERATOR_FIELDS                                                                  \
    BODY_TEXT(actor_id, true, 1, LIMIT_ACTOR), BODY_TEXT(reason, true, 1, LIMIT_REASON), \
        BODY_REQUEST_ID

static const struct json_field force_fields[] = {
    OPERATOR_FIELDS,
    BODY_FIELD(BOOL, "now", now, false, 0, 0),
    IF_TOKEN,
};

static const struct json_field revoke_fields[] = {
    OPERATOR_FIELDS,
    BODY_NUMBER(deadline_ms, false, 0, LIMIT_DELAY_MAX_MS),
    IF_TOKEN,
};

static const struct json_field fence_fields[] = {
    OPERATOR_FIELDS,
    BODY_TEXT(resource, true, 1, LIMIT_NAME),
    BODY_NUMBER(slot, false, 0, LIMIT_HOLDERS - 1),
    BODY_TOKEN(false),
};

bool operator_is_allowed(struct api_request *x)
{
    if (!x->is_operator) {
        api_request_fail(x, HF_DENIED, NULL);
    }
    return x->is_operator;
}

static void keep_texts(struct api_request *x, const struct body *b)
{
    buffer_append_slice(&x->kept, b->f.actor_id);
    buffer_append_slice(&x->kept, b->f.reason);
    x->kept_first = b->f.actor_id.len;
}

static void put_record(struct api_request *x, const struct result *r, const char *action,
                       struct json_writer *w)
{
    struct slice texts = buffer_bytes(&x->kept);
    json_put_text(w, "action", action);
    json_put_string(w, "resource", x->name);
    json_put_string(w, "actorId", slice_make(texts.data, x->kept_first));
    json_put_string(w, "reason", slice_make(texts.data + x->kept_first, texts.len - x->kept_first));
    json_put_time(w, "createdAt", x->service->gateway.wall_ms(x->service->gateway.ctx));
    json_put_u64(w, "holders", r->count);
    json_put_bool(w, "more", r->more);
    if (r->replayed) {
        json_put_bool(w, "replayed", true);
    }
}

static void render_force(struct api_request *x, const struct result *r, struct json_writer *w)
{
    put_record(x, r, x->now ? "FORCE_UNLOCK_NOW" : "FORCE_UNLOCK", w);
}

static void render_revoke(struct api_request *x, const struct result *r, struct json_writer *w)
{
    put_record(x, r, "REVOKE", w);
    reply_put_when(w, x->service, "revoked_at", r->deadline_ms);
    json_put_u64(w, "revoked_in_ms", reply_left_ms(x->service, r->deadline_ms));
}

void operator_force_unlock(struct api_request *x, const struct body *b, render_fn render)
{
    struct command c;
    struct id unused;
    bool is_given;
    command_init(&c, COMMAND_FORCE_UNLOCK);
    caller_sign(&c, x->caller.id);
    c.force_unlock.name = x->name;
    c.force_unlock.actor = b->f.actor_id;
    c.force_unlock.reason = b->f.reason;
    c.force_unlock.now = b->f.now;
    c.force_unlock.if_token = b->f.if_token;
    x->now = b->f.now;
    if (body_request_id(x, b, BODY_ID_DRAWN, &c, &unused, &is_given) && body_check(x, &c)) {
        keep_texts(x, b);
        api_request_submit(x, &c, true, render);
    }
}

void operator_revoke(struct api_request *x, const struct body *b, render_fn render)
{
    struct command c;
    struct id unused;
    bool is_given;
    command_init(&c, COMMAND_REVOKE);
    caller_sign(&c, x->caller.id);
    c.revoke.name = x->name;
    c.revoke.actor = b->f.actor_id;
    c.revoke.reason = b->f.reason;
    c.revoke.grace_ms =
        b->f.deadline_ms == BODY_ABSENT ? REVOKE_DEFAULT_MS : (uint32_t)b->f.deadline_ms;
    c.revoke.if_token = b->f.if_token;
    if (body_request_id(x, b, BODY_ID_DRAWN, &c, &unused, &is_given) && body_check(x, &c)) {
        keep_texts(x, b);
        api_request_submit(x, &c, true, render);
    }
}

static void render_fence_reset(struct api_request *x, const struct result *r, struct json_writer *w)
{
    json_put_text(w, "action", "FENCE_RESET");
    json_put_u64(w, "previous", r->token);
    json_put_u64(w, "highest", r->highest);
    if (r->replayed) {
        json_put_bool(w, "replayed", true);
    }
}

void operator_fence_reset(struct api_request *x, const struct body *b, render_fn render)
{
    struct command c;
    struct id unused;
    bool is_given;
    command_init(&c, COMMAND_FENCE_RESET);
    caller_sign(&c, x->caller.id);
    c.fence_reset.resource = b->f.resource;
    c.fence_reset.slot = (uint32_t)b->f.slot;
    c.fence_reset.token = b->f.fencing_token;
    c.fence_reset.actor = b->f.actor_id;
    c.fence_reset.reason = b->f.reason;
    if (body_request_id(x, b, BODY_ID_DRAWN, &c, &unused, &is_given) && body_check(x, &c)) {
        api_request_submit(x, &c, true, render);
    }
}

void api_fence_reset(struct api_request *x)
{
    struct body b;
    if (operator_is_allowed(x) && BODY_READ(x, &b, fence_fields)) {
        operator_fence_reset(x, &b, render_fence_reset);
        body_close(&b);
    }
}

void api_force_unlock(struct api_request *x)
{
    struct body b;
    if (operator_is_allowed(x) && BODY_READ(x, &b, force_fields)) {
        operator_force_unlock(x, &b, render_force);
        body_close(&b);
    }
}

void api_revoke(struct api_request *x)
{
    struct body b;
    if (operator_is_allowed(x) && BODY_READ(x, &b, revoke_fields)) {
        operator_revoke(x, &b, render_revoke);
        body_close(&b);
    }
}

bool operator_may_see(const struct api_request *x, const struct audit_view *a)
{
    const struct policy *p = service_policy(x->service);
    struct caller_id who = x->caller.id;
    if (who.principal == 0) {
        return true;
    }
    return a->is_of_cluster
               ? policy_allows_cluster(p, who.principal, RIGHT_ADMIN)
               : policy_allows(p, who.principal, who.tenant, RIGHT_OPERATE, a->resource);
}
