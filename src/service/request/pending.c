/* Commands on their way and waits held open, see ask.h. What events do to them is in wait_outcome.c,
 * what is left to do when a client is gone in pending_leave.c, keep-alives are in pending_keepalive.c. */
#include "service/state.h"

/* ---- memory, lists and timers ---- */

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
    list_init(&s->told);
    list_init(&s->errands);
    list_init(&s->gathered);
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

/* It no longer waits for an answer. */
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

/* ---- asking ---- */

static void on_done(struct gateway_call *call, enum hf_error error, const struct result *result);

/* How long the gateway may take, 0: as long as for any request. A client that waits is answered soon
 * after the end of its wait, also where no leader can be reached. */
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
                                    .within_ms = within_ms(a, command)};
    s->gateway.submit(s->gateway.ctx, command, &a->call);
}

void pending_keep_command(struct pending_request *a, const struct command *command)
{
    struct service *s = a->service;
    size_t len = command_encode(command, s->encoded, SERVICE_COMMAND_MAX);
    hf_assert(len > 0);
    a->command_len = (uint32_t)len;
    memcpy(pool_alloc(&s->pool, len, &a->command), s->encoded, len);
}

struct pending_request *pending_submit(struct service *s, const struct command *command,
                                       bool keeps_place, pending_answer_fn on_answer, void *owner)
{
    return pending_submit_tier(s, command, TIER_CORRECTNESS, keeps_place, on_answer, owner);
}

/* The leader would find it by itself; but the answer of that tier brings the leader's clock with
 * it, without which another node would tell too long a time. */
static enum tier tier_of(const struct command *command, enum tier asked)
{
    uint64_t token = command->type == COMMAND_RELEASE    ? command->release.token
                     : command->type == COMMAND_RENEW    ? command->renew.token
                     : command->type == COMMAND_PROCLAIM ? command->proclaim.token
                                                         : 0;
    return token == 0 ? asked : tier_of_token(token);
}

/* An acquire that may enter a lock again: what it did is found out by its id, not by its lease. */
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
    a->tenant = command->tenant;
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

/* The acquire once more. One that the core remembers by its id goes as it was. One that it knows by
 * its lease id only would begin a new wait if the old one is over: it gets what is left (S7.4), and
 * nothing if there is no client to wait for. */
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

/* ---- answers ---- */

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

/* When the client is answered at the latest: shortly after the wait should have ended (S7.6). */
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
                         : a->give_up_ms - SERVICE_WAIT_GRACE_MS + SERVICE_WAIT_ASK_MS);
    struct wait_outcome *early = &s->early[a->attachment % SERVICE_EARLY];
    bool is_early = early->attachment == a->attachment && id_equal(early->lease, a->lease);
    if (a->again || (!is_early && a->attachment <= s->early_lost[a->tier])) {
        a->again = false;
        pending_cleanup(a, CLEANUP_AGAIN);
    } else if (is_early) {
        pending_tell(a, early);
        *early = (struct wait_outcome){.type = EVENT_NONE};
    } else {
        pending_park(a);
    }
}

/* The answer to a repeated acquire, when that could not be asked: nothing is known about the wait,
 * so it goes on, within its bounds. */
static bool is_tried_later(struct pending_request *a)
{
    uint64_t now_ms = service_boot_ms(a->service);
    if (a->gone || now_ms >= a->give_up_ms) {
        return false;
    }
    a->state = PENDING_WAITING;
    a->errand = CLEANUP_AGAIN;
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
        if (is_tried_later(a)) {
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
        struct result late = *result; /* the time that was left was too short */
        late.reason = REASON_TIMEOUT;
        pending_answer(a, error, &late);
        return;
    }
    pending_answer(a, error, result);
}

/* ---- the owner's side ---- */

bool pending_settle(struct pending_request *a)
{
    hf_assert(a->state == PENDING_ANSWERED);
    if (a->held && !a->keeps_place) {
        return false;
    }
    if (a->unknown && a->may_wait) {
        /* It may be waiting, attached to nobody. The client was given an id to come back with. */
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
        return; /* what comes back decides */
    case PENDING_WAITING:
        if (a->errand == CLEANUP_AGAIN) {
            pending_leave(a, HF_OUTCOME_UNKNOWN, NULL); /* its attachment number may be void */
        } else {
            pending_cleanup(a, a->keeps_place ? CLEANUP_DETACH : CLEANUP_CANCEL);
        }
        return;
    case PENDING_NOTIFIED:
        a->held = a->news.type == EVENT_GRANTED;
        a->lease = a->held ? a->news.lease : a->lease;
        break;
    case PENDING_ANSWERED:
        break;
    case PENDING_CLEANUP:
        hf_panic(__FILE__, __LINE__, "an ask that leaves has no owner to abandon it");
    }
    if (a->held && !a->keeps_place) {
        pending_cleanup(a, CLEANUP_RELEASE);
    } else {
        pending_free(a);
    }
}

/* ---- running ---- */

static void run_timers(struct service *s, uint64_t now_ms)
{
    while (heap_min_at(&s->timers) <= now_ms) {
        struct pending_request *a = pending_at(s, heap_min(&s->timers));
        pending_timer(a, UINT64_MAX);
        if (a->state == PENDING_WAITING) {
            pending_cleanup(a, CLEANUP_AGAIN);
        } else {
            hf_assert(a->state == PENDING_CLEANUP);
            list_append(&s->errands, &a->work);
        }
    }
}

void pending_run(struct service *s)
{
    run_timers(s, service_boot_ms(s));
    keepalive_run(s);
    for (struct list *link = list_take(&s->told); link != NULL; link = list_take(&s->told)) {
        pending_answer_told(LIST_OBJECT(link, struct pending_request, work));
    }
    struct list errands;
    list_init(&errands);
    list_move_all(&errands, &s->errands);
    for (struct list *link = list_take(&errands); link != NULL; link = list_take(&errands)) {
        pending_cleanup_run(LIST_OBJECT(link, struct pending_request, work));
    }
}

uint64_t pending_next_ms(const struct service *s)
{
    if (!list_is_empty(&s->told) || !list_is_empty(&s->errands)) {
        return 0;
    }
    uint64_t next_ms = heap_min_at(&s->timers);
    return s->gathered_due_ms < next_ms ? s->gathered_due_ms : next_ms;
}
