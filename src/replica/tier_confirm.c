/* What a backend must confirm before it is reported (tier_backend.h).
 *
 *      granted by the core ─▶ held ──confirmed──▶ reported
 *                              │ │ it takes longer: the acquire is answered like a queued one,
 *                              │ │ with an attachment number of this tier; the grant stays
 *                              │ └──▶ waits ──confirmed──▶ reported by the event, TTL starts
 *                              └─ refused, or over ──▶ revoked: the core removes the grant */
#include "base/panic.h"
#include "replica/memory_tier_state.h"

enum { HOLDER_MAX = 200 };

static bool is_end(enum event_type type)
{
    return type == EVENT_RELEASED || type == EVENT_EXPIRED || type == EVENT_FORCED ||
           type == EVENT_REVOKED;
}

static uint64_t left_ms(uint64_t deadline_ms, uint64_t now_ms)
{
    return deadline_ms == UINT64_MAX ? UINT64_MAX : deadline_ms > now_ms ? deadline_ms - now_ms : 0;
}

/* The backend prolongs its record for as long as the lock is held, so that TTLs that only keys have
 * need no record of that length. 0: the lock has no TTL. */
static uint32_t backend_ttl(uint64_t ttl_ms)
{
    return ttl_ms == 0 || ttl_ms > LIMIT_TTL_MAX_MS ? LIMIT_TTL_MAX_MS
           : ttl_ms < LIMIT_TTL_MIN_MS              ? LIMIT_TTL_MIN_MS
                                                    : (uint32_t)ttl_ms;
}

static bool request_grant(struct memory_tier *t, const struct event *e)
{
    bool is_new = e->attachment == 0;
    hf_assert(e->part >= 1 && e->part <= e->parts);
    struct tier_hold hold = {
        .tenant = e->tenant,
        .name = e->name,
        .client = e->client,
        .token = e->token,
        .lease = e->lease,
        .part = e->part,
        .parts = e->parts,
        .ttl_ms = backend_ttl(e->ttl_ms),
        .wait_ms = is_new ? t->wait_ms : left_ms(e->wait_deadline_ms, e->at_ms),
        .is_new = is_new,
    };
    return t->backend.grant(t->backend.ctx, &hold);
}

static void hold_grant(struct memory_tier *t, struct held *h, const struct event *e)
{
    if (h == NULL) {
        h = held_add(&t->held, e->token);
        h->lease = e->lease;
        h->ttl_ms = e->ttl_ms == 0 ? TTL_NONE : e->ttl_ms;
        h->attachment = e->attachment;
        h->node = e->node;
        h->is_queued = e->attachment != 0;
        uint64_t wait_until_ms =
            t->wait_ms >= UINT64_MAX - e->at_ms ? UINT64_MAX : e->at_ms + t->wait_ms;
        h->wait_deadline_ms = h->is_queued ? e->wait_deadline_ms : wait_until_ms;
    }
    hf_assert(h->token == e->token && !h->is_over);
    held_event(&t->held, h, e);
}

/* Its start was not reported, so only its own request is notified of its end. */
static void note_over(struct memory_tier *t, struct held *h)
{
    if (!h->is_over) {
        h->is_over = true;
        held_take(&t->held, h);
        h->next_over = t->over;
        t->over = h;
    }
}

void tier_on_core_event(void *ctx, const struct event *from)
{
    struct memory_tier *t = ctx;
    struct event event = *from;
    event.tier = TIER_EFFICIENCY;
    if (event.type == EVENT_SESSION_CLOSED || event.type == EVENT_SESSION_EXPIRED) {
        return; /* of a mirrored session: the replicated state reports its end */
    }
    if (!t->has_backend || event.token == 0) {
        t->options.on_event(t->options.ctx, &event);
        return;
    }
    struct held *h = held_find(&t->held, event.token);
    if (is_end(event.type)) {
        t->backend.end(t->backend.ctx, event.token, event.tenant, event.name);
    }
    if (t->muted == event.token) {
        return;
    }
    if (event.type == EVENT_GRANTED && request_grant(t, &event)) {
        hold_grant(t, h, &event);
    } else if (h != NULL && is_end(event.type)) {
        note_over(t, h);
    } else if (h != NULL) {
        held_event(&t->held, h, &event);
    } else {
        bool is_over = false;
        for (const struct held *o = t->over; o != NULL && !is_over; o = o->next_over) {
            is_over = o->token == event.token; /* its other parts; that it is lost */
        }
        if (!is_over) {
            t->options.on_event(t->options.ctx, &event);
        }
    }
}

static void report_queued(struct memory_tier *t, const struct held *h, void *cookie,
                          const struct result *from)
{
    struct result result = {.type = COMMAND_ACQUIRE,
                            .outcome = OUTCOME_QUEUED,
                            .mode = from->mode,
                            .lease = h->lease,
                            .attachment = h->attachment,
                            .wait_deadline_ms = h->wait_deadline_ms,
                            .queue_position = 1,
                            .queue_length = 1};
    t->options.on_result(t->options.ctx, cookie, &result);
}

/* A number of this tier, above those of the core. */
static void attach(struct memory_tier *t, struct held *h, uint32_t node)
{
    uint64_t epoch = core_epoch(t->options.replicated(t->options.ctx));
    h->attachment = TIER_ATTACHMENTS + ((epoch % TIER_ATTACHMENT_EPOCHS) << TIER_ATTACHMENT_BITS) +
                    (UINT64_C(1) << (TIER_ATTACHMENT_BITS - 1)) + ++t->attachments;
    h->node = node;
    h->is_queued = true;
}

/* S7.1: a repeated request gets a new attachment; the older connection is notified. */
static void attach_again(struct memory_tier *t, struct held *h, uint32_t node)
{
    hf_assert(h->is_queued && h->attachment != 0);
    struct event superseded = {.type = EVENT_SUPERSEDED,
                               .tier = TIER_EFFICIENCY,
                               .index = t->index,
                               .node = h->node,
                               .attachment = h->attachment,
                               .lease = h->lease,
                               .part = 1,
                               .parts = 1,
                               .at_ms = core_now_ms(t->core),
                               .wall_ms = core_last_wall_ms(t->core)};
    t->options.on_event(t->options.ctx, &superseded);
    attach(t, h, node);
}

static void keep_result(struct held_table *table, void *cookie, const struct result *result)
{
    hf_assert(result->token != 0);
    struct held *h = held_find(table, result->token);
    held_result(table, h != NULL ? h : held_add(table, result->token), cookie, result);
}

void tier_report(struct memory_tier *t, const struct command *command, void *cookie,
                 const struct result *result)
{
    hf_assert(cookie != NULL && result->type == command->type);
    if (t->has_backend && result->error == HF_OK && command->type == COMMAND_ACQUIRE &&
        result->outcome == OUTCOME_GRANTED) {
        struct held *h = held_find(&t->held, result->token);
        if (h != NULL && h->is_queued) {
            attach_again(t, h, command->acquire.node);
            report_queued(t, h, cookie, result);
            return;
        }
        if (h != NULL) {
            h->node = command->acquire.node;
            held_result(&t->held, h, cookie, result);
            return;
        }
    }
    if (t->has_backend && result->error == HF_OK && command->type == COMMAND_RENEW &&
        result->outcome == OUTCOME_DONE && result->token != 0 &&
        t->backend.renew(t->backend.ctx, result->token, backend_ttl(result->ttl_ms))) {
        keep_result(&t->renewals, cookie, result);
        return;
    }
    /* Also after an earlier release, whose result the client does not know. */
    if (t->has_backend && result->error == HF_OK && command->type == COMMAND_RELEASE &&
        result->token != 0 && t->backend.release(t->backend.ctx, result->token)) {
        keep_result(&t->releases, cookie, result);
        return;
    }
    t->options.on_result(t->options.ctx, cookie, result);
}

static void begin_silent(struct memory_tier *t)
{
    hf_assert(t->core != NULL && t->options.now != NULL);
    struct tier_time now = t->options.now(t->options.ctx);
    if (now.majority) {
        tier_begin(t, now);
    } else { /* without a majority, time does not advance (S10.1) */
        core_begin(t->core, ++t->index, core_now_ms(t->core), core_last_wall_ms(t->core));
    }
}

static void revoke(struct memory_tier *t, const struct held *h)
{
    begin_silent(t);
    hf_assert(t->muted == 0);
    t->muted = h->token;
    core_take_back(t->core, h->lease);
    t->muted = 0;
}

/* Returns the new deadline. */
static uint64_t set_ttl(struct memory_tier *t, struct id lease, uint64_t ttl_ms)
{
    begin_silent(t);
    return core_set_ttl(t->core, lease, ttl_ms);
}

void memory_tier_lose(struct memory_tier *t, struct id lease)
{
    if (t->core != NULL) {
        begin_silent(t);
        core_expire(t->core, lease);
        tier_settle_over(t);
    }
}

static void report_confirmed(struct memory_tier *t, struct held *h, uint64_t deadline_ms)
{
    struct held_item *item = held_item_take(h);
    while (item != NULL) {
        if (item->cookie != NULL) {
            t->options.on_result(t->options.ctx, item->cookie, &item->result);
        } else {
            bool is_grant = item->event.type == EVENT_GRANTED;
            item->event.attachment = is_grant ? h->attachment : item->event.attachment;
            item->event.node = is_grant ? h->node : item->event.node;
            item->event.deadline_ms =
                is_grant && deadline_ms != 0 ? deadline_ms : item->event.deadline_ms;
            t->options.on_event(t->options.ctx, &item->event);
        }
        held_item_free(&t->held, item);
        item = held_item_take(h);
    }
}

static struct slice shown(struct slice holder, uint8_t text[HOLDER_MAX])
{
    size_t len = holder.len < HOLDER_MAX ? holder.len : HOLDER_MAX;
    for (size_t i = 0; i < len; i++) {
        text[i] = holder.data[i] >= ' ' && holder.data[i] < 0x7f ? holder.data[i] : '?';
    }
    return slice_make(text, len);
}

static void report_refused(struct memory_tier *t, const struct held_item *item, enum tier_word word,
                           struct slice holder, uint64_t holder_ms)
{
    uint8_t text[HOLDER_MAX];
    uint64_t now_ms = core_now_ms(t->core);
    hf_assert(word == TIER_AGAIN || word == TIER_FAILED || word == TIER_FOREIGN);
    struct result result = {.type = COMMAND_ACQUIRE, .mode = item->result.mode};
    if (word == TIER_AGAIN) {
        t->options.on_again(t->options.ctx, item->cookie);
        return;
    }
    if (word == TIER_FAILED) {
        result.error = HF_BACKEND_UNAVAILABLE;
    } else {
        result.outcome = OUTCOME_REFUSED;
        result.reason = REASON_HELD;
        result.has_holder = holder.len > 0;
        result.holders = result.has_holder;
        result.holder = (struct holder_view){
            .client = shown(holder, text),
            .mode = MODE_EXCLUSIVE,
            .permits = 1,
            .since_ms = now_ms,
            .deadline_ms =
                holder_ms >= LIMIT_NUMBER - now_ms ? LIMIT_NUMBER - 1 : now_ms + holder_ms,
        };
    }
    t->options.on_result(t->options.ctx, item->cookie, &result);
}

static void report_wait_ended(struct memory_tier *t, const struct held *h,
                              const struct held_item *item, enum reason reason)
{
    struct event event = item->event;
    event.type = EVENT_WAIT_ENDED;
    event.reason = reason;
    event.token = 0;
    event.attachment = h->attachment;
    event.node = h->node;
    t->options.on_event(t->options.ctx, &event);
}

/* Reports to the waiting requests; drops the other events. */
static void report_not_granted(struct memory_tier *t, struct held *h, enum tier_word word,
                               enum reason reason, struct slice holder, uint64_t holder_ms)
{
    struct held_item *item = held_item_take(h);
    while (item != NULL) {
        if (item->cookie != NULL) {
            report_refused(t, item, word, holder, holder_ms);
        } else if (item->event.type == EVENT_GRANTED && item->event.part == 1 && h->is_queued) {
            report_wait_ended(t, h, item, reason);
        }
        held_item_free(&t->held, item);
        item = held_item_take(h);
    }
}

/* The grant must not expire, and its request is answered with "queued". */
static void keep_waiting(struct memory_tier *t, struct held *h)
{
    (void)set_ttl(t, h->lease, LIMIT_TTL_MAX_MS);
    struct held_item **at = &h->first;
    h->last = NULL;
    while (*at != NULL) {
        struct held_item *item = *at;
        if (item->cookie == NULL) {
            h->last = item;
            at = &item->next;
            continue;
        }
        *at = item->next;
        if (!h->is_queued) {
            attach(t, h, h->node);
        }
        report_queued(t, h, item->cookie, &item->result);
        held_item_free(&t->held, item);
    }
}

void memory_tier_confirm(struct memory_tier *t, uint64_t token, enum tier_word word,
                         struct slice holder, uint64_t holder_ms)
{
    struct held *h = t->core == NULL ? NULL : held_find(&t->held, token);
    if (h == NULL) {
        return;
    }
    if (word == TIER_WAITS) {
        keep_waiting(t, h);
        tier_settle_over(t);
        return;
    }
    held_take(&t->held, h);
    if (word == TIER_CONFIRMED) {
        /* The TTL begins when the wait is over (S4.3). */
        uint64_t deadline_ms = h->is_queued ? set_ttl(t, h->lease, h->ttl_ms) : 0;
        report_confirmed(t, h, deadline_ms);
    } else {
        revoke(t, h);
        report_not_granted(t, h, word, REASON_TIMEOUT, holder, holder_ms);
    }
    held_free(&t->held, h);
    tier_settle_over(t);
}

static void report_kept(struct memory_tier *t, struct held_table *table, uint64_t token,
                        enum tier_word word)
{
    struct held *h = held_find(table, token);
    if (h == NULL) {
        return;
    }
    held_take(table, h);
    struct held_item *item = held_item_take(h);
    while (item != NULL) {
        hf_assert(item->cookie != NULL);
        if (word == TIER_FOREIGN) {
            item->result = (struct result){.type = item->result.type,
                                           .outcome = OUTCOME_REFUSED,
                                           .reason = REASON_EXPIRED,
                                           .ended = ENDED_EXPIRED,
                                           .token = token};
        }
        t->options.on_result(t->options.ctx, item->cookie,
                             word == TIER_AGAIN ? NULL : &item->result);
        held_item_free(table, item);
        item = held_item_take(h);
    }
    held_free(table, h);
}

void memory_tier_confirm_renewal(struct memory_tier *t, uint64_t token, enum tier_word word)
{
    report_kept(t, &t->renewals, token, word);
}

void memory_tier_confirm_release(struct memory_tier *t, uint64_t token, enum tier_word word)
{
    hf_assert(word == TIER_CONFIRMED || word == TIER_AGAIN);
    report_kept(t, &t->releases, token, word);
}

void tier_settle_over(struct memory_tier *t)
{
    while (t->over != NULL) {
        struct held *h = t->over;
        t->over = h->next_over;
        hf_assert(h->is_over);
        report_not_granted(t, h, TIER_FOREIGN, REASON_CANCELLED, slice_make(NULL, 0), 0);
        held_free(&t->held, h);
    }
}

void tier_drop_held(struct memory_tier *t, bool report)
{
    struct held_table *const tables[] = {&t->held, &t->renewals, &t->releases};
    for (unsigned i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        struct held *h = held_take_any(tables[i]);
        while (h != NULL) {
            struct held_item *item = held_item_take(h);
            while (item != NULL) {
                if (item->cookie != NULL && report) {
                    t->options.on_result(t->options.ctx, item->cookie, NULL);
                }
                held_item_free(tables[i], item);
                item = held_item_take(h);
            }
            held_free(tables[i], h);
            h = held_take_any(tables[i]);
        }
    }
}
