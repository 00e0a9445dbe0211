/* The frame of the model: entries begin, commands are applied. */
#include "model_state.h"

struct model *model_new(uint32_t version, core_event_fn on_event, void *event_ctx)
{
    struct model *m = model_alloc(sizeof(*m));
    m->on_event = on_event;
    m->event_ctx = event_ctx;
    m->version = version;
    for (uint32_t i = 0; i < MODEL_TENANTS; i++) {
        model_share_open(&m->shares[i]);
    }
    model_policy_open(&m->policy);
    return m;
}

static void free_memos(struct list *memos)
{
    for (size_t i = 0; i < memos->count; i++) {
        model_memo_free(memos->at[i]);
    }
    model_list_free(memos);
}

static void free_holdings(struct model *m)
{
    for (size_t i = 0; i < m->grants.count; i++) {
        struct model_grant *g = m->grants.at[i];
        model_request_free(&g->r);
        free(g);
    }
    for (size_t i = 0; i < m->waiters.count; i++) {
        struct model_waiter *w = m->waiters.at[i];
        model_request_free(&w->r);
        free(w);
    }
    for (size_t i = 0; i < m->sessions.count; i++) {
        struct model_session *s = m->sessions.at[i];
        free_memos(&s->memos);
        model_list_free(&s->grants);
        model_list_free(&s->waiters);
        owned_free(&s->client);
        owned_free(&s->metadata);
        free(s);
    }
    for (size_t i = 0; i < m->names.count; i++) {
        struct model_name *name = m->names.at[i];
        owned_free(&name->text);
        model_list_free(&name->holders);
        model_list_free(&name->queue);
        free(name);
    }
    model_list_free(&m->grants);
    model_list_free(&m->waiters);
    model_list_free(&m->sessions);
    model_list_free(&m->names);
    model_list_free(&m->woken);
    for (size_t i = 0; i < m->node_waiters_all.count; i++) {
        struct model_node_waiters *node_waiters = m->node_waiters_all.at[i];
        model_list_free(&node_waiters->waiters);
        free(node_waiters);
    }
    model_list_free(&m->node_waiters_all);
    model_list_free(&m->revisits);
}

static void free_records(struct model *m)
{
    free_memos(&m->live_memos);
    for (uint32_t i = 0; i < MODEL_TENANTS; i++) {
        model_share_close(&m->shares[i]);
    }
    model_free_counters(m);
    model_free_times(m);
}

void model_free(struct model *m)
{
    if (m == NULL) {
        return;
    }
    free_holdings(m);
    free_records(m);
    model_policy_close(&m->policy);
    model_forget_scratch(m);
    model_list_free(&m->scratch);
    free(m);
}

static void serve(struct model *m)
{
    model_serve(m);
    model_drop_unused_names(m);
}

void model_begin(struct model *m, uint64_t index, uint64_t time_ms, uint64_t wall_ms)
{
    model_forget_scratch(m);
    m->index = index;
    m->ordinal = 0;
    m->wall_ms = wall_ms;
    if (time_ms > m->now_ms) {
        m->now_ms = time_ms;
        model_note_wall(m);
    }
    model_sweep(m);
    serve(m);
}

static void lead(struct model *m, const struct command *c, struct result *out)
{
    m->epoch = ++m->counter;
    out->token = m->epoch;
    struct event event = model_event(m, EVENT_EPOCH, 0);
    event.token = m->epoch;
    event.node = c->lead.node;
    model_emit(m, &event);
}

static void upgrade(struct model *m, const struct command *c, struct result *out)
{
    if (c->upgrade.version > CORE_VERSION) {
        out->error = HF_VERSION;
    } else if (c->upgrade.version > m->version) {
        bool had_shares = m->version >= 6;
        m->version = c->upgrade.version;
        model_fence_upgrade(m);
        if (!had_shares && m->version >= 6) {
            model_share_upgrade(m);
        }
        struct event event = model_event(m, EVENT_UPGRADED, 0);
        model_emit(m, &event);
    }
}

static void dispatch(struct model *m, const struct command *c, struct result *out)
{
    switch (c->type) {
    case COMMAND_LEAD:
        lead(m, c, out);
        break;
    case COMMAND_ADVANCE:
        out->count = m->version < 3 ? 1 : 64; /* decision 22 */
        m->counter += out->count;
        out->token = m->counter;
        break;
    case COMMAND_UPGRADE:
        upgrade(m, c, out);
        break;
    case COMMAND_SESSION_OPEN:
        model_session_open(m, c, out);
        break;
    case COMMAND_KEEPALIVE:
        model_keepalive(m, c, out);
        break;
    case COMMAND_SESSION_CLOSE:
        model_session_close(m, c, out);
        break;
    case COMMAND_STREAM_UP:
        model_stream_up(m, c, out);
        break;
    case COMMAND_STREAM_THROUGH:
        model_stream_through(m, c, out);
        break;
    case COMMAND_STREAM_DOWN:
        model_stream_down(m, c, out);
        break;
    case COMMAND_ACQUIRE:
        model_acquire(m, c, out);
        break;
    case COMMAND_CANCEL:
        model_cancel(m, c, out);
        break;
    case COMMAND_DETACH:
        model_detach(m, c, out);
        break;
    case COMMAND_NODE_GONE:
        model_node_gone(m, c, out);
        break;
    case COMMAND_RELEASE:
        model_release(m, c, out);
        break;
    case COMMAND_RENEW:
        model_renew(m, c, out);
        break;
    case COMMAND_PROCLAIM:
        model_proclaim(m, c, out);
        break;
    case COMMAND_FORCE_UNLOCK:
        model_force_unlock(m, c, out);
        break;
    case COMMAND_REVOKE:
        model_revoke(m, c, out);
        break;
    case COMMAND_FENCE_RESET:
        model_fence_reset(m, c, out);
        break;
    case COMMAND_FENCE_CHECK:
        model_fence_check(m, c, out);
        break;
    case COMMAND_TRANSACT:
        model_transact(m, c, out);
        break;
    case COMMAND_NOTE:
        model_note(m, c, out);
        break;
    case COMMAND_POLICY_CHANGE:
        model_policy_change(m, c, out);
        break;
    case COMMAND_ALERT_SET:
        model_alert_set(m, c, out);
        break;
    case COMMAND_ALERT_REMOVE:
        model_alert_remove(m, c, out);
        break;
    case COMMAND_LONG_HELD:
        model_long_held(m, c, out);
        break;
    case COMMAND_SINK_POSITION:
        model_sink_position(m, c, out);
        break;
    case COMMAND_TICK:
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
}

void model_apply(struct model *m, const struct command *c, const struct result *seen,
                 struct result *out)
{
    model_forget_scratch(m);
    memset(out, 0, sizeof(*out));
    out->type = c->type;
    out->error = command_check(c);
    m->seen = seen;
    m->prune_left = LIMIT_PRUNE;
    bool is_of_2 = c->type == COMMAND_TRANSACT || c->type == COMMAND_NOTE ||
                   (c->type == COMMAND_ACQUIRE && (c->acquire.flags & ACQUIRE_KEY));
    bool is_of_4 = c->type == COMMAND_FENCE_RESET || c->type == COMMAND_STREAM_THROUGH ||
                   (c->type == COMMAND_TRANSACT && model_sets_a_ttl_of_a_counter(c));
    bool is_of_6 = c->type == COMMAND_POLICY_CHANGE || c->principal != 0;
    if (out->error == HF_OK &&
        ((is_of_2 && m->version < 2) || (is_of_4 && m->version < 4) ||
         (is_of_6 && m->version < 6) || (model_is_of_7(c) && m->version < 7) ||
         (model_is_of_8(c) && m->version < 8) || (model_is_of_9(c) && m->version < 9))) {
        out->error = HF_NOT_UPGRADED;
    }
    if (out->error == HF_OK && !model_is_allowed(m, c)) {
        out->error = HF_DENIED;
    }
    if (out->error != HF_OK) {
        return;
    }
    dispatch(m, c, out);
    m->seen = NULL;
    if (out->error != HF_OK) {
        enum hf_error error = out->error;
        memset(out, 0, sizeof(*out));
        out->type = c->type;
        out->error = error;
    }
    serve(m);
}

uint64_t model_now_ms(const struct model *m)
{
    return m->now_ms;
}

uint64_t model_counter(const struct model *m)
{
    return m->counter;
}

uint64_t model_epoch(const struct model *m)
{
    return m->epoch;
}

uint32_t model_version(const struct model *m)
{
    return m->version;
}

struct model_forgotten model_forgotten(const struct model *m)
{
    struct model_forgotten out = {false};
    for (uint32_t i = 0; i < MODEL_TENANTS; i++) {
        const struct model_share *share = &m->shares[i];
        out.audit |= share->audit_next > LIMIT_AUDIT;
        out.sessions |= share->ended_session_count > LIMIT_ENDED;
        out.grants |= share->ended_grant_count > LIMIT_ENDED;
        out.requests |= share->memos[MEMO_CLIENT].first > 0;
        out.drawn_requests |= share->memos[MEMO_DRAWN].first > 0;
        out.operator_requests |= share->memos[MEMO_OPERATOR].first > 0;
        out.fences |= share->floor > 0;
        out.transacts |= share->transact_count > LIMIT_TRANSACTS;
    }
    return out;
}

bool model_has_backlog(const struct model *m)
{
    return m->backlog;
}

bool model_has_purge(const struct model *m)
{
    return m->purge_at != NULL;
}

bool model_has_woken(const struct model *m)
{
    return m->woken.count > 0 || m->revisits.count > 0;
}
