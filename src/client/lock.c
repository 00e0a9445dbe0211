/* Handles of the callers, and their states.
 *
 *   REQUESTED ──granted──▶ HELD ──┬── released, or the handle freed ──▶ RELEASED
 *                                 └── LOST, permanently: reported by the service, session lost,
 *                                     epoch of the leader changed, or not confirmed in time
 *
 * Deadlines only move later unless a renewal sets a shorter TTL. So the engine keeps one time
 * before which no lock has anything due, and checks all at that time. */
#include <stdio.h>
#include <stdlib.h>

#include "client/engine.h"
#include "client/proto.h"

struct hf_lock *client_lock_new(const char *const *names, size_t count,
                                const struct hf_lock_options *options, const char *metadata)
{
    struct hf_lock *lock = client_alloc(sizeof(*lock));
    lock->refs = 1;
    lock->count = count;
    lock->names = client_alloc(count * sizeof(*lock->names));
    for (size_t i = 0; i < count; i++) {
        lock->names[i] = client_copy(names[i]);
    }
    lock->options = *options;
    lock->metadata = client_copy(metadata);
    lock->trace = client_copy(options->trace != NULL ? options->trace : "");
    lock->on_event = options->on_event;
    lock->arg = options->arg;
    list_init(&lock->link);
    list_init(&lock->check_link);
    list_init(&lock->handle_link);
    return lock;
}

void lock_ref(struct hf_lock *lock)
{
    lock->refs++;
}

void lock_unref(struct hf_lock *lock)
{
    hf_assert(lock->refs > 0);
    if (--lock->refs > 0) {
        return;
    }
    list_remove(&lock->link);
    list_remove(&lock->check_link);
    list_remove(&lock->handle_link);
    for (size_t i = 0; i < lock->count; i++) {
        free(lock->names[i]);
    }
    free(lock->names);
    free(lock->metadata);
    free(lock->trace);
    free(lock->value);
    free(lock);
}

int64_t lock_safe_until(const struct hf_lock *lock)
{
    const struct client_session *s = &lock->client_engine->session;
    if (lock->state != LOCK_HELD || !s->is_open || lock->session_number != s->number) {
        return 0;
    }
    return lock_life_safe_until(&lock->life, s->life);
}

static int64_t jeopardy_at(const struct hf_lock *lock)
{
    return lock_life_jeopardy_at(&lock->life, lock->client_engine->session.life);
}

/* Deadline and TTL may be shorter now. Returns when jeopardy begins. */
static int64_t look_again(struct hf_lock *lock)
{
    struct client_engine *e = lock->client_engine;
    int64_t next_ms = jeopardy_at(lock);
    e->next_lock_ms = next_ms < e->next_lock_ms ? next_ms : e->next_lock_ms;
    session_hurry(e, lock_life_ttl(&lock->life));
    return next_ms;
}

void lock_granted(struct hf_lock *lock)
{
    struct client_engine *e = lock->client_engine;
    lock->state = LOCK_HELD;
    list_append(&e->locks, &lock->link);
    look_again(lock);
    for (unsigned i = 0; i < ENGINE_EARLY; i++) {
        if (e->early[i].token == lock->token) {
            lock_lose(lock, e->early[i].why, "");
            return;
        }
    }
}

void locks_lost_early(struct client_engine *e, uint64_t token, const char *why)
{
    struct early_loss *early = &e->early[e->early_count++ % ENGINE_EARLY];
    early->token = token;
    snprintf(early->why, sizeof(early->why), "%s", why);
}

void lock_confirmed(struct hf_lock *lock, int64_t sent_ms)
{
    struct client_engine *e = lock->client_engine;
    lock_life_confirm(&lock->life, sent_ms);
    if (e->now_ms < look_again(lock) && lock->in_jeopardy) {
        lock->in_jeopardy = false;
        notification_event(e, HF_EVENT_SAFE, lock, 0, "confirmed");
    }
}

void lock_renewal_sent(struct client_call *call)
{
    hf_assert(call->lock->life.in_flight.ttl_ms == 0);
    call->sets_ttl = true;
    lock_life_renewal_sent(&call->lock->life, call->ttl_ms, call->sent_ms);
    if (call->lock->state == LOCK_HELD) {
        (void)look_again(call->lock);
    }
}

void lock_renewal_ended(struct client_call *call, enum renewal how)
{
    if (call->sets_ttl) {
        call->sets_ttl = false;
        lock_life_renewal_ended(&call->lock->life, how);
    }
}

void lock_lose(struct hf_lock *lock, const char *why, const char *words)
{
    struct client_engine *e = lock->client_engine;
    if (lock->state != LOCK_HELD) {
        return;
    }
    lock->state = LOCK_LOST;
    list_remove(&lock->link);
    list_remove(&lock->check_link);
    snprintf(lock->loss, sizeof(lock->loss), "%s", why);
    notification_event(e, HF_EVENT_LOST, lock, 0,
                       words != NULL && words[0] != '\0' ? words : lock->loss);
}

/* Lost for the caller, but the service may still hold it, extended by keep-alives. So it is
 * released, but not before the lock-delay of an unclean end. */
static void lose_and_give_back(struct hf_lock *lock, const char *why)
{
    lock_lose(lock, why, NULL);
    struct client_call *call = client_call_new(lock->client_engine, CALL_RELEASE, lock, NULL);
    call->retry_at_ms = lock->client_engine->now_ms + lock->options.lock_delay_ms;
    call_begin(call, NEVER_MS);
}

void locks_lose_all(struct client_engine *e, const char *why)
{
    while (!list_is_empty(&e->locks)) {
        lock_lose(LIST_OBJECT(e->locks.next, struct hf_lock, link), why, NULL);
    }
    e->next_lock_ms = NEVER_MS;
}

void locks_epoch(struct client_engine *e)
{
    struct list *next;
    for (struct list *at = e->locks.next; at != &e->locks; at = next) {
        struct hf_lock *lock = LIST_OBJECT(at, struct hf_lock, link);
        next = at->next;
        if (lock->options.tier == HF_EFFICIENCY && lock->epoch != e->session.epoch) {
            lock_lose(lock, "epoch", NULL);
        }
    }
}

void lock_gone(struct hf_lock *lock)
{
    lock->is_gone = true;
    list_remove(&lock->handle_link);
    list_remove(&lock->link);
    list_remove(&lock->check_link);
    if (lock->state == LOCK_HELD) {
        lock->state = LOCK_RELEASED;
    }
}

struct hf_lock *locks_find(struct client_engine *e, uint64_t token)
{
    for (struct list *at = e->locks.next; at != &e->locks; at = at->next) {
        struct hf_lock *lock = LIST_OBJECT(at, struct hf_lock, link);
        if (lock->token == token) {
            return lock;
        }
    }
    return NULL;
}

static const char *why_late(const struct hf_lock *lock)
{
    const struct client_session *s = &lock->client_engine->session;
    return lock_life_ends_by_hold(&lock->life, s->life) ? "max_hold" : "unconfirmed";
}

void locks_tick(struct client_engine *e)
{
    if (e->now_ms < e->next_lock_ms) {
        return;
    }
    struct list *next;
    e->next_lock_ms = NEVER_MS;
    e->any_jeopardy = false;
    for (struct list *at = e->locks.next; at != &e->locks; at = next) {
        struct hf_lock *lock = LIST_OBJECT(at, struct hf_lock, link);
        int64_t safe_until_ms = lock_safe_until(lock);
        next = at->next;
        enum standing standing = life_standing(jeopardy_at(lock), safe_until_ms, e->now_ms);
        if (standing == STANDING_LOST) {
            lose_and_give_back(lock, why_late(lock));
            continue;
        }
        bool in_jeopardy = standing == STANDING_JEOPARDY;
        if (in_jeopardy != lock->in_jeopardy) {
            lock->in_jeopardy = in_jeopardy;
            notification_event(e, in_jeopardy ? HF_EVENT_JEOPARDY : HF_EVENT_SAFE, lock, 0,
                               in_jeopardy ? why_late(lock) : "confirmed");
        }
        e->any_jeopardy = e->any_jeopardy || in_jeopardy;
        int64_t next_ms = in_jeopardy ? safe_until_ms : jeopardy_at(lock);
        e->next_lock_ms = next_ms < e->next_lock_ms ? next_ms : e->next_lock_ms;
    }
}

void locks_check_all(struct client_engine *e)
{
    for (struct list *at = e->locks.next; at != &e->locks; at = at->next) {
        struct hf_lock *lock = LIST_OBJECT(at, struct hf_lock, link);
        list_append(&e->to_check, &lock->check_link);
    }
}

void locks_go(struct client_engine *e)
{
    while (e->checks < ENGINE_CHECKS && !list_is_empty(&e->to_check)) {
        struct hf_lock *lock = LIST_OBJECT(list_take(&e->to_check), struct hf_lock, check_link);
        struct client_call *call = client_call_new(e, CALL_RENEW, lock, NULL);
        call->is_check = true;
        e->checks++;
        call_begin(call, NEVER_MS);
    }
}
