/* The leader takes a command, of this node or forwarded: rights, limits, then the tier EFFICIENCY or the
 * open batch. */
#include "node/forward/forward_state.h"

static enum tier_taken offer(struct forward *f, enum tier tier, const struct command *command,
                             struct cookie *cookie, struct replica_time now)
{
    if (f->options.tier == NULL) {
        return tier == TIER_EFFICIENCY ? TIER_LATER : TIER_PROPOSE;
    }
    struct tier_time time = {.cluster_ms = replica_cluster_ms(f->replica, now),
                             .wall_ms = now.wall_ms,
                             .majority = !f->reading && replica_has_majority(f->replica, now)};
    return memory_tier_submit(f->options.tier, tier, command, cookie, time);
}

/* ---- rights (decision 29) ---- */

_Static_assert(RIGHTS_ALL == (1 << (FORWARD_DENIAL_REASONS - 1)) - 1, "a reason for each right");

static unsigned reason_of(unsigned right)
{
    unsigned reason = 0;
    for (; right != 0; right >>= 1) {
        reason++;
    }
    return reason;
}

uint64_t forward_denied(const struct forward *f, unsigned reason)
{
    hf_assert(reason < FORWARD_DENIAL_REASONS);
    return f->denied[reason];
}

const char *forward_denial_reason(unsigned reason)
{
    return reason == 0 ? "no_principal" : right_name((enum right)(1u << (reason - 1)));
}

bool forward_needs_principals(const struct forward *f)
{
    return f->options.auth && core_version(replica_core(f->replica)) >= FORWARD_OWN_VERSION;
}

enum hf_error forward_authorise(const struct forward *f, const struct command *command, bool is_own,
                                unsigned *right)
{
    struct denial denial;
    *right = 0;
    if (command->principal == 0) {
        return !is_own && forward_needs_principals(f) ? HF_UNAUTHENTICATED : HF_OK;
    }
    enum hf_error error =
        authorise_command(core_policy(replica_core(f->replica)), command, &denial);
    if (error != HF_OK) {
        *right = denial.right;
    }
    return error;
}

/* ---- limits of the state (S12.14) and of tenants (S15) ---- */

enum hf_error forward_check_admission(struct forward *f, const struct command *command,
                                      struct replica_time now, struct admitted *adds)
{
    struct admission *a = f->options.admission;
    *adds = (struct admitted){.bytes = 0};
    if (a == NULL) {
        return HF_OK;
    }
    const struct core *memory =
        f->options.memory_core != NULL ? f->options.memory_core(f->options.ctx) : NULL;
    return admission_check(a, replica_core(f->replica), memory, command, now.boot_us, adds);
}

/* A refusal is final, so only a confirmed leader returns it: another one may have applied an earlier
 * attempt, or a later policy. */
static enum hf_error confirm(const struct forward *f, struct replica_time now)
{
    struct replica_status status;
    replica_status(f->replica, now, &status);
    if (!status.serving) {
        return HF_UNAVAILABLE;
    }
    return replica_has_majority(f->replica, now) ? HF_OK : HF_BUSY;
}

static enum hf_error admit(struct forward *f, const struct command *command,
                           struct replica_time now, struct admitted *adds)
{
    enum hf_error error = forward_check_admission(f, command, now, adds);
    if (error != HF_STATE_FULL && error != HF_QUOTA) {
        return error;
    }
    enum hf_error confirmed = confirm(f, now);
    if (confirmed != HF_OK) {
        return confirmed;
    }
    if (error == HF_QUOTA) {
        quota_tenant_get(f->options.admission->quotas, command->tenant)
            ->refused[f->options.admission->refusal.quota]++;
    } else {
        f->options.admission->refused++;
    }
    return error;
}

static void take(struct forward *f, const struct admitted *adds, struct replica_time now)
{
    if (f->options.admission != NULL) {
        admission_take(f->options.admission, adds, now.boot_us);
    }
}

/* Answers the call, which is not sent to another leader. */
static enum hf_error refuse_here(struct forward *f, const struct command *command,
                                 struct cookie *cookie, enum hf_error error)
{
    struct result refused = {.type = command->type, .error = error};
    replica_note_refused(f->replica, command);
    if (error == HF_QUOTA) {
        const struct quota_refusal *refusal = &f->options.admission->refusal;
        refused.count = refusal->quota;
        refused.highest = refusal->limit;
        refused.ttl_ms = refusal->retry_ms;
    }
    forward_on_result(f, cookie, REPLICA_DONE, &refused);
    return HF_OK;
}

enum hf_error forward_propose(struct forward *f, const struct command *command,
                              struct cookie *cookie, struct replica_time now,
                              const struct admitted *adds)
{
    enum hf_error error =
        f->read_only ? HF_UNAVAILABLE : replica_submit(f->replica, command, cookie, now);
    if (error == HF_OK && f->options.admission != NULL) {
        admission_propose(f->options.admission, adds, &cookie->adds);
        take(f, adds, now);
    }
    if (error == HF_OK && f->options.tier != NULL && memory_tier_is_counted(command)) {
        hf_assert(cookie->proposal == 0); /* a leader submits a call once */
        cookie->proposal = memory_tier_on_proposed(f->options.tier, command);
    }
    return error;
}

static enum hf_error deny_here(struct forward *f, const struct command *command,
                               struct cookie *cookie, enum hf_error error, struct replica_time now)
{
    enum hf_error confirmed = confirm(f, now);
    return confirmed == HF_OK ? refuse_here(f, command, cookie, error) : confirmed;
}

enum hf_error forward_take(struct forward *f, const struct forward_taken *taken,
                           struct cookie *cookie, struct replica_time now)
{
    const struct command *command = taken->command;
    if (f->paused) {
        return HF_UNAVAILABLE;
    }
    unsigned right;
    enum hf_error error = forward_authorise(f, command, taken->is_own, &right);
    if (error != HF_OK) {
        error = deny_here(f, command, cookie, error, now);
        f->denied[reason_of(right)] += error == HF_OK;
        return error;
    }
    struct admitted adds;
    error = admit(f, command, now, &adds);
    if (error == HF_STATE_FULL || error == HF_QUOTA) {
        return refuse_here(f, command, cookie, error);
    }
    if (error != HF_OK) {
        return error;
    }
    enum tier_taken offered = offer(f, taken->tier, command, cookie, now);
    if (offered == TIER_TAKEN) {
        take(f, &adds, now);
        return HF_OK;
    }
    if (offered != TIER_PROPOSE) {
        return HF_BUSY;
    }
    error = forward_propose(f, command, cookie, now, &adds);
    return error == HF_NOT_UPGRADED ? refuse_here(f, command, cookie, error) : error;
}
