/* Acquire one name, or several all or nothing. Not acquiring is no error. */
#include "base/text.h"
#include "service/http/api.h"
#include "service/http/body.h"
#include "service/http/reply.h"
#include "service/request/acquire.h"

#define ACQUIRE_FIELDS                                                                         \
    BODY_CLIENT, BODY_SESSION, BODY_TTL, BODY_REQUEST_ID, BODY_SEQ, BODY_METADATA, BODY_TRACE, \
        BODY_FIELD(INT, "wait_timeout_ms", wait_timeout_ms, false, -1, BODY_MOST),             \
        BODY_TEXT(owner, false, 0, LIMIT_OWNER), BODY_TEXT(tier, false, 1, 16),                \
        BODY_NUMBER(lock_delay_ms, false, 0, LIMIT_DELAY_MAX_MS), BODY_MAX_HOLD,               \
        BODY_FIELD(BOOL, "detect_deadlock", detect_deadlock, false, 0, 0),                     \
        BODY_FIELD(BOOL, "cancel", cancel, false, 0, 0)

static const struct json_field acquire_fields[] = {
    ACQUIRE_FIELDS,
    BODY_TEXT(mode, false, 1, 16),
    BODY_NUMBER(limit, false, 1, LIMIT_HOLDERS),
    BODY_NUMBER(permits, false, 1, LIMIT_HOLDERS),
    BODY_FIELD(BOOL, "reentrant", reentrant, false, 0, 0),
};

static const struct json_field multilock_fields[] = {
    ACQUIRE_FIELDS,
    {.name = "names",
     .type = JSON_FIELD_STRINGS,
     .required = true,
     .offset = offsetof(struct fields, names),
     .min = 1,
     .max = LIMIT_MULTILOCK_NAMES,
     .item_max = LIMIT_NAME},
};

static bool read_mode(struct api_request *x, const struct body *b, struct command_acquire *a)
{
    a->mode = b->f.mode.len == 0 ? MODE_EXCLUSIVE : mode_of_word(b->f.mode);
    if (a->mode == MODE_COUNT) {
        api_request_fail(x, HF_INVALID_MODE,
                         "mode: must be exclusive, shared, semaphore or election");
        return false;
    }
    a->limit = (uint32_t)b->f.limit;
    a->permits = (uint32_t)b->f.permits;
    if (a->mode == MODE_SEMAPHORE && a->permits == 0) {
        a->permits = 1;
    }
    return true;
}

struct slice acquire_trace(const struct api_request *x, const struct body *b)
{
    bool has_header = b->f.trace.len == 0 && text_is_traceparent(x->traceparent);
    return has_header ? x->traceparent : b->f.trace;
}

bool acquire_read(struct api_request *x, const struct body *b, struct command *c, bool *keeps_place)
{
    command_init(c, COMMAND_ACQUIRE);
    caller_sign(c, x->caller.id);
    struct command_acquire *a = &c->acquire;
    uint32_t ttl_ms = 0;
    if (!body_session(x, b, c) || !body_client(x, b, &a->client) || !body_tier(x, b) ||
        !read_mode(x, b, a) ||
        !body_ttl(x, b, id_is_zero(c->session) ? BODY_TTL_DEFAULT_MS : 0, &ttl_ms) ||
        !body_request_id(x, b, BODY_ID_LEASE, c, &a->lease, keeps_place)) {
        return false;
    }
    if (b->f.detect_deadlock && id_is_zero(c->session)) {
        api_request_fail(
            x, HF_FIELD_MISSING,
            "session_id: is required with detect_deadlock; deadlocks are found between "
            "owners in sessions");
        return false;
    }
    if (b->f.reentrant && !id_is_zero(c->session) && c->request_id.len == 0 && c->seq == 0) {
        /* The lease id identifies only an acquire that created the hold. Each attempt to re-enter
         * would add a level, so the node sets a request id (S8.1). */
        c->request_id = slice_of(x->request_id);
    }
    a->ttl_ms = ttl_ms;
    a->node = x->service->node;
    a->owner = b->f.owner;
    a->wait_ms = b->f.wait_timeout_ms < 0 ? WAIT_FOREVER : (uint64_t)b->f.wait_timeout_ms;
    a->delay_ms = (uint32_t)b->f.lock_delay_ms;
    a->max_hold_ms = b->f.max_hold_ms < UINT32_MAX ? (uint32_t)b->f.max_hold_ms : UINT32_MAX;
    a->flags = (b->f.reentrant ? (uint32_t)ACQUIRE_REENTRANT : 0u) |
               (b->f.detect_deadlock ? (uint32_t)ACQUIRE_DETECT_DEADLOCK : 0u);
    a->metadata = b->f.metadata;
    a->trace = acquire_trace(x, b);
    return true;
}

void acquire_submit(struct api_request *x, const struct body *b, struct command *c,
                    bool keeps_place, render_fn render)
{
    if (b->f.cancel && !keeps_place) {
        api_request_fail(x, HF_FIELD_MISSING,
                         "request_id: is required with cancel; it names the request to withdraw");
        return;
    }
    if (!body_check(x, c)) {
        return;
    }
    command_drop_hints(c, core_version(service_core(x->service)));
    if (b->f.cancel) {
        api_request_cancel(x, c, render);
    } else {
        api_request_submit(x, c, keeps_place, render);
    }
}

enum reason acquire_reason(const struct result *r)
{
    if (r->outcome != OUTCOME_GRANTED) {
        return r->reason;
    }
    switch (r->ended) {
    case ENDED_RELEASED:
    case ENDED_SESSION_CLOSED:
        return REASON_ALREADY_RELEASED;
    case ENDED_EXPIRED:
    case ENDED_SESSION_EXPIRED:
    case ENDED_RECOVERED:
    case ENDED_MAX_HOLD:
        return REASON_EXPIRED;
    default:
        return REASON_NOT_OWNER;
    }
}

void acquire_refusal(struct api_request *x, const struct result *r, struct json_writer *w)
{
    const struct service *s = x->service;
    bool is_over = r->outcome == OUTCOME_GRANTED;
    json_put_text(w, "reason", reason_name(acquire_reason(r)));
    if (is_over) {
        json_put_text(w, "ended", ended_name(r->ended));
        json_put_u64(w, "fencing_token", r->token);
    }
    if (r->has_holder) {
        json_put_open(w, "holder", '{');
        reply_holder_members(w, s, &r->holder);
        json_write_close(w);
    } else {
        json_put_null(w, "holder");
    }
    json_put_u64(w, "queue_length", r->queue_length);
    if (r->delayed_until_ms != 0) {
        reply_put_when(w, s, "delayed_until", r->delayed_until_ms);
    }
    if (r->reserved_for.len > 0) {
        json_put_string(w, "reserved_for", r->reserved_for);
    }
    if (r->name.len > 0) {
        json_put_string(w, "name", r->name);
    }
    if (r->cycle_length > 0) {
        json_put_open(w, "cycle", '[');
        for (uint32_t i = 0; i < r->cycle_length; i++) {
            json_write_open(w, '{');
            json_put_string(w, "client_id", r->cycle[i].client);
            json_put_string(w, "owner", r->cycle[i].owner);
            json_put_string(w, "waits_for", r->cycle[i].name);
            json_write_close(w);
        }
        json_write_close(w);
    }
}

void acquire_grant(struct api_request *x, const struct result *r, struct json_writer *w)
{
    json_put_u64(w, "fencing_token", r->token);
    reply_put_id(w, "lease_id", r->lease);
    reply_put_expiry(w, x->service, r->deadline_ms);
    reply_put_hold(w, x->service, r->hold_until_ms);
    if (r->waited_ms != 0) {
        json_put_u64(w, "waited_ms", r->waited_ms);
    }
    json_put_text(w, "tier", tier_name(tier_of_token(r->token)));
    if (r->mode == MODE_SEMAPHORE) {
        json_put_u64(w, "slot", r->slot);
    }
    if (r->depth > 1) {
        json_put_u64(w, "depth", r->depth);
    }
    if (r->deadlock_unchecked) {
        json_put_bool(w, "deadlock_unchecked", true);
    }
}

bool acquire_is_held(const struct result *r)
{
    return r->outcome == OUTCOME_GRANTED && r->ended == ENDED_NOT;
}

static void render_acquire(struct api_request *x, const struct result *r, struct json_writer *w)
{
    bool is_held = acquire_is_held(r);
    json_put_bool(w, "acquired", is_held);
    if (is_held) {
        acquire_grant(x, r, w);
    } else {
        acquire_refusal(x, r, w);
        json_put_text(w, "tier", tier_name(x->tier));
    }
    reply_put_epoch(w, x->service);
    if (r->replayed) {
        json_put_bool(w, "replayed", true);
    }
}

void api_acquire(struct api_request *x)
{
    struct body b;
    struct command c;
    bool keeps_place = false;
    if (!BODY_READ(x, &b, acquire_fields)) {
        return;
    }
    if (acquire_read(x, &b, &c, &keeps_place)) {
        c.acquire.names.count = 1;
        c.acquire.names.at[0] = x->name;
        acquire_submit(x, &b, &c, keeps_place, render_acquire);
    }
    body_close(&b);
}

void api_multilock_acquire(struct api_request *x)
{
    struct body b;
    struct command c;
    bool keeps_place = false;
    if (!BODY_READ(x, &b, multilock_fields)) {
        return;
    }
    if (acquire_read(x, &b, &c, &keeps_place)) {
        c.acquire.names.count = (uint32_t)b.f.names.count;
        memcpy(c.acquire.names.at, b.f.names.items, b.f.names.count * sizeof(struct slice));
        acquire_submit(x, &b, &c, keeps_place, render_acquire);
    }
    body_close(&b);
}
