/* Messages that promise something: answers to a leader, votes, and calls for votes. Each is held
 * against the disk of its sender when it is sent, and again when it is received: an answer may wait
 * in a socket while terms go by, and what it says must be true in the term that it counts in. */
#include "world.h"

#include "replica/internal.h"
#include "replica/message.h"

static const struct raft *raft_of(const struct sim_node *n)
{
    return &n->replica->engine.raft;
}

static void decode(const struct sim_node *n, struct slice message, struct message_in *in)
{
    if (!message_decode(message, (uint64_t)n->id, "", in)) {
        violation("node %d sends a message that cannot be read", n->id);
    }
}

/* ---- what a follower has ---- */

/* Entries that a follower says it has are durable, and stay (Raft, 5.3; engine.h E3). */
static void check_ack(const struct sim_node *n, const struct sim_node *leader, uint64_t term,
                      uint64_t last)
{
    struct replica_status s;
    if (!leader->up || leader->failed) {
        return;
    }
    replica_status(leader->replica, node_time(leader), &s);
    if (!s.is_leader || s.term != term || last <= n->durable.base) {
        return;
    }
    if (last > n->durable.last || last >= disk_pending_from(n)) {
        violation("node %d acknowledges entry %llu before it is durable: %llu is", n->id, ull(last),
                  ull(n->durable.last));
    }
    if (terms_at(&n->memory, last) != terms_at(&n->durable, last)) {
        violation("node %d acknowledges entry %llu of term %llu, its disk has term %llu", n->id,
                  ull(last), ull(terms_at(&n->memory, last)), ull(terms_at(&n->durable, last)));
    }
}

/* What the leader will count. While the follower is in the leader's term nothing but this leader
 * changes its log, so what was true when it was sent is true now. In a later term the follower may
 * have dropped it again; the leader of the earlier one may still count it, and did by then. */
static void check_counted(const struct sim_node *leader, const struct sim_node *follower,
                          uint64_t term, uint64_t last)
{
    struct replica_status s;
    replica_status(leader->replica, node_time(leader), &s);
    if (!s.is_leader || s.term != term || follower->lost ||
        follower->store.meta.state.term != term) {
        return;
    }
    uint64_t index = last < s.last_index ? last : s.last_index;
    if (index <= follower->durable.base || index <= leader->memory.base) {
        return;
    }
    if (terms_at(&follower->durable, index) != terms_at(&leader->memory, index)) {
        breach(
            "E14",
            "leader %d of term %llu is notified that node %d has entry %llu of term %llu; its disk "
            "ends at %llu, and has term %llu there",
            leader->id, ull(term), follower->id, ull(index), ull(terms_at(&leader->memory, index)),
            ull(follower->durable.last), ull(terms_at(&follower->durable, index)));
    }
}

/* ---- votes ---- */

/* A vote that is given is on the disk (E1). */
static void check_vote(const struct sim_node *n, uint64_t peer, uint64_t term)
{
    const struct meta_state *meta = &n->store.meta.state;
    if (meta->term != term || meta->vote != peer) {
        violation("node %d votes for %llu in term %llu, its disk says %llu in term %llu", n->id,
                  ull(peer), ull(term), ull(meta->vote), ull(meta->term));
    }
}

static void check_counted_vote(const struct sim_node *n, const struct sim_node *voter,
                               uint64_t term)
{
    const struct meta_state *meta = &voter->store.meta.state;
    if (!voter->lost &&
        (meta->term < term || (meta->term == term && meta->vote != (uint64_t)n->id))) {
        violation(
            "node %d is notified that node %d votes for it in term %llu, whose disk says %llu in "
            "term %llu",
            n->id, voter->id, ull(term), ull(meta->vote), ull(meta->term));
    }
}

/* Only a node that the leader ordered to stand may call for votes against it, and only in the next
 * term (E19). */
static void check_call(const struct sim_node *n, const struct raft_request_vote *call)
{
    if (call->disrupt_leader && (call->pre_vote || call->term != n->ordered_to_stand)) {
        breach("E19",
               "node %d calls for votes in term %llu against a leader that did not tell it to",
               n->id, ull(call->term));
    }
}

/* A node raises its term and votes for itself after most voters said that they would vote for it,
 * or because the leader ordered it to: else a node that was cut off comes back with a term that
 * deposes a leader that all others hear (Raft's thesis, 9.6; E19). */
void promise_vote(struct sim_node *n, uint64_t term, uint64_t vote)
{
    uint64_t had = n->store.meta.state.term;
    if (term == had) {
        return;
    }
    uint32_t granted = n->pre_votes;
    n->pre_votes = 0;
    if (vote != (uint64_t)n->id || n->replica == NULL || term == n->ordered_to_stand) {
        return;
    }
    struct replica_member members[MAX_NODES];
    uint32_t count = replica_members(n->replica, members, MAX_NODES);
    uint32_t voters = 0;
    uint32_t would = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].voter) {
            voters++;
            would += members[i].id == (uint64_t)n->id || (granted >> members[i].id & 1) != 0;
        }
    }
    if (would * 2 <= voters) {
        breach("E19",
               "node %d raises its term to %llu and requests votes, and %u of %u voters said that "
               "they would vote for it",
               n->id, ull(term), would, voters);
    }
}

/* ---- when they are sent, and received ---- */

void promise_sent(struct sim_node *n, uint64_t peer, uint64_t type, struct slice message)
{
    struct message_in in;
    if (type != RAFT_APPEND_ENTRIES_RESULT && type != RAFT_REQUEST_VOTE_RESULT &&
        type != RAFT_REQUEST_VOTE) {
        return;
    }
    decode(n, message, &in);
    if (type == RAFT_APPEND_ENTRIES_RESULT) {
        const struct raft_append_entries_result *r = &in.message.append_entries_result;
        if (r->rejected == 0) {
            check_ack(n, &world.nodes[peer], r->term, r->last_log_index);
        }
    } else if (type == RAFT_REQUEST_VOTE_RESULT) {
        const struct raft_request_vote_result *r = &in.message.request_vote_result;
        if (r->vote_granted && !r->pre_vote) {
            check_vote(n, peer, r->term);
        }
    } else {
        check_call(n, &in.message.request_vote);
    }
}

static void before_vote_result(struct sim_node *n, const struct sim_node *from,
                               const struct raft_request_vote_result *r, struct promise_before *b)
{
    const struct raft *raft = raft_of(n);
    bool stands = raft->state == RAFT_CANDIDATE;
    if (r->pre_vote) {
        b->is_stale = !stands || !raft->candidate_state.in_pre_vote;
        if (r->vote_granted && r->term == b->term + 1) {
            n->pre_votes |= UINT32_C(1) << from->id;
        }
    } else if (r->vote_granted && stands && r->term == b->term) {
        check_counted_vote(n, from, r->term);
    }
}

void promise_before(struct sim_node *n, const struct sim_node *from, uint64_t type,
                    struct slice message, struct promise_before *b)
{
    struct message_in in;
    *b = (struct promise_before){.term = raft_current_term(raft_of(n))};
    if (type != RAFT_APPEND_ENTRIES_RESULT && type != RAFT_REQUEST_VOTE_RESULT &&
        type != RAFT_TIMEOUT_NOW) {
        return;
    }
    decode(from, message, &in);
    if (type == RAFT_APPEND_ENTRIES_RESULT) {
        const struct raft_append_entries_result *r = &in.message.append_entries_result;
        if (r->rejected == 0) {
            check_counted(n, from, r->term, r->last_log_index);
        }
    } else if (type == RAFT_REQUEST_VOTE_RESULT) {
        before_vote_result(n, from, &in.message.request_vote_result, b);
    } else if (in.message.timeout_now.term >= b->term) {
        n->ordered_to_stand = in.message.timeout_now.term + 1;
    }
}

/* An answer to a call that is over changes nothing (E18). */
void promise_after(const struct sim_node *n, const struct sim_node *from,
                   const struct promise_before *b)
{
    if (b->is_stale && !n->failed && raft_current_term(raft_of(n)) != b->term) {
        breach("E18",
               "node %d goes from term %llu to %llu by the answer of node %d to a pre-vote that is "
               "over",
               n->id, ull(b->term), ull(raft_current_term(raft_of(n))), from->id);
    }
}
