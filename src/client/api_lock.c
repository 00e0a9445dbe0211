/* Public functions of locks. */
#include <stdio.h>

#include "base/text.h"
#include "client/client.h"
#include "client/options.h"
#include "client/proto.h"

/* The ticket; the client is entered then. NULL: *error is the reason. */
static struct hf_call *begin(hf_client *c, const char *const *names, size_t count,
                             const char *value, const struct hf_lock_options *given, bool waits,
                             int *error)
{
    struct hf_lock_options options;
    *error = options_read_lock(given, names, count, &options);
    if (*error == 0 && value != NULL &&
        (strlen(value) > LIMIT_VALUE || !text_is_utf8(slice_of(value)))) {
        *error = error_set(HF_ERR_INVALID, "a value is at most 4,096 bytes of UTF-8");
    }
    if (*error == 0 && value != NULL && options.mode != HF_EXCLUSIVE) {
        *error = error_set(HF_ERR_INVALID, "a campaign is for one leader, and has no mode");
    }
    if (*error == 0) {
        *error = client_enter(c, waits);
    }
    if (*error != 0) {
        return NULL;
    }
    struct hf_call *ticket = ticket_new(c);
    struct hf_lock *lock = client_lock_new(
        names, count, &options,
        options.metadata != NULL ? options.metadata : c->client_engine.options.metadata);
    lock->client = c;
    lock->is_election = value != NULL;
    lock->value = value != NULL ? client_copy(value) : NULL;
    client_engine_acquire(&c->client_engine, lock, ticket, client_now_ms());
    return ticket;
}

static int acquire(hf_client *c, const char *const *names, size_t count, const char *value,
                   const struct hf_lock_options *given, hf_lock **out)
{
    int error;
    struct hf_lock *lock = NULL;
    struct hf_call *ticket = begin(c, names, count, value, given, true, &error);
    if (ticket == NULL) {
        return error;
    }
    error = client_wait(c, ticket, &lock, NULL);
    client_leave(c);
    if (error == 0) {
        *out = lock;
    }
    return error;
}

int hf_acquire(hf_client *c, const char *name, const struct hf_lock_options *options, hf_lock **out)
{
    return acquire(c, &name, 1, NULL, options, out);
}

int hf_acquire_many(hf_client *c, const char *const *names, size_t count,
                    const struct hf_lock_options *options, hf_lock **out)
{
    return acquire(c, names, count, NULL, options, out);
}

int hf_campaign(hf_client *c, const char *name, const char *value,
                const struct hf_lock_options *options, hf_lock **out)
{
    return acquire(c, &name, 1, value == NULL ? "" : value, options, out);
}

static int acquire_async(hf_client *c, const char *const *names, size_t count, const char *value,
                         const struct hf_lock_options *options, hf_done_fn done, void *arg,
                         hf_call **out)
{
    int error;
    if (done == NULL) {
        return error_set(HF_ERR_INVALID, "a call that does not wait needs a callback");
    }
    struct hf_call *ticket = begin(c, names, count, value, options, false, &error);
    if (ticket == NULL) {
        return error;
    }
    ticket->done = done;
    ticket->arg = arg;
    if (out != NULL) {
        *out = ticket;
    }
    client_kick(c);
    client_leave(c);
    return 0;
}

int hf_acquire_async(hf_client *c, const char *const *names, size_t count,
                     const struct hf_lock_options *options, hf_done_fn done, void *arg,
                     hf_call **out)
{
    return acquire_async(c, names, count, NULL, options, done, arg, out);
}

int hf_campaign_async(hf_client *c, const char *name, const char *value,
                      const struct hf_lock_options *options, hf_done_fn done, void *arg,
                      hf_call **out)
{
    return acquire_async(c, &name, 1, value == NULL ? "" : value, options, done, arg, out);
}

static int lost(const struct hf_lock *lock)
{
    return error_set(HF_ERR_LOST, "%s was lost: %s", lock->names[0], lock->loss);
}

int hf_release(hf_lock *lock)
{
    if (lock == NULL) {
        return 0;
    }
    struct hf_client *c = lock->client;
    int error = client_enter(c, true);
    if (error != 0) {
        return error;
    }
    struct hf_call *ticket = ticket_new(c);
    lock_ref(lock); /* for the error text */
    error = client_engine_release(&c->client_engine, lock, ticket, client_now_ms());
    if (error == 0) {
        error = client_wait(c, ticket, NULL, NULL);
    } else {
        ticket_free(ticket);
        error = lost(lock);
        client_kick(c);
    }
    lock_unref(lock);
    client_leave(c);
    return error;
}

int hf_release_async(hf_lock *lock, hf_done_fn done, void *arg)
{
    if (lock == NULL) {
        return 0;
    }
    struct hf_client *c = lock->client;
    int error = client_enter(c, false);
    if (error != 0) {
        return error;
    }
    struct hf_call *ticket = ticket_new(c);
    ticket->done = done;
    ticket->arg = arg;
    if (client_engine_release(&c->client_engine, lock, ticket, client_now_ms()) != 0) {
        ticket->error = HF_ERR_LOST;
        snprintf(ticket->text, sizeof(ticket->text), "%s", hf_error_message(HF_ERR_LOST));
        notification_done(&c->client_engine, ticket);
    }
    client_kick(c);
    client_leave(c);
    return 0;
}

void hf_lock_free(hf_lock *lock)
{
    if (lock == NULL || client_enter(lock->client, false) != 0) {
        return;
    }
    struct hf_client *c = lock->client;
    if (lock->state == LOCK_HELD && lock_life_ttl(&lock->life) < c->client_engine.orphan_ttl_ms) {
        c->client_engine.orphan_ttl_ms =
            lock_life_ttl(&lock->life); /* our keep-alives still extend it */
    }
    lock_gone(lock);
    lock_unref(lock);
    client_leave(c);
}

int hf_renew(hf_lock *lock, uint32_t ttl_ms)
{
    struct hf_client *c = lock->client;
    if (ttl_ms != 0 && (ttl_ms < LIMIT_TTL_MIN_MS || ttl_ms > LIMIT_TTL_MAX_MS)) {
        return error_set(HF_ERR_INVALID, "ttl_ms is out of range (100 ms to 24 h)");
    }
    int error = client_enter(c, true);
    if (error != 0) {
        return error;
    }
    struct hf_call *ticket = ticket_new(c);
    error = client_engine_renew(&c->client_engine, lock, ttl_ms, ticket, client_now_ms());
    if (error == 0) {
        error = client_wait(c, ticket, NULL, NULL);
    } else {
        ticket_free(ticket);
        error = lost(lock);
        client_kick(c);
    }
    client_leave(c);
    return error;
}

int hf_proclaim(hf_lock *lock, const char *value)
{
    struct hf_client *c = lock->client;
    if (!lock->is_election || value == NULL || strlen(value) > LIMIT_VALUE ||
        !text_is_utf8(slice_of(value))) {
        return error_set(HF_ERR_INVALID,
                         "hf_proclaim is for hf_campaign; a value is at most 4,096 bytes of UTF-8");
    }
    int error = client_enter(c, true);
    if (error != 0) {
        return error;
    }
    struct hf_call *ticket = ticket_new(c);
    error = client_engine_proclaim(&c->client_engine, lock, value, ticket, client_now_ms());
    if (error == 0) {
        error = client_wait(c, ticket, NULL, NULL);
    } else {
        ticket_free(ticket);
        error = lost(lock);
        client_kick(c);
    }
    client_leave(c);
    return error;
}

uint64_t hf_lock_token(const hf_lock *lock)
{
    return lock->token;
}

const char *hf_lock_name(const hf_lock *lock)
{
    return lock->names[0];
}

const char *hf_lock_lease(const hf_lock *lock)
{
    return lock->lease;
}

uint32_t hf_lock_slot(const hf_lock *lock)
{
    return lock->slot;
}

/* By the present time: the client's thread may be late. In a forked child it is not held: the lock
 * belongs to the parent, and the mutex may have been locked at the fork. */
static int64_t look(const struct hf_lock *lock, bool *is_held)
{
    struct hf_client *c = lock->client;
    int64_t now_ms = client_now_ms();
    int64_t left_ms = 0;
    *is_held = false;
    if (client_is_forked(c)) {
        return 0;
    }
    pthread_mutex_lock(&c->mutex);
    if (lock->state == LOCK_HELD) {
        left_ms = life_left(lock_safe_until(lock), now_ms);
        if (left_ms == 0) {
            client_engine_go(&c->client_engine, now_ms);
            client_kick(c);
        }
    }
    *is_held = lock->state == LOCK_HELD;
    pthread_mutex_unlock(&c->mutex);
    return left_ms;
}

int64_t hf_lock_safe_for_ms(const hf_lock *lock)
{
    bool is_held;
    return look(lock, &is_held);
}

int hf_lock_check(const hf_lock *lock)
{
    bool is_held;
    (void)look(lock, &is_held);
    if (client_is_forked(lock->client)) {
        return client_refuse_child();
    }
    return is_held ? 0 : lost(lock);
}

const char *hf_lock_loss(const hf_lock *lock)
{
    bool is_held;
    (void)look(lock, &is_held);
    return is_held || client_is_forked(lock->client) ? "" : lock->loss;
}
