/* See pending.h. pending_wait.c handles events, pending_cleanup.c disconnected clients,
 * pending_keepalive.c keep-alives. */
#include "service/state.h"

static uint32_t parked_hash(const void *ctx, const void *object)
{
    return pending_hash(((const struct pending_request *)object)->attachment);
}

static bool timer_before(const void *ctx, ref a, ref b)
{
    return a < b;
}

static void timer_moved(void *ctx, ref who, uint32_t position)
{
    pending_at(ctx, who)->timer = position;
}

static const struct heap_ops timer_ops = {timer_before, timer_moved};

void pending_open_all(struct service *s)
{
    pool_init(&s->pool, s->memory);
    table_init(&s->parked, s->memory, &s->pool, offsetof(struct pending_request, parked_next),
               parked_hash, s);
    heap_init(&s->timers, s->memory, &timer_ops, s);
    list_init(&s->waiting);
    list_init(&s->notified);
    list_init(&s->cleanups);
    list_init(&s->gathered);
    list_init(&s->differing);
    list_init(&s->rounds);
    s->gathered_due_ms = UINT64_MAX;
    s->early = memory_alloc(s->memory, sizeof(*s->early) * SERVICE_EARLY);
    memset(s->early, 0, sizeof(*s->early) * SERVICE_EARLY);
    s->encoded = memory_alloc(s->memory, SERVICE_COMMAND_MAX);
}

void pending_close_all(struct service *s)
{
    keepalive_close_all(s);
    memory_free(s->memory, s->encoded, SERVICE_COMMAND_MAX);
    memory_free(s->memory, s->early, sizeof(*s->early) * SERVICE_EARLY);
    heap_close(&s->timers);
    table_close(&s->parked);
    pool_close(&s->pool);
}

struct pending_request *pending_new(struct service *s, pending_answer_fn on_answer, void *owner)
{
    ref self = 0;
    struct pending_request *a = pool_alloc(&s->pool, sizeof(*a), &self);
    a->service = s;
    a->self = self;
    a->on_answer = on_answer;
    a->owner = owner;
    a->source = s->source;
    a->wait_deadline_ms = UINT64_MAX;
    a->give_up_ms = UINT64_MAX;
    list_init(&a->link);
    list_init(&a->work);
    return a;
}

void pending_timer(struct pending_request *a, uint64_t at_ms)
{
    struct heap *timers = &a->service->timers;
    if (a->timer != 0) {
        heap_remove(timers, a->timer);
    }
    if (at_ms != UINT64_MAX) {
        heap_insert(timers, at_ms, a->self);
    }
}

void pending_park(struct pending_request *a)
{
    hf_assert(!a->is_parked);
    table_insert(&a->service->parked, pending_hash(a->attachment), a->self);
    a->is_parked = true;
}

void pending_unpark(struct pending_request *a)
{
    if (a->is_parked) {
        table_remove(&a->service->parked, pending_hash(a->attachment), a->self);
        a->is_parked = false;
    }
}

/* Removes it from all timers, tables and lists. */
void pending_stop_waiting(struct pending_request *a)
{
    pending_timer(a, UINT64_MAX);
    pending_unpark(a);
    if (a->may_wait && (a->state == PENDING_SUBMITTED || a->state == PENDING_WAITING ||
                        a->state == PENDING_NOTIFIED)) {
        a->service->waiting_count--;
    }
    list_remove(&a->link);
    list_remove(&a->work);
}

void pending_free(struct pending_request *a)
{
    hf_assert(!a->in_flight);
    struct service *s = a->service;
    pending_stop_waiting(a);
    if (a->command != 0) {
        pool_free(&s->pool, a->command, a->command_len);
    }
    pool_free(&s->pool, a->self, sizeof(*a));
}

static void on_done(struct gateway_call *call, enum hf_error error, const struct result *result);

/* 0: the gateway's default. A waiting client is answered shortly after its wait, even without a
 * leader. */
static uint32_t within_ms(const struct pending_request *a, const struct command *command)
{
    if (!a->may_wait || a->gone || a->state == PENDING_CLEANUP) {
        return 0;
    }
    uint64_t within;
    if (!a->repeated) {
        uint64_t wait_ms = command->acquire.wait_ms;
        within = wait_ms > UINT32_MAX - SERVICE_WAIT_GRACE_MS ? 0 : wait_ms + SERVICE_WAIT_GRACE_MS;
        return within != 0 && within < SERVICE_WAIT_REACH_MS ? SERVICE_WAIT_REACH_MS
                                                             : (uint32_t)within;
    }
    uint64_t now_ms = service_boot_ms(a->service);
    within = a->give_up_ms > now_ms ? a->give_up_ms - now_ms : 1;
    return within > UINT32_MAX ? 0 : (uint32_t)within;
}

void pending_send(struct pending_request *a, const struct command *command)
{
    struct service *s = a->service;
    hf_assert(!a->in_flight);
    a->in_flight = true;
    a->call = (struct gateway_call){.done = on_done,
                                    .owner = a,
                                    .tier = a->tier,
                                    .source = a->source,
                                    .is_own = a->is_own,
                                    .within_ms = within_ms(a, command)};
    s->gateway.submit(s->gateway.ctx, command, &a->call);
}

void pending_keep_command(struct pending_request *a, const struct command *command)
{
    struct service *s = a->service;
    size_t len = command_encode(command, CORE_VERSION, s->encoded, SERVICE_COMMAND_MAX);
    hf_assert(len > 0);
    a->command_len = (uint32_t)len;
    memcpy(pool_alloc(&s->pool, len, &a->command), s->encoded, len);
}

struct pending_request *pending_submit(struct service *s, const struct command *command,
                                       bool keeps_place, pending_answer_fn on_answer, void *owner)
{
    return pending_submit_tier(s, command, TIER_CORRECTNESS, keeps_place, on_answer, owner);
}

/* The tier of the command's token, if any. The leader finds it itself, but only an answer of
 * EFFICIENCY carries the leader's clock. Without it a follower would report too long a time to
 * expiry. */
static enum tier tier_of(const struct command *command, enum tier requested)
{
    uint64_t token = command->type == COMMAND_RELEASE    ? command->release.token
                     : command->type == COMMAND_RENEW    ? command->renew.token
                     : command->type == COMMAND_PROCLAIM ? command->proclaim.token
                                                         : 0;
    return token == 0 ? requested : tier_of_token(token);
}

/* Re-entrant: identified by its request id, not its lease. */
static bool is_counted(const struct command *command)
{
    return command->type == COMMAND_ACQUIRE && !id_is_zero(command->session) &&
           (command->acquire.flags & ACQUIRE_REENTRANT) != 0;
}

struct pending_request *pending_submit_tier(struct service *s, const struct command *command,
                                            enum tier tier, bool keeps_place,
                                            pending_answer_fn on_answer, void *owner)
{
    struct pending_request *a = pending_new(s, on_answer, owner);
    a->state = PENDING_SUBMITTED;
    a->tier = tier_of(command, tier);
    a->who = caller_of(command);
    a->keeps_place = keeps_place;
    if (command->type == COMMAND_ACQUIRE) {
        a->is_acquire = true;
        a->lease = command->acquire.lease;
        a->may_wait = command->acquire.wait_ms > 0;
    }
    if (command->type == COMMAND_STREAM_UP || command->type == COMMAND_STREAM_THROUGH) {
        a->is_stream = true;
        a->lease = command->session;
    }
    if (a->may_wait || is_counted(command)) {
        pending_keep_command(a, command);
    }
    if (a->may_wait) {
        list_append(&s->waiting, &a->link);
        s->waiting_count++;
    }
    pending_send(a, command);
    return a;
}

struct pending_request *pending_barrier(struct service *s, pending_answer_fn on_answer, void *owner)
{
    return pending_look(s, slice_make(NULL, 0), on_answer, owner);
}

struct pending_request *pending_look(struct service *s, struct slice look,
                                     pending_answer_fn on_answer, void *owner)
{
    struct pending_request *a = pending_new(s, on_answer, owner);
    a->state = PENDING_SUBMITTED;
    a->in_flight = true;
    a->call = (struct gateway_call){.done = on_done, .owner = a, .look = look, .source = a->source};
    s->gateway.barrier(s->gateway.ctx, &a->call);
    return a;
}

/* With a request id or sequence number the core recognizes the acquire: the command is unchanged.
 * With a lease id only, it could start a new wait: it gets the remaining wait time (S7.4), or none
 * if the client is gone. */
void pending_submit_again(struct pending_request *a)
{
    struct service *s = a->service;
    struct command command;
    struct slice bytes = slice_make(pool_at(&s->pool, a->command), a->command_len);
    enum hf_error error = command_decode(bytes, &command);
    hf_assert(error == HF_OK && command.type == COMMAND_ACQUIRE);
    if ((command.request_id.len == 0 && command.seq == 0) || a->is_void) {
        uint64_t now_ms = service_cluster_ms(s);
        if (a->gone || a->state == PENDING_CLEANUP || a->wait_deadline_ms <= now_ms) {
            command.acquire.wait_ms = 0;
        } else if (a->wait_deadline_ms != UINT64_MAX) {
            command.acquire.wait_ms = a->wait_deadline_ms - now_ms;
        }
    }
    command.acquire.node = s->node;
    a->is_void = false;
    a->repeated = true;
    pending_send(a, &command);
}

static bool is_not_reached(enum hf_error error)
{
    return error == HF_UNAVAILABLE || error == HF_OUTCOME_UNKNOWN || error == HF_BUSY ||
           error == HF_DISK_FULL;
}

void pending_answer(struct pending_request *a, enum hf_error error, const struct result *result)
{
    pending_stop_waiting(a);
    a->state = PENDING_ANSWERED;
    a->unknown = error == HF_OUTCOME_UNKNOWN;
    if (error == HF_OK && result != NULL && result->error == HF_OK && a->is_acquire &&
        result->outcome == OUTCOME_GRANTED && result->ended == ENDED_NOT) {
        a->held = true;
        a->lease = result->lease;
    }
    a->on_answer(a->owner, error, result);
}

/* Latest time to answer: shortly after the wait (S7.6). */
static uint64_t give_up_at(const struct pending_request *a)
{
    if (a->wait_deadline_ms == UINT64_MAX) {
        return UINT64_MAX;
    }
    uint64_t now_ms = service_cluster_ms(a->service);
    uint64_t left_ms = a->wait_deadline_ms > now_ms ? a->wait_deadline_ms - now_ms : 0;
    return service_boot_ms(a->service) + left_ms + SERVICE_WAIT_GRACE_MS;
}

static void park(struct pending_request *a, const struct result *result)
{
    struct service *s = a->service;
    a->lease = result->lease;
    a->attachment = result->attachment;
    a->wait_deadline_ms = result->wait_deadline_ms;
    a->unchecked = result->deadlock_unchecked;
    if (a->gone) {
        pending_leave(a, HF_OK, result);
        return;
    }
    a->state = PENDING_WAITING;
    a->give_up_ms = give_up_at(a);
    pending_timer(a, a->give_up_ms == UINT64_MAX
                         ? UINT64_MAX
                         : a->give_up_ms - SERVICE_WAIT_GRACE_MS + SERVICE_WAIT_QUERY_MS);
    struct wait_outcome *early = &s->early[a->attachment % SERVICE_EARLY];
    bool is_early = early->attachment == a->attachment && id_equal(early->lease, a->lease);
    if (a->again || (!is_early && a->attachment <= s->early_lost[a->tier])) {
        a->again = false;
        pending_cleanup(a, CLEANUP_AGAIN);
    } else if (is_early) {
        pending_notify(a, early);
        *early = (struct wait_outcome){.type = EVENT_NONE};
    } else {
        pending_park(a);
    }
}

/* The outcome is unknown: waits until give_up_ms. False: the client is gone, or the time is
 * over. */
static bool retry_later(struct pending_request *a)
{
    uint64_t now_ms = service_boot_ms(a->service);
    if (a->gone || now_ms >= a->give_up_ms) {
        return false;
    }
    a->state = PENDING_WAITING;
    a->cleanup = CLEANUP_AGAIN;
    uint64_t retry_ms = now_ms + SERVICE_RETRY_MS;
    pending_timer(a, retry_ms < a->give_up_ms ? retry_ms : a->give_up_ms);
    return true;
}

static void on_done(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    struct pending_request *a = call->owner;
    hf_assert(a->in_flight);
    a->in_flight = false;
    if (a->state == PENDING_CLEANUP) {
        pending_cleanup_done(a, error, result);
        return;
    }
    hf_assert(a->state == PENDING_SUBMITTED);
    if (a->cancels) {
        pending_cancel_step(a, error, result);
        return;
    }
    bool is_answered = error == HF_OK && result != NULL && result->error == HF_OK;
    if (is_answered && a->is_acquire && result->outcome == OUTCOME_QUEUED) {
        park(a, result);
        return;
    }
    a->service->looked = call->page;
    if (a->repeated && is_not_reached(error)) {
        if (retry_later(a)) {
            return;
        }
        error = HF_OUTCOME_UNKNOWN;
    }
    if (a->gone) {
        pending_leave(a, error, result);
        return;
    }
    if (a->repeated && is_answered && result->outcome == OUTCOME_REFUSED &&
        (result->reason == REASON_HELD || result->reason == REASON_DELAYED)) {
        struct result late = *result; /* the remaining wait time was too short */
        late.reason = REASON_TIMEOUT;
        pending_answer(a, error, &late);
        return;
    }
    pending_answer(a, error, result);
}

bool pending_settle(struct pending_request *a)
{
    hf_assert(a->state == PENDING_ANSWERED);
    if (a->held && !a->keeps_place) {
        return false;
    }
    if (a->unknown && a->may_wait) {
        /* It may wait without an attached node. The answer names an id to retry with. */
        a->gone = true;
        a->keeps_place = true;
        pending_leave(a, HF_OUTCOME_UNKNOWN, NULL);
    } else {
        pending_free(a);
    }
    return true;
}

void pending_written(struct pending_request *a)
{
    hf_assert(a->state == PENDING_ANSWERED);
    pending_free(a);
}

void pending_abandon(struct pending_request *a)
{
    hf_assert(!a->gone);
    a->gone = true;
    switch (a->state) {
    case PENDING_SUBMITTED:
    case PENDING_GATHERED:
        return; /* the result decides */
    case PENDING_WAITING:
        if (a->cleanup == CLEANUP_AGAIN) {
            pending_leave(a, HF_OUTCOME_UNKNOWN, NULL); /* its attachment may be outdated */
        } else {
            pending_cleanup(a, a->keeps_place ? CLEANUP_DETACH : CLEANUP_CANCEL);
        }
        return;
    case PENDING_NOTIFIED:
        a->held = a->outcome.type == EVENT_GRANTED;
        a->lease = a->held ? a->outcome.lease : a->lease;
        break;
    case PENDING_ANSWERED:
    case PENDING_DIFFERS:
        break;
    case PENDING_CLEANUP:
        hf_panic(__FILE__, __LINE__, "pending_abandon was called in the state CLEANUP");
    }
    if (a->held && !a->keeps_place) {
        pending_cleanup(a, CLEANUP_RELEASE);
    } else {
        pending_free(a);
    }
}

static void run_timers(struct service *s, uint64_t now_ms)
{
    while (heap_min_at(&s->timers) <= now_ms) {
        struct pending_request *a = pending_at(s, heap_min(&s->timers));
        pending_timer(a, UINT64_MAX);
        if (a->state == PENDING_WAITING) {
            pending_cleanup(a, CLEANUP_AGAIN);
        } else {
            hf_assert(a->state == PENDING_CLEANUP);
            list_append(&s->cleanups, &a->work);
        }
    }
}

void pending_run(struct service *s)
{
    run_timers(s, service_boot_ms(s));
    keepalive_run(s);
    for (struct list *link = list_take(&s->notified); link != NULL;
         link = list_take(&s->notified)) {
        pending_answer_notified(LIST_OBJECT(link, struct pending_request, work));
    }
    struct list cleanups;
    list_init(&cleanups);
    list_move_all(&cleanups, &s->cleanups);
    for (struct list *link = list_take(&cleanups); link != NULL; link = list_take(&cleanups)) {
        pending_cleanup_run(LIST_OBJECT(link, struct pending_request, work));
    }
}

uint64_t pending_next_ms(const struct service *s)
{
    if (!list_is_empty(&s->notified) || !list_is_empty(&s->cleanups) ||
        !list_is_empty(&s->differing)) {
        return 0;
    }
    uint64_t next_ms = heap_min_at(&s->timers);
    return s->gathered_due_ms < next_ms ? s->gathered_due_ms : next_ms;
}
