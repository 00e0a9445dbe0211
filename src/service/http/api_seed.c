/* The API of seed 001, with its exact names. */
#include "service/http/api.h"
#include "service/http/reply.h"
#include "service/request/acquire.h"

static const struct json_field acquire_fields[] = {
    BODY_TEXT(resource, true, 1, LIMIT_NAME),
    BODY_FIELD(STRING, "ownerId", client_id, true, 1, LIMIT_CLIENT),
    BODY_FIELD(UINT, "ttlSeconds", ttl_seconds, false, 0, BODY_MOST),
};

static const struct json_field renew_fields[] = {
    BODY_FIELD(UINT, "ttlSeconds", ttl_seconds, false, 0, BODY_MOST),
};

static bool read_ttl(struct api_request *x, const struct body *b, uint32_t otherwise,
                     uint32_t *ttl_ms)
{
    uint64_t min_s = body_ttl_min_seconds(x);
    if (b->f.ttl_seconds == BODY_ABSENT) {
        *ttl_ms = otherwise;
        return true;
    }
    if (b->f.ttl_seconds < min_s || b->f.ttl_seconds > LIMIT_TTL_MAX_MS / 1000) {
        struct fault fault;
        fault_set(&fault, HF_FIELD_RANGE, "ttlSeconds: must be a whole number from %u to %u",
                  (unsigned)min_s, LIMIT_TTL_MAX_MS / 1000);
        api_request_fault(x, &fault);
        return false;
    }
    *ttl_ms = (uint32_t)b->f.ttl_seconds * 1000;
    return true;
}

static void render_holder(struct api_request *x, const struct result *r, struct json_writer *w)
{
    if (!r->has_holder) {
        json_put_null(w, "holder");
        return;
    }
    json_put_open(w, "holder", '{');
    json_put_string(w, "ownerId", r->holder.client);
    json_put_time(w, "createdAt",
                  reply_since_ms(x->service, r->holder.since_ms, r->holder.since_wall_ms));
    reply_put_when(w, x->service, "expiresAt", r->holder.deadline_ms);
    json_write_close(w);
}

static void render_acquire(struct api_request *x, const struct result *r, struct json_writer *w)
{
    bool is_held = acquire_is_held(r);
    json_put_bool(w, "acquired", is_held);
    if (is_held) {
        reply_put_id(w, "leaseId", r->lease);
        json_put_u64(w, "fencingToken", r->token);
        reply_put_when(w, x->service, "expiresAt", r->deadline_ms);
        return;
    }
    json_put_text(w, "reason", reason_name(acquire_reason(r)));
    render_holder(x, r, w);
    json_put_u64(w, "queueLength", r->queue_length);
}

void api_seed_acquire(struct api_request *x)
{
    struct body b;
    struct command c;
    bool keeps_place = false;
    if (!BODY_READ(x, &b, acquire_fields)) {
        return;
    }
    command_init(&c, COMMAND_ACQUIRE);
    caller_sign(&c, x->caller.id);
    c.acquire.node = x->service->node;
    c.acquire.client = b.f.client_id;
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = b.f.resource;
    c.acquire.trace = acquire_trace(x, &b);
    command_drop_hints(&c, core_version(service_core(x->service)));
    uint32_t ttl_ms = 0;
    bool is_valid = read_ttl(x, &b, BODY_TTL_DEFAULT_MS, &ttl_ms);
    c.acquire.ttl_ms = ttl_ms;
    if (is_valid && body_request_id(x, &b, BODY_ID_LEASE, &c, &c.acquire.lease, &keeps_place) &&
        body_check(x, &c)) {
        api_request_submit(x, &c, keeps_place, render_acquire);
    }
    body_close(&b);
}

static void render_renew(struct api_request *x, const struct result *r, struct json_writer *w)
{
    bool is_renewed = r->outcome == OUTCOME_DONE;
    json_put_bool(w, "renewed", is_renewed);
    reply_put_when(w, x->service, "expiresAt", is_renewed ? r->deadline_ms : 0);
    json_put_text(w, "reason", reason_name(r->reason));
}

void api_seed_renew(struct api_request *x)
{
    struct body b;
    struct command c;
    struct id unused;
    bool is_given;
    if (!BODY_READ(x, &b, renew_fields)) {
        return;
    }
    command_init(&c, COMMAND_RENEW);
    caller_sign(&c, x->caller.id);
    c.renew.lease = x->id;
    if (read_ttl(x, &b, 0, &c.renew.ttl_ms) &&
        body_request_id(x, &b, BODY_ID_OWN, &c, &unused, &is_given) && body_check(x, &c)) {
        api_request_submit(x, &c, true, render_renew);
    }
    body_close(&b);
}

static void render_release(struct api_request *x, const struct result *r, struct json_writer *w)
{
    json_put_bool(w, "released", r->outcome == OUTCOME_DONE);
    json_put_text(w, "reason", reason_name(r->reason));
}

void api_seed_release(struct api_request *x)
{
    struct body b;
    struct command c;
    struct id unused;
    bool is_given;
    if (!body_read(x, &b, NULL, 0)) {
        return;
    }
    command_init(&c, COMMAND_RELEASE);
    caller_sign(&c, x->caller.id);
    c.release.lease = x->id;
    if (body_request_id(x, &b, BODY_ID_DRAWN, &c, &unused, &is_given) && body_check(x, &c)) {
        api_request_submit(x, &c, true, render_release);
    }
    body_close(&b);
}
