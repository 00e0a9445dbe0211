/* Audit records about nodes that were refused for a wrong certificate or secret (S12.10).
 * peer_refusals.h limits their number. A record waits here until a leader has taken it. Two may be
 * written for one refusal, if the leadership changes meanwhile. */
#include <stdio.h>

#include "core/view.h"
#include "node/node_state.h"

enum { REFUSAL_SINCE = 6, ACTOR_TEXT = 32 };

static void on_done(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    struct node_refusal *refusal = call->owner;
    if (error != HF_OK) { /* again at the next step */
        refusal->count += refusal->submitted;
    } else if (result->error != HF_OK) {
        journal_note(refusal->node->options.journal, WARN, PEER, "refusal_not_audited",
                     JOURNAL_TEXT("address", refusal->address),
                     JOURNAL_TEXT("reason", hf_error_code(result->error)));
    }
    refusal->submitted = 0;
}

static bool is_idle(const struct node_refusal *refusal)
{
    return refusal->count == 0 && refusal->submitted == 0;
}

static struct node_refusal *find(struct node *n, const char *address)
{
    struct node_refusal *found = NULL;
    for (uint32_t i = 0; i <= PEER_REFUSALS; i++) {
        struct node_refusal *at = &n->refused_nodes[i];
        if (!is_idle(at) && strcmp(at->address, address) == 0) {
            return at;
        }
        found = found == NULL && is_idle(at) ? at : found;
    }
    return found;
}

void node_note_refusal(void *ctx, const struct peer_refusal *refusal)
{
    struct node *n = ctx;
    struct node_refusal *to = find(n, refusal->address);
    if (to == NULL) {
        return; /* there was no leader for a long time; the log has it */
    }
    to->node = n;
    memcpy(to->address, refusal->address, sizeof(to->address));
    memcpy(to->reason, refusal->reason, sizeof(to->reason));
    to->count += refusal->count;
}

static void submit(struct node *n, struct node_refusal *refusal)
{
    char actor[ACTOR_TEXT];
    struct command note;
    snprintf(actor, sizeof(actor), "node-%llu", ull(n->options.id));
    command_init(&note, COMMAND_NOTE);
    note.note.action = NOTE_PEER_REFUSED;
    note.note.name = slice_of(refusal->address);
    note.note.actor = slice_of(actor);
    note.note.reason = slice_of(refusal->reason);
    note.note.count = refusal->count < UINT32_MAX ? (uint32_t)refusal->count : UINT32_MAX;
    refusal->submitted = refusal->count;
    refusal->count = 0;
    refusal->call = (struct gateway_call){.done = on_done, .owner = refusal, .is_own = true};
    forward_submit(n->forward, &note, &refusal->call);
}

void node_step_refusals(struct node *n)
{
    for (uint32_t i = 0; i <= PEER_REFUSALS; i++) {
        struct node_refusal *refusal = &n->refused_nodes[i];
        if (refusal->count > 0 && refusal->submitted == 0 && n->phase == NODE_RUNNING &&
            node_is_serving(n) && core_version(replica_core(n->replica)) >= REFUSAL_SINCE) {
            submit(n, refusal);
        }
    }
}
