/* Release and renew: one lock by name and token, a multi-lock by token. */
#include "service/http/api.h"
#include "service/http/body.h"
#include "service/http/reply.h"
#include "service/request/acquire.h"

static const struct json_field release_fields[] = {
    BODY_CLIENT, BODY_SESSION, BODY_TOKEN(true), BODY_REQUEST_ID, BODY_SEQ,
};

static const struct json_field renew_fields[] = {
    BODY_CLIENT, BODY_SESSION, BODY_TOKEN(true), BODY_REQUEST_ID, BODY_SEQ, BODY_TTL,
};

/* A multi-lock of one name is identified by that name or its lease id only. */
#define MULTILOCK_FIELDS                                                                       \
    BODY_CLIENT, BODY_SESSION, BODY_TOKEN(false), BODY_REQUEST_ID, BODY_SEQ,                   \
        BODY_TEXT(lease_id, false, 1, 64),                                                     \
    {                                                                                          \
        .name = "names", .type = JSON_FIELD_STRINGS, .offset = offsetof(struct fields, names), \
        .min = 1, .max = LIMIT_MULTILOCK_NAMES, .item_max = LIMIT_NAME                         \
    }

static const struct json_field multilock_release_fields[] = {MULTILOCK_FIELDS};
static const struct json_field multilock_renew_fields[] = {MULTILOCK_FIELDS, BODY_TTL};

static void render_release(struct api_request *x, const struct result *r, struct json_writer *w)
{
    json_put_bool(w, "released", r->outcome == OUTCOME_DONE);
    json_put_text(w, "reason", reason_name(r->reason));
    if (r->depth > 0) {
        json_put_u64(w, "depth", r->depth); /* re-entrant levels that remain */
    }
    if (r->ended != ENDED_NOT) {
        json_put_text(w, "ended", ended_name(r->ended));
    }
}

static void render_renew(struct api_request *x, const struct result *r, struct json_writer *w)
{
    bool is_renewed = r->outcome == OUTCOME_DONE;
    json_put_bool(w, "renewed", is_renewed);
    if (is_renewed) {
        reply_put_when(w, x->service, "new_expires_at", r->deadline_ms);
        reply_put_left(w, x->service, r->deadline_ms);
    } else {
        json_put_null(w, "new_expires_at");
        json_put_u64(w, "expires_in_ms", 0);
    }
    json_put_text(w, "reason", reason_name(r->reason));
    if (r->ended != ENDED_NOT) {
        json_put_text(w, "ended", ended_name(r->ended));
    }
    reply_put_epoch(w, x->service);
}

/* The lease id identifies the hold; the client is checked only if given. */
static bool read_holder(struct api_request *x, const struct body *b, enum body_id from,
                        struct command *c, struct slice *client)
{
    struct id unused;
    bool is_given;
    caller_sign(c, x->caller.id);
    *client = b->f.client_id;
    return body_session(x, b, c) && (b->f.lease_id.len > 0 || body_client(x, b, client)) &&
           body_request_id(x, b, from, c, &unused, &is_given);
}

void holder_release(struct api_request *x, const struct body *b, struct slice name,
                    render_fn render)
{
    struct command c;
    command_init(&c, COMMAND_RELEASE);
    if (!read_holder(x, b, BODY_ID_DRAWN, &c, &c.release.client) ||
        !body_id(x, b->f.lease_id, "lease_id", &c.release.lease)) {
        return;
    }
    c.release.name = name;
    c.release.token = b->f.fencing_token;
    if (body_check(x, &c)) {
        api_request_submit(x, &c, true, render);
    }
}

/* No drawn request id: each renewal attempt is a new one (S5.1). */
void holder_renew(struct api_request *x, const struct body *b, struct slice name, render_fn render)
{
    struct command c;
    command_init(&c, COMMAND_RENEW);
    if (!read_holder(x, b, BODY_ID_OWN, &c, &c.renew.client) ||
        !body_id(x, b->f.lease_id, "lease_id", &c.renew.lease) ||
        !body_ttl(x, b, 0, &c.renew.ttl_ms)) {
        return;
    }
    c.renew.name = name;
    c.renew.token = b->f.fencing_token;
    if (body_check(x, &c)) {
        api_request_submit(x, &c, true, render);
    }
}

void api_release(struct api_request *x)
{
    struct body b;
    if (BODY_READ(x, &b, release_fields)) {
        holder_release(x, &b, x->name, render_release);
        body_close(&b);
    }
}

void api_renew(struct api_request *x)
{
    struct body b;
    if (BODY_READ(x, &b, renew_fields)) {
        holder_renew(x, &b, x->name, render_renew);
        body_close(&b);
    }
}

static struct slice first_name(const struct body *b)
{
    return b->f.names.count > 0 ? b->f.names.items[0] : slice_make(NULL, 0);
}

void api_multilock_release(struct api_request *x)
{
    struct body b;
    if (BODY_READ(x, &b, multilock_release_fields)) {
        holder_release(x, &b, first_name(&b), render_release);
        body_close(&b);
    }
}

void api_multilock_renew(struct api_request *x)
{
    struct body b;
    if (BODY_READ(x, &b, multilock_renew_fields)) {
        holder_renew(x, &b, first_name(&b), render_renew);
        body_close(&b);
    }
}
