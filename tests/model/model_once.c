/* Exactly once (S8): answers are kept, and a repeated command gets its answer again. */
#include "model_state.h"

void model_memo_free(struct memo *memo)
{
    owned_free(&memo->scope);
    owned_free(&memo->request_id);
    free(memo);
}

uint64_t model_digest(const struct command *c)
{
    struct command copy = *c;
    if (copy.type == COMMAND_ACQUIRE) {
        copy.acquire.trace = slice_make(NULL, 0);
    }
    return command_digest(&copy);
}

/* The scope of a request id: the session, or else the client, or else the actor. */
static struct slice scope_of(const struct command *c)
{
    if (!id_is_zero(c->session)) {
        return slice_make(NULL, 0);
    }
    switch (c->type) {
    case COMMAND_SESSION_OPEN:
        return c->session_open.client;
    case COMMAND_ACQUIRE:
        return c->acquire.client;
    case COMMAND_RELEASE:
        return c->release.client;
    case COMMAND_RENEW:
        return c->renew.client;
    case COMMAND_PROCLAIM:
        return c->proclaim.client;
    case COMMAND_FORCE_UNLOCK:
        return c->force_unlock.actor;
    case COMMAND_REVOKE:
        return c->revoke.actor;
    case COMMAND_FENCE_RESET:
        return c->fence_reset.actor;
    case COMMAND_ALERT_SET:
        return c->alert_set.actor;
    case COMMAND_ALERT_REMOVE:
        return c->alert_remove.actor;
    default:
        return slice_make(NULL, 0);
    }
}

static uint32_t principal_of(const struct command *c)
{
    return id_is_zero(c->session) ? c->principal : 0; /* a session has one owner */
}

static uint64_t print_of(uint32_t tenant, struct id session, enum command_type type,
                         struct slice request_id)
{
    uint64_t print = model_print(tenant, slice_make(&session, sizeof(session)));
    return model_print(print + (uint64_t)type, request_id);
}

static bool same_key(const struct memo *memo, const struct command *c)
{
    return memo->tenant == c->tenant && memo->type == c->type &&
           memo->principal == principal_of(c) && id_equal(memo->session, c->session) &&
           slice_equal(owned_slice(&memo->scope), scope_of(c)) &&
           slice_equal(owned_slice(&memo->request_id), c->request_id);
}

static bool begins_with(struct slice id, const char *prefix)
{
    size_t len = strlen(prefix);
    return id.len == len + 32 && slice_equal(slice_make(id.data, len), slice_of(prefix));
}

static enum memo_kind kind_of(enum command_type type, struct slice id)
{
    if (type == COMMAND_FORCE_UNLOCK || type == COMMAND_REVOKE || type == COMMAND_FENCE_RESET ||
        type == COMMAND_ALERT_SET || type == COMMAND_ALERT_REMOVE) {
        return MEMO_OPERATOR;
    }
    return begins_with(id, "node-") || begins_with(id, "lease-") ? MEMO_DRAWN : MEMO_CLIENT;
}

void model_memos_open(struct model_share *share)
{
    static const size_t limits[MEMO_KINDS] = {LIMIT_REQUESTS, LIMIT_DRAWN_REQUESTS,
                                              LIMIT_OPERATOR_REQUESTS};
    for (int i = 0; i < MEMO_KINDS; i++) {
        share->memos[i].limit = limits[i];
        share->memos[i].at = model_alloc(limits[i] * sizeof(*share->memos[i].at));
        share->memos[i].prints = model_alloc(limits[i] * sizeof(*share->memos[i].prints));
    }
}

static void drop_oldest(struct memo_ring *ring)
{
    model_memo_free(ring->at[ring->first++ % ring->limit]);
}

void model_memos_close(struct model_share *share)
{
    for (int i = 0; i < MEMO_KINDS; i++) {
        while (share->memos[i].first < share->memos[i].next) {
            drop_oldest(&share->memos[i]);
        }
        free(share->memos[i].at);
        free(share->memos[i].prints);
    }
}

static struct memo *find_in_ring(const struct memo_ring *ring, const struct command *c)
{
    uint64_t print = print_of(c->tenant, c->session, c->type, c->request_id);
    for (uint64_t n = ring->first; n < ring->next; n++) {
        size_t i = (size_t)(n % ring->limit);
        if (ring->prints[i] == print && same_key(ring->at[i], c)) {
            return ring->at[i];
        }
    }
    return NULL;
}

static struct memo *find_by_request_id(const struct model *m, const struct command *c)
{
    for (size_t i = 0; i < m->live_memos.count; i++) {
        if (same_key(m->live_memos.at[i], c)) {
            return m->live_memos.at[i];
        }
    }
    enum memo_kind kind = m->version < 4 ? MEMO_CLIENT : kind_of(c->type, c->request_id);
    const struct model_share *share = model_share(m, c->tenant);
    struct memo *memo = find_in_ring(&share->memos[kind], c);
    /* Before version 4 all were remembered as those of clients. */
    return memo != NULL || kind == MEMO_CLIENT ? memo : find_in_ring(&share->memos[MEMO_CLIENT], c);
}

static struct memo *find_by_seq(const struct model_session *s, uint64_t seq)
{
    for (size_t i = 0; i < s->memos.count; i++) {
        struct memo *memo = s->memos.at[i];
        if (memo->seq == seq) {
            return memo;
        }
    }
    return NULL;
}

/* The last places that may still point to a reply that goes. */
static void forget(struct model *m, struct memo *memo)
{
    for (size_t i = 0; memo->lives && i < m->grants.count; i++) {
        struct model_grant *g = m->grants.at[i];
        g->r.memo = g->r.memo == memo ? NULL : g->r.memo;
    }
    for (size_t i = 0; memo->lives && i < m->waiters.count; i++) {
        struct model_waiter *w = m->waiters.at[i];
        w->r.memo = w->r.memo == memo ? NULL : w->r.memo;
    }
    model_memo_free(memo);
}

static void acknowledge(struct model *m, struct model_session *s, uint64_t acked_through)
{
    if (acked_through <= s->acked) {
        return;
    }
    s->acked = acked_through;
    for (size_t i = 0; i < s->memos.count;) {
        struct memo *memo = s->memos.at[i];
        if (memo->seq <= s->acked) {
            model_list_remove_at(&s->memos, i);
            forget(m, memo);
        } else {
            i++;
        }
    }
}

static void fail(struct result *out, enum hf_error error)
{
    enum command_type type = out->type;
    memset(out, 0, sizeof(*out));
    out->type = type;
    out->error = error;
}

/* What is still alive answers for itself: the waiter is attached anew, the grant is shown. */
static void replay_alive(struct model *m, const struct command *c, const struct memo *memo,
                         struct result *out)
{
    for (size_t i = 0; i < m->grants.count; i++) {
        struct model_grant *g = m->grants.at[i];
        if (g->r.memo == memo && model_grant_dead(m, g)) {
            model_bury_grant(m, g);
            *out = memo->reply;
            out->replayed = true;
            return;
        }
        if (g->r.memo == memo) {
            model_result_from_grant(m, g, out);
            out->replayed = true;
            return;
        }
    }
    for (size_t i = 0; i < m->waiters.count; i++) {
        struct model_waiter *w = m->waiters.at[i];
        if (w->r.memo == memo && model_waiter_dead(m, w)) {
            model_bury_waiter(m, w);
            *out = memo->reply;
            out->replayed = true;
            return;
        }
        if (w->r.memo == memo) {
            model_answer_waiter(m, w, c->acquire.node, out);
            return;
        }
    }
    hf_assert(false);
}

bool model_once(struct model *m, const struct command *c, struct model_session *s,
                struct result *out)
{
    struct memo *memo = NULL;
    if (s != NULL) {
        acknowledge(m, s, c->acked_through);
    }
    if (c->request_id.len > 0) {
        memo = find_by_request_id(m, c);
    } else if (c->seq != 0 && s != NULL) {
        if (c->seq <= s->acked) {
            fail(out, HF_SEQ_ACKNOWLEDGED);
            return true;
        }
        memo = find_by_seq(s, c->seq);
        if (memo == NULL && s->memos.count >= LIMIT_SESSION_UNACKED) {
            fail(out, HF_TOO_MANY_UNACKED);
            return true;
        }
    }
    if (memo == NULL) {
        return false;
    }
    if (memo->digest != model_digest(c)) {
        fail(out, HF_REQUEST_ID_REUSED);
    } else if (memo->lives) {
        replay_alive(m, c, memo, out);
    } else {
        *out = memo->reply;
        out->replayed = true;
    }
    return true;
}

static void into_ring(struct model *m, struct memo *memo)
{
    enum { OLD_AT_ONCE = 8 };
    struct slice id = owned_slice(&memo->request_id);
    enum memo_kind kind = m->version < 4 ? MEMO_CLIENT : kind_of(memo->type, id);
    struct memo_ring *ring = &model_share(m, memo->tenant)->memos[kind];
    memo->done_ms = m->now_ms;
    for (int i = 0; i < OLD_AT_ONCE && kind == MEMO_OPERATOR && ring->first < ring->next; i++) {
        if (ring->at[ring->first % ring->limit]->done_ms + LIMIT_OPERATOR_KEPT_MS > m->now_ms) {
            break;
        }
        drop_oldest(ring);
    }
    model_memo_keep(ring, memo);
}

void model_memo_keep(struct memo_ring *ring, struct memo *memo)
{
    if (ring->next - ring->first == ring->limit) {
        drop_oldest(ring);
    }
    size_t at = (size_t)(ring->next++ % ring->limit);
    ring->at[at] = memo;
    ring->prints[at] =
        print_of(memo->tenant, memo->session, memo->type, owned_slice(&memo->request_id));
}

void model_remember(struct model *m, const struct command *c, struct model_session *s,
                    const struct result *reply, struct memo **memo_out)
{
    bool by_seq = c->request_id.len == 0;
    if (by_seq && (c->seq == 0 || s == NULL)) {
        return;
    }
    struct memo *memo = model_alloc(sizeof(*memo));
    memo->tenant = c->tenant;
    memo->principal = principal_of(c);
    memo->session = c->session;
    memo->scope = owned_copy(scope_of(c));
    memo->type = c->type;
    memo->request_id = owned_copy(c->request_id);
    memo->seq = c->seq;
    memo->digest = model_digest(c);
    memo->lives = memo_out != NULL;
    memo->reply.type = c->type;
    memo->reply.error = reply->error;
    memo->reply.outcome = reply->outcome;
    memo->reply.reason = reply->reason;
    memo->reply.ended = reply->ended;
    memo->reply.token = reply->token;
    memo->reply.lease = reply->lease;
    memo->reply.deadline_ms = reply->deadline_ms;
    memo->reply.count = reply->count;
    memo->reply.accepted = reply->accepted;
    memo->reply.highest = reply->highest;
    memo->reply.depth = reply->depth;
    if (by_seq) {
        model_list_add(&s->memos, memo);
    } else if (memo->lives) {
        model_list_add(&m->live_memos, memo);
    } else {
        into_ring(m, memo);
    }
    if (memo_out != NULL) {
        *memo_out = memo;
    }
}

void model_memo_ends(struct model *m, struct memo *memo)
{
    hf_assert(memo->lives);
    memo->lives = false;
    memo->reply.deadline_ms = 0;
    memo->reply.depth = 0;
    if (memo->request_id.len > 0) {
        hf_assert(model_list_remove(&m->live_memos, memo));
        into_ring(m, memo);
    }
}
