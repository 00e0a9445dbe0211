/* The operator among the clients: takes locks away, at once or politely, those of the others, too.
 * Each time is in the history of the name, so that the checker knows who may be gone, and who not. */
#include "client.h"
#include "times.h"

/* Stamps are whole milliseconds, and clocks differ (S1.6). */
static uint64_t least_grace_us(uint32_t grace_ms)
{
    return grace_ms == 0 ? 0 : (uint64_t)(grace_ms - 1) * 998;
}

static uint32_t choose(void)
{
    if (one_in(3)) {
        return CHECKED_NAMES + (uint32_t)chance_below(NAMES - CHECKED_NAMES);
    }
    uint32_t first = TAKEN_FIRST + (uint32_t)chance_below(TAKEN_NAMES);
    for (uint32_t i = 0; i < TAKEN_NAMES; i++) { /* best one that somebody holds */
        uint32_t name = TAKEN_FIRST + (first + i) % TAKEN_NAMES;
        if (truth_is_held(name)) {
            return name;
        }
    }
    return first;
}

/* The token of the present holder, which may be another one when the command comes; or of an earlier
 * one. */
static void only_if(struct sim_client *c)
{
    uint64_t token = truth_holder(c->name);
    token = token == 0 || one_in(4) ? c->seen_token : token;
    c->seen_token = token;
    if (token == 0) {
        return;
    }
    world.counts.if_tokens++;
    times_reason(token, c->reason);
    if (c->command.type == COMMAND_FORCE_UNLOCK) {
        c->command.force_unlock.if_token = token;
        c->command.force_unlock.reason = slice_of(c->reason);
    } else {
        c->command.revoke.if_token = token;
        c->command.revoke.reason = slice_of(c->reason);
    }
}

void client_meddle(struct sim_client *c)
{
    client_begin(c, MEDDLING, one_in(2) ? COMMAND_FORCE_UNLOCK : COMMAND_REVOKE);
    c->name = choose();
    snprintf(c->names[0], sizeof(c->names[0]), "n%u", c->name);
    if (c->command.type == COMMAND_FORCE_UNLOCK) {
        c->command.force_unlock.name = slice_of(c->names[0]);
        c->command.force_unlock.actor = slice_of("operator");
        c->command.force_unlock.reason = slice_of("test");
        c->command.force_unlock.now = one_in(2);
    } else {
        c->command.revoke.name = slice_of(c->names[0]);
        c->command.revoke.actor = slice_of("operator");
        c->command.revoke.reason = slice_of("test");
        c->command.revoke.grace_ms = (uint32_t)chance_below(one_in(2) ? 20 : 500);
    }
    if (times_are_on() && one_in(3)) {
        only_if(c);
    }
    client_submit(c);
}

/* A multi-lock of which one name is taken away is gone from all of them. */
static void record(const struct sim_client *c, bool held, uint64_t return_us)
{
    bool forced = c->command.type == COMMAND_FORCE_UNLOCK;
    struct history_op op = {
        .kind = forced ? HISTORY_FORCE : HISTORY_REVOKE,
        .client = c->id,
        .held = held,
        .call_us = c->call_us,
        .return_us = return_us,
        .lease_us = forced ? 0 : least_grace_us(c->command.revoke.grace_ms),
        .token = forced ? c->command.force_unlock.if_token : c->command.revoke.if_token,
    };
    if (c->name >= CHECKED_NAMES) {
        return;
    }
    client_record_one(c->name, op);
    op.nearby = true;
    for (uint32_t i = 1; i <= 2 && (held || return_us == HISTORY_NEVER); i++) {
        client_record_one((c->name + i * MULTI_STEP) % CHECKED_NAMES, op);
        client_record_one((c->name + CHECKED_NAMES - i * MULTI_STEP) % CHECKED_NAMES, op);
    }
}

void client_hear_meddling(struct sim_client *c, const struct sim_answer *a)
{
    if (a->error == HF_TOKEN_MISMATCH) {
        world.counts.token_mismatches++;
        if (c->tries > 1) { /* an earlier attempt may have been done in the other tier */
            record(c, true, HISTORY_NEVER);
        }
        client_idle(c, client_think_us());
        return;
    }
    if (a->error != HF_OK && a->error != HF_NOT_HELD) {
        violation("the operator got the error %s", hf_error_code(a->error));
    }
    world.counts.taken += a->error == HF_OK;
    if (!a->by_tier) { /* else nobody held it in the other one */
        record(c, a->error == HF_OK, world.now_us);
    }
    /* The tiers remember each for itself: an earlier attempt may have found somebody in the log. So
     * it may, or find somebody yet, where a state before version 3 forgot that nobody held it. */
    bool is_forgotten =
        a->error == HF_NOT_HELD && (world.newest_us == 0 || world.newest_us > c->call_us);
    if (c->tries > 1 && (a->by_tier || is_forgotten)) {
        record(c, true, HISTORY_NEVER);
    }
    client_idle(c, client_think_us());
}

void client_give_up_meddling(struct sim_client *c)
{
    record(c, true, HISTORY_NEVER);
    client_idle(c, client_think_us());
}

bool client_may_lose(const struct sim_client *c)
{
    for (uint32_t i = 0; i < c->hold.count; i++) {
        uint32_t name = c->hold.names[i];
        if (name >= TAKEN_FIRST && name < TAKEN_FIRST + TAKEN_NAMES) {
            return true;
        }
    }
    return false;
}
