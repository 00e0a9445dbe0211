/* Audit records about settings that were changed while the node runs, and about changes of the members
 * that it began for operators. A record waits here until a leader
 * has taken it; the change itself does not wait. */
#include "node/node_state.h"

enum { SETTING_SINCE = 7 };

static void on_done(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    struct node_setting_note *note = call->owner;
    note->is_submitted = false;
    if (error != HF_OK && error != HF_OUTCOME_UNKNOWN) {
        return; /* again at the next step */
    }
    if (error == HF_OK && result->error != HF_OK) {
        journal_note(note->node->options.journal, WARN, NODE, "setting_not_audited",
                     JOURNAL_SLICE("setting", slice_make(note->name, note->name_len)),
                     JOURNAL_TEXT("reason", hf_error_code(result->error)));
    }
    note->is_used = false;
}

static size_t keep(char *to, size_t size, struct slice text)
{
    size_t len = text.len < size ? text.len : size;
    memcpy(to, text.data, len);
    return len;
}

static void note_action(struct node *n, uint32_t action, struct slice name, struct slice actor,
                        struct slice reason)
{
    hf_assert(name.len > 0 && actor.len > 0 && reason.len > 0);
    for (uint32_t i = 0; i < NODE_SETTING_NOTES; i++) {
        struct node_setting_note *note = &n->setting_notes[i];
        if (!note->is_used) {
            note->node = n;
            note->is_used = true;
            note->action = action;
            note->name_len = keep(note->name, sizeof(note->name), name);
            note->actor_len = keep(note->actor, sizeof(note->actor), actor);
            note->reason_len = keep(note->reason, sizeof(note->reason), reason);
            return;
        }
    }
    /* There was no leader for a long time; the log has the change. */
}

void node_note_setting(void *ctx, struct slice name, struct slice actor, struct slice reason)
{
    note_action(ctx, NOTE_SETTING, name, actor, reason);
}

void node_note_member(void *ctx, uint32_t action, struct slice name, struct slice actor,
                      struct slice reason)
{
    hf_assert(action >= NOTE_MEMBER_ADD && action <= NOTE_TRANSFER);
    note_action(ctx, action, name, actor, reason);
}

static void submit(struct node *n, struct node_setting_note *note)
{
    struct command c;
    command_init(&c, COMMAND_NOTE);
    c.note.action = note->action;
    c.note.name = slice_make(note->name, note->name_len);
    c.note.actor = slice_make(note->actor, note->actor_len);
    c.note.reason = slice_make(note->reason, note->reason_len);
    note->is_submitted = true;
    note->call = (struct gateway_call){.done = on_done, .owner = note, .is_own = true};
    forward_submit(n->forward, &c, &note->call);
}

void node_step_settings(struct node *n)
{
    if (n->phase != NODE_RUNNING || !node_is_serving(n)) {
        return;
    }
    for (uint32_t i = 0; i < NODE_SETTING_NOTES; i++) {
        struct node_setting_note *note = &n->setting_notes[i];
        if (!note->is_used || note->is_submitted) {
            continue;
        }
        if (core_version(replica_core(n->replica)) < SETTING_SINCE) {
            note->is_used = false; /* the state has no such records yet */
        } else {
            submit(n, note);
        }
    }
}
