/* Changes of members and leadership transfers, on the leader. A transfer needs a moment without a
 * batch in flight (S12.7), so submission is paused.
 *
 * A leader does not demote or remove itself (E16). It transfers the leadership first and answers
 * HF_UNAVAILABLE; the sender sends the change to the next leader (forward.h). */
#include "node/node_state.h"

#include <stdio.h>

enum {
    TRANSFER_US = 1000000,
    FAILED_US = 2000000, /* after a failed transfer, changes that need one are refused */
    NEW_US = 1000000, /* a new leader waits at most so long for the first answers of all voters */
};

static const struct {
    enum gateway_change change;
    enum replica_change replica;
    const char *word;
} changes[] = {
    {GATEWAY_ADD, REPLICA_ADD, "add"},
    {GATEWAY_PROMOTE, REPLICA_PROMOTE, "promote"},
    {GATEWAY_DEMOTE, REPLICA_DEMOTE, "demote"},
    {GATEWAY_REMOVE, REPLICA_REMOVE, "remove"},
};

static bool is_member(struct node *n, uint64_t id)
{
    uint32_t count = replica_members(n->replica, n->member_scratch, LIMIT_NODES);
    for (uint32_t i = 0; i < count; i++) {
        if (n->member_scratch[i].id == id) {
            return true;
        }
    }
    return false;
}

/* Why `to` cannot become the leader; NULL: it can. */
static const char *transfer_problem(struct node *n, uint64_t to)
{
    uint32_t count = replica_members(n->replica, n->member_scratch, LIMIT_NODES);
    if (to == n->options.id) {
        return "it leads already";
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct replica_member *member = &n->member_scratch[i];
        if (member->voter && (member->id == to || (to == 0 && member->id != n->options.id))) {
            return NULL;
        }
    }
    return to == 0 ? "there is no other voter" : "no voter has this id";
}

static enum hf_error begin_transfer(struct node *n, const struct replica_status *status,
                                    uint64_t to, const char **problem)
{
    *problem = transfer_problem(n, to);
    if (*problem == NULL && n->transferring) {
        *problem = "the leadership is being transferred already";
    }
    if (*problem == NULL && status->members_change) {
        *problem = "a membership change is under way; try again when it is done";
    }
    if (*problem != NULL) {
        return HF_MEMBERSHIP;
    }
    node_transfer(n, to);
    return HF_OK;
}

static bool is_another_voter_reachable(struct node *n)
{
    uint32_t count = replica_members(n->replica, n->member_scratch, LIMIT_NODES);
    for (uint32_t i = 0; i < count; i++) {
        const struct replica_member *member = &n->member_scratch[i];
        struct peer_view view;
        if (member->voter && member->id != n->options.id &&
            peers_view(n->peers, member->id, &view) && view.reachable) {
            return true;
        }
    }
    return false;
}

/* HF_UNAVAILABLE: the next leader makes the change. */
static enum hf_error transfer_first(struct node *n, const char **problem)
{
    if (transfer_problem(n, 0) != NULL) {
        *problem = "it is the only voter";
        return HF_MEMBERSHIP;
    }
    if (!is_another_voter_reachable(n)) {
        *problem = "this node leads, and no other voter answers that could lead instead; try again "
                   "when one does";
        return HF_MEMBERSHIP;
    }
    if (n->transfer_failed_us != 0 && node_now(n).boot_us < n->transfer_failed_us + FAILED_US) {
        *problem = "this node leads, and no other voter took the leadership over in time; try "
                   "again when one of them has a lag of 0";
        return HF_MEMBERSHIP;
    }
    node_transfer(n, 0);
    return HF_UNAVAILABLE;
}

/* A new leader has acknowledgements of its own entry from a majority only. Whether another voter
 * has the current members is unknown until it answers. `removed`: a voter that need not answer; 0:
 * none. */
static bool awaits_first_answers(struct node *n, uint64_t removed)
{
    if (n->serving && node_now(n).boot_us >= n->serving_us + NEW_US) {
        return false;
    }
    uint32_t count = replica_members(n->replica, n->member_scratch, LIMIT_NODES);
    for (uint32_t i = 0; i < count; i++) {
        const struct replica_member *member = &n->member_scratch[i];
        if (member->voter && member->id != n->options.id && member->id != removed &&
            !replica_has_members(n->replica, member->id)) {
            return true;
        }
    }
    return false;
}

enum hf_error node_change_member(void *ctx, enum gateway_change change, uint64_t id,
                                 const char *address, const char **problem)
{
    struct node *n = ctx;
    struct address parsed;
    struct replica_status status;
    replica_status(n->replica, node_now(n), &status);
    if (!status.serving) {
        return HF_UNAVAILABLE;
    }
    if (change == GATEWAY_TRANSFER) {
        return begin_transfer(n, &status, id, problem);
    }
    if (id == 0 || id > UINT32_MAX) {
        *problem = "an id is 1 to 4294967295";
        return HF_MEMBERSHIP;
    }
    if (change == GATEWAY_ADD) {
        if (!address_parse(address, &parsed) || parsed.host[0] == '\0' || parsed.port == 0) {
            *problem = "the address of its peer port is missing, or is not HOST:PORT";
            return HF_MEMBERSHIP;
        }
        if (known_stores_is_used(&n->known, id) && !is_member(n, id)) {
            snprintf(n->member_problem, sizeof(n->member_problem),
                     "this id was used before, or is below one that was; ids are never used again: "
                     "choose one above %llu",
                     ull(n->known.used > id ? n->known.used : id));
            *problem = n->member_problem;
            return HF_MEMBERSHIP;
        }
    }
    if (n->transferring || awaits_first_answers(n, change == GATEWAY_REMOVE ? id : 0)) {
        return HF_UNAVAILABLE;
    }
    if (id == n->options.id && (change == GATEWAY_DEMOTE || change == GATEWAY_REMOVE) &&
        !status.members_change) {
        return transfer_first(n, problem);
    }
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        if (changes[i].change == change) {
            if (change == GATEWAY_PROMOTE && node_promote_pauses(n, id, &status)) {
                return HF_UNAVAILABLE;
            }
            enum hf_error error = replica_change_member(n->replica, changes[i].replica, id, address,
                                                        node_now(n), problem);
            node_promote_end(n);
            journal_note(n->options.journal, INFO, RAFT, "member_change",
                         JOURNAL_TEXT("change", changes[i].word), JOURNAL_NUMBER("id", id),
                         JOURNAL_TEXT("address", address),
                         JOURNAL_TEXT("refused", error == HF_OK ? "" : *problem));
            return error;
        }
    }
    *problem = "there is no such change";
    return HF_MEMBERSHIP;
}

void node_transfer(struct node *n, uint64_t to)
{
    if (n->transferring) {
        return;
    }
    node_promote_end(n);
    n->transferring = true;
    n->transfer_begun = false;
    n->transfer_to = to;
    n->transfer_until_us = node_now(n).boot_us + TRANSFER_US;
    forward_set_paused(n->forward, true);
}

/* The voter that can take over now, 0: none yet. The engine sends TimeoutNow once, and a voter
 * without the whole log ignores it. */
static uint64_t ready_successor(struct node *n, const struct replica_status *status)
{
    uint32_t count = replica_members(n->replica, n->member_scratch, LIMIT_NODES);
    for (uint32_t i = 0; i < count; i++) {
        const struct replica_member *member = &n->member_scratch[i];
        struct peer_view view;
        if (member->voter && member->id != n->options.id &&
            (n->transfer_to == 0 || n->transfer_to == member->id) &&
            replica_match_index(n->replica, member->id) == status->last_index &&
            peers_view(n->peers, member->id, &view) && view.reachable) {
            return member->id;
        }
    }
    return 0;
}

static enum hf_error try_transfer(struct node *n, const struct replica_status *status,
                                  struct replica_time now, const char **problem)
{
    if (n->transfer_begun && status->leader == n->options.id) {
        n->transfer_begun = false; /* the transfer timed out, and this node leads again */
    }
    /* Not while a membership change is uncommitted: only some voters may have it (E13). */
    bool may_begin = !n->transfer_begun && !status->members_change;
    uint64_t to = may_begin ? ready_successor(n, status) : 0;
    if (to == 0) {
        return HF_BUSY;
    }
    enum hf_error error = replica_transfer(n->replica, to, now, problem);
    n->transfer_begun = error == HF_OK;
    return error;
}

void node_step_transfer(struct node *n, struct replica_time now)
{
    if (!n->transferring) {
        return;
    }
    struct replica_status status;
    const char *problem = "";
    enum hf_error error = HF_OK;
    replica_status(n->replica, now, &status);
    if (status.is_leader) {
        error = try_transfer(n, &status, now, &problem);
    }
    bool failed = error != HF_OK && error != HF_BUSY;
    if (!status.is_leader || failed || now.boot_us > n->transfer_until_us) {
        journal_note(n->options.journal, INFO, RAFT,
                     status.is_leader ? "transfer_failed" : "transferred",
                     JOURNAL_NUMBER("to", n->transfer_to), JOURNAL_TEXT("reason", problem));
        n->transfer_failed_us = status.is_leader ? now.boot_us : 0;
        n->transferring = false;
        forward_set_paused(n->forward, false);
    }
}
