/* See memory_tier.h. */
#include "base/panic.h"
#include "core/effect.h"
#include "core/view.h"
#include "replica/memory_tier_state.h"

enum { NOTE_TRACE_SINCE = 7 }; /* version of the state */

static const struct core *replicated(const struct memory_tier *t)
{
    const struct core *core = t->options.replicated(t->options.ctx);
    hf_assert(core != NULL && core != t->core);
    return core;
}

static void refuse(struct memory_tier *t, const struct command *command, void *cookie,
                   enum hf_error error)
{
    struct result result = {.type = command->type, .error = error};
    hf_assert(cookie != NULL && error != HF_OK);
    t->options.on_result(t->options.ctx, cookie, &result);
}

void memory_tier_set_backend(struct memory_tier *t, const struct tier_backend *backend)
{
    t->has_backend = backend != NULL;
    if (backend != NULL) {
        hf_assert(t->options.now != NULL && t->options.on_again != NULL);
        hf_assert(backend->lead != NULL && backend->route != NULL && backend->grant != NULL);
        hf_assert(backend->renew != NULL && backend->end != NULL && backend->release != NULL);
        t->backend = *backend;
    }
}

/* ---- tokens (S3.1, decision 22) ---- */

/* `advance` was applied, and nothing after it: no other token has a C that it skipped. If the
 * previous `advance` was just before it, the earlier reservation stays valid. */
static void reserve(struct memory_tier *t, const struct result *result)
{
    hf_assert(result->token > result->count);
    uint64_t before = result->token - result->count;
    hf_assert(before >= t->reserved); /* C only rises */
    if (before != t->reserved) {
        t->since = before;
    }
    t->reserved = result->token;
}

static void follow_counter(struct memory_tier *t)
{
    uint64_t counter = core_counter(replicated(t));
    if (counter == t->counter) {
        return;
    }
    hf_assert(counter > t->counter && counter >= t->reserved);
    if (counter != t->reserved) { /* a token above the reservation was granted since */
        t->since = counter;
        t->reserved = counter;
    }
    uint64_t known = t->since > t->counter ? t->since : t->counter;
    uint64_t raised = counter > known ? counter - known : 1;
    t->low = raised * (TIER_TOKENS - 1) / 2;
    t->counter = counter;
    hf_assert(t->since <= t->counter);
    core_set_tokens(t->core, t->since * TIER_TOKENS + 1, (counter + 1) * TIER_TOKENS);
}

static void advance_if_due(struct memory_tier *t)
{
    hf_assert(t->core != NULL && t->advanced <= t->counter);
    if (t->advanced != t->counter && core_tokens_left(t->core) <= t->low) {
        struct command advance;
        command_init(&advance, COMMAND_ADVANCE);
        if (t->options.propose(t->options.ctx, &advance)) {
            t->advanced = t->counter;
        }
    }
}

/* Logs the record of an operator's action: it must outlive the leadership. */
static void on_record(void *ctx, const struct audit_view *record)
{
    struct memory_tier *t = ctx;
    struct command note;
    hf_assert(record->number >= t->noted);
    if (record->number != t->noted) {
        return; /* an earlier record could not be proposed; retry both later */
    }
    command_init(&note, COMMAND_NOTE);
    note.tenant = record->tenant;
    note.note.action = record->kind;
    note.note.name = record->resource;
    note.note.actor = record->actor;
    note.note.reason = record->reason;
    note.note.count = record->count;
    if (core_version(replicated(t)) >= NOTE_TRACE_SINCE) {
        note.note.trace = record->trace;
    }
    if (t->options.propose(t->options.ctx, &note)) {
        t->noted = record->number + 1;
    }
}

static void note_if_due(struct memory_tier *t)
{
    enum { AT_ONCE = 16 };
    if (core_audited(t->core) >= t->noted) {
        (void)view_audit(t->core, 0, t->noted, AT_ONCE, on_record, t);
    }
}

struct memory_tier *memory_tier_new(const struct memory_tier_options *options)
{
    hf_assert(options->memory != NULL && options->replicated != NULL);
    hf_assert(options->on_result != NULL && options->on_event != NULL && options->propose != NULL);
    struct memory_tier *t = memory_alloc(options->memory, sizeof(*t));
    memset(t, 0, sizeof(*t));
    t->options = *options;
    t->held.memory = options->memory;
    t->renewals.memory = options->memory;
    t->releases.memory = options->memory;
    return t;
}

void memory_tier_end(struct memory_tier *t)
{
    if (t->core == NULL) {
        return;
    }
    core_free(t->core);
    t->core = NULL;
    tier_drop_held(t, true);
    if (t->has_backend) {
        t->backend.lead(t->backend.ctx, 0);
    }
}

void memory_tier_free(struct memory_tier *t)
{
    if (t == NULL) {
        return;
    }
    core_free(t->core);
    tier_drop_held(t, false);
    memory_free(t->options.memory, t, sizeof(*t));
}

void memory_tier_begin(struct memory_tier *t, uint64_t hash_key)
{
    memory_tier_end(t);
    hf_assert(t->held.count == 0 && t->renewals.count == 0 && t->releases.count == 0);
    struct core_options options = {.memory = t->options.memory,
                                   .hash_key = hash_key,
                                   .on_event = tier_on_core_event,
                                   .event_ctx = t,
                                   .version = CORE_VERSION};
    t->core = core_new(&options);
    core_set_policy_source(t->core, replicated(t));
    uint64_t epoch = core_epoch(replicated(t));
    core_set_attachments(t->core, TIER_ATTACHMENTS +
                                      ((epoch % TIER_ATTACHMENT_EPOCHS) << TIER_ATTACHMENT_BITS));
    t->index = 0;
    t->counter = 0;
    t->since = 0;
    t->reserved = 0;
    t->advanced = 0;
    t->noted = 1;
    memset(t->pending, 0, sizeof(t->pending));
    t->settled = t->proposed; /* all proposals of earlier leaderships, before `lead` was applied */
    t->attachments = 0;
    if (t->has_backend) {
        t->backend.lead(t->backend.ctx, epoch * TIER_TOKENS + 1);
    }
    follow_counter(t);
}

bool memory_tier_is_on(const struct memory_tier *t)
{
    return t->core != NULL;
}

const struct core *memory_tier_core(const struct memory_tier *t)
{
    return t->core;
}

/* ---- the other tier (S10.2) ---- */

bool memory_tier_is_counted(const struct command *command)
{
    return command->type == COMMAND_ACQUIRE || command->type == COMMAND_TRANSACT;
}

_Static_assert(LIMIT_EFFECTS <= LIMIT_MULTILOCK_NAMES, "all of a transaction fits into `names`");

/* For a transaction those of its effects. */
static const struct names *names_of(const struct command *command, struct names *scratch)
{
    if (command->type == COMMAND_ACQUIRE) {
        return &command->acquire.names;
    }
    hf_assert(command->type == COMMAND_TRANSACT);
    struct reader r = packed_reader(&command->transact.effects);
    struct effect effect;
    scratch->count = 0;
    while (scratch->count < LIMIT_MULTILOCK_NAMES && unpack_effect(&r, &effect)) {
        if (effect.kind == EFFECT_PUT || effect.kind == EFFECT_COUNTER) {
            scratch->at[scratch->count++] = effect.name;
        }
    }
    return scratch;
}

static uint64_t *pending_at(struct memory_tier *t, uint32_t tenant, struct slice name)
{
    return &t->pending[core_name_hash(replicated(t), tenant, name) % TIER_PENDING_SLOTS];
}

uint64_t memory_tier_on_proposed(struct memory_tier *t, const struct command *command)
{
    struct names scratch;
    const struct names *names = names_of(command, &scratch);
    hf_assert(t->settled <= t->proposed);
    t->proposed++;
    for (uint32_t i = 0; i < names->count; i++) {
        *pending_at(t, command->tenant, names->at[i]) = t->proposed;
    }
    return t->proposed;
}

void memory_tier_on_settled(struct memory_tier *t, uint64_t number)
{
    hf_assert(number != 0 && number <= t->proposed);
    if (t->core != NULL) {
        hf_assert(number == t->settled + 1); /* is_pending_there compares with the last one */
        t->settled = number;
    }
}

/* By a lock, or by a counter of the Redis protocol (S13.5). */
static bool is_used(const struct core *core, uint32_t tenant, const struct names *names)
{
    struct lock_view lock;
    for (uint32_t i = 0; i < names->count; i++) {
        if (view_lock(core, tenant, names->at[i], &lock) ||
            view_is_counter(core, tenant, names->at[i])) {
            return true;
        }
    }
    return false;
}

static bool is_pending_there(struct memory_tier *t, uint32_t tenant, const struct names *names)
{
    for (uint32_t i = 0; t->settled != t->proposed && i < names->count; i++) {
        if (*pending_at(t, tenant, names->at[i]) > t->settled) {
            return true;
        }
    }
    return false;
}

void tier_begin(struct memory_tier *t, struct tier_time now)
{
    hf_assert(t->core != NULL);
    uint64_t replicated_ms = core_now_ms(replicated(t));
    follow_counter(t);
    core_begin(t->core, ++t->index, now.cluster_ms > replicated_ms ? now.cluster_ms : replicated_ms,
               now.wall_ms);
}

/* After `tier_begin`. */
static void apply(struct memory_tier *t, const struct command *command, void *cookie)
{
    struct result result;
    if (!id_is_zero(command->session)) {
        enum hf_error error =
            core_mirror_session(t->core, replicated(t), command->tenant, command->session);
        /* A command with a token is answered by the token, also without its session. */
        if (error != HF_OK && command->type == COMMAND_ACQUIRE) {
            refuse(t, command, cookie, error);
            return;
        }
    }
    t->wait_ms = command->type == COMMAND_ACQUIRE ? command->acquire.wait_ms : 0;
    core_apply(t->core, command, &result);
    if (cookie != NULL) {
        tier_report(t, command, cookie, &result);
    }
    tier_settle_over(t);
    if (t->core != NULL) {
        advance_if_due(t);
        note_if_due(t);
    }
}

/* An acquire in this tier stays here, whatever the backend decides. */
static enum tier_word route_of(const struct memory_tier *t, const struct command *command,
                               const struct names *names)
{
    bool is_grant = false;
    if (!t->has_backend || view_has_lease(t->core, command->acquire.lease, &is_grant)) {
        return TIER_CONFIRMED;
    }
    enum tier_word word = t->backend.route(t->backend.ctx);
    /* A name is in one tier only: an acquire queues behind the holders here. */
    return word == TIER_AGAIN && is_used(t->core, command->tenant, names) ? TIER_CONFIRMED : word;
}

/* Its session is overdue, but a keep-alive or the end may be in flight in the log. */
static bool is_undecided(const struct memory_tier *t, const struct command *command,
                         struct tier_time now)
{
    struct session_view session;
    return !id_is_zero(command->session) &&
           view_session(replicated(t), command->session, &session) && !session.is_private &&
           session.deadline_ms <= now.cluster_ms;
}

static bool is_free_here(const struct memory_tier *t, const struct command *command)
{
    struct names scratch;
    return (core_names(t->core) == 0 && core_counters(t->core) == 0) ||
           !is_used(t->core, command->tenant, names_of(command, &scratch));
}

static enum tier_taken take_names(struct memory_tier *t, enum tier requested,
                                  const struct command *command, void *cookie, struct tier_time now)
{
    struct names scratch;
    const struct names *names = NULL;
    hf_assert(memory_tier_is_counted(command));
    if (requested == TIER_CORRECTNESS) {
        if (is_free_here(t, command)) {
            return TIER_PROPOSE;
        }
        refuse(t, command, cookie, HF_WRONG_TIER);
        return TIER_TAKEN;
    }
    if (!now.majority) {
        return TIER_LATER;
    }
    if (t->has_backend && command->type == COMMAND_TRANSACT) {
        refuse(t, command, cookie, HF_TIER_NOT_SERVED); /* a backend confirms only acquires */
        return TIER_TAKEN;
    }
    if (is_undecided(t, command, now)) {
        return TIER_LATER;
    }
    names = names_of(command, &scratch);
    if (is_used(replicated(t), command->tenant, names)) {
        if (t->has_backend && t->backend.falls_back) {
            return TIER_PROPOSE; /* the tier of an earlier attempt or acquire */
        }
        refuse(t, command, cookie, HF_WRONG_TIER);
        return TIER_TAKEN;
    }
    if (is_pending_there(t, command->tenant, names)) {
        return TIER_LATER;
    }
    enum tier_word route =
        command->type == COMMAND_ACQUIRE ? route_of(t, command, names) : TIER_CONFIRMED;
    if (route == TIER_FAILED) {
        refuse(t, command, cookie, HF_BACKEND_UNAVAILABLE);
        return TIER_TAKEN;
    }
    if (route == TIER_AGAIN) {
        return TIER_PROPOSE;
    }
    tier_begin(t, now);
    /* A transaction needs up to one token for each name, an acquire one. */
    uint64_t needed = command->type == COMMAND_ACQUIRE ? 1 : names->count;
    if (core_tokens_left(t->core) < needed) {
        advance_if_due(t); /* if not proposed before */
        return TIER_LATER;
    }
    apply(t, command, cookie);
    return TIER_TAKEN;
}

static bool is_ours(const struct memory_tier *t, enum tier requested, const struct command *command)
{
    struct lock_view lock;
    struct id lease = {0, 0};
    uint64_t token = 0;
    switch (command->type) {
    case COMMAND_RELEASE:
        token = command->release.token;
        lease = command->release.lease;
        break;
    case COMMAND_RENEW:
        token = command->renew.token;
        lease = command->renew.lease;
        break;
    case COMMAND_PROCLAIM:
        token = command->proclaim.token;
        break;
    case COMMAND_CANCEL:
        return tier_of_attachment(command->cancel.attachment) == TIER_EFFICIENCY;
    case COMMAND_DETACH:
        return tier_of_attachment(command->detach.attachment) == TIER_EFFICIENCY;
    case COMMAND_FORCE_UNLOCK:
        return view_lock(t->core, command->tenant, command->force_unlock.name, &lock);
    case COMMAND_REVOKE:
        return view_lock(t->core, command->tenant, command->revoke.name, &lock);
    default:
        return false;
    }
    if (token != 0) {
        return tier_of_token(token) == TIER_EFFICIENCY;
    }
    return requested == TIER_EFFICIENCY || view_knows_lease(t->core, command->tenant, lease);
}

bool memory_tier_is_for_log(const struct memory_tier *t, enum tier requested,
                            const struct command *command)
{
    if (t->core == NULL || requested == TIER_EFFICIENCY) {
        return requested == TIER_CORRECTNESS;
    }
    if (memory_tier_is_counted(command)) {
        return is_free_here(t, command);
    }
    return command->type != COMMAND_NODE_GONE && !is_ours(t, requested, command);
}

enum tier_taken memory_tier_submit(struct memory_tier *t, enum tier requested,
                                   const struct command *command, void *cookie,
                                   struct tier_time now)
{
    hf_assert(cookie != NULL);
    hf_assert(requested == TIER_CORRECTNESS || requested == TIER_EFFICIENCY);
    if (t->core == NULL) {
        return requested == TIER_EFFICIENCY ? TIER_LATER : TIER_PROPOSE;
    }
    if (memory_tier_is_counted(command)) {
        return take_names(t, requested, command, cookie, now);
    }
    bool is_gone = command->type == COMMAND_NODE_GONE;
    if (!is_gone && !is_ours(t, requested, command)) {
        return TIER_PROPOSE;
    }
    if (!now.majority) {
        return TIER_LATER; /* also for the end of a node: applying it would grant what is due */
    }
    if (is_gone) {
        tier_begin(t, now);
        apply(t, command, NULL);
        return TIER_PROPOSE;
    }
    tier_begin(t, now);
    apply(t, command, cookie);
    return TIER_TAKEN;
}

bool memory_tier_report_long_held(struct memory_tier *t, const struct command *command,
                                  struct tier_time now)
{
    hf_assert(command->type == COMMAND_LONG_HELD);
    if (t->core == NULL || !now.majority) {
        return false;
    }
    tier_begin(t, now);
    apply(t, command, NULL);
    return true;
}

static void follow_session(struct memory_tier *t, uint32_t tenant, struct id id)
{
    struct session_view session;
    if (view_session(t->core, id, &session) && !session.is_private) {
        (void)core_mirror_session(t->core, replicated(t), tenant, id);
    }
}

void memory_tier_on_replicated(struct memory_tier *t, const struct command *command,
                               const struct result *result)
{
    if (t->core == NULL) {
        return;
    }
    if (command->type == COMMAND_ADVANCE && result->error == HF_OK) {
        reserve(t, result);
    } else if (command->type == COMMAND_KEEPALIVE) {
        const struct ids *ids = &command->keepalive.sessions;
        for (uint32_t i = 0; i < ids->count; i++) {
            follow_session(t, command->tenant, ids_at(ids, i));
        }
    } else if (command->type == COMMAND_STREAM_UP || command->type == COMMAND_STREAM_THROUGH ||
               command->type == COMMAND_STREAM_DOWN) {
        follow_session(t, command->tenant, command->session);
    } else if (command->type == COMMAND_POLICY_CHANGE && result->error == HF_OK &&
               command->policy_change.end_sessions != 0) {
        core_end_removed(t->core); /* private sessions; the others end with the replicated ones */
    }
}

void memory_tier_on_event(struct memory_tier *t, const struct event *event)
{
    if (t->core != NULL &&
        (event->type == EVENT_SESSION_CLOSED || event->type == EVENT_SESSION_EXPIRED)) {
        core_end_session(t->core, event->session, event->type == EVENT_SESSION_EXPIRED);
        tier_settle_over(t);
    }
}

uint64_t memory_tier_next_ms(const struct memory_tier *t)
{
    if (t->core == NULL) {
        return UINT64_MAX;
    }
    uint64_t due_ms = core_next_due_ms(t->core);
    bool is_left_over = due_ms <= core_now_ms(t->core);
    if (is_left_over && core_tokens_left(t->core) == 0 &&
        core_counter(replicated(t)) == t->counter) {
        return UINT64_MAX; /* it waits for a token */
    }
    return due_ms;
}

void memory_tier_run(struct memory_tier *t, struct tier_time now)
{
    if (t->core == NULL || !now.majority || memory_tier_next_ms(t) > now.cluster_ms) {
        return;
    }
    tier_begin(t, now);
    tier_settle_over(t);
    advance_if_due(t);
    note_if_due(t);
}
