/* The limit of the state (S12.14): the smallest of all members, and log lines near it. */
#include "node/node_state.h"

/* Between two journal lines. */
enum { REFUSED_NOTE_US = 60000000 };

uint64_t node_state_bytes(struct node *n)
{
    return admission_bytes(replica_core(n->replica), node_memory_core(n));
}

/* Ignores a member that sent none since this node started. */
static uint64_t smallest_limit(struct node *n)
{
    uint64_t smallest = n->self.state_max;
    uint32_t count = replica_members(n->replica, n->member_scratch, LIMIT_NODES);
    for (uint32_t i = 0; i < count; i++) {
        struct peer_view view;
        if (n->member_scratch[i].id != n->options.id &&
            peers_view(n->peers, n->member_scratch[i].id, &view) && view.state_max != 0 &&
            view.state_max < smallest) {
            smallest = view.state_max;
        }
    }
    return smallest == PEER_NO_LIMIT ? 0 : smallest;
}

static void note_fill(struct node *n, uint64_t bytes)
{
    bool warns = admission_warns(&n->admission, bytes, n->state_warned);
    if (warns != n->state_warned && n->serving) {
        if (warns) {
            journal_note(n->options.journal, WARN, NODE, "state_nearly_full",
                         JOURNAL_NUMBER("bytes", bytes),
                         JOURNAL_NUMBER("max_bytes", n->admission.max),
                         JOURNAL_TEXT("next", "release what is not needed, or raise state-max on "
                                              "all nodes; at the limit new locks are refused"));
        } else {
            journal_note(n->options.journal, INFO, NODE, "state_not_full",
                         JOURNAL_NUMBER("bytes", bytes),
                         JOURNAL_NUMBER("max_bytes", n->admission.max));
        }
    }
    n->state_warned = warns;
}

static void note_refused(struct node *n, uint64_t bytes, struct replica_time now)
{
    if (n->admission.refused == n->state_refused || now.boot_us < n->state_refuse_us) {
        return;
    }
    journal_note(
        n->options.journal, WARN, NODE, "state_full",
        JOURNAL_NUMBER("refused", n->admission.refused - n->state_refused),
        JOURNAL_NUMBER("bytes", bytes), JOURNAL_NUMBER("max_bytes", n->admission.max),
        JOURNAL_TEXT("next", "release what is not needed, or raise state-max on all nodes"));
    n->state_refused = n->admission.refused;
    n->state_refuse_us = now.boot_us + REFUSED_NOTE_US;
}

void node_step_limit(struct node *n, struct replica_time now)
{
    n->admission.max = smallest_limit(n);
    n->admission.space = 0; /* recounted at the next command: some bypass the count */
    if (n->admission.quotas != NULL) {
        quota_book_prune(n->admission.quotas, core_policy(replica_core(n->replica)));
    }
    uint64_t bytes = node_state_bytes(n);
    note_fill(n, bytes);
    note_refused(n, bytes, now);
}
