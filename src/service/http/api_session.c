/* Sessions: one keep-alive for everything that a client holds (S4). */
#include "service/http/api.h"
#include "service/http/body.h"
#include "service/http/reply.h"
#include "service/request/list_lock.h"
#include "service/request/session.h"
#include "service/request/session_names.h"

static const struct json_field open_fields[] = {
    BODY_TEXT(client_id, true, 1, LIMIT_CLIENT),           BODY_TTL,        BODY_METADATA,
    BODY_NUMBER(linger_ms, false, 0, LIMIT_LINGER_MAX_MS), BODY_REQUEST_ID,
};

/* Keep-alives are due at a third of the TTL. */
static void put_life(struct api_request *x, struct id id, uint64_t ttl_ms, uint64_t deadline_ms,
                     struct json_writer *w)
{
    reply_put_id(w, "session_id", id);
    json_put_u64(w, "ttl_ms", ttl_ms);
    reply_put_expiry(w, x->service, deadline_ms);
    json_put_u64(w, "keepalive_ms", ttl_ms / 3);
    reply_put_epoch(w, x->service);
}

static void render_open(struct api_request *x, const struct result *r, struct json_writer *w)
{
    put_life(x, r->lease, r->ttl_ms != 0 ? r->ttl_ms : x->ttl_ms, r->deadline_ms, w);
    if (r->replayed) {
        json_put_bool(w, "replayed", true);
    }
}

bool session_open_read(struct api_request *x, const struct body *b, struct command *c)
{
    bool is_given;
    command_init(c, COMMAND_SESSION_OPEN);
    caller_sign(c, x->caller.id);
    c->session_open.client = b->f.client_id;
    c->session_open.linger_ms = (uint32_t)b->f.linger_ms;
    c->session_open.metadata = b->f.metadata;
    if (!body_ttl(x, b, BODY_TTL_DEFAULT_MS, &c->session_open.ttl_ms) ||
        !body_request_id(x, b, BODY_ID_SESSION, c, &c->session_open.id, &is_given) ||
        !body_check(x, c)) {
        return false;
    }
    x->ttl_ms = c->session_open.ttl_ms;
    return true;
}

void api_session_open(struct api_request *x)
{
    struct body b;
    struct command c;
    if (BODY_READ(x, &b, open_fields)) {
        if (session_open_read(x, &b, &c)) {
            api_request_submit(x, &c, true, render_open);
        }
        body_close(&b);
    }
}

static void render_keepalive(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct session_view session;
    json_put_bool(w, "alive", true);
    if (view_session(service_core(x->service), x->id, &session)) {
        /* The timestamp is not older than the answer: a lower bound. */
        uint64_t now_ms = service_cluster_ms(x->service);
        put_life(x, x->id, session.ttl_ms, now_ms + session.ttl_ms, w);
    } else {
        reply_put_id(w, "session_id", x->id); /* opened on another node, not applied here yet */
        reply_put_epoch(w, x->service);
    }
}

static void on_held(void *ctx, const struct session_name_view *held)
{
    struct json_writer *w = ctx;
    json_write_open(w, '{');
    json_put_string(w, "name", held->name);
    json_put_text(w, "tier", tier_name((enum tier)held->tier));
    json_put_u64(w, "fencing_token", held->grant.token);
    json_write_close(w);
}

/* The client believes to hold other tokens (S4.8). They are its own, so they are shown (S4.4). */
static void render_locks(struct api_request *x, const struct result *r, struct json_writer *w)
{
    render_keepalive(x, r, w);
    json_put_open(w, "locks", '[');
    uint64_t next = session_names_held(x, x->id, x->page.cursor, on_held, w);
    json_write_close(w);
    list_put_next(w, next, LIST_END);
}

static void on_alive(void *owner, enum hf_error error, const struct result *result)
{
    struct api_request *x = owner;
    bool is_listed = x->pending->is_listed && conn_budget_admits_read(&x->service->budget);
    x->service->budget.turn_bytes += is_listed ? CONN_READ_COST : 0;
    x->render = is_listed ? render_locks : render_keepalive;
    api_request_answered(x, error, result);
}

static const struct json_field keepalive_fields[] = {
    BODY_NUMBER(lock_count, false, 0, UINT32_MAX),
    BODY_NUMBER(lock_xor, false, 0, BODY_MOST),
};

void api_session_keepalive(struct api_request *x)
{
    enum { HAS_COUNT = 1, HAS_XOR = 2 };
    struct body b;
    if (!BODY_READ(x, &b, keepalive_fields)) {
        return;
    }
    bool is_checked = (b.present & HAS_COUNT) != 0;
    bool is_whole =
        is_checked == ((b.present & HAS_XOR) != 0) && (is_checked || x->page.cursor == 0);
    struct keepalive_check check = {{(uint32_t)b.f.lock_count, b.f.lock_xor}, x->page.cursor};
    body_close(&b);
    if (is_whole) {
        x->pending = pending_keepalive(x->service, x->caller.id, x->id, is_checked ? &check : NULL,
                                       on_alive, x);
    } else {
        api_request_fail(x, HF_FIELD_MISSING,
                         "lock_count and lock_xor: send both, or neither and no cursor");
    }
}

static void render_close(struct api_request *x, const struct result *r, struct json_writer *w)
{
    json_put_bool(w, "closed", true);
    if (r->replayed) {
        json_put_bool(w, "replayed", true);
    }
}

void api_session_close(struct api_request *x)
{
    struct body b;
    struct command c;
    if (!body_read(x, &b, NULL, 0)) {
        return;
    }
    body_close(&b);
    command_init(&c, COMMAND_SESSION_CLOSE);
    caller_sign(&c, x->caller.id);
    c.session = x->id;
    api_request_submit(x, &c, true, render_close);
}

static void put_session(struct api_request *x, const struct session_view *session, bool with_id,
                        struct json_writer *w)
{
    if (with_id) {
        reply_put_id(w, "session_id", session->id);
    }
    json_put_string(w, "client_id", session->client);
    if (session->ttl_ms == TTL_NONE) {
        json_put_null(w, "ttl_ms");
    } else {
        json_put_u64(w, "ttl_ms", session->ttl_ms);
    }
    if (session->linger_ms != 0) {
        json_put_u64(w, "linger_ms", session->linger_ms);
    }
    reply_put_expiry(w, x->service, session->deadline_ms);
    json_put_u64(w, "entries", session->entries);
    json_put_bool(w, "private", session->is_private);
    json_put_text(w, "tier", tier_name((enum tier)session->tier));
    reply_put_metadata(w, session->metadata);
}

struct session_listing {
    struct api_request *x;
    struct json_writer *w;
};

static void on_session(void *ctx, const struct session_view *session)
{
    struct session_listing *l = ctx;
    if (session->is_private && !l->x->page.is_private) {
        return;
    }
    json_write_open(l->w, '{');
    put_session(l->x, session, l->x->is_operator, l->w);
    json_write_close(l->w);
}

static void render_list(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct session_listing l = {x, w};
    json_put_open(w, "sessions", '[');
    uint64_t next = list_sessions(x, on_session, &l);
    json_write_close(w);
    list_put_next(w, next, LIST_END);
    list_put_stale(w, x);
}

void api_session_list(struct api_request *x)
{
    if (!list_is_cursor(x->page.cursor)) {
        api_request_fail(x, HF_FIELD_RANGE, "cursor: must be the next_cursor of an earlier page");
        return;
    }
    api_request_look(x, MEMORY_SESSIONS, render_list);
}

static void render_show(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct session_view session;
    bool is_there =
        view_session(service_core(x->service), x->id, &session) &&
        session.tenant == x->caller.id.tenant && !session.is_private &&
        (session.principal == x->caller.id.principal || list_may_read(x, slice_make(NULL, 0)));
    if (!is_there) {
        x->refused = HF_SESSION_NOT_FOUND;
        return;
    }
    put_session(x, &session, true, w); /* the id in the request authorizes it */
    list_put_stale(w, x);
}

void api_session_show(struct api_request *x)
{
    api_request_read(x, render_show);
}
