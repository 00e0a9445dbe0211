/* Lets a learner catch up under load, on the leader.
 *
 * A promoted member has acknowledged everything that is committed (E5). Under constant load a
 * leader that commits without the learner is ahead of it by a round trip. So submission is paused
 * for a learner that answers and is a little behind, and the sender sends the change again
 * (forward.h).
 *
 *      promote, small lag ─▶ paused ──match index = commit index, sent again──▶ changed, resumed
 *                              ├─ leadership ended, or a transfer began ─▶ resumed
 *                              └─ PAUSE_US are over ─▶ resumed; no pause for REST_US */
#include "node/node_state.h"

enum {
    /* Entries. A leader with 1,000 batches a second is ahead of a healthy learner by so many at a
     * round trip of 64 ms. With a larger lag a pause would rarely be enough. */
    LAG_MAX = 64,
    /* Entries and acknowledgement need a round trip; another node sends the change again after 20
     * ms and half of one. */
    PAUSE_US = 250000,
    /* After a pause in which the learner did not catch up, no other one begins for this long. */
    REST_US = 5000000,
};

static bool is_learner(struct node *n, uint64_t id)
{
    uint32_t count = replica_members(n->replica, n->member_scratch, LIMIT_NODES);
    for (uint32_t i = 0; i < count; i++) {
        if (n->member_scratch[i].id == id) {
            return !n->member_scratch[i].voter;
        }
    }
    return false;
}

/* Committed entries that the member has not acknowledged. UINT64_MAX: it has not answered this
 * leader. */
static uint64_t lag_of(const struct node *n, uint64_t id, const struct replica_status *status)
{
    uint64_t match = replica_match_index(n->replica, id);
    return match == 0                     ? UINT64_MAX
           : match < status->commit_index ? status->commit_index - match
                                          : 0;
}

static void begin(struct node *n, uint64_t id, struct replica_time now)
{
    hf_assert(!n->transferring && n->promotion.id == 0);
    n->promotion.id = id;
    n->promotion.until_us = now.boot_us + PAUSE_US;
    forward_set_paused(n->forward, true);
}

void node_promote_end(struct node *n)
{
    if (n->promotion.id != 0) {
        n->promotion.id = 0;
        forward_set_paused(n->forward, n->transferring);
    }
}

bool node_promote_pauses(struct node *n, uint64_t id, const struct replica_status *status)
{
    struct node_promotion *p = &n->promotion;
    struct replica_time now = node_now(n);
    uint64_t lag = lag_of(n, id, status);
    struct peer_view view;
    if (p->id != 0) {
        return p->id == id && lag > 0;
    }
    if (lag == 0 || lag > LAG_MAX || status->members_change || now.boot_us < p->not_before_us ||
        !is_learner(n, id) || !peers_view(n->peers, id, &view) || !view.reachable) {
        return false;
    }
    begin(n, id, now);
    return true;
}

void node_step_promote(struct node *n, struct replica_time now)
{
    struct node_promotion *p = &n->promotion;
    if (p->id == 0) {
        return;
    }
    struct replica_status status;
    replica_status(n->replica, now, &status);
    uint64_t lag = lag_of(n, p->id, &status);
    if (!status.serving) {
        node_promote_end(n);
    } else if (now.boot_us >= p->until_us) {
        journal_note(n->options.journal, INFO, RAFT, "promotion_delayed",
                     JOURNAL_NUMBER("id", p->id), JOURNAL_NUMBER("lag", lag));
        p->not_before_us = now.boot_us + REST_US;
        node_promote_end(n);
    } else if (lag == 0) {
        forward_on_change(n->forward); /* sends a change of this node again in this turn */
    }
}

uint64_t node_promote_next_us(const struct node *n)
{
    return n->promotion.id == 0 ? UINT64_MAX : n->promotion.until_us;
}
