/* The limit of the state in bytes, and the quotas of tenants, see admission.h. */
#include "replica/admission.h"

#include "base/panic.h"
#include "core/effect.h"
#include "core/view.h"

/* Upper bounds, with their share of tables and heap. A test compares them with what commands really
 * add. */
enum {
    SESSION_BYTES = 256, /* also a private one, or a waiter */
    REQUEST_BYTES = 256, /* the answer kept while the request waits or holds */
    NAME_BYTES = 448,    /* lock, its extra, grant, its detail, or a place in a queue */
    BLOB_BYTES = 144,    /* metadata or value, without its own length */
    COUNTER_BYTES = 128,
    MARK_BYTES = 128,
};

static uint64_t blob_bytes(struct slice bytes)
{
    return bytes.len > 0 ? BLOB_BYTES + bytes.len : 0;
}

static uint64_t acquire_adds(const struct command_acquire *a)
{
    hf_assert(a->names.count <= LIMIT_MULTILOCK_NAMES);
    uint64_t adds = SESSION_BYTES + a->client.len + blob_bytes(a->metadata) + blob_bytes(a->value) +
                    blob_bytes(a->trace);
    for (uint32_t i = 0; i < a->names.count; i++) {
        adds += NAME_BYTES + a->names.at[i].len + a->owner.len;
    }
    if (a->mode == MODE_SEMAPHORE) {
        adds += BLOB_BYTES + a->limit / 8;
    }
    return adds;
}

static uint64_t effect_adds(const struct effect *effect, size_t client_len)
{
    switch (effect->kind) {
    case EFFECT_PUT:
        return SESSION_BYTES + NAME_BYTES + BLOB_BYTES + client_len + effect->name.len +
               effect->value.len;
    case EFFECT_COUNTER:
        return COUNTER_BYTES + effect->name.len;
    default:
        return 0;
    }
}

static uint64_t transact_adds(const struct command_transact *t)
{
    struct reader r = packed_reader(&t->effects);
    struct effect effect;
    uint64_t adds = 0;
    while (unpack_effect(&r, &effect)) {
        adds += effect_adds(&effect, t->client.len);
    }
    return adds;
}

uint64_t admission_adds(const struct command *command)
{
    uint64_t request = REQUEST_BYTES + command->request_id.len;
    switch (command->type) {
    case COMMAND_SESSION_OPEN:
        return SESSION_BYTES + request + command->session_open.client.len +
               blob_bytes(command->session_open.metadata);
    case COMMAND_ACQUIRE:
        return request + command->acquire.client.len + acquire_adds(&command->acquire);
    case COMMAND_PROCLAIM:
        return blob_bytes(command->proclaim.value);
    case COMMAND_FENCE_CHECK:
        return MARK_BYTES + command->fence_check.resource.len;
    case COMMAND_TRANSACT:
        return transact_adds(&command->transact);
    default:
        return 0;
    }
}

static bool holds_already(const struct core *core, const struct command *command)
{
    hf_assert(command->type == COMMAND_ACQUIRE);
    const struct command_acquire *a = &command->acquire;
    struct lock_view lock;
    return (a->flags & ACQUIRE_REENTRANT) != 0 && a->names.count == 1 &&
           !id_is_zero(command->session) &&
           view_lock(core, command->tenant, a->names.at[0], &lock) && lock.has_holder &&
           id_equal(lock.first.session, command->session) &&
           slice_equal(lock.first.holder.owner, a->owner);
}

static bool proclaims_no_more(const struct core *core, const struct command *command)
{
    struct lock_view lock;
    hf_assert(command->type == COMMAND_PROCLAIM);
    return view_lock(core, command->tenant, command->proclaim.name, &lock) && lock.has_holder &&
           lock.first.value.len >= command->proclaim.value.len;
}

/* The counter exists, or the value is not longer than the key's present one. */
static bool effect_fits(const struct core *core, uint32_t tenant, const struct effect *effect)
{
    struct key_view key;
    if (effect_adds(effect, 0) == 0) {
        return true;
    }
    view_key(core, tenant, effect->name, &key);
    if (effect->kind == EFFECT_COUNTER) {
        return key.kind == KEY_COUNTER;
    }
    return key_kind_has_value(key.kind) && key.value.len >= effect->value.len;
}

static bool transact_fits(const struct core *core, const struct command *command)
{
    hf_assert(command->type == COMMAND_TRANSACT);
    struct reader r = packed_reader(&command->transact.effects);
    struct effect effect;
    while (unpack_effect(&r, &effect)) {
        if (!effect_fits(core, command->tenant, &effect)) {
            return false;
        }
    }
    return true;
}

static bool has_mark(const struct core *core, const struct command *command)
{
    hf_assert(command->type == COMMAND_FENCE_CHECK);
    uint64_t highest;
    uint64_t floor;
    return view_fence(core, command->tenant, command->fence_check.resource,
                      command->fence_check.slot, &highest, &floor);
}

static bool fits_in_place(const struct core *core, const struct command *command)
{
    switch (command->type) {
    case COMMAND_ACQUIRE:
        return holds_already(core, command);
    case COMMAND_PROCLAIM:
        return proclaims_no_more(core, command);
    case COMMAND_FENCE_CHECK:
        return has_mark(core, command);
    case COMMAND_TRANSACT:
        return transact_fits(core, command);
    default:
        return false;
    }
}

static bool passes(const struct core *core, const struct command *command)
{
    return core != NULL && (core_knows(core, command) || fits_in_place(core, command));
}

uint64_t admission_bytes(const struct core *replicated, const struct core *memory)
{
    return core_bytes(replicated) + (memory != NULL ? core_bytes(memory) : 0);
}

bool admission_passes(const struct core *replicated, const struct core *memory,
                      const struct command *command)
{
    return passes(replicated, command) || passes(memory, command);
}

static enum hf_error check_state(struct admission *a, const struct core *replicated,
                                 const struct core *memory, const struct command *command,
                                 uint64_t *adds)
{
    hf_assert(a->max == 0 || a->space <= a->max);
    uint64_t most = a->max == 0 ? 0 : admission_adds(command);
    if (most <= a->space) {
        a->space -= most;
        *adds = most;
        return HF_OK;
    }
    uint64_t bytes = admission_bytes(replicated, memory) + a->pending + most;
    if (bytes <= a->max) {
        a->space = a->max - bytes;
        *adds = most;
        return HF_OK;
    }
    if (a->pending > 0) {
        return HF_BUSY;
    }
    if (admission_passes(replicated, memory, command)) {
        *adds = 0;
        return HF_OK;
    }
    return HF_STATE_FULL;
}

enum hf_error admission_check(struct admission *a, const struct core *replicated,
                              const struct core *memory, const struct command *command,
                              uint64_t now_us, struct admitted *adds)
{
    hf_assert(replicated != NULL && adds != NULL);
    struct quota_use use = {.is_counted = false};
    enum hf_error error = HF_OK;
    a->is_tenant_busy = false;
    if (a->quotas != NULL) {
        error = quota_check(a->quotas, replicated, memory, command, admission_adds(command), now_us,
                            &use, &a->refusal);
        a->is_tenant_busy = error == HF_BUSY;
    }
    if (error == HF_OK) {
        error = check_state(a, replicated, memory, command, &adds->bytes);
        adds->quota = use;
    }
    return error;
}

void admission_take(struct admission *a, const struct admitted *adds, uint64_t now_us)
{
    if (a->quotas != NULL) {
        quota_take(a->quotas, &adds->quota, now_us);
    }
}

void admission_propose(struct admission *a, const struct admitted *adds, struct admitted *sum)
{
    a->pending += adds->bytes;
    sum->bytes += adds->bytes;
    if (adds->quota.is_counted) {
        hf_assert(a->quotas != NULL);
        quota_propose(a->quotas, &adds->quota);
        quota_use_add(&sum->quota, &adds->quota);
    }
}

void admission_settle(struct admission *a, struct admitted *sum)
{
    hf_assert(a->pending >= sum->bytes);
    a->pending -= sum->bytes;
    if (sum->quota.is_counted) {
        quota_settle(a->quotas, &sum->quota);
    }
    *sum = (struct admitted){.bytes = 0};
}

bool admission_warns(const struct admission *a, uint64_t bytes, bool before)
{
    uint64_t percent = before ? ADMISSION_CALM_PERCENT : ADMISSION_WARN_PERCENT;
    return a->max != 0 && bytes >= a->max / 100 * percent;
}
