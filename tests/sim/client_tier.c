/* What is different for a client in the tier EFFICIENCY (S10): which names it requests there, and
 * that it has lost what it holds as soon as it hears of another leader's epoch. */
#include "client.h"

/* Each tier has names of its own, and at times somebody requests them in the other one. */
enum tier client_choose_tier(uint32_t name)
{
    bool own = name % 4 == 3;
    return one_in(16) ? (own ? TIER_CORRECTNESS : TIER_EFFICIENCY)
                      : (own ? TIER_EFFICIENCY : TIER_CORRECTNESS);
}

/* Whatever names a token goes where the token is from. */
enum tier client_tier(const struct sim_client *c)
{
    return c->doing == REQUESTING || c->doing == RELEASING || c->doing == RENEWING
               ? c->hold.tier
               : TIER_CORRECTNESS;
}

bool client_is_lost(const struct sim_client *c)
{
    return c->hold.tier == TIER_EFFICIENCY && c->hold.epoch < c->epoch;
}

void client_hear_epoch(struct sim_client *c, const struct sim_answer *a)
{
    struct sim_hold *h = &c->hold;
    if (a->epoch <= c->epoch) {
        return;
    }
    c->epoch = a->epoch;
    if (!client_is_lost(c) ||
        (c->doing != HOLDING && c->doing != RENEWING && c->doing != RELEASING)) {
        return;
    }
    world.counts.tier_lost++;
    trace("client %d lost token %llu by epoch %llu", c->id, ull(h->token), ull(a->epoch));
    h->safe_us = 0;
    c->old_token = h->token; /* it may write with it yet */
    c->old_name = h->names[0];
    if (c->doing == HOLDING) {
        client_idle(c, client_think_us());
    }
}

/* S10.2: nobody knows of it under another leader. */
void client_check_held(const struct sim_client *c, const struct sim_answer *a, bool held)
{
    if (held && c->hold.tier == TIER_EFFICIENCY && a->outcome != OUTCOME_REFUSED &&
        a->epoch != c->hold.epoch) {
        violation("client %d has token %llu of epoch %llu, which epoch %llu says is held (S10)",
                  c->id, ull(c->hold.token), ull(c->hold.epoch), ull(a->epoch));
    }
}

/* Nothing was done; but of an acquire that was sent before nothing may be known. */
void client_wrong_tier(struct sim_client *c)
{
    if (c->tries > 1) {
        client_record(c, (struct history_op){.kind = HISTORY_ACQUIRE,
                                             .call_us = c->call_us,
                                             .return_us = world.now_us + client_may_last_us(c)});
    }
    client_idle(c, client_think_us());
}
