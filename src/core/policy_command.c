/* The command policy_change, and the policy as the state machine uses it (S14). */
#include "core/state.h"

const struct policy *core_policy(const struct core *c)
{
    return c->policy_source != NULL ? c->policy_source->policy : c->policy;
}

void core_set_policy_source(struct core *c, const struct core *source)
{
    hf_assert(source == NULL || source->policy_source == NULL);
    c->policy_source = source;
}

bool principal_is_removed(const struct core *c, uint32_t principal)
{
    return principal != 0 && policy_principal_row(core_policy(c), principal) == NULL;
}

void purge_begin(struct core *c)
{
    c->purge_at = c->all_sessions == 0 ? 0 : RING_FIRST(c, c->all_sessions, session, all);
}

void core_end_removed(struct core *c)
{
    hf_assert(c->token_end != 0); /* else commands end sessions */
    purge_begin(c);
}

bool waiter_is_allowed(const struct core *c, const struct waiter *w)
{
    const struct session *s = session_at(c, w->session);
    if (s->principal == 0) {
        return true;
    }
    for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
        struct slice name = lock_name(lock_at(c, place_at(c, p)->lock));
        if (!policy_allows(core_policy(c), s->principal, s->tenant, RIGHT_LOCK, name)) {
            return false;
        }
    }
    return true;
}

struct slice audit_actor(const struct core *c, const struct command *cmd, struct slice said,
                         uint8_t text[PRINCIPAL_TEXT])
{
    struct slice principal =
        cmd->principal == 0 ? said : policy_principal_text(core_policy(c), cmd->principal, text);
    return principal.len > 0 ? principal : said;
}

static bool is_in_use(void *ctx, uint32_t tenant)
{
    struct tenant_usage usage;
    core_tenant_usage(ctx, tenant, &usage);
    return usage.names > 0 || usage.sessions > 0 || usage.waiters > 0 ||
           tenant_look(ctx, tenant)->alert_count > 0;
}

void apply_policy_change(struct core *c, const struct command *cmd, struct result *out)
{
    static const enum audit_action actions[POLICY_ORIGINS] = {AUDIT_POLICY, AUDIT_BOOTSTRAP,
                                                              AUDIT_RESCUE};
    const struct command_policy_change *change = &cmd->policy_change;
    hf_assert(cmd->type == COMMAND_POLICY_CHANGE && change->origin < POLICY_ORIGINS);
    uint8_t text[PRINCIPAL_TEXT];
    struct slice actor = audit_actor(c, cmd, change->actor, text); /* it may remove itself */
    struct policy_situation now = {.wall_ms = c->wall_ms, .in_use = is_in_use, .ctx = c};
    struct policy_outcome done;
    policy_apply(c->policy, change, &now, &done);
    core_step(c, done.steps);
    out->error = done.error;
    if (done.error != HF_OK) {
        return;
    }
    out->token = policy_version(c->policy);
    out->count = done.changes;
    out->highest = done.first_token;
    if (change->end_sessions != 0) {
        purge_begin(c);
    }
    audit_add(c, &(struct audit_entry){.action = actions[change->origin],
                                       .count = done.changes,
                                       .text = {slice_of("*"), actor, change->reason}});
}
