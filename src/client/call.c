/* Calls: sending, retrying, giving up at the deadline.
 *
 * A retry has the same id and takes effect once (S8). Renewals have no id and are new each time
 * (S5.1). The calls of a broken link use the next one at once. After a refusal a retry waits,
 * longer each time, with jitter. */
#include <stdio.h>
#include <stdlib.h>

#include "client/engine.h"
#include "client/proto.h"

enum { RETRY_MS = 10, RETRY_MAX_MS = 400, RETRY_DOUBLINGS = 6 };

static void on_message(void *owner, struct slice message)
{
    struct client_call *call = owner;
    if (call->kind == CALL_OBSERVE) {
        answer_observed(call, message);
        return;
    }
    free(call->answer);
    call->answer = client_alloc(message.len + 1);
    call->answer_len = message.len;
    if (message.len > 0) {
        memcpy(call->answer, message.data, message.len);
    }
}

/* From `sent` to `waiting`. */
static void unsend(struct client_call *call)
{
    if (call->state == CALL_SENT) {
        call->state = CALL_WAITING;
        call->client_engine->long_sent -= call->is_long;
        list_append(&call->client_engine->waiting, &call->link);
    }
}

static void on_end(void *owner, enum rpc_end end)
{
    struct client_call *call = owner;
    unsend(call);
    answer_read(call, end);
}

static const struct rpc_handler call_handler = {on_message, on_end};

struct client_call *client_call_new(struct client_engine *e, enum call_kind kind,
                                    struct hf_lock *lock, struct hf_call *ticket)
{
    struct client_call *call = client_alloc(sizeof(*call));
    call->client_engine = e;
    call->kind = kind;
    call->ticket = ticket;
    call->needs_session = lock != NULL;
    call->rpc.handler = &call_handler;
    call->rpc.owner = call;
    list_init(&call->link);
    if (lock != NULL) {
        lock_ref(lock);
        call->lock = lock;
    }
    if (ticket != NULL) {
        ticket->call = call;
        e->stat_calls++;
    }
    return call;
}

static void due_at(struct client_engine *e, int64_t at_ms)
{
    e->next_call_ms = at_ms < e->next_call_ms ? at_ms : e->next_call_ms;
}

static void fail_at_once(struct client_call *call);

/* Whether the circuit breaker may end the call. CALL_READY waits for a connection, and an observer
 * has no deadline: both wait. */
static bool can_fail_at_once(const struct client_call *call)
{
    return call->ticket != NULL && call->kind != CALL_READY && call->kind != CALL_OBSERVE;
}

void call_begin(struct client_call *call, int64_t deadline_ms)
{
    struct client_engine *e = call->client_engine;
    call->deadline_ms = deadline_ms;
    call->reach_by_ms = deadline_ms;
    if (can_fail_at_once(call)) {
        call->reach_by_ms = e->now_ms + e->options.call_timeout_ms;
    }
    list_append(&e->waiting, &call->link);
    due_at(e, call->deadline_ms);
    due_at(e, call->reach_by_ms);
    if (call->retry_at_ms > e->now_ms) {
        due_at(e, call->retry_at_ms);
    }
    if (can_fail_at_once(call) && client_engine_circuit_is_open(e)) {
        fail_at_once(call);
    }
}

static void call_free(struct client_call *call)
{
    struct client_engine *e = call->client_engine;
    rpc_cancel(&call->rpc);
    lock_renewal_ended(call, RENEWAL_UNANSWERED);
    unsend(call);
    list_remove(&call->link);
    e->checks -= call->is_check;
    if (call->lock != NULL) {
        lock_unref(call->lock);
    }
    free(call->name);
    free(call->value);
    free(call->body);
    free(call->answer);
    free(call);
}

void call_leave(struct client_call *call, int error, const char *text)
{
    struct hf_call *ticket = call->ticket;
    call->deadline_ms = NEVER_MS;
    call->reach_by_ms = NEVER_MS;
    if (ticket == NULL) {
        return;
    }
    call->ticket = NULL;
    ticket->error = error;
    snprintf(ticket->text, sizeof(ticket->text), "%s",
             text != NULL && text[0] != '\0' ? text : hf_error_message(error));
    if (error == 0 && call->kind == CALL_ACQUIRE) {
        lock_ref(call->lock);
        ticket->lock = call->lock;
    }
    notification_done(call->client_engine, ticket);
}

void call_finish(struct client_call *call, int error, const char *text)
{
    call_leave(call, error, text);
    call_free(call);
}

void call_retry(struct client_call *call, bool at_once)
{
    struct client_engine *e = call->client_engine;
    lock_renewal_ended(call, RENEWAL_UNANSWERED); /* no effect after an answer with the outcome */
    unsigned doublings = call->attempts < RETRY_DOUBLINGS ? call->attempts : RETRY_DOUBLINGS;
    int64_t wait_ms = RETRY_MS << doublings;
    wait_ms = wait_ms < RETRY_MAX_MS ? wait_ms : RETRY_MAX_MS;
    call->retry_at_ms = e->now_ms + (at_once ? 0 : endpoints_jitter(&e->endpoints, wait_ms));
    due_at(e, call->retry_at_ms);
}

void calls_free_all(struct client_engine *e)
{
    struct list *lists[] = {&e->waiting, &e->sent};
    for (unsigned i = 0; i < 2; i++) {
        while (!list_is_empty(lists[i])) {
            call_free(LIST_OBJECT(lists[i]->next, struct client_call, link));
        }
    }
}

/* `visit` may free its call. */
static void calls_each(struct client_engine *e,
                       void (*visit)(struct client_call *call, const void *arg), const void *arg)
{
    struct list *lists[] = {&e->waiting, &e->sent};
    for (unsigned i = 0; i < 2; i++) {
        struct list *next;
        for (struct list *at = lists[i]->next; at != lists[i]; at = next) {
            next = at->next;
            visit(LIST_OBJECT(at, struct client_call, link), arg);
        }
    }
}

static void describe_unreached(const struct client_call *call, char *out, size_t size)
{
    struct client_engine *e = call->client_engine;
    char tried[ERROR_TEXT / 2];
    if (call->text[0] != '\0') {
        snprintf(out, size, "%s", call->text);
    } else if (e->current >= 0) {
        snprintf(out, size, "%s answers, but the cluster has no leader at present",
                 e->endpoints.at[e->links[e->current].endpoint].text);
    } else {
        endpoints_describe(&e->endpoints, tried, sizeof(tried));
        snprintf(out, size, "no endpoint answered: tried %s; is the cluster up?", tried);
    }
}

/* No caller waits for this sent acquire. Requests its withdrawal under the same id until the
 * service answers (S7.5). A service without that field continues the wait; a received grant is then
 * released. */
static void withdraw(struct client_call *call)
{
    struct client_engine *e = call->client_engine;
    rpc_cancel(&call->rpc);
    unsend(call);
    free(call->body);
    call->body = NULL;
    call->is_withdrawn = true;
    call->maybe_done = true;
    call->retry_at_ms = e->now_ms;
    list_remove(&call->link);
    list_append(e->waiting.next, &call->link); /* first, before others use its stream */
}

/* The circuit breaker is open; nothing was sent. A release continues in the background, as after
 * its deadline. */
static void fail_at_once(struct client_call *call)
{
    struct client_engine *e = call->client_engine;
    char tried[ERROR_TEXT / 2];
    char text[ERROR_TEXT];
    endpoints_describe(&e->endpoints, tried, sizeof(tried));
    if (e->next_dial_ms == NEVER_MS) {
        snprintf(text, sizeof(text), "no endpoint answers: tried %s; one is being tried again",
                 tried);
    } else {
        snprintf(text, sizeof(text),
                 "no endpoint answers: tried %s; the next attempt is in %lld ms", tried,
                 (long long)life_left(e->next_dial_ms, e->now_ms));
    }
    if (call->kind == CALL_RELEASE) {
        call_leave(call, HF_ERR_UNREACHABLE, text);
    } else {
        call_finish(call, HF_ERR_UNREACHABLE, text);
    }
}

static void timed_out(struct client_call *call)
{
    struct client_engine *e = call->client_engine;
    char text[ERROR_TEXT];
    bool is_open = call->state == CALL_SENT || call->maybe_done;
    int error = is_open ? HF_ERR_UNKNOWN : HF_ERR_UNREACHABLE;
    if (is_open) {
        snprintf(text, sizeof(text), "no answer within the time for this call%s%.400s",
                 call->text[0] == '\0' ? "" : "; last: ", call->text);
    } else if (call->is_long && e->current >= 0 && e->session.is_open) {
        error = HF_ERR_TIMEOUT; /* it waited in this client, behind other calls */
        snprintf(text, sizeof(text), "%s", hf_error_message(error));
    } else {
        describe_unreached(call, text, sizeof(text));
    }
    if (call->kind == CALL_ACQUIRE && is_open) {
        call_leave(call, error, text);
        withdraw(call);
    } else if (call->kind == CALL_RELEASE) {
        call_leave(call, error, text);
    } else {
        call_finish(call, error, text);
    }
}

static void tick(struct client_call *call, const void *arg)
{
    struct client_engine *e = call->client_engine;
    int64_t due_ms = call->deadline_ms;
    if (call->first_sent_ms == 0 && call->reach_by_ms < due_ms) {
        if (call->is_long && e->current >= 0 && e->session.is_open) {
            call->reach_by_ms = e->now_ms + e->options.call_timeout_ms; /* waits for its turn */
        }
        due_ms = call->reach_by_ms;
    }
    if (e->now_ms >= due_ms) {
        timed_out(call);
        return;
    }
    due_at(e, due_ms);
    if (call->state == CALL_WAITING && call->retry_at_ms > e->now_ms) {
        due_at(e, call->retry_at_ms);
    }
}

void calls_tick(struct client_engine *e)
{
    if (e->now_ms >= e->next_call_ms) {
        e->next_call_ms = NEVER_MS;
        calls_each(e, tick, NULL);
    }
}

static bool send(struct client_call *call, struct link *link)
{
    struct client_engine *e = call->client_engine;
    if (call->body == NULL) {
        request_encode(call);
    }
    if (!rpc_start(&call->rpc, link, request_path(call), slice_make(call->body, call->body_len),
                   false, !call->is_long, e->now_ms)) {
        e->wants_move = true;
        return false;
    }
    call->sent_ms = e->now_ms;
    call->is_heard = false;
    if (call->first_sent_ms == 0) {
        call->first_sent_ms = e->now_ms;
    }
    if (call->needs_session) {
        call->session_number = e->session.number;
    }
    if (call->kind == CALL_RENEW && call->lock != NULL && call->ttl_ms != 0) {
        lock_renewal_sent(call);
    }
    e->stat_retries += call->attempts++ > 0;
    call->state = CALL_SENT;
    e->long_sent += call->is_long;
    list_append(&e->sent, &call->link);
    if (call->kind == CALL_ACQUIRE) {
        session_hurry(e, call->lock->options.ttl_ms);
    }
    return true;
}

/* One renewal with a TTL at a time: else the last applied one is unknown. */
static bool is_behind_another(const struct client_call *call)
{
    return call->kind == CALL_RENEW && call->lock != NULL && call->ttl_ms != 0 &&
           call->lock->life.in_flight.ttl_ms != 0;
}

void calls_go(struct client_engine *e)
{
    struct link *link = client_engine_link(e);
    if (link == NULL) {
        return;
    }
    uint32_t most = http2_client_max_streams(link->http2);
    uint32_t most_long = most > 2 * ENGINE_SHORT_STREAMS ? most - ENGINE_SHORT_STREAMS : most / 2;
    struct list *next;
    for (struct list *at = e->waiting.next; at != &e->waiting; at = next) {
        struct client_call *call = LIST_OBJECT(at, struct client_call, link);
        next = at->next;
        if (call->kind == CALL_READY) {
            if (e->session.is_open) {
                call_finish(call, 0, NULL);
            }
            continue;
        }
        if (e->now_ms < call->retry_at_ms || (call->needs_session && !e->session.is_open) ||
            (call->is_long && e->long_sent >= most_long) || is_behind_another(call)) {
            continue;
        }
        if (http2_client_streams(link->http2) >= most || !send(call, link)) {
            return;
        }
    }
}

static void session_lost(struct client_call *call, const void *why)
{
    bool is_of_session =
        call->session_number != 0 || (call->lock != NULL && call->kind != CALL_ACQUIRE);
    if (is_of_session) {
        char text[ERROR_TEXT];
        snprintf(text, sizeof(text), "the session was lost: %s", (const char *)why);
        call_finish(call, HF_ERR_LOST, text);
    }
}

void calls_session_lost(struct client_engine *e, const char *why)
{
    calls_each(e, session_lost, why);
}

struct session_refusal {
    int error;
    const char *text;
};

static void session_refused(struct client_call *call, const void *arg)
{
    const struct session_refusal *refusal = arg;
    if (call->ticket != NULL && (call->needs_session || call->kind == CALL_READY)) {
        call_finish(call, refusal->error, refusal->text);
    }
}

void calls_session_refused(struct client_engine *e, int error, const char *text)
{
    struct session_refusal refusal = {error, text};
    if (!e->session.is_open) {
        calls_each(e, session_refused, &refusal);
    }
}

void client_engine_cancel(struct client_engine *e, struct hf_call *ticket, int64_t now_ms)
{
    struct client_call *call = ticket->call;
    if (call == NULL) {
        return;
    }
    e->now_ms = now_ms > e->now_ms ? now_ms : e->now_ms;
    if (call->kind == CALL_ACQUIRE && (call->state == CALL_SENT || call->maybe_done)) {
        call_leave(call, HF_ERR_CANCELLED, NULL);
        withdraw(call);
    } else if (call->kind == CALL_RELEASE) {
        call_leave(call, HF_ERR_CANCELLED, NULL);
    } else {
        call_finish(call, HF_ERR_CANCELLED, NULL);
    }
    client_engine_go(e, now_ms);
}

static void cancel(struct client_call *call, const void *arg)
{
    if (call->ticket != NULL) {
        call_finish(call, HF_ERR_CANCELLED, "the client was closed");
    }
}

void client_engine_cancel_all(struct client_engine *e, int64_t now_ms)
{
    calls_each(e, cancel, NULL);
    client_engine_go(e, now_ms);
}
