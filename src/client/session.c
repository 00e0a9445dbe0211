/* The session and its stream (S4, S5): opened once, resumed through any node, kept alive, lost when
 * not confirmed in time.
 *
 * Each keep-alive is new and counts from its own sending (S5.1). The interval is a third of the
 * shortest TTL of session and locks. The opening has a request_id: a retry finds the session of the
 * first attempt and counts from the first sending.
 *
 * A lost session is not closed: a clean end would skip the lock-delay of its locks (S6.5). It ends
 * by its TTL; later requests use a new session. */
#include <stdio.h>

#include "client/engine.h"
#include "client/proto.h"

#define SESSION_PATH "/holdfast.v1.LockService/Session"

enum { RETRY_MS = 20, RETRY_MAX_MS = 500, REFUSED_MS = 1000 };

static const struct rpc_handler stream_handler;

void session_init(struct client_session *s)
{
    s->rpc.handler = &stream_handler;
    s->every_ms = NEVER_MS;
}

void session_close(struct client_session *s)
{
    rpc_cancel(&s->rpc);
}

static void owe(struct client_engine *e)
{
    if (!e->session.owes) {
        e->session.owes = true;
        e->session.owed_since_ms = e->now_ms;
        link_owe(e->session.link, e->now_ms);
    }
}

static void paid(struct client_engine *e)
{
    if (e->session.owes) {
        e->session.owes = false;
        link_paid(e->session.link);
    }
}

static void send(struct client_engine *e, const SessionRequest *request)
{
    size_t len;
    uint8_t *bytes = proto_pack(&request->base, &len);
    rpc_send_message(&e->session.rpc, slice_make(bytes, len), false);
    free(bytes);
}

/* The shortest TTL that keep-alives must cover. */
static int64_t shortest_ttl(struct client_engine *e)
{
    int64_t ttl_ms = e->session.life.ttl_ms;
    if (e->orphan_ttl_ms < ttl_ms) {
        ttl_ms = e->orphan_ttl_ms;
    }
    for (struct list *at = e->locks.next; at != &e->locks; at = at->next) {
        const struct hf_lock *lock = LIST_OBJECT(at, struct hf_lock, link);
        ttl_ms = lock_life_ttl(&lock->life) < ttl_ms ? lock_life_ttl(&lock->life) : ttl_ms;
    }
    /* A waiting acquire may be granted at any moment; its TTL then counts from the last
     * keep-alive. */
    for (struct list *at = e->sent.next; at != &e->sent; at = at->next) {
        const struct client_call *call = LIST_OBJECT(at, struct client_call, link);
        if (call->kind == CALL_ACQUIRE && call->lock->options.ttl_ms != 0 &&
            call->lock->options.ttl_ms < ttl_ms) {
            ttl_ms = call->lock->options.ttl_ms;
        }
    }
    return ttl_ms;
}

static void send_keepalive(struct client_engine *e)
{
    struct client_session *s = &e->session;
    Holdfast__V1__SessionRequest__KeepAlive keepalive =
        HOLDFAST__V1__SESSION_REQUEST__KEEP_ALIVE__INIT;
    Holdfast__V1__HeldTokens held = HOLDFAST__V1__HELD_TOKENS__INIT;
    SessionRequest request = HOLDFAST__V1__SESSION_REQUEST__INIT;
    struct keepalive k = held_next(e, ++s->keepalive_number);
    k.sent_ms = e->now_ms;
    held.count = k.held_count;
    held.xor_of_all = k.held_xor;
    held.cursor = s->listing.cursor;
    keepalive.number = k.number;
    keepalive.held = k.is_compared ? &held : NULL;
    request.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_KEEP_ALIVE;
    request.keep_alive = &keepalive;
    send(e, &request);
    s->listing.cursor[0] = '\0';
    s->out[k.number % SESSION_KEEPALIVES] = k;
    s->keepalive_sent_ms = e->now_ms;
    int64_t every_ms = shortest_ttl(e) / 3;
    s->next_keepalive_ms = e->now_ms + (every_ms < s->every_ms ? every_ms : s->every_ms);
    e->stat_keepalives++;
    owe(e);
}

static void send_close(struct client_engine *e)
{
    Holdfast__V1__SessionRequest__Close close = HOLDFAST__V1__SESSION_REQUEST__CLOSE__INIT;
    SessionRequest request = HOLDFAST__V1__SESSION_REQUEST__INIT;
    request.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_CLOSE;
    request.close = &close;
    send(e, &request);
    e->session.is_close_sent = true;
    owe(e);
}

static bool start(struct client_engine *e, struct link *link, const SessionRequest *request)
{
    size_t len;
    uint8_t *bytes = proto_pack(&request->base, &len);
    e->session.rpc.owner = e;
    bool started = rpc_start(&e->session.rpc, link, SESSION_PATH, slice_make(bytes, len), true,
                             false, e->now_ms);
    free(bytes);
    if (started) {
        e->session.link = link;
        e->session.is_heard = false;
        owe(e);
    } else { /* no more streams: find another connection, do not retry at once */
        e->session.retry_at_ms = e->now_ms + RETRY_MS;
    }
    return started;
}

static void start_open(struct client_engine *e, struct link *link)
{
    struct client_session *s = &e->session;
    /* An old first sending leaves little time of the session that it opened. */
    if (s->first_sent_ms != 0 && e->now_ms - s->first_sent_ms > e->options.session_ttl_ms / 3) {
        s->first_sent_ms = 0;
    }
    if (s->first_sent_ms == 0) {
        client_engine_next_id(e, s->request_id);
    }
    Holdfast__V1__SessionRequest__Open open = HOLDFAST__V1__SESSION_REQUEST__OPEN__INIT;
    SessionRequest request = HOLDFAST__V1__SESSION_REQUEST__INIT;
    Duration ttl = duration_of(e->options.session_ttl_ms);
    Duration linger = duration_of(e->options.linger_ms);
    open.client_id = e->options.client_id;
    open.metadata = e->options.metadata;
    open.ttl = &ttl;
    open.linger = e->options.linger_ms == 0 ? NULL : &linger;
    open.request_id = s->request_id;
    request.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_OPEN;
    request.open = &open;
    if (start(e, link, &request) && s->first_sent_ms == 0) {
        s->first_sent_ms = e->now_ms;
    }
}

static void start_resume(struct client_engine *e, struct link *link)
{
    Holdfast__V1__SessionRequest__Resume resume = HOLDFAST__V1__SESSION_REQUEST__RESUME__INIT;
    SessionRequest request = HOLDFAST__V1__SESSION_REQUEST__INIT;
    resume.session_id = e->session.id;
    request.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_RESUME;
    request.resume = &resume;
    if (start(e, link, &request)) {
        send_keepalive(e); /* only it extends the session, a resume does not */
    }
}

void session_go(struct client_engine *e)
{
    struct client_session *s = &e->session;
    struct link *link = client_engine_link(e);
    if (link == NULL || e->is_closed) {
        return;
    }
    if (!rpc_is_under_way(&s->rpc)) {
        if (e->now_ms < s->retry_at_ms) {
            return;
        }
        if (s->is_open) {
            start_resume(e, link);
        } else {
            start_open(e, link);
        }
    }
    if (!s->is_open || !rpc_is_under_way(&s->rpc)) {
        return;
    }
    if (s->is_closing) {
        if (!s->is_close_sent) {
            send_close(e);
        }
    } else if (e->now_ms >= s->next_keepalive_ms || s->listing.cursor[0] != '\0') {
        send_keepalive(e);
    }
}

void session_hurry(struct client_engine *e, int64_t ttl_ms)
{
    struct client_session *s = &e->session;
    int64_t due_ms = s->keepalive_sent_ms + ttl_ms / 3;
    if (s->is_open && ttl_ms > 0 && due_ms < s->next_keepalive_ms) {
        s->next_keepalive_ms = due_ms;
    }
}

static int64_t patience_until(const struct client_engine *e);

int64_t session_next_ms(const struct client_engine *e)
{
    const struct client_session *s = &e->session;
    int64_t next_ms = NEVER_MS;
    if (s->is_open) {
        next_ms = s->in_jeopardy ? life_safe_until(s->life) : life_jeopardy_at(s->life);
    }
    if (e->current >= 0 && !e->is_closed) {
        if (!rpc_is_under_way(&s->rpc)) {
            next_ms = s->retry_at_ms < next_ms ? s->retry_at_ms : next_ms;
        } else if (s->is_open && !s->is_closing && s->next_keepalive_ms < next_ms) {
            next_ms = s->next_keepalive_ms;
        }
    }
    return patience_until(e) < next_ms ? patience_until(e) : next_ms;
}

void session_lose(struct client_engine *e, const char *why)
{
    struct client_session *s = &e->session;
    if (!s->is_open) {
        return;
    }
    paid(e);
    rpc_cancel(&s->rpc);
    held_forget(s);
    s->is_open = false;
    s->in_jeopardy = false;
    s->id[0] = '\0';
    s->first_sent_ms = 0;
    s->retry_at_ms = e->now_ms;
    s->attempts = 0;
    e->orphan_ttl_ms = NEVER_MS;
    locks_lose_all(e, why);
    calls_session_lost(e, why);
    if (s->is_closing) {
        e->is_closed = true;
    } else {
        notification_event(e, HF_EVENT_LOST, NULL, 0, why);
    }
}

/* When to leave a live node that does not answer the session. */
static int64_t patience_until(const struct client_engine *e)
{
    const struct client_session *s = &e->session;
    return s->owes ? s->owed_since_ms + 2 * client_engine_silence_ms(e) : NEVER_MS;
}

void session_tick(struct client_engine *e)
{
    struct client_session *s = &e->session;
    if (e->now_ms >= patience_until(e)) {
        s->owed_since_ms = e->now_ms;
        e->wants_move = true;
    }
    if (!s->is_open) {
        return;
    }
    switch (life_standing(life_jeopardy_at(s->life), life_safe_until(s->life), e->now_ms)) {
    case STANDING_LOST:
        session_lose(e, "unconfirmed");
        break;
    case STANDING_JEOPARDY:
        if (!s->in_jeopardy) {
            s->in_jeopardy = true;
            notification_event(e, HF_EVENT_JEOPARDY, NULL, 0, "unconfirmed");
        }
        break;
    case STANDING_SAFE:
    default:
        if (s->in_jeopardy) {
            s->in_jeopardy = false;
            notification_event(e, HF_EVENT_SAFE, NULL, 0, "confirmed");
        }
        break;
    }
}

static void on_opened(struct client_engine *e, const Holdfast__V1__SessionResponse__Opened *m)
{
    struct client_session *s = &e->session;
    s->is_heard = true;
    s->attempts = 0;
    client_engine_has_leader(e);
    if (s->is_open) {
        locks_check_all(e); /* the answer to the next keep-alive is still owed */
    } else if (m->session_id[0] != '\0') {
        paid(e);
        s->is_open = true;
        s->number++;
        snprintf(s->id, sizeof(s->id), "%s", m->session_id);
        s->life.ttl_ms = duration_ms(m->ttl, e->options.session_ttl_ms);
        s->life.confirmed_ms = s->first_sent_ms;
        s->every_ms = duration_ms(m->keep_alive_every, s->life.ttl_ms / 3);
        if (s->every_ms < 1) {
            s->every_ms = 1;
        }
        s->keepalive_sent_ms = s->first_sent_ms;
        s->next_keepalive_ms = s->first_sent_ms + s->every_ms;
    }
    client_engine_heard_epoch(e, m->epoch);
}

static void on_alive(struct client_engine *e, const Holdfast__V1__SessionResponse__Alive *m)
{
    struct client_session *s = &e->session;
    struct keepalive *k = &s->out[m->number % SESSION_KEEPALIVES];
    if (m->number != 0 && k->number == m->number) {
        const struct keepalive sent = *k;
        k->number = 0;
        life_confirm(&s->life, sent.sent_ms);
        session_tick(e);
        held_answer(e, &sent, m);
        if (e->any_jeopardy) {
            e->next_lock_ms = e->now_ms; /* some locks are safe again */
        }
    }
    if (m->number == s->keepalive_number) {
        paid(e);
        client_engine_has_leader(e);
    }
    client_engine_heard_epoch(e, m->epoch);
}

static void on_notice(struct client_engine *e, const Holdfast__V1__SessionResponse__Notice *m)
{
    struct hf_lock *lock = locks_find(e, m->fence_token);
    switch (m->news) {
    case HOLDFAST__V1__SESSION_RESPONSE__NEWS__LOST:
        if (lock != NULL) {
            lock_lose(lock, m->how, m->reason);
        } else {
            locks_lost_early(e, m->fence_token, m->how);
        }
        break;
    case HOLDFAST__V1__SESSION_RESPONSE__NEWS__REVOKE_REQUESTED:
        if (lock != NULL) {
            notification_event(e, HF_EVENT_REVOKE_REQUESTED, lock,
                               e->now_ms + duration_ms(m->deadline_in, 0), m->reason);
        }
        break;
    case HOLDFAST__V1__SESSION_RESPONSE__NEWS__JEOPARDY:
        client_engine_no_leader(
            e); /* a hint to find another node; the local clock decides about jeopardy */
        break;
    case HOLDFAST__V1__SESSION_RESPONSE__NEWS__SAFE:
        client_engine_has_leader(e);
        break;
    default:
        break;
    }
}

static void on_closed(struct client_engine *e, const Holdfast__V1__SessionResponse__Closed *m)
{
    struct client_session *s = &e->session;
    if (strcmp(m->how, "draining") == 0) {
        e->wants_move = true;
    } else if (s->is_closing) {
        e->is_closed = true;
    } else {
        session_lose(e, m->how[0] == '\0' ? "session_closed" : m->how);
    }
}

static void on_message(void *owner, struct slice bytes)
{
    struct client_engine *e = owner;
    SessionResponse *m = holdfast__v1__session_response__unpack(NULL, bytes.len, bytes.data);
    if (m == NULL) {
        return; /* the stream continues; the deadline still applies */
    }
    switch (m->response_case) {
    case HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_OPENED:
        on_opened(e, m->opened);
        break;
    case HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_ALIVE:
        on_alive(e, m->alive);
        break;
    case HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_NOTICE:
        on_notice(e, m->notice);
        break;
    case HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_CLOSED:
        on_closed(e, m->closed);
        break;
    default:
        break;
    }
    holdfast__v1__session_response__free_unpacked(m, NULL);
}

static void retry_later(struct client_engine *e)
{
    struct client_session *s = &e->session;
    int64_t wait_ms = RETRY_MS << (s->attempts < 5 ? s->attempts : 5);
    s->attempts++;
    s->retry_at_ms = e->now_ms + endpoints_jitter(&e->endpoints,
                                                  wait_ms < RETRY_MAX_MS ? wait_ms : RETRY_MAX_MS);
}

static void on_status(struct client_engine *e)
{
    struct client_session *s = &e->session;
    const struct rpc *rpc = &s->rpc;
    bool is_gone =
        strcmp(rpc->code, "session_expired") == 0 || strcmp(rpc->code, "session_not_found") == 0;
    if (is_gone && s->is_open) {
        session_lose(e, "session_expired");
        return;
    }
    retry_later(e);
    switch (rpc->status) {
    case GRPC_OK:
    case GRPC_UNAVAILABLE:
    case GRPC_DEADLINE_EXCEEDED:
        if (!s->is_heard || rpc->status != GRPC_OK) {
            client_engine_no_leader(e);
        }
        return;
    case GRPC_PERMISSION_DENIED:
    case GRPC_UNAUTHENTICATED:
        calls_session_refused(e, HF_ERR_DENIED, rpc->message);
        break;
    case GRPC_INVALID_ARGUMENT:
        calls_session_refused(e, HF_ERR_INVALID, rpc->message);
        break;
    case GRPC_RESOURCE_EXHAUSTED:
        calls_session_refused(e, HF_ERR_LIMIT, rpc->message);
        break;
    case GRPC_UNIMPLEMENTED:
        calls_session_refused(e, HF_ERR_PROTOCOL, rpc->message);
        break;
    default:
        s->first_sent_ms = 0; /* the same request would fail again */
        return;
    }
    s->first_sent_ms = 0;
    s->retry_at_ms = e->now_ms + REFUSED_MS;
}

static void on_end(void *owner, enum rpc_end end)
{
    struct client_engine *e = owner;
    struct client_session *s = &e->session;
    paid(e);
    memset(s->out, 0, sizeof(s->out));
    held_forget(s);
    if (s->is_closing && s->is_close_sent) {
        /* Without a status, the close is repeated on the next link. */
        e->is_closed = e->is_closed || (end == RPC_ANSWERED && s->rpc.status == GRPC_OK);
        s->is_close_sent = false;
    }
    switch (end) {
    case RPC_ANSWERED:
        on_status(e);
        break;
    case RPC_STRANGE:
        retry_later(e);
        calls_session_refused(e, HF_ERR_PROTOCOL, "the endpoint does not speak gRPC");
        break;
    case RPC_UNTOUCHED:
    case RPC_BROKEN:
    default:
        s->retry_at_ms = e->now_ms;
        if (s->link->state == LINK_UP) {
            retry_later(e); /* only this stream ended */
        }
        break;
    }
}

static const struct rpc_handler stream_handler = {on_message, on_end};
