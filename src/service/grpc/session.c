/* LockService.Session: a session and its keep-alives on one stream (S4.5, S4.6).
 *
 *         Open              result
 *   NEW ────────▶ OPENING ──────────▶ OPEN ──Close──▶ CLOSING ──result──▶ over
 *    │               │                  ▲
 *    │               │ lingers          │
 *    │ Resume        ▼        result    │
 *    └────────▶ REGISTERING ────────────┘
 *
 * REGISTERING: the number of the stream is registered in the replicated state.
 *
 * At most one pending request is in flight. Keep-alives that arrive meanwhile become one: its
 * timestamp is later than theirs. */
#include "service/request/session.h"
#include "service/grpc/rpc.h"
#include "service/http/reply.h"
#include "service/request/list_lock.h"
#include "service/request/session_names.h"

enum { BACKLOG_MAX = 64 << 10, EARLY_MAX = 64 << 10 };

enum session_state {
    SESSION_NEW,
    SESSION_OPENING,
    SESSION_REGISTERING,
    SESSION_OPEN,
    SESSION_CLOSING
};

struct session_beat {
    uint64_t number;
    bool is_checked;
    struct keepalive_check check;
};

struct session_call {
    struct service *service;
    struct api_request *x;
    ref self;
    ref next; /* in service.sessions */
    enum session_state state;
    bool is_known; /* is in service.sessions */
    bool is_resumed;
    bool is_ended;   /* the client's stream has ended */
    bool is_closing; /* Close arrived before the session was open */
    bool has_next;
    bool lingers;
    struct id id;
    uint64_t ttl_ms;
    uint64_t deadline_ms;
    uint64_t stream; /* its number in the replicated state, 0: none (S4.6) */
    /* Of the keep-alive in flight, and of the next one. */
    struct session_beat beat;
    struct session_beat next_beat;
    struct buffer early; /* messages to be sent after Opened */
    struct list link;    /* in service.session_calls */
    struct list work;    /* in service.session_work */
};

static struct session_call *call_of(const struct api_request *x)
{
    return stream_of(x)->session;
}

static uint32_t id_hash(struct id id)
{
    return (uint32_t)(id.high ^ id.high >> 32 ^ id.low ^ id.low >> 32);
}

static uint32_t call_hash(const void *ctx, const void *object)
{
    return id_hash(((const struct session_call *)object)->id);
}

void session_calls_open(struct service *s)
{
    table_init(&s->sessions, s->memory, &s->pool, offsetof(struct session_call, next), call_hash,
               s);
    list_init(&s->session_calls);
    list_init(&s->session_work);
}

void session_calls_close(struct service *s)
{
    table_close(&s->sessions);
}

uint64_t *session_call_stream(struct service *s, struct id session, uint64_t stream)
{
    for (ref who = table_first(&s->sessions, id_hash(session)); who != 0;) {
        struct session_call *call = pool_at(&s->pool, who);
        if (call->stream == stream && id_equal(call->id, session)) {
            return &call->stream;
        }
        who = call->next;
    }
    return NULL;
}

typedef Holdfast__V1__SessionResponse StreamResponse;

static bool is_stalled(const struct session_call *call)
{
    return call->x->transport->backlog(call->x) > BACKLOG_MAX;
}

static void send_message(struct session_call *call, const StreamResponse *response)
{
    if (call->state == SESSION_OPENING || call->state == SESSION_REGISTERING) {
        struct buffer *scratch = &call->service->scratch;
        buffer_truncate(scratch, 0);
        rpc_put(call->x, &response->base);
        (void)buffer_append_slice(&call->early, buffer_bytes(scratch));
        buffer_truncate(scratch, 0);
    } else if (is_stalled(call)) {
        call->service->dropped_streams++;
        rpc_finish(call->x, HF_UNAVAILABLE, "the stream is not read; resume the session");
    } else {
        rpc_send(call->x, &response->base);
    }
}

static void end_with(struct session_call *call, const char *how)
{
    struct api_request *x = call->x;
    StreamResponse response = HOLDFAST__V1__SESSION_RESPONSE__INIT;
    Holdfast__V1__SessionResponse__Closed closed = HOLDFAST__V1__SESSION_RESPONSE__CLOSED__INIT;
    closed.how = (char *)(uintptr_t)how;
    response.response_case = HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_CLOSED;
    response.closed = &closed;
    if (!stream_of(x)->http2.is_begun) {
        rpc_stream(x);
    }
    rpc_send(x, &response.base);
    api_request_abandon(x);
    rpc_finish(x, HF_OK, NULL);
}

static void send_opened(struct session_call *call)
{
    struct service *s = call->service;
    StreamResponse response = HOLDFAST__V1__SESSION_RESPONSE__INIT;
    Holdfast__V1__SessionResponse__Opened opened = HOLDFAST__V1__SESSION_RESPONSE__OPENED__INIT;
    rpc_render_begin(s);
    opened.session_id = rpc_id(s, call->id);
    opened.ttl = rpc_ms(s, call->ttl_ms);
    opened.keep_alive_every = rpc_ms(s, call->ttl_ms / 3);
    opened.expires_in = rpc_left(s, call->deadline_ms);
    opened.epoch = rpc_epoch(s);
    opened.leader_epoch = opened.epoch;
    opened.resumed = call->is_resumed;
    response.response_case = HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_OPENED;
    response.opened = &opened;
    rpc_send(call->x, &response.base);
}

struct session_rows {
    struct service *service;
    Holdfast__V1__HeldLock **rows; /* `max`, in the arena */
    size_t count;
    size_t max;
};

static void on_held(void *ctx, const struct session_name_view *held)
{
    struct session_rows *all = ctx;
    hf_assert(all->count < all->max);
    Holdfast__V1__HeldLock *row = rpc_alloc(all->service, sizeof(*row));
    holdfast__v1__held_lock__init(row);
    row->resource_id = rpc_string(all->service, held->name);
    row->fence_token = held->grant.token;
    row->tier = rpc_tier_out((enum tier)held->tier);
    all->rows[all->count++] = row;
}

/* S4.8: a page of each tier, which a multi-lock may make longer. */
static void put_locks(struct session_call *call, Holdfast__V1__SessionResponse__Alive *alive)
{
    struct service *s = call->service;
    struct session_rows all = {.service = s, .max = 2 * (LIMIT_PAGE_MAX + LIMIT_MULTILOCK_NAMES)};
    all.rows = rpc_alloc(s, sizeof(*all.rows) * all.max);
    uint64_t next = session_names_held(call->x, call->id, call->beat.check.cursor, on_held, &all);
    alive->differs = true;
    alive->locks = all.rows;
    alive->n_locks = all.count;
    alive->next_cursor = rpc_cursor(s, next, LIST_END);
}

static void send_alive(struct session_call *call, bool is_listed)
{
    struct service *s = call->service;
    StreamResponse response = HOLDFAST__V1__SESSION_RESPONSE__INIT;
    Holdfast__V1__SessionResponse__Alive alive = HOLDFAST__V1__SESSION_RESPONSE__ALIVE__INIT;
    rpc_render_begin(s);
    alive.number = call->beat.number;
    alive.expires_in = rpc_ms(s, call->ttl_ms);
    alive.epoch = rpc_epoch(s);
    alive.leader_epoch = alive.epoch;
    if (is_listed) {
        put_locks(call, &alive);
    }
    response.response_case = HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_ALIVE;
    response.alive = &alive;
    send_message(call, &response);
}

static void send_notice(struct session_call *call, Holdfast__V1__SessionResponse__News notice_kind,
                        const struct event *e)
{
    struct service *s = call->service;
    StreamResponse response = HOLDFAST__V1__SESSION_RESPONSE__INIT;
    Holdfast__V1__SessionResponse__Notice notice = HOLDFAST__V1__SESSION_RESPONSE__NOTICE__INIT;
    rpc_render_begin(s);
    notice.news = notice_kind;
    if (e != NULL) {
        notice.resource_id = rpc_string(s, e->name);
        notice.fence_token = e->token;
        notice.lease_id = rpc_id(s, e->lease);
        notice.reason = rpc_string(s, e->text);
        if (e->type == EVENT_LOST) {
            notice.how = (char *)(uintptr_t)ended_name(e->ended);
        } else {
            notice.deadline_in = rpc_left(s, e->deadline_ms);
        }
    }
    response.response_case = HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_NOTICE;
    response.notice = &notice;
    send_message(call, &response);
}

static struct session_call *call_new(struct api_request *x)
{
    struct service *s = x->service;
    ref self = 0;
    struct session_call *call = pool_alloc(&s->pool, sizeof(*call), &self);
    call->self = self;
    call->service = s;
    call->x = x;
    buffer_init(&call->early, s->memory, EARLY_MAX);
    list_init(&call->link);
    list_init(&call->work);
    if (list_is_empty(&s->session_calls)) {
        s->is_safe = session_is_safe(s);
    }
    list_append(&s->session_calls, &call->link);
    stream_of(x)->session = call;
    return call;
}

static void set_id(struct session_call *call, struct id id)
{
    hf_assert(!call->is_known);
    call->id = id;
    call->is_known = true;
    table_insert(&call->service->sessions, id_hash(id), call->self);
}

void session_call_over(struct api_request *x)
{
    struct session_call *call = call_of(x);
    if (call == NULL) {
        return;
    }
    struct service *s = call->service;
    stream_of(x)->session = NULL;
    if (call->is_known) {
        table_remove(&s->sessions, id_hash(call->id), call->self);
    }
    if (call->stream != 0) {
        pending_stream_down(s, x->caller.id, call->id, call->stream);
    }
    api_request_abandon(x);
    list_remove(&call->link);
    list_remove(&call->work);
    buffer_close(&call->early);
    pool_free(&s->pool, call->self, sizeof(*call));
}

void session_call_drain(struct api_request *x)
{
    if (call_of(x) != NULL) {
        end_with(call_of(x), "draining");
    }
}

static void submit_close(struct session_call *call);

static void opened(struct session_call *call)
{
    struct api_request *x = call->x;
    rpc_stream(x);
    send_opened(call);
    call->state = SESSION_OPEN;
    if (buffer_len(&call->early) > 0) {
        x->transport->piece(x, buffer_bytes(&call->early));
    }
    buffer_close(&call->early);
    buffer_init(&call->early, call->service->memory, EARLY_MAX);
    if (call->is_closing || call->has_next) {
        list_append(&call->service->session_work, &call->work);
    } else if (call->is_ended) {
        rpc_finish(x, HF_OK, NULL);
    }
}

/* False: the request failed, and the error is answered. */
static bool settle(struct api_request *x, enum hf_error error, const struct result *result)
{
    if (error != HF_OK || result->error != HF_OK) {
        api_request_answered(x, error, result);
        return false;
    }
    struct pending_request *pending = x->pending;
    x->pending = NULL;
    (void)pending_settle(pending);
    return true;
}

static void on_registered(void *owner, enum hf_error error, const struct result *result)
{
    struct api_request *x = owner;
    struct session_call *call = call_of(x);
    if (!settle(x, error, result)) {
        return;
    }
    call->stream = result->attachment;
    call->ttl_ms = result->ttl_ms;
    call->deadline_ms = result->deadline_ms;
    session_stream_check(call->service, x->caller.id, call->id, call->stream);
    opened(call);
}

static void register_stream(struct session_call *call)
{
    struct command c;
    session_stream_command(call->service, call->x->caller.id, call->id, &c);
    call->state = SESSION_REGISTERING;
    call->x->pending = pending_submit(call->service, &c, true, on_registered, call->x);
}

static void on_opened(void *owner, enum hf_error error, const struct result *result)
{
    struct api_request *x = owner;
    struct session_call *call = call_of(x);
    if (!settle(x, error, result)) {
        return;
    }
    set_id(call, result->lease);
    call->ttl_ms = result->ttl_ms != 0 ? result->ttl_ms : x->ttl_ms;
    call->deadline_ms = result->deadline_ms;
    if (call->lingers) {
        list_append(&call->service->session_work, &call->work); /* to register its stream */
    } else {
        opened(call);
    }
}

static void read_open(struct session_call *call, const Holdfast__V1__SessionRequest__Open *m)
{
    struct api_request *x = call->x;
    struct body b;
    struct command c;
    rpc_body_init(&b);
    b.f.client_id = slice_of(m->client_id);
    b.f.request_id = slice_of(m->request_id);
    if (rpc_duration(x, m->ttl, "ttl", LIMIT_TTL_MAX_MS, &b.f.ttl_ms) &&
        rpc_duration(x, m->linger, "linger", LIMIT_LINGER_MAX_MS, &b.f.linger_ms) &&
        rpc_metadata(x, m->metadata, &b) && session_open_read(x, &b, &c)) {
        call->state = SESSION_OPENING;
        call->lingers = b.f.linger_ms != 0;
        x->pending = pending_submit(call->service, &c, true, on_opened, x);
    }
    body_close(&b);
}

static void read_resume(struct session_call *call, const Holdfast__V1__SessionRequest__Resume *m)
{
    struct id id;
    if (!reply_parse_id(slice_of(m->session_id), &id)) {
        api_request_fail(call->x, HF_INVALID_ID, "session_id: must be 32 hexadecimal digits");
        return;
    }
    set_id(call, id);
    call->is_resumed = true;
    register_stream(call);
}

static void on_closed(void *owner, enum hf_error error, const struct result *result)
{
    struct api_request *x = owner;
    struct session_call *call = call_of(x);
    if (!settle(x, error, result)) {
        return;
    }
    call->stream = 0;
    end_with(call, "session_closed");
}

static void submit_close(struct session_call *call)
{
    struct command c;
    struct api_request *x = call->x;
    api_request_abandon(x); /* a keep-alive in flight is obsolete */
    command_init(&c, COMMAND_SESSION_CLOSE);
    caller_sign(&c, x->caller.id);
    c.session = call->id;
    call->state = SESSION_CLOSING;
    x->pending = pending_submit(call->service, &c, true, on_closed, x);
}

static void on_alive(void *owner, enum hf_error error, const struct result *result);

static void keep_alive(struct session_call *call, struct session_beat beat)
{
    call->beat = beat;
    call->has_next = false;
    call->x->pending = pending_keepalive(call->service, call->x->caller.id, call->id,
                                         beat.is_checked ? &beat.check : NULL, on_alive, call->x);
}

/* If the cluster does not answer, nothing is sent: the client measures its own deadline (S5), and
 * receives JEOPARDY. */
static void on_alive(void *owner, enum hf_error error, const struct result *result)
{
    struct api_request *x = owner;
    struct session_call *call = call_of(x);
    struct pending_request *pending = x->pending;
    bool is_listed = pending->is_listed;
    x->pending = NULL;
    (void)pending_settle(pending);
    if (error == HF_OK && result->error != HF_OK) {
        call->stream = 0;
        end_with(call, hf_error_code(result->error));
        return;
    }
    if (call->has_next) {
        list_append(&call->service->session_work, &call->work);
    }
    if (error == HF_OK) {
        send_alive(call, is_listed);
    }
}

static bool read_beat(struct session_call *call, const Holdfast__V1__SessionRequest__KeepAlive *m,
                      struct session_beat *out)
{
    *out = (struct session_beat){.number = m->number, .is_checked = m->held != NULL};
    if (m->held == NULL) {
        return true;
    }
    struct list_page kept = call->x->page;
    bool is_read = rpc_page(call->x, 0, m->held->cursor, false);
    out->check =
        (struct keepalive_check){{m->held->count, m->held->xor_of_all}, call->x->page.cursor};
    call->x->page = kept;
    return is_read;
}

static void read_keep_alive(struct session_call *call,
                            const Holdfast__V1__SessionRequest__KeepAlive *m)
{
    struct pending_request *pending = call->x->pending;
    struct session_beat beat;
    if (!read_beat(call, m, &beat)) {
        return;
    }
    if (call->state == SESSION_OPEN && pending == NULL) {
        keep_alive(call, beat);
    } else if (call->state == SESSION_OPEN && pending->state == PENDING_GATHERED) {
        call->beat = beat;
        pending->is_checked = beat.is_checked;
        pending->check = beat.check;
    } else if (call->state != SESSION_CLOSING) {
        call->has_next = true;
        call->next_beat = beat;
    }
}

static bool is_in_order(struct session_call *call, int which)
{
    bool is_first = which == HOLDFAST__V1__SESSION_REQUEST__REQUEST_OPEN ||
                    which == HOLDFAST__V1__SESSION_REQUEST__REQUEST_RESUME;
    if (which == HOLDFAST__V1__SESSION_REQUEST__REQUEST__NOT_SET) {
        api_request_fail(call->x, HF_FIELD_MISSING,
                         "request: must be one of open, resume, keep_alive, close");
    } else if (is_first != (call->state == SESSION_NEW)) {
        api_request_fail(call->x, HF_FIELD_RANGE,
                         "request: the first one is open or resume, and the following are not");
    } else {
        return true;
    }
    return false;
}

void rpc_session(struct api_request *x, const void *message)
{
    const Holdfast__V1__SessionRequest *m = message;
    struct session_call *call = call_of(x) != NULL ? call_of(x) : call_new(x);
    if (!is_in_order(call, (int)m->request_case)) {
        return;
    }
    switch (m->request_case) {
    case HOLDFAST__V1__SESSION_REQUEST__REQUEST_OPEN:
        read_open(call, m->open);
        break;
    case HOLDFAST__V1__SESSION_REQUEST__REQUEST_RESUME:
        read_resume(call, m->resume);
        break;
    case HOLDFAST__V1__SESSION_REQUEST__REQUEST_KEEP_ALIVE:
        read_keep_alive(call, m->keep_alive);
        break;
    case HOLDFAST__V1__SESSION_REQUEST__REQUEST_CLOSE:
        if (call->state == SESSION_OPEN) {
            submit_close(call);
        } else {
            call->is_closing = true;
        }
        break;
    default:
        break;
    }
}

/* Counts as a broken stream, except while the session is being closed, and before it is open: the
 * client may still need its id. */
void session_call_end(struct api_request *x)
{
    struct session_call *call = call_of(x);
    if (call == NULL || call->state == SESSION_OPEN) {
        rpc_finish(x, HF_OK, NULL);
    } else {
        call->is_ended = true;
    }
}

void session_on_event(struct service *s, const struct event *e)
{
    bool is_notice = e->type == EVENT_LOST || e->type == EVENT_REVOKE_REQUESTED;
    bool is_end = e->type == EVENT_SESSION_CLOSED || e->type == EVENT_SESSION_EXPIRED;
    if ((!is_notice && !is_end) || table_count(&s->sessions) == 0) {
        return;
    }
    ref next;
    for (ref who = table_first(&s->sessions, id_hash(e->session)); who != 0; who = next) {
        struct session_call *call = pool_at(&s->pool, who);
        next = call->next; /* the call may be freed below */
        if (!id_equal(call->id, e->session)) {
            continue;
        }
        if (is_notice) {
            send_notice(call,
                        e->type == EVENT_LOST
                            ? HOLDFAST__V1__SESSION_RESPONSE__NEWS__LOST
                            : HOLDFAST__V1__SESSION_RESPONSE__NEWS__REVOKE_REQUESTED,
                        e);
        } else if (call->state == SESSION_OPEN || call->state == SESSION_CLOSING) {
            call->stream = 0;
            end_with(call, event_name(e->type));
        }
    }
}

bool session_is_safe(const struct service *s)
{
    struct gateway_status status;
    s->gateway.status(s->gateway.ctx, &status);
    return status.leader != 0 && status.serving;
}

/* `act` may end the stream. */
static void for_each_open(struct service *s, void (*act)(struct session_call *call))
{
    struct list *next;
    for (struct list *link = s->session_calls.next; link != &s->session_calls; link = next) {
        struct session_call *call = LIST_OBJECT(link, struct session_call, link);
        next = link->next;
        if (call->state == SESSION_OPEN) {
            act(call);
        }
    }
}

static void send_safety(struct session_call *call)
{
    send_notice(call,
                call->service->is_safe ? HOLDFAST__V1__SESSION_RESPONSE__NEWS__SAFE
                                       : HOLDFAST__V1__SESSION_RESPONSE__NEWS__JEOPARDY,
                NULL);
}

static void end_skipped(struct session_call *call)
{
    rpc_finish(call->x, HF_UNAVAILABLE, "events were skipped; resume the session");
}

void session_state_replaced(struct service *s)
{
    for_each_open(s, end_skipped);
}

static void work_on(struct session_call *call)
{
    if (call->state == SESSION_OPENING) {
        register_stream(call);
    } else if (call->state == SESSION_OPEN && call->is_closing) {
        submit_close(call);
    } else if (call->state == SESSION_OPEN && call->has_next && call->x->pending == NULL) {
        keep_alive(call, call->next_beat);
    }
}

void session_run(struct service *s)
{
    if (list_is_empty(&s->session_calls)) {
        return;
    }
    bool is_safe = session_is_safe(s);
    if (is_safe != s->is_safe) {
        s->is_safe = is_safe;
        for_each_open(s, send_safety);
    }
    for (struct list *link = list_take(&s->session_work); link != NULL;
         link = list_take(&s->session_work)) {
        work_on(LIST_OBJECT(link, struct session_call, work));
    }
}
