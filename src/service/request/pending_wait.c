/* Applies events to the acquires that wait on this node.
 *
 * An event can precede its result: a follower receives results and log entries over different
 * connections. `early` keeps events of unknown attachment numbers. If one was overwritten, the
 * acquire is submitted again to learn its outcome. */
#include "core/view.h"
#include "replica/memory_tier.h"
#include "service/state.h"

static struct pending_request *parked_find(const struct service *s, uint64_t attachment)
{
    ref who = table_first(&s->parked, pending_hash(attachment));
    while (who != 0) {
        struct pending_request *a = pending_at(s, who);
        if (a->attachment == attachment) {
            return a;
        }
        who = a->parked_next;
    }
    return NULL;
}

void pending_notify(struct pending_request *a, const struct wait_outcome *outcome)
{
    pending_unpark(a);
    pending_timer(a, UINT64_MAX);
    a->state = PENDING_NOTIFIED;
    a->cleanup = CLEANUP_NONE;
    a->outcome = *outcome;
    list_append(&a->service->notified, &a->work);
}

static void keep_early(struct service *s, const struct wait_outcome *outcome)
{
    struct wait_outcome *slot = &s->early[outcome->attachment % SERVICE_EARLY];
    uint64_t *lost = &s->early_lost[tier_of_attachment(slot->attachment)];
    if (slot->type != EVENT_NONE && slot->attachment != outcome->attachment &&
        slot->attachment > *lost) {
        *lost = slot->attachment;
    }
    *slot = *outcome;
}

void pending_on_event(struct service *s, const struct event *e)
{
    bool is_grant = e->type == EVENT_GRANTED && e->attachment != 0;
    if (e->type == EVENT_DETACHED && id_is_zero(e->lease)) {
        pending_repeat_all(s); /* the cluster treated this node as failed (S7.3) */
        return;
    }
    if (e->part > 1 || /* of a multi-lock, the first name's event is enough */
        (!is_grant && e->type != EVENT_WAIT_ENDED && e->type != EVENT_SUPERSEDED)) {
        return;
    }
    struct wait_outcome outcome = {.type = e->type,
                                   .reason = e->reason,
                                   .mode = e->mode,
                                   .slot = e->slot,
                                   .attachment = e->attachment,
                                   .token = e->token,
                                   .deadline_ms = e->deadline_ms,
                                   .since_ms = e->since_ms,
                                   .waited_ms = e->waited_ms,
                                   .lease = e->lease};
    struct pending_request *a = parked_find(s, e->attachment);
    if (a == NULL) {
        keep_early(s, &outcome);
    } else if (a->state == PENDING_WAITING) {
        pending_notify(a, &outcome);
    } else {
        pending_unpark(a); /* in CLEANUP: the command's result has the same outcome */
    }
}

void pending_forget_early(struct service *s)
{
    memset(s->early, 0, sizeof(*s->early) * SERVICE_EARLY);
    memset(s->early_lost, 0, sizeof(s->early_lost));
}

void pending_repeat_all(struct service *s)
{
    for (struct list *link = s->waiting.next; link != &s->waiting; link = link->next) {
        struct pending_request *a = LIST_OBJECT(link, struct pending_request, link);
        if (a->state == PENDING_WAITING) {
            pending_cleanup(a, CLEANUP_AGAIN);
        } else if (a->state == PENDING_SUBMITTED) {
            a->again = true;
        }
    }
}

void pending_repeat_memory(struct service *s, bool is_void)
{
    for (struct list *link = s->waiting.next; link != &s->waiting; link = link->next) {
        struct pending_request *a = LIST_OBJECT(link, struct pending_request, link);
        if (a->tier != TIER_EFFICIENCY) {
            continue;
        }
        if (a->state == PENDING_WAITING) {
            a->is_void = a->is_void || is_void;
            pending_cleanup(a, CLEANUP_AGAIN);
        } else if (a->state == PENDING_SUBMITTED) {
            a->again = true;
        }
    }
}

/* For a wait that ended without a grant. */
static void describe_name(const struct core *core, const struct command *command,
                          struct result *out)
{
    const struct names *names = &command->acquire.names;
    for (uint32_t i = 0; i < names->count; i++) {
        struct lock_view lock;
        if (!view_lock(core, command->tenant, names->at[i], &lock)) {
            continue;
        }
        out->name = lock.name;
        out->mode = lock.mode;
        out->holders = lock.holders;
        out->has_holder = lock.has_holder;
        out->holder = lock.first.holder;
        out->queue_length = lock.queue_length;
        out->delayed_until_ms = lock.delayed_until_ms;
        out->reserved_for = lock.reserved_for;
        if (lock.has_holder) {
            return;
        }
    }
}

static void grant_result(const struct pending_request *a, const struct command *command,
                         struct result *out)
{
    out->outcome = OUTCOME_GRANTED;
    out->mode = a->outcome.mode;
    out->token = a->outcome.token;
    out->lease = a->outcome.lease;
    out->deadline_ms = a->outcome.deadline_ms;
    out->ttl_ms = command->acquire.ttl_ms;
    out->slot = a->outcome.slot;
    out->depth = 1;
    out->waited_ms = a->outcome.waited_ms;
    if (command->acquire.max_hold_ms != 0 && a->outcome.since_ms != 0) {
        out->hold_until_ms = a->outcome.since_ms + command->acquire.max_hold_ms;
    }
}

static void refusal_result(const struct pending_request *a, const struct command *command,
                           struct result *out)
{
    out->outcome = OUTCOME_REFUSED;
    out->reason = a->outcome.reason;
    if (a->outcome.reason == REASON_SESSION_ENDED) {
        *out = (struct result){.type = COMMAND_ACQUIRE, .error = HF_SESSION_EXPIRED};
    } else if (a->outcome.reason == REASON_DETACHED) {
        /* This node was disconnected too long: the place in the queue is lost. */
        *out = (struct result){.type = COMMAND_ACQUIRE, .error = HF_UNAVAILABLE};
    } else if (a->outcome.reason != REASON_DENIED) { /* which may not read the name either */
        const struct core *core = service_tier_core(a->service, a->tier);
        if (core != NULL) {
            describe_name(core, command, out);
        }
    }
}

void pending_answer_notified(struct pending_request *a)
{
    struct service *s = a->service;
    struct command command;
    struct slice bytes = slice_make(pool_at(&s->pool, a->command), a->command_len);
    enum hf_error error = command_decode(bytes, &command);
    hf_assert(error == HF_OK && a->state == PENDING_NOTIFIED);
    struct result result = {.type = COMMAND_ACQUIRE, .deadlock_unchecked = a->unchecked};
    if (a->outcome.type == EVENT_GRANTED) {
        grant_result(a, &command, &result);
    } else {
        refusal_result(a, &command, &result);
    }
    pending_answer(a, HF_OK, &result);
}
