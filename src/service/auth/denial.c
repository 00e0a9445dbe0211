/* Texts of denials: they name principal, right and name, and nothing of another tenant. */
#include <stdio.h>

#include "service/auth/state.h"

static struct slice text_of(const struct policy *p, uint32_t principal, uint8_t out[PRINCIPAL_TEXT])
{
    struct slice text = policy_principal_text(p, principal, out);
    return text.len > 0 ? text : slice_of("(removed)");
}

void auth_denial(const struct policy *p, struct caller_id who, enum right right, struct slice name,
                 char out[AUTH_TEXT])
{
    uint8_t text[PRINCIPAL_TEXT];
    struct slice principal = text_of(p, who.principal, text);
    struct tenant_view tenant = {.name = slice_of("?")};
    (void)policy_tenant(p, who.tenant, &tenant);
    if (name.len == 0) {
        (void)snprintf(out, AUTH_TEXT, "principal %.*s has no right %s in tenant %.*s",
                       (int)principal.len, (const char *)principal.data, right_name(right),
                       (int)tenant.name.len, (const char *)tenant.name.data);
    } else {
        (void)snprintf(out, AUTH_TEXT, "principal %.*s has no right %s on %.*s in tenant %.*s",
                       (int)principal.len, (const char *)principal.data, right_name(right),
                       fault_clip(name, LIMIT_NAME), (const char *)name.data, (int)tenant.name.len,
                       (const char *)tenant.name.data);
    }
}

void auth_denial_of(const struct policy *p, const struct command *c, char out[AUTH_TEXT])
{
    struct denial denial = {.right = RIGHT_LOCK};
    out[0] = '\0';
    if (c->principal == 0 || authorise_command(p, c, &denial) == HF_OK) {
        return;
    }
    if (denial.of_cluster) {
        uint8_t text[PRINCIPAL_TEXT];
        struct slice principal = text_of(p, c->principal, text);
        (void)snprintf(out, AUTH_TEXT, "principal %.*s has no right %s on the cluster",
                       (int)principal.len, (const char *)principal.data, right_name(denial.right));
    } else {
        auth_denial(p, caller_of(c), denial.right, denial.name, out);
    }
}

const char *auth_why_over(const struct service *s, const struct auth_conn *conn,
                          const struct caller *caller)
{
    const struct policy *p = service_policy(s);
    struct token_view token;
    if (caller->id.principal == 0) {
        return NULL;
    }
    if (!policy_principal(p, caller->id.principal, NULL)) {
        return "the principal was removed";
    }
    if (caller->by == CALLER_TOKEN &&
        (!policy_find_token(p, caller->hash, &token) || token.principal != caller->id.principal)) {
        return "the token was revoked";
    }
    if (caller->by == CALLER_CERTIFICATE && conn->peer != NULL &&
        policy_is_barred(p, slice_of(conn->peer->serial))) {
        return "the client certificate was barred";
    }
    if (caller->expires_ms <= s->gateway.wall_ms(s->gateway.ctx)) {
        return caller->by == CALLER_TOKEN ? "the token has expired"
                                          : "the client certificate has expired";
    }
    return NULL;
}
