/* See counts.h. */
#include "node/counts/counts.h"

#include "base/panic.h"

enum { RECENT_PERIOD_US = 5000000 };

void counts_begin_entry(struct node_counts *c, const struct replica_applying *entry,
                        uint64_t now_us)
{
    c->begun_us = now_us;
    c->is_own = entry->is_own;
    if (entry->proposed_us != 0) {
        distribution_add(&c->commit_us, entry->committed_us - entry->proposed_us);
        distribution_add(&c->batch_commands, entry->commands);
        distribution_add(&c->batch_bytes, entry->bytes);
    }
}

void counts_end_entry(struct node_counts *c, uint64_t now_us)
{
    distribution_add(&c->apply_us, now_us - c->begun_us);
    c->begun_us = 0;
    c->is_own = false;
}

static uint64_t ms_between_as_us(uint64_t from_ms, uint64_t to_ms)
{
    return to_ms > from_ms ? (to_ms - from_ms) * 1000 : 0;
}

static void note_hot(const struct node_counts *c, enum hot_by by, const struct event *e,
                     uint64_t weight)
{
    if (c->hot != NULL) {
        hot_add(c->hot, by, e->tenant, e->name, weight);
    }
}

static void note_wait(struct node_counts *c, struct tier_counts *t, const struct event *e,
                      enum reason reason)
{
    if (e->part <= 1) { /* once for a multi-lock */
        t->waits_ended[reason]++;
        distribution_add(&t->wait_us, e->waited_ms * 1000);
        note_hot(c, HOT_WAIT, e, e->waited_ms * 1000);
    }
}

static void note_overrun(struct node_counts *c, struct tier_counts *t, const struct event *e)
{
    uint64_t us = ms_between_as_us(e->due_ms, e->at_ms);
    us += cluster_time_lost_us(&c->time, e->life_ms, e->at_ms);
    distribution_add(&t->overrun_us, us);
    t->overrun_worst_us = us > t->overrun_worst_us ? us : t->overrun_worst_us;
}

static void note_event(struct node_counts *c, enum tier tier, const struct event *e)
{
    struct tier_counts *t = &c->tiers[tier];
    switch (e->type) {
    case EVENT_GRANTED:
        t->grants++;
        if (e->attachment != 0) {
            note_wait(c, t, e, REASON_NONE);
        } else {
            note_hot(c, HOT_RATE, e, HOT_EVENT);
        }
        return;
    case EVENT_QUEUED:
        note_hot(c, HOT_RATE, e, HOT_EVENT);
        note_hot(c, HOT_CONTENTION, e, HOT_EVENT);
        return;
    case EVENT_WAIT_ENDED:
        note_wait(c, t, e, e->reason);
        return;
    case EVENT_RELEASED:
        break;
    case EVENT_EXPIRED:
        t->expired++;
        note_overrun(c, t, e);
        break;
    case EVENT_FORCED:
        t->forced++;
        break;
    case EVENT_REVOKED:
        t->revoked++;
        break;
    case EVENT_REVOKE_REQUESTED:
        t->revoke_requests++;
        return;
    case EVENT_LONG_HELD:
        t->long_held++;
        return;
    case EVENT_SESSION_OPENED:
        t->sessions_opened++;
        return;
    case EVENT_SESSION_CLOSED:
        t->sessions_closed++;
        return;
    case EVENT_SESSION_EXPIRED:
        t->sessions_expired++;
        return;
    default:
        return;
    }
    uint64_t held_us = ms_between_as_us(e->since_ms, e->at_ms); /* a grant ended */
    distribution_add(&t->hold_us, held_us);
    note_hot(c, HOT_HOLD, e, held_us);
}

void counts_event(struct node_counts *c, const struct event *event)
{
    if (c->is_own) {
        note_event(c, TIER_CORRECTNESS, event);
    }
}

void counts_tier_event(struct node_counts *c, const struct event *event)
{
    note_event(c, TIER_EFFICIENCY, event);
}

static enum acquired acquired_by(const struct result *r)
{
    if (r->error != HF_OK) {
        return ACQUIRED_ERROR;
    }
    switch (r->outcome) {
    case OUTCOME_DONE:
    case OUTCOME_GRANTED:
        return ACQUIRED_GRANTED;
    case OUTCOME_QUEUED:
        return ACQUIRED_QUEUED;
    case OUTCOME_REFUSED:
        return ACQUIRED_REFUSED;
    }
    return ACQUIRED_ERROR;
}

/* Of granted and queued ones there is an event. */
static void note_refused(struct node_counts *c, struct tier_counts *t, uint32_t tenant,
                         const struct result *r)
{
    bool is_contended =
        r->reason == REASON_HELD || r->reason == REASON_DELAYED || r->reason == REASON_DEADLOCK;
    t->refused[r->reason]++;
    t->contended += is_contended;
    if (c->hot != NULL && r->name.len > 0) {
        hot_add(c->hot, HOT_RATE, tenant, r->name, HOT_EVENT);
        hot_add(c->hot, HOT_CONTENTION, tenant, r->name, is_contended ? HOT_EVENT : 0);
    }
}

static void note_acquire(struct node_counts *c, struct tier_counts *t, uint32_t tenant,
                         const struct result *r)
{
    enum acquired acquired = acquired_by(r);
    t->acquires[acquired]++;
    t->contended += acquired == ACQUIRED_QUEUED;
    if (acquired == ACQUIRED_REFUSED) {
        note_refused(c, t, tenant, r);
    }
}

/* Errors of a release or renewal are refusals without a reason of the state machine. */
static void note_done(const struct result *r, uint64_t *done, uint64_t *failures)
{
    if (r->error == HF_OK && r->outcome != OUTCOME_REFUSED) {
        (*done)++;
    } else {
        failures[r->reason]++;
    }
}

static void note_keepalive(struct tier_counts *t, const struct result *r)
{
    uint64_t alive = 0;
    for (uint32_t i = 0; r->error == HF_OK && i < r->count; i++) {
        alive += r->alive[i] == HF_OK;
    }
    t->keepalives += alive;
    t->keepalive_failures += r->error == HF_OK ? r->count - alive : 1;
}

void counts_result(struct node_counts *c, enum tier tier, uint32_t tenant, const struct result *r,
                   uint64_t took_us)
{
    struct tier_counts *t = &c->tiers[tier];
    c->requests++;
    if (r->replayed) {
        return;
    }
    switch (r->type) {
    case COMMAND_ACQUIRE:
        note_acquire(c, t, tenant, r);
        distribution_add(&c->served_us, took_us);
        return;
    case COMMAND_RELEASE:
        note_done(r, &t->releases, t->release_failures);
        return;
    case COMMAND_RENEW:
        note_done(r, &t->renewals, t->renewal_failures);
        return;
    case COMMAND_KEEPALIVE:
        note_keepalive(t, r);
        return;
    case COMMAND_FENCE_CHECK:
        if (r->error == HF_OK) {
            t->fence_checks[r->accepted]++;
        }
        return;
    default:
        return;
    }
}

void counts_acquired(struct node_counts *c, enum tier tier, const struct result *result,
                     uint64_t took_us)
{
    enum acquired acquired = result == NULL ? ACQUIRED_UNKNOWN : acquired_by(result);
    distribution_add(&c->acquire_us[tier][acquired], took_us);
}

/* ---- the last seconds ---- */

static void add_all(struct distribution *sum, const struct distribution *d)
{
    sum->count += d->count;
    sum->sum += d->sum;
    for (uint32_t i = 0; i < DISTRIBUTION_BUCKETS; i++) {
        sum->buckets[i] += d->buckets[i];
    }
}

static void sum_up(const struct node_counts *c, enum latency_kind what, struct distribution *out)
{
    const struct tier_counts *t = c->tiers;
    switch (what) {
    case LATENCY_acquire:
        *out = c->served_us;
        return;
    case LATENCY_commit:
        *out = c->commit_us;
        return;
    case LATENCY_apply:
        *out = c->apply_us;
        return;
    case LATENCY_wait:
        *out = t[0].wait_us;
        add_all(out, &t[1].wait_us);
        return;
    case LATENCY_hold:
        *out = t[0].hold_us;
        add_all(out, &t[1].hold_us);
        return;
    case LATENCY_COUNT:
        break;
    }
    hf_panic(__FILE__, __LINE__, "no such latency");
}

void counts_tick(struct node_counts *c, uint64_t now_us)
{
    if (now_us - c->recent_us < RECENT_PERIOD_US) {
        return;
    }
    c->recent_us = now_us;
    for (unsigned i = 0; i < LATENCY_COUNT; i++) {
        c->recent[i][0] = c->recent[i][1];
        sum_up(c, (enum latency_kind)i, &c->recent[i][1]);
    }
}

uint64_t counts_recent(const struct node_counts *c, enum latency_kind what, uint32_t per_mille)
{
    struct distribution all;
    sum_up(c, what, &all);
    return distribution_quantile(&all, &c->recent[what][0], per_mille);
}

uint64_t counts_sum(const uint64_t *counts, unsigned count)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        sum += counts[i];
    }
    return sum;
}
