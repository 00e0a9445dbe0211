/* Whether the caller of a command has the rights that it needs (S14). Ownership of sessions and
 * grants is checked where they are found. */
#include "base/panic.h"
#include "core/policy_state.h"

struct authorisation {
    const struct policy *policy;
    const struct command *command;
    struct denial *denial; /* or NULL */
};

static bool denied(const struct authorisation *c, enum right right, struct slice name,
                   bool of_cluster)
{
    if (c->denial != NULL) {
        *c->denial = (struct denial){.right = right, .name = name, .of_cluster = of_cluster};
    }
    return false;
}

static bool has(const struct authorisation *c, enum right right, struct slice name)
{
    return policy_allows(c->policy, c->command->principal, c->command->tenant, right, name) ||
           denied(c, right, name, false);
}

static bool has_some(const struct authorisation *c, enum right right)
{
    return policy_allows_some(c->policy, c->command->principal, c->command->tenant, right) ||
           denied(c, right, slice_make(NULL, 0), false);
}

static bool may_acquire(const struct authorisation *c, const struct names *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (!has(c, RIGHT_LOCK, names->at[i])) {
            return false;
        }
    }
    return true;
}

static bool may_transact(const struct authorisation *c, const struct command_transact *t)
{
    struct reader r = packed_reader(&t->checks);
    struct key_check check;
    while (unpack_check(&r, &check)) {
        if (!has(c, RIGHT_READ, check.name)) {
            return false;
        }
    }
    r = packed_reader(&t->effects);
    struct effect effect;
    while (unpack_effect(&r, &effect)) {
        bool is_forced = effect.kind == EFFECT_DROP && (effect.flags & EFFECT_FORCED) != 0;
        if (!has(c, is_forced ? RIGHT_OPERATE : RIGHT_LOCK, effect.name)) {
            return false;
        }
    }
    return true;
}

/* The home tenant of the principal that a change of tokens concerns. */
static bool tenant_of_token(const struct authorisation *c, const struct policy_change *change,
                            uint32_t *tenant)
{
    if (change->kind == POLICY_TOKEN_ADD) {
        const struct policy_tenant_row *home = policy_tenant_named(c->policy, change->tenant);
        *tenant = home != NULL ? home->number : 0;
        return home != NULL;
    }
    const struct policy_token_row *token =
        change->kind == POLICY_TOKEN_REMOVE ? policy_token_row(c->policy, change->token) : NULL;
    const struct policy_principal_row *owner =
        token != NULL ? policy_principal_row(c->policy, token->principal) : NULL;
    *tenant = owner != NULL ? owner->tenant : 0;
    return owner != NULL;
}

/* An administrator of a tenant gives out and removes the tokens of principals at home there. Not
 * those of principals with rights beyond it: their tokens would give those rights away. */
static bool may_change_token(const struct authorisation *c, const struct policy_change *change)
{
    uint32_t tenant;
    if (!tenant_of_token(c, change, &tenant) ||
        !policy_allows_tenant(c->policy, c->command->principal, tenant, RIGHT_ADMIN)) {
        return false;
    }
    if (change->kind == POLICY_TOKEN_REMOVE) {
        return true;
    }
    const struct policy_principal_row *owner =
        policy_principal_named(c->policy, tenant, change->name);
    for (uint32_t i = 0; owner != NULL && i < owner->terms.grant_count; i++) {
        if (owner->terms.grants[i].tenant != tenant) {
            return false;
        }
    }
    return owner != NULL;
}

static bool may_change_policy(const struct authorisation *c,
                              const struct command_policy_change *change)
{
    if (policy_allows_cluster(c->policy, c->command->principal, RIGHT_ADMIN)) {
        return true;
    }
    struct reader r = packed_reader(&change->changes);
    struct policy_change one;
    bool ok = change->origin == POLICY_BY_PRINCIPAL && change->end_sessions == 0;
    while (ok && unpack_policy_change(&r, &one)) {
        ok = may_change_token(c, &one);
    }
    return ok || denied(c, RIGHT_ADMIN, slice_make(NULL, 0), true);
}

static bool may(const struct authorisation *c)
{
    const struct command *cmd = c->command;
    switch (cmd->type) {
    case COMMAND_SESSION_OPEN:
        return has_some(c, RIGHT_LOCK);
    case COMMAND_ACQUIRE:
        return may_acquire(c, &cmd->acquire.names);
    case COMMAND_RENEW:
        return cmd->renew.name.len == 0 || has(c, RIGHT_LOCK, cmd->renew.name);
    case COMMAND_PROCLAIM:
        return has(c, RIGHT_LOCK, cmd->proclaim.name);
    case COMMAND_FENCE_CHECK:
        return has(c, RIGHT_LOCK, cmd->fence_check.resource);
    case COMMAND_FORCE_UNLOCK:
        return has(c, RIGHT_OPERATE, cmd->force_unlock.name);
    case COMMAND_REVOKE:
        return has(c, RIGHT_OPERATE, cmd->revoke.name);
    case COMMAND_FENCE_RESET:
        return has(c, RIGHT_OPERATE, cmd->fence_reset.resource);
    case COMMAND_NOTE: /* of denied calls: by the node, about its own caller */
        return cmd->note.action == NOTE_DENIED || has(c, RIGHT_OPERATE, cmd->note.name);
    case COMMAND_ALERT_SET:
    case COMMAND_ALERT_REMOVE:
        return policy_allows_tenant(c->policy, cmd->principal, cmd->tenant, RIGHT_OPERATE) ||
               denied(c, RIGHT_OPERATE, slice_make(NULL, 0), false);
    case COMMAND_TRANSACT:
        return may_transact(c, &cmd->transact);
    case COMMAND_POLICY_CHANGE:
        return may_change_policy(c, &cmd->policy_change);
    /* Of a client: ownership decides. Of a node: it has no principal. */
    case COMMAND_KEEPALIVE:
    case COMMAND_SESSION_CLOSE:
    case COMMAND_RELEASE:
    case COMMAND_CANCEL:
    case COMMAND_DETACH:
    case COMMAND_STREAM_UP:
    case COMMAND_STREAM_THROUGH:
    case COMMAND_STREAM_DOWN:
        return true;
    /* Of nodes only. */
    case COMMAND_LEAD:
    case COMMAND_TICK:
    case COMMAND_ADVANCE:
    case COMMAND_UPGRADE:
    case COMMAND_NODE_GONE:
    case COMMAND_LONG_HELD:
    case COMMAND_SINK_POSITION:
        return denied(c, RIGHT_ADMIN, slice_make(NULL, 0), true);
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
    hf_panic(__FILE__, __LINE__, "a command of no type is to be authorised");
}

enum hf_error authorise_command(const struct policy *p, const struct command *command,
                                struct denial *denial)
{
    struct authorisation c = {p, command, denial};
    if (command->principal == 0) {
        return HF_OK;
    }
    bool ok = policy_tenant_row(p, command->tenant) != NULL
                  ? may(&c)
                  : denied(&c, RIGHT_LOCK, slice_make(NULL, 0), false);
    return ok ? HF_OK : HF_DENIED;
}
