/* On the leader a command goes into the open batch at once. Other calls wait, encoded, for
 * forward_run. */
#include "node/forward/forward_state.h"

#include <stdio.h>

/* Idempotent by its id or by what it names (S8.3). Not without an id: an operator's command, and a
 * re-entrant acquire, which increments the hold count. */
static bool is_safe(const struct command *command)
{
    if (command->request_id.len > 0 || command->seq > 0) {
        return true;
    }
    switch (command->type) {
    case COMMAND_FORCE_UNLOCK:
    case COMMAND_REVOKE:
    case COMMAND_FENCE_RESET:
        return false;
    case COMMAND_ACQUIRE:
        return id_is_zero(command->session) || (command->acquire.flags & ACQUIRE_REENTRANT) == 0;
    default:
        return true;
    }
}

static void fail_early(struct forward *f, struct call *call)
{
    uint32_t outstanding = forward_outstanding(f);
    bool leaderless =
        f->leader == 0 && forward_now_ms(f) - f->leaderless_ms > f->options.give_up_ms;
    /* Full disk, and no other node could lead. */
    bool stuck = f->read_only && f->alone && call->kind == FORWARD_COMMAND;
    call->is_too_many = outstanding > FORWARD_SLOTS;
    if (call->is_too_many || leaderless || stuck) {
        call->give_up_ms = 0; /* forward_run answers it, after this call has returned */
        f->overdue = true;
    }
    f->changed = true;
}

static void note_sender(struct forward *f, uint64_t source, uint32_t tenant)
{
    if (source != 0) {
        turns_note(f, source, tenant);
    }
}

/* Adds the command to the open batch. False: it must wait.
 *
 * The answer must not arrive before forward_submit returns, so forward_run gets a command that the
 * tier EFFICIENCY, the policy or the limit of the state may answer. */
static bool submit_now(struct forward *f, struct call *call, const struct command *command,
                       struct replica_time now)
{
    if (f->held || f->paused || f->counts[CALL_WAITING] > 0 || !replica_is_serving(f->replica) ||
        !turns_may_send_now(f, call)) {
        return false;
    }
    bool is_for_log = f->options.tier != NULL
                          ? memory_tier_is_for_log(f->options.tier, call->tier, command)
                          : call->tier == TIER_CORRECTNESS;
    struct admitted adds;
    unsigned right;
    if (!is_for_log || forward_authorise(f, command, call->is_own, &right) != HF_OK) {
        return false;
    }
    if (forward_check_admission(f, command, now, &adds) != HF_OK ||
        forward_propose(f, command, &call->cookie, now, &adds) != HF_OK) {
        return false;
    }
    call->here++;
    call->sent_us = now.boot_us;
    call_keep(f, call, replica_submitted(f->replica)); /* for another attempt */
    call_enter(f, call, CALL_HERE);
    return true;
}

void forward_submit(struct forward *f, const struct command *command, struct gateway_call *gateway)
{
    uint64_t source = gateway->tier == TIER_CORRECTNESS ? gateway->source : 0;
    struct call *call = call_new(f, FORWARD_COMMAND, command->tenant, source);
    call->tier = gateway->tier;
    note_sender(f, gateway->source, command->tenant);
    call->gateway = gateway;
    gateway->in_flight = call;
    call->is_own = gateway->is_own;
    call->is_safe = is_safe(command);
    if (gateway->within_ms != 0 && gateway->within_ms < f->options.give_up_ms) {
        call->give_up_ms = forward_now_ms(f) + gateway->within_ms;
    }
    call_keep_look(f, call, gateway->look);
    gateway->look = slice_make(NULL, 0);
    struct replica_time now = f->options.now(f->options.ctx);
    call->arrived_us = now.boot_us;
    if (command->type == COMMAND_ACQUIRE && f->options.counts != NULL) {
        call->cookie.begun_us = now.boot_us;
        call->cookie.tenant = command->tenant;
    }
    if (submit_now(f, call, command, now)) {
        return;
    }
    size_t len = command_encode(command, CORE_VERSION, f->scratch, FORWARD_SCRATCH);
    hf_assert(len > 0);
    call_keep(f, call, slice_make(f->scratch, len));
    call_enter(f, call, CALL_WAITING);
    fail_early(f, call);
}

void forward_submit_first(struct forward *f, const struct command *command,
                          struct gateway_call *gateway)
{
    f->held = true;
    forward_submit(f, command, gateway);
    struct call *call = gateway->in_flight;
    call->is_first = true;
    call->give_up_ms = UINT64_MAX; /* the node cannot continue without it */
}

void forward_barrier(struct forward *f, struct gateway_call *gateway)
{
    enum forward_kind kind = gateway->look.len > 0 ? FORWARD_LOOK : FORWARD_BARRIER;
    struct call *call = call_new(f, kind, gateway->tenant, gateway->source);
    call_keep(f, call, gateway->look);
    call_enter(f, call, CALL_WAITING);
    gateway->look = slice_make(NULL, 0);
    note_sender(f, gateway->source, gateway->tenant);
    call->gateway = gateway;
    gateway->in_flight = call;
    call->is_safe = true;
    fail_early(f, call);
}

void forward_change(struct forward *f, enum gateway_change change, uint64_t id, const char *address,
                    struct gateway_change_call *gateway)
{
    struct change wanted = {.change = change, .id = id};
    uint8_t bytes[CHANGE_BYTES];
    snprintf(wanted.address, sizeof(wanted.address), "%s", address);
    struct call *call = call_new(f, FORWARD_CHANGE, 0, 0);
    call_keep(f, call, slice_make(bytes, change_encode(&wanted, bytes)));
    call_enter(f, call, CALL_WAITING);
    call->change = gateway;
    gateway->in_flight = call;
    fail_early(f, call);
}
