/* Applies one entry: sweeps what is due, then runs its commands in order (S1.7). */
#include "core/state.h"

void core_begin(struct core *c, uint64_t index, uint64_t time_ms, uint64_t wall_ms)
{
    hf_assert(index < LIMIT_NUMBER && time_ms < LIMIT_NUMBER && wall_ms < LIMIT_NUMBER);
    hf_assert(index > c->index || c->index == 0);
    c->index = index;
    c->ordinal = 0;
    c->wall_ms = wall_ms;
    if (time_ms > c->now_ms) {
        c->now_ms = time_ms;
        wall_row_begin(c);
    }
    c->steps = 0;
    sweep(c);
    c->last_sweep_steps = c->steps;
}

/* What `advance` raises C by, since version 3 (decision 22). A C gives the tier without a log 1,023
 * tokens, and it requests `advance` after 512 at the earliest. So its token uses at most an eighth
 * of a C; a grant of the replicated tier uses one C (S3.2). */
enum { ADVANCE_BY = 64 };

uint64_t counter_raise(struct core *c, uint32_t by)
{
    hf_assert(by > 0 && c->token_end == 0); /* else the caller supplies the tokens */
    c->counter += by;
    hf_assert(c->counter < LIMIT_NUMBER >> 10);
    return c->counter;
}

static void apply_lead(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_LEAD && c->epoch <= c->counter);
    c->epoch = counter_raise(c, 1);
    out->token = c->epoch;
    event_emit(c, &(struct event){
                      .type = EVENT_EPOCH, .node = cmd->lead.node, .token = c->epoch, .parts = 1});
}

static void apply_advance(struct core *c, struct result *out)
{
    out->count = c->version < 3 ? 1 : ADVANCE_BY;
    out->token = counter_raise(c, out->count);
}

static void apply_upgrade(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_UPGRADE && c->version <= CORE_VERSION);
    if (cmd->upgrade.version > CORE_VERSION) {
        out->error = HF_VERSION;
    } else if (cmd->upgrade.version > c->version) {
        bool had_shares = c->version >= TENANT_VERSION;
        c->version = cmd->upgrade.version;
        fence_upgrade(c);
        if (!had_shares && c->version >= TENANT_VERSION) {
            tenant_upgrade(c);
        }
        event_emit(c, &(struct event){.type = EVENT_UPGRADED, .parts = 1});
    }
}

static void dispatch(struct core *c, const struct command *cmd, struct result *out)
{
    switch (cmd->type) {
    case COMMAND_LEAD:
        apply_lead(c, cmd, out);
        return;
    case COMMAND_TICK:
        return;
    case COMMAND_ADVANCE:
        apply_advance(c, out);
        return;
    case COMMAND_UPGRADE:
        apply_upgrade(c, cmd, out);
        return;
    case COMMAND_SESSION_OPEN:
        apply_session_open(c, cmd, out);
        return;
    case COMMAND_KEEPALIVE:
        apply_keepalive(c, cmd, out);
        return;
    case COMMAND_SESSION_CLOSE:
        apply_session_close(c, cmd, out);
        return;
    case COMMAND_STREAM_UP:
        apply_stream_up(c, cmd, out);
        return;
    case COMMAND_STREAM_THROUGH:
        apply_stream_through(c, cmd, out);
        return;
    case COMMAND_STREAM_DOWN:
        apply_stream_down(c, cmd, out);
        return;
    case COMMAND_ACQUIRE:
        apply_acquire(c, cmd, out);
        return;
    case COMMAND_CANCEL:
        apply_cancel(c, cmd, out);
        return;
    case COMMAND_DETACH:
        apply_detach(c, cmd, out);
        return;
    case COMMAND_NODE_GONE:
        apply_node_gone(c, cmd, out);
        return;
    case COMMAND_RELEASE:
        apply_release(c, cmd, out);
        return;
    case COMMAND_RENEW:
        apply_renew(c, cmd, out);
        return;
    case COMMAND_PROCLAIM:
        apply_proclaim(c, cmd, out);
        return;
    case COMMAND_FORCE_UNLOCK:
        apply_force_unlock(c, cmd, out);
        return;
    case COMMAND_REVOKE:
        apply_revoke(c, cmd, out);
        return;
    case COMMAND_FENCE_CHECK:
        apply_fence_check(c, cmd, out);
        return;
    case COMMAND_FENCE_RESET:
        apply_fence_reset(c, cmd, out);
        return;
    case COMMAND_NOTE:
        apply_note(c, cmd, out);
        return;
    case COMMAND_TRANSACT:
        apply_transact(c, cmd, out);
        return;
    case COMMAND_POLICY_CHANGE:
        apply_policy_change(c, cmd, out);
        return;
    case COMMAND_ALERT_SET:
        apply_alert_set(c, cmd, out);
        return;
    case COMMAND_ALERT_REMOVE:
        apply_alert_remove(c, cmd, out);
        return;
    case COMMAND_LONG_HELD:
        apply_long_held(c, cmd, out);
        return;
    case COMMAND_SINK_POSITION:
        apply_sink_position(c, cmd, out);
        return;
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
    hf_panic(__FILE__, __LINE__, "a command of no type passed its check");
}

/* The table lookups of a command. */
struct lookups {
    uint32_t name;
    uint32_t session;
    uint32_t lease;
    bool has_name;
    bool has_session;
    bool has_lease;
    bool has_request;
    uint32_t id;                 /* of request or transaction */
    const struct tenant *tenant; /* whose memories are searched */
    const struct recent *done;   /* memory to search for that id; NULL: no id */
};

static void lookups_of(const struct core *c, const struct command *cmd, struct lookups *out)
{
    struct slice name = slice_make(NULL, 0);
    struct id lease = {0, 0};
    if (cmd->type == COMMAND_ACQUIRE) {
        name = cmd->acquire.names.count > 0 ? cmd->acquire.names.at[0] : name;
        lease = cmd->acquire.lease;
    } else if (cmd->type == COMMAND_RELEASE) {
        name = cmd->release.name;
        lease = cmd->release.lease;
    } else if (cmd->type == COMMAND_RENEW) {
        name = cmd->renew.name;
        lease = cmd->renew.lease;
    } else if (cmd->type == COMMAND_TRANSACT) {
        struct reader checks = packed_reader(&cmd->transact.checks);
        struct key_check first = {.name = name};
        (void)unpack_check(&checks, &first);
        name = first.name;
    }
    out->has_name = name.len > 0;
    out->has_session = !id_is_zero(cmd->session);
    out->has_lease = !id_is_zero(lease);
    out->has_request = cmd->request_id.len > 0;
    out->tenant = tenant_memory_look(c, cmd->tenant);
    out->done = NULL;
    if (out->has_request) {
        out->id = request_hash_of(c, cmd);
        enum done_kind where = request_place(c, request_kind(cmd->type, cmd->request_id));
        out->done = &out->tenant->done_requests[where];
    } else if (cmd->type == COMMAND_TRANSACT) {
        out->id = hash_id(c, cmd->transact.id);
        out->done = &out->tenant->transacts;
    }
    out->name = out->has_name ? hash_name(c, cmd->tenant, name) : 0;
    out->session = out->has_session ? hash_id(c, cmd->session) : 0;
    out->lease = out->has_lease ? hash_id(c, lease) : 0;
}

/* Always inlined: gcc treats a function that only prefetches as free of effects and drops it. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE void fetch_bucket(const struct table *t, uint32_t hash)
{
    TABLE_PREFETCH(t, hash);
}

ALWAYS_INLINE void fetch_first(const struct core *c, const struct table *t, uint32_t hash)
{
    ref obj = table_first(t, hash);
    if (obj != 0) {
        const char *object = pool_at(&c->pool, obj);
        __builtin_prefetch(object);
        __builtin_prefetch(object + 64);
    }
}

void core_prefetch(const struct core *c, const struct command *commands, uint32_t count)
{
    struct lookups all[CORE_PREFETCH];
    hf_assert(count == 0 || commands != NULL);
    count = count < CORE_PREFETCH ? count : CORE_PREFETCH;
    for (uint32_t i = 0; i < count; i++) {
        lookups_of(c, &commands[i], &all[i]);
        if (all[i].has_name) {
            fetch_bucket(&c->locks, all[i].name);
        }
        if (all[i].has_session) {
            fetch_bucket(&c->sessions, all[i].session);
        }
        if (all[i].has_lease) {
            fetch_bucket(&c->sessions, all[i].lease);
            fetch_bucket(&c->leases, all[i].lease);
            RECENT_PREFETCH_HEAD(&all[i].tenant->ended_grants, ENDED_BY_LEASE, all[i].lease);
        }
        if (all[i].has_request) {
            fetch_bucket(&c->requests, all[i].id);
        }
        if (all[i].done != NULL) {
            RECENT_PREFETCH_HEAD(all[i].done, 0, all[i].id);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (all[i].has_name) {
            fetch_first(c, &c->locks, all[i].name);
        }
        if (all[i].has_session) {
            fetch_first(c, &c->sessions, all[i].session);
        }
        if (all[i].has_lease) {
            fetch_first(c, &c->sessions, all[i].lease);
            fetch_first(c, &c->leases, all[i].lease);
            RECENT_PREFETCH_LINK(&all[i].tenant->ended_grants, ENDED_BY_LEASE, all[i].lease);
        }
        if (all[i].done != NULL) {
            RECENT_PREFETCH_LINK(all[i].done, 0, all[i].id);
        }
    }
}

static void keep(struct core *c, size_t *at, struct slice *bytes)
{
    if (bytes->len > 0) {
        hf_assert(*at + bytes->len <= KEPT_BYTES);
        memcpy(c->kept + *at, bytes->data, bytes->len);
        bytes->data = c->kept + *at;
        *at += bytes->len;
    }
}

/* wake_all may free the waiters and names that the answer points to. */
static void keep_slices(struct core *c, struct result *out)
{
    size_t at = 0;
    hf_assert(out->cycle_length <= LIMIT_DEADLOCK_CYCLE);
    keep(c, &at, &out->name);
    keep(c, &at, &out->reserved_for);
#define KEEP(name) keep(c, &at, &out->holder.name);
#define F(role, since, type, name, limit) FIELD_SLICE_##type(KEEP, name)
    HOLDER_FIELDS(F)
#undef F
#undef KEEP
    for (uint32_t i = 0; i < out->cycle_length; i++) {
        keep(c, &at, &c->cycle[i].client);
        keep(c, &at, &c->cycle[i].owner);
        keep(c, &at, &c->cycle[i].name);
    }
}

void core_apply(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(c->index != 0); /* core_begin comes first */
    memset(out, 0, sizeof(*out));
    out->type = cmd->type;
    c->steps = 1;
    c->prune_left = LIMIT_PRUNE;
    enum hf_error error = command_check(cmd);
    if (error == HF_OK && command_since(cmd) > c->version) {
        error = HF_NOT_UPGRADED; /* a member may not support it */
    }
    if (error == HF_OK && cmd->principal != 0) {
        error = authorise_command(core_policy(c), cmd, NULL);
    }
    if (error != HF_OK) {
        out->error = error;
    } else {
        tenant_charge(c, cmd->tenant);
        dispatch(c, cmd, out);
        hf_assert(c->prune_left <= LIMIT_PRUNE);
        if (wake_pending(c)) {
            keep_slices(c, out);
            wake_all(c);
        }
    }
    if (out->error != HF_OK) {
        *out = (struct result){.type = cmd->type, .error = out->error};
    }
    c->last_steps = c->steps;
    if (c->steps > c->worst_steps) {
        c->worst_steps = c->steps;
    }
}

uint64_t core_next_due_ms(const struct core *c)
{
    if (c->backlog || c->purge_at != 0 || wake_pending(c)) {
        return c->now_ms;
    }
    return heap_min_at(&c->timers);
}

/* At most LIMIT_DELAY_MAX_MS, as any lock-delay. */
static uint32_t longest_ttl(const struct core *c)
{
    uint64_t longest = 0;
    RING_EACH(c, obj, c->all_sessions, session, all)
    {
        const struct session *s = session_at(c, obj);
        if (s->ttl_ms > longest) {
            longest = s->ttl_ms;
        }
        RING_EACH(c, held, s->holds, grant, in_session)
        {
            const struct detail *d = grant_detail(c, grant_at(c, held));
            if (d != NULL && d->ttl_ms > longest) {
                longest = d->ttl_ms;
            }
        }
    }
    return longest < LIMIT_DELAY_MAX_MS ? (uint32_t)longest : LIMIT_DELAY_MAX_MS;
}

void core_recover(struct core *c, struct slice actor, struct slice reason)
{
    hf_assert(actor.len <= LIMIT_ACTOR && reason.len <= LIMIT_REASON);
    uint32_t delay_ms = longest_ttl(c);
    uint32_t sessions = 0;
    while (c->all_sessions != 0) {
        ref obj = RING_FIRST(c, c->all_sessions, session, all);
        RING_EACH(c, held, session_at(c, obj)->holds, grant, in_session)
        {
            grant_at(c, held)->delay_ms = delay_ms;
        }
        session_end(c, obj, ENDED_RECOVERED);
        sessions++;
    }
    hf_assert(c->grants == 0 && c->waiters == 0);
    c->counter += UINT64_C(1) << 32;
    hf_assert(c->counter < LIMIT_NUMBER >> 10);
    audit_add(c, &(struct audit_entry){AUDIT_RECOVER, 0, sessions, {slice_of("*"), actor, reason}});
    do {
        wake_all(c);
    } while (wake_pending(c));
}
