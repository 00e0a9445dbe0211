/* What a client does with locks: acquires, holds, renews, releases, and shows its token to a fenced
 * resource, sometimes an old one. */
#include "client.h"
#include "tier.h"
#include "times.h"

/* ---- acquiring ---- */

static void choose_names(struct sim_client *c, uint32_t count)
{
    struct names *names = &c->command.acquire.names;
    uint32_t first = c->id == OPERATOR || one_in(12)
                         ? CHECKED_NAMES + (uint32_t)chance_below(NAMES - CHECKED_NAMES)
                         : (uint32_t)chance_below(one_in(2) ? HOT_NAMES : CHECKED_NAMES);
    c->hold.count = first >= CHECKED_NAMES ? 1 : count;
    names->count = c->hold.count;
    for (uint32_t i = 0; i < c->hold.count; i++) {
        c->hold.names[i] = i == 0 ? first : (first + i * MULTI_STEP) % CHECKED_NAMES;
        snprintf(c->names[i], sizeof(c->names[i]), "n%u", c->hold.names[i]);
        names->at[i] = slice_of(c->names[i]);
    }
}

void client_acquire(struct sim_client *c)
{
    client_begin(c, REQUESTING, COMMAND_ACQUIRE);
    struct command_acquire *a = &c->command.acquire;
    c->hold = (struct sim_hold){0};
    choose_names(c, one_in(10) ? 2 + (uint32_t)chance_below(2) : 1);
    c->hold.tier = client_choose_tier(c->hold.names[0]);
    c->hold.shared = c->hold.count == 1 && one_in(4); /* multi-locks are exclusive */
    c->hold.ttl_ms = 200 + chance_below(1800);
    c->lease = (struct id){(uint64_t)c->id, times_lease_bits(chance())};
    a->lease = c->lease;
    a->max_hold_ms = times_max_hold_ms(c->lease);
    c->hold.limit_us = a->max_hold_ms == 0 ? 0 : client_limit_us(c, a->max_hold_ms);
    a->client = slice_of("client");
    a->owner = slice_of(c->owner);
    a->ttl_ms = (uint32_t)c->hold.ttl_ms;
    a->wait_ms = one_in(2) ? 0 : chance_below(900);
    a->mode = c->hold.shared ? MODE_SHARED : MODE_EXCLUSIVE;
    client_submit(c);
}

/* A quarter of the acquires have a trace; each attempt is a span of its own, and yet the same request
 * (S8.1). It follows from the lease id, so that a world does not depend on it. */
void client_trace(struct sim_client *c)
{
    if (c->command.type != COMMAND_ACQUIRE || (c->lease.low >> 8) % 4 != 0) {
        return;
    }
    snprintf(c->trace, sizeof(c->trace), "00-%016llx%016llx-%016x-01", ull(c->lease.high),
             ull(c->lease.low), (unsigned)c->tries);
    c->command.acquire.trace = slice_of(c->trace);
}

static struct history_op grant_op(const struct sim_client *c, uint64_t token)
{
    return (struct history_op){.kind = HISTORY_GRANT,
                               .token = token,
                               .shared = c->hold.shared,
                               .multi = c->hold.count > 1,
                               .waits = c->command.acquire.wait_ms != 0,
                               .call_us = c->call_us,
                               .return_us = world.now_us,
                               .lease_us = client_lease_us(c, c->call_us, c->hold.ttl_ms)};
}

void client_hold(struct sim_client *c, const struct sim_answer *a, bool waited)
{
    struct sim_hold *h = &c->hold;
    uint64_t token = a->token;
    h->token = token;
    h->epoch = a->epoch;
    world.counts.granted++;
    for (uint32_t i = 0; i < h->count; i++) {
        if (!(h->tier == TIER_EFFICIENCY ? tier_truth_has_grant(token, h->names[i])
                                         : truth_has_grant(token, h->names[i]))) {
            violation("client %d was notified of token %llu on n%u, which was never granted", c->id,
                      ull(token), h->names[i]);
        }
    }
    client_record(c, grant_op(c, token));
    if (client_is_lost(c)) { /* by a leader that is none any more */
        client_idle(c, client_think_us());
        return;
    }
    if (!waited) {
        client_confirm(c, c->call_us);
    } else if (c->in_session) {
        h->safe_us = client_session_safe_us(c); /* S5.1 */
        uint64_t own_us = client_safe_until(c, c->alive_us, h->ttl_ms);
        h->safe_us = own_us < h->safe_us ? own_us : h->safe_us;
        h->safe_us = h->limit_us != 0 && h->limit_us < h->safe_us ? h->limit_us : h->safe_us;
    }
    c->doing = HOLDING;
    h->until_us = world.now_us + (one_in(100) ? h->ttl_ms * 1500 : chance_below(12000));
    client_next_step(c, 200 + chance_below(4000));
}

/* How long an acquire of which nothing is heard may still come, wait and hold. */
uint64_t client_may_last_us(const struct sim_client *c)
{
    enum { LEADERLESS_MS = 60000 }; /* of one world, in all: it lengthens waits and leases (S1.3) */
    return (c->command.acquire.wait_ms + c->hold.ttl_ms + LEADERLESS_MS) * 1000;
}

/* Gives up something that may be held: in a session it would be for as long as that lives. */
static void leave(struct sim_client *c)
{
    if (c->in_session) {
        client_session_is_gone(c);
    } else {
        client_idle(c, client_think_us());
    }
}

void client_give_up_acquire(struct sim_client *c)
{
    c->hold.token = 0;
    client_record(c, (struct history_op){.kind = HISTORY_ACQUIRE,
                                         .waits = true,
                                         .call_us = c->call_us,
                                         .return_us = world.now_us + client_may_last_us(c)});
    leave(c);
}

void client_not_granted(struct sim_client *c, enum reason reason)
{
    world.counts.refused++;
    struct history_op op = {.kind = HISTORY_REFUSAL,
                            .shared = c->hold.shared,
                            .call_us = c->call_us,
                            .return_us = world.now_us};
    if (c->tries >
        1) { /* an earlier one may be on its way yet, and is not recognised without an id */
        op.kind = HISTORY_ACQUIRE;
        op.return_us += client_may_last_us(c);
        client_record(c, op);
    } else if (c->command.acquire.wait_ms != 0) {
        op.kind = HISTORY_ACQUIRE; /* it stood in the queue meanwhile */
        client_record(c, op);
    } else if (reason == REASON_HELD && c->hold.count == 1) {
        client_record(c, op);
    }
    client_idle(c, client_think_us());
}

void client_hear_acquire(struct sim_client *c, const struct sim_answer *a)
{
    if (a->error == HF_SESSION_EXPIRED || a->error == HF_SESSION_NOT_FOUND) {
        client_record(
            c, (struct history_op){.kind = HISTORY_ACQUIRE, /* it may have held it until now */
                                   .call_us = c->call_us,
                                   .return_us = world.now_us});
        client_session_is_gone(c);
        return;
    }
    if (a->error == HF_WRONG_TIER) {
        client_wrong_tier(c);
        return;
    }
    if (a->error != HF_OK) {
        violation("client %d got the error %s", c->id, hf_error_code(a->error));
    }
    if (a->outcome == OUTCOME_GRANTED && a->ended == ENDED_NOT) {
        client_hold(c, a, c->command.acquire.wait_ms != 0);
    } else if (a->outcome == OUTCOME_GRANTED) {
        client_record(c, grant_op(c, a->token)); /* it is over already */
        client_idle(c, client_think_us());
    } else if (a->outcome == OUTCOME_QUEUED) {
        c->doing = WAITING;
        client_next_step(c, c->command.acquire.wait_ms * 1000 + 1000000);
    } else {
        client_not_granted(c, a->reason);
    }
}

/* ---- holding ---- */

static void by_token(struct sim_client *c, struct slice *name, struct slice *client,
                     uint64_t *token)
{
    *name = c->hold.count == 1 ? slice_of(c->names[0]) : slice_make(NULL, 0);
    *client = slice_of("client");
    *token = c->hold.token;
}

static void renew(struct sim_client *c)
{
    client_begin(c, RENEWING, COMMAND_RENEW);
    struct command_renew *r = &c->command.renew;
    by_token(c, &r->name, &r->client, &r->token);
    c->renewal_us = world.now_us;
    client_submit(c);
}

static void release(struct sim_client *c)
{
    client_begin(c, RELEASING, COMMAND_RELEASE);
    struct command_release *r = &c->command.release;
    by_token(c, &r->name, &r->client, &r->token);
    c->hold.safe_us = 0;
    c->old_token = c->hold.token;
    c->old_name = c->hold.names[0];
    client_submit(c);
}

void client_check_fence(struct sim_client *c)
{
    bool late = c->old_token != 0 && one_in(3);
    uint32_t name = late ? c->old_name : c->hold.names[0];
    uint64_t token = late ? c->old_token : c->hold.token;
    if (token == 0 || name >= CHECKED_NAMES) {
        client_idle(c, 1000);
        return;
    }
    client_begin(c, CHECKING, COMMAND_FENCE_CHECK);
    snprintf(c->names[2], sizeof(c->names[2]), "n%u", name);
    c->command.fence_check.resource = slice_of(c->names[2]);
    /* A world that begins with an earlier version of the state would accept it. */
    bool is_made_up = world.options.seed % 3 != 0 && one_in(40);
    c->command.fence_check.token = is_made_up ? LIMIT_NUMBER - 1 : token;
    c->name = name;
    world.counts.stale_writes += late;
    client_submit(c);
}

void client_while_holding(struct sim_client *c)
{
    if (world.now_us < c->hold.until_us) {
        if (one_in(4)) {
            renew(c);
        } else {
            client_next_step(c, c->hold.until_us - world.now_us);
        }
    } else if (one_in(100)) { /* vanishes: the lease has to expire */
        c->hold.safe_us = 0;
        c->old_token = c->hold.token;
        c->old_name = c->hold.names[0];
        c->vanished = c->in_session;
        client_idle(c, c->in_session ? c->session_ttl_ms * 1200 : 1000);
    } else if (c->in_session && one_in(40)) {
        client_close_session(c);
    } else {
        release(c);
    }
}

void client_hear_renewal(struct sim_client *c, const struct sim_answer *a)
{
    bool held = a->error == HF_OK && a->outcome != OUTCOME_REFUSED;
    client_check_held(c, a, held);
    client_record(
        c, (struct history_op){.kind = HISTORY_RENEW,
                               .held = held,
                               .multi = c->hold.count > 1,
                               .token = c->hold.token,
                               .call_us = c->call_us,
                               .return_us = world.now_us,
                               .lease_us = client_lease_us(c, c->renewal_us, c->hold.ttl_ms)});
    if (held && !client_is_lost(c)) {
        client_confirm(c,
                       c->renewal_us); /* of the last attempt, which may not be the one answered */
        c->doing = HOLDING;
        client_next_step(c, 500 + chance_below(10000));
    } else {
        c->hold.safe_us = 0;
        client_idle(c, client_think_us());
    }
}

void client_hear_release(struct sim_client *c, const struct sim_answer *a)
{
    bool held = a->error == HF_OK && (a->outcome != OUTCOME_REFUSED ||
                                      (a->reason == REASON_ALREADY_RELEASED && c->tries > 1));
    client_check_held(c, a, held);
    client_record(c, (struct history_op){.kind = HISTORY_RELEASE,
                                         .held = held,
                                         .token = c->hold.token,
                                         .call_us = c->call_us,
                                         .return_us = world.now_us});
    client_idle(c, client_think_us());
}

void client_give_up_release(struct sim_client *c)
{
    client_record(c, (struct history_op){.kind = HISTORY_RELEASE,
                                         .token = c->hold.token,
                                         .call_us = c->call_us,
                                         .return_us = HISTORY_NEVER});
    leave(c);
}
