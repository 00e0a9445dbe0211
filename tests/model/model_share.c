/* What the model remembers of each tenant (S14.3). */
#include "model_state.h"

struct model_share *model_share(const struct model *m, uint32_t tenant)
{
    hf_assert(tenant < MODEL_TENANTS);
    return (struct model_share *)&m->shares[m->version < 6 ? 0 : tenant];
}

void model_share_open(struct model_share *share)
{
    model_memos_open(share);
    share->ended_grants = model_alloc(LIMIT_ENDED * sizeof(*share->ended_grants));
    share->ended_lease_prints = model_alloc(LIMIT_ENDED * sizeof(*share->ended_lease_prints));
    share->ended_sessions = model_alloc(LIMIT_ENDED * sizeof(*share->ended_sessions));
    share->ended_session_prints = model_alloc(LIMIT_ENDED * sizeof(*share->ended_session_prints));
    share->transacts = model_alloc(LIMIT_TRANSACTS * sizeof(*share->transacts));
    share->transact_prints = model_alloc(LIMIT_TRANSACTS * sizeof(*share->transact_prints));
    share->mark_prints = model_alloc((LIMIT_FENCE_MARKS + 1) * sizeof(*share->mark_prints));
}

/* The arrays, not the objects. */
static void free_arrays(struct model_share *share)
{
    model_list_free(&share->audit);
    model_list_free(&share->marks);
    free(share->mark_prints);
    free(share->ended_grants);
    free(share->ended_lease_prints);
    free(share->ended_sessions);
    free(share->ended_session_prints);
    free(share->transacts);
    free(share->transact_prints);
}

void model_share_close(struct model_share *share)
{
    model_memos_close(share);
    for (size_t i = 0; i < share->audit.count; i++) {
        struct audit_record *a = share->audit.at[i];
        for (size_t k = 0; k < MODEL_AUDIT_TEXTS; k++) {
            owned_free(&a->texts[k]);
        }
        free(a);
    }
    for (size_t i = 0; i < share->marks.count; i++) {
        struct mark *mark = share->marks.at[i];
        owned_free(&mark->resource);
        free(mark);
    }
    free_arrays(share);
}

static uint64_t first_of(uint64_t count, uint64_t limit)
{
    return count < limit ? 0 : count - limit;
}

static void move_rings(struct model *m, struct model_share *old)
{
    for (int kind = 0; kind < MEMO_KINDS; kind++) {
        struct memo_ring *ring = &old->memos[kind];
        for (; ring->first < ring->next; ring->first++) {
            struct memo *memo = ring->at[ring->first % ring->limit];
            model_memo_keep(&model_share(m, memo->tenant)->memos[kind], memo);
        }
    }
    for (uint64_t n = first_of(old->ended_grant_count, LIMIT_ENDED); n < old->ended_grant_count;
         n++) {
        const struct ended_grant *e = &old->ended_grants[n % LIMIT_ENDED];
        model_remember_grant(model_share(m, e->tenant), e);
    }
    for (uint64_t n = first_of(old->ended_session_count, LIMIT_ENDED); n < old->ended_session_count;
         n++) {
        const struct ended_session *e = &old->ended_sessions[n % LIMIT_ENDED];
        model_remember_session(model_share(m, e->tenant), e);
    }
    for (uint64_t n = first_of(old->transact_count, LIMIT_TRANSACTS); n < old->transact_count;
         n++) {
        const struct model_transact *t = &old->transacts[n % LIMIT_TRANSACTS];
        struct model_share *to = model_share(m, t->tenant);
        size_t at = (size_t)(to->transact_count++ % LIMIT_TRANSACTS);
        to->transacts[at] = *t;
        to->transact_prints[at] = t->id.low;
    }
}

void model_share_upgrade(struct model *m)
{
    struct model_share old = m->shares[0];
    memset(&m->shares[0], 0, sizeof(m->shares[0]));
    model_share_open(&m->shares[0]);
    for (uint32_t i = 0; i < MODEL_TENANTS; i++) {
        m->shares[i].floor = old.floor;
    }
    m->shares[0].rejections = old.rejections;
    m->shares[0].audit_next = old.audit_next;
    move_rings(m, &old);
    for (size_t i = 0; i < old.audit.count; i++) {
        struct audit_record *a = old.audit.at[i];
        struct model_share *to = model_share(m, a->view.tenant);
        to->audit_next = a->view.number > to->audit_next ? a->view.number : to->audit_next;
        model_list_add(&to->audit, a);
    }
    for (size_t i = 0; i < old.marks.count; i++) {
        struct mark *mark = old.marks.at[i];
        struct model_share *to = model_share(m, mark->tenant);
        to->mark_prints[to->marks.count] = old.mark_prints[i];
        model_list_add(&to->marks, mark);
    }
    model_memos_close(&old);
    free_arrays(&old);
}
