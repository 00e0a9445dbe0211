/* Whether a command exceeds a quota of its tenant, see quota.h. */
#include "replica/quota.h"

#include "base/panic.h"
#include "core/view.h"
#include "replica/admission.h"

/* ---- what a command adds ---- */

/* NULL: every name counts as new. */
struct present {
    const struct core *replicated;
    const struct core *memory;
};

static bool is_present(const struct present *p, uint32_t tenant, struct slice name)
{
    struct lock_view lock;
    struct key_view key;
    if (view_lock(p->replicated, tenant, name, &lock) ||
        (p->memory != NULL && view_lock(p->memory, tenant, name, &lock))) {
        return true;
    }
    view_key(p->replicated, tenant, name, &key);
    return key.kind == KEY_COUNTER;
}

static void acquire_use(const struct command *command, const struct present *present,
                        struct quota_use *use)
{
    const struct command_acquire *a = &command->acquire;
    bool may_wait = present == NULL;
    for (uint32_t i = 0; i < a->names.count; i++) {
        bool is_new = present == NULL || !is_present(present, command->tenant, a->names.at[i]);
        use->locks += is_new;
        may_wait = may_wait || !is_new;
    }
    use->sessions = id_is_zero(command->session);
    use->waiters = a->wait_ms > 0 && may_wait;
}

static void transact_use(const struct command *command, const struct present *present,
                         struct quota_use *use)
{
    struct reader r = packed_reader(&command->transact.effects);
    struct effect effect;
    while (unpack_effect(&r, &effect)) {
        bool adds = effect.kind == EFFECT_PUT || effect.kind == EFFECT_COUNTER;
        if (adds && (present == NULL || !is_present(present, command->tenant, effect.name))) {
            use->locks++;
            use->sessions += effect.kind == EFFECT_PUT;
        }
    }
}

/* `present` NULL: at most. Else of the state as it is. */
static void use_of(const struct command *command, const struct present *present,
                   struct quota_use *use)
{
    use->locks = use->sessions = use->waiters = 0;
    switch (command->type) {
    case COMMAND_SESSION_OPEN:
        use->sessions = 1;
        break;
    case COMMAND_ACQUIRE:
        acquire_use(command, present, use);
        break;
    case COMMAND_TRANSACT:
        transact_use(command, present, use);
        break;
    default:
        break;
    }
}

/* ---- requests a second ---- */

/* EXPIRE and DROP renew and release. */
static bool sets_or_publishes(const struct command *command)
{
    struct reader r = packed_reader(&command->transact.effects);
    struct effect effect;
    while (unpack_effect(&r, &effect)) {
        if (effect.kind != EFFECT_DROP && effect.kind != EFFECT_EXPIRE) {
            return true;
        }
    }
    return false;
}

/* Commands that are refused above the rate. */
static bool is_limited(const struct command *command)
{
    switch (command->type) {
    case COMMAND_SESSION_OPEN:
    case COMMAND_ACQUIRE:
    case COMMAND_PROCLAIM:
    case COMMAND_FENCE_CHECK:
        return true;
    case COMMAND_TRANSACT:
        return sets_or_publishes(command);
    default:
        return false;
    }
}

/* Commands that take a token; the others are those of nodes and operators, and keep-alives. */
static bool is_request(const struct command *command)
{
    return is_limited(command) || command->type == COMMAND_RELEASE ||
           command->type == COMMAND_RENEW || command->type == COMMAND_SESSION_CLOSE ||
           command->type == COMMAND_TRANSACT;
}

/* Its answer is recorded. */
static bool is_known(const struct core *replicated, const struct core *memory,
                     const struct command *command)
{
    return core_knows(replicated, command) || (memory != NULL && core_knows(memory, command));
}

/* ---- the check ---- */

struct tenant_standing {
    const struct quotas *quotas;
    struct tenant_usage now; /* of both tiers, with what is in flight */
};

static void add_usage(struct tenant_usage *sum, const struct core *core, uint32_t tenant)
{
    struct tenant_usage usage;
    if (core != NULL) {
        core_tenant_usage(core, tenant, &usage);
        sum->names += usage.names;
        sum->sessions += usage.sessions;
        sum->waiters += usage.waiters;
        sum->bytes += usage.bytes;
    }
}

static bool is_over(uint64_t limit, uint64_t now, uint64_t adds)
{
    return limit != 0 && adds > 0 && (now >= limit || adds > limit - now);
}

/* QUOTA_COUNT: all fit. */
static enum quota first_over(const struct tenant_standing *s, const struct quota_use *use)
{
    if (is_over(s->quotas->locks, s->now.names, use->locks)) {
        return QUOTA_LOCKS;
    }
    if (is_over(s->quotas->sessions, s->now.sessions, use->sessions)) {
        return QUOTA_SESSIONS;
    }
    if (is_over(s->quotas->waiters, s->now.waiters, use->waiters)) {
        return QUOTA_WAITERS;
    }
    return is_over(s->quotas->state_bytes, s->now.bytes, use->bytes) ? QUOTA_STATE_BYTES
                                                                     : QUOTA_COUNT;
}

static enum hf_error refuse(const struct quotas *quotas, enum quota quota, uint64_t retry_ms,
                            struct quota_refusal *refusal)
{
    *refusal = (struct quota_refusal){quota, quota_of(quotas, quota), retry_ms};
    return HF_QUOTA;
}

static bool limits_state(const struct quotas *q)
{
    return q->locks != 0 || q->sessions != 0 || q->waiters != 0 || q->state_bytes != 0;
}

static enum hf_error check_state(const struct quota_tenant *t, const struct quotas *quotas,
                                 const struct core *replicated, const struct core *memory,
                                 const struct command *command, const struct quota_use *most,
                                 struct quota_refusal *refusal)
{
    const struct quota_use *in_flight = &t->in_flight;
    struct tenant_standing s = {.quotas = quotas,
                                .now = {.names = in_flight->locks,
                                        .sessions = in_flight->sessions,
                                        .waiters = in_flight->waiters,
                                        .bytes = in_flight->bytes}};
    add_usage(&s.now, replicated, command->tenant);
    add_usage(&s.now, memory, command->tenant);
    if (first_over(&s, most) == QUOTA_COUNT) {
        return HF_OK;
    }
    if (!quota_use_is_nothing(in_flight)) {
        return HF_BUSY;
    }
    if (admission_passes(replicated, memory, command)) {
        return HF_OK;
    }
    struct present present = {replicated, memory};
    struct quota_use exact = *most;
    use_of(command, &present, &exact);
    enum quota over = first_over(&s, &exact);
    if (over == QUOTA_COUNT) {
        return HF_OK; /* counted as `most` until it is applied, so it is the only one */
    }
    return refuse(quotas, over, QUOTA_RETRY_MS, refusal);
}

enum hf_error quota_check(struct quota_book *book, const struct core *replicated,
                          const struct core *memory, const struct command *command, uint64_t bytes,
                          uint64_t now_us, struct quota_use *use, struct quota_refusal *refusal)
{
    struct tenant_view tenant;
    *use = (struct quota_use){.tenant = command->tenant};
    if (!policy_tenant(core_policy(replicated), command->tenant, &tenant) ||
        !quotas_limit(&tenant.quotas) || !is_request(command)) {
        return HF_OK;
    }
    struct quota_tenant *t = quota_tenant_get(book, command->tenant);
    struct quota_use most = {.is_counted = true, .tenant = command->tenant};
    use->rate = most.rate = tenant.quotas.requests_per_second;
    most.bytes = command->type == COMMAND_FENCE_CHECK ? 0 : bytes; /* a mark is no live state */
    use_of(command, NULL, &most);
    uint64_t wait_us = use->rate == 0 ? 0 : rate_wait_us(&t->requests, use->rate, now_us);
    if (wait_us > 0 && is_limited(command) && !is_known(replicated, memory, command)) {
        return refuse(&tenant.quotas, QUOTA_REQUESTS_PER_SECOND, (wait_us + 999) / 1000, refusal);
    }
    if (!limits_state(&tenant.quotas) || quota_use_is_nothing(&most)) {
        return HF_OK;
    }
    enum hf_error error =
        check_state(t, &tenant.quotas, replicated, memory, command, &most, refusal);
    if (error == HF_OK) {
        *use = most;
    }
    return error;
}
