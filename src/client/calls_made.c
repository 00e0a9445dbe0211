/* Turns calls of the application into calls of the engine (engine.h). */
#include <stdio.h>

#include "client/engine.h"
#include "client/proto.h"

static void set_time(struct client_engine *e, int64_t now_ms)
{
    e->now_ms = now_ms > e->now_ms ? now_ms : e->now_ms;
}

static int64_t timeout_at(const struct client_engine *e)
{
    return e->now_ms + e->options.call_timeout_ms;
}

void client_engine_ready(struct client_engine *e, struct hf_call *ticket, uint32_t timeout_ms,
                         int64_t now_ms)
{
    set_time(e, now_ms);
    call_begin(client_call_new(e, CALL_READY, NULL, ticket), e->now_ms + timeout_ms);
    client_engine_go(e, now_ms);
}

void client_engine_acquire(struct client_engine *e, struct hf_lock *lock, struct hf_call *ticket,
                           int64_t now_ms)
{
    set_time(e, now_ms);
    int64_t wait_ms = lock->options.wait_ms;
    lock->client_engine = e;
    snprintf(lock->owner, sizeof(lock->owner), "h%llu", (unsigned long long)++e->owner_count);
    struct client_call *call = client_call_new(e, CALL_ACQUIRE, lock, ticket);
    call->is_long = wait_ms != 0;
    lock_unref(lock); /* the call has its own, and passes it to the ticket */
    call_begin(call, wait_ms < 0 || wait_ms >= NEVER_MS - timeout_at(e) ? NEVER_MS
                                                                        : timeout_at(e) + wait_ms);
    client_engine_go(e, now_ms);
}

/* A lock past its deadline is lost before the query. */
static bool is_held(struct client_engine *e, struct hf_lock *lock, int64_t now_ms)
{
    client_engine_go(e, now_ms);
    return lock->state == LOCK_HELD;
}

int client_engine_release(struct client_engine *e, struct hf_lock *lock, struct hf_call *ticket,
                          int64_t now_ms)
{
    bool held = is_held(e, lock, now_ms);
    lock_gone(lock);
    if (held) {
        call_begin(client_call_new(e, CALL_RELEASE, lock, ticket), timeout_at(e));
    }
    lock_unref(lock);
    client_engine_go(e, now_ms);
    return held ? 0 : HF_ERR_LOST;
}

int client_engine_renew(struct client_engine *e, struct hf_lock *lock, uint32_t ttl_ms,
                        struct hf_call *ticket, int64_t now_ms)
{
    if (!is_held(e, lock, now_ms)) {
        return HF_ERR_LOST;
    }
    struct client_call *call = client_call_new(e, CALL_RENEW, lock, ticket);
    call->ttl_ms = ttl_ms;
    call_begin(call, timeout_at(e));
    client_engine_go(e, now_ms);
    return 0;
}

int client_engine_proclaim(struct client_engine *e, struct hf_lock *lock, const char *value,
                           struct hf_call *ticket, int64_t now_ms)
{
    if (!is_held(e, lock, now_ms)) {
        return HF_ERR_LOST;
    }
    struct client_call *call = client_call_new(e, CALL_PROCLAIM, lock, ticket);
    call->value = client_copy(value);
    call_begin(call, timeout_at(e));
    client_engine_go(e, now_ms);
    return 0;
}

void client_engine_by_handle(struct client_engine *e, enum call_kind kind, uint64_t token,
                             const char *lease, uint32_t ttl_ms, struct hf_call *ticket,
                             int64_t now_ms)
{
    set_time(e, now_ms);
    struct client_call *call = client_call_new(e, kind, NULL, ticket);
    call->token = token;
    call->ttl_ms = ttl_ms;
    snprintf(call->lease, sizeof(call->lease), "%s", lease);
    call_begin(call, timeout_at(e));
    client_engine_go(e, now_ms);
}

void client_engine_observe(struct client_engine *e, const char *name, struct hf_call *ticket,
                           int64_t now_ms)
{
    set_time(e, now_ms);
    struct client_call *call = client_call_new(e, CALL_OBSERVE, NULL, ticket);
    call->name = client_copy(name);
    call->is_long = true;
    call_begin(call, NEVER_MS);
    client_engine_go(e, now_ms);
}

void client_engine_shut(struct client_engine *e, int64_t now_ms)
{
    e->session.is_closing = true;
    if (!e->session.is_open) {
        e->is_closed = true; /* a session being opened has no locks and ends by its TTL */
    }
    client_engine_go(e, now_ms);
}
