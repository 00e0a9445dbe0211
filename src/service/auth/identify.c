/* From credentials to a caller. */
#include "service/auth/state.h"
#include "tls/digest.h"

#define NO_CREDENTIALS                                                                   \
    "no credentials; send a token (Authorization: Bearer TOKEN, or AUTH over the Redis " \
    "protocol) or use a client certificate"

static uint64_t wall_ms(const struct service *s)
{
    return s->gateway.wall_ms(s->gateway.ctx);
}

static enum auth_verdict refuse(struct fault *fault, enum auth_verdict verdict, const char *why)
{
    (void)fault_set(fault, HF_UNAUTHENTICATED, "%s", why);
    return verdict;
}

enum hf_error auth_is_ready(const struct service *s, const char **message)
{
    *message = NULL;
    if (service_boot_ms(s) - s->auth->served_ms >= AUTH_STALE_MS) {
        return HF_POLICY_STALE;
    }
    if (core_version(service_core(s)) < AUTH_VERSION && !s->auth->is_version_sure) {
        s->auth->wants_version = true;
        *message = "this node has not applied the state of the cluster yet; nothing was done; try "
                   "again, or another node";
        return HF_UNAVAILABLE;
    }
    if (core_version(service_core(s)) < AUTH_VERSION) {
        *message = "auth = on needs version 6 of the state; a member of the cluster runs an older "
                   "version of Holdfast; nothing was done; upgrade all members";
        return HF_NOT_UPGRADED;
    }
    return HF_OK;
}

/* The token that the connection used last. */
static bool is_kept(const struct auth_conn *conn, struct slice token)
{
    return conn->version != 0 && conn->token_len == token.len &&
           digest_equal(conn->token, token.data, token.len);
}

static bool find_token(const struct policy *p, const uint8_t hash[CALLER_HASH], struct caller *out)
{
    struct token_view token;
    struct principal_view principal;
    if (!policy_find_token(p, hash, &token) || !policy_principal(p, token.principal, &principal)) {
        return false;
    }
    *out = (struct caller){.id = {principal.tenant, principal.number},
                           .by = CALLER_TOKEN,
                           .expires_ms =
                               token.expires_wall_ms == 0 ? UINT64_MAX : token.expires_wall_ms};
    memcpy(out->hash, hash, CALLER_HASH);
    return true;
}

static enum auth_verdict by_token(struct service *s, struct auth_conn *conn, struct slice token,
                                  struct caller *out, struct fault *fault)
{
    const struct policy *p = service_policy(s);
    uint64_t version = policy_version(p) + 1;
    uint8_t hash[CALLER_HASH];
    if (is_kept(conn, token)) {
        if (conn->version == version) {
            *out = conn->caller;
            return AUTH_PASSED;
        }
        memcpy(hash, conn->caller.hash, sizeof(hash));
    } else if (token.len > AUTH_TOKEN_MAX) {
        return refuse(fault, AUTH_REFUSED, "the token is not valid");
    } else {
        digest_sha256(token, hash);
    }
    if (!find_token(p, hash, out)) {
        conn->version = 0;
        return refuse(fault, AUTH_UNSURE, "the token is not valid");
    }
    conn->caller = *out;
    conn->version = version;
    conn->token_len = (uint32_t)token.len;
    memcpy(conn->token, token.data, token.len);
    return AUTH_PASSED;
}

/* The only URI of a client; a certificate with several has no principal. */
static struct slice principal_of(const struct peer_identity *peer)
{
    struct slice found = slice_make(NULL, 0);
    struct slice kind = slice_of(IDENTITY_CLIENT);
    for (uint32_t i = 0; i < peer->uri_count; i++) {
        struct slice uri = slice_of(peer->uris[i]);
        if (!slice_starts_with(uri, kind)) {
            continue;
        }
        if (found.len > 0) {
            return slice_make(NULL, 0);
        }
        found = slice_make(uri.data + kind.len, uri.len - kind.len);
    }
    return found;
}

static bool find_named(const struct policy *p, struct slice text, struct principal_view *out)
{
    struct tenant_view tenant;
    const uint8_t *slash = text.len == 0 ? NULL : memchr(text.data, '/', text.len);
    if (slash == NULL) {
        return false;
    }
    size_t len = (size_t)(slash - text.data);
    return policy_find_tenant(p, slice_make(text.data, len), &tenant) &&
           policy_find_principal(p, tenant.number, slice_make(slash + 1, text.len - len - 1), out);
}

static enum auth_verdict by_certificate(struct service *s, struct auth_conn *conn,
                                        struct caller *out, struct fault *fault)
{
    const struct policy *p = service_policy(s);
    const struct peer_identity *peer = conn->peer;
    struct principal_view principal;
    if (peer == NULL) {
        return refuse(fault, AUTH_REFUSED, NO_CREDENTIALS);
    }
    if (conn->version == policy_version(p) + 1 && conn->token_len == 0) {
        *out = conn->caller;
        return AUTH_PASSED;
    }
    if (policy_is_barred(p, slice_of(peer->serial))) {
        return refuse(fault, AUTH_UNSURE, "the client certificate is barred by the policy");
    }
    if (!find_named(p, principal_of(peer), &principal)) {
        return refuse(fault, AUTH_UNSURE,
                      "the client certificate names no principal of the policy in one SAN "
                      "URI holdfast:TENANT/PRINCIPAL");
    }
    uint64_t not_after_s = peer->not_after_s < 0 ? 0 : (uint64_t)peer->not_after_s;
    *out = (struct caller){.id = {principal.tenant, principal.number},
                           .by = CALLER_CERTIFICATE,
                           .expires_ms = not_after_s * 1000};
    conn->caller = *out;
    conn->version = policy_version(p) + 1;
    conn->token_len = 0;
    return AUTH_PASSED;
}

bool auth_knows_tenant(const struct policy *p, uint32_t principal, uint32_t tenant)
{
    struct principal_view view;
    bool is_known =
        principal == 0 || (policy_principal(p, principal, &view) && view.tenant == tenant);
    for (unsigned right = RIGHT_LOCK; right <= RIGHT_ADMIN && !is_known; right <<= 1) {
        is_known = policy_allows_some(p, principal, tenant, (enum right)right);
    }
    return is_known;
}

/* A tenant in which the caller has no right looks like one that does not exist. */
static enum auth_verdict choose_tenant(const struct service *s, struct slice name,
                                       struct caller *caller, struct fault *fault)
{
    const struct policy *p = service_policy(s);
    struct tenant_view tenant;
    uint8_t text[PRINCIPAL_TEXT];
    if (name.len == 0) {
        return AUTH_PASSED;
    }
    if (policy_find_tenant(p, name, &tenant) &&
        auth_knows_tenant(p, caller->id.principal, tenant.number)) {
        caller->id.tenant = tenant.number;
        return AUTH_PASSED;
    }
    struct slice who = policy_principal_text(p, caller->id.principal, text);
    (void)fault_set(fault, HF_DENIED, "principal %.*s has no right in tenant %.*s", (int)who.len,
                    (const char *)who.data, fault_clip(name, 64), (const char *)name.data);
    return AUTH_UNSURE;
}

static bool is_user(const struct policy *p, uint32_t principal, struct slice user)
{
    uint8_t text[PRINCIPAL_TEXT];
    return user.len == 0 || slice_equal(policy_principal_text(p, principal, text), user);
}

enum auth_verdict auth_identify(struct service *s, struct auth_conn *conn,
                                const struct auth_credentials *presented, struct caller *out,
                                struct fault *fault)
{
    enum auth_verdict verdict;
    if (presented->is_foreign) {
        return refuse(
            fault, AUTH_REFUSED,
            "the authorization is neither Bearer TOKEN nor Basic with the token as password");
    }
    verdict = presented->token.len > 0 ? by_token(s, conn, presented->token, out, fault)
                                       : by_certificate(s, conn, out, fault);
    if (verdict != AUTH_PASSED) {
        return verdict;
    }
    if (!is_user(service_policy(s), out->id.principal, presented->user)) {
        return refuse(fault, AUTH_UNSURE, "the token is not one of this principal");
    }
    if (out->expires_ms != UINT64_MAX) {
        if (out->expires_ms <= wall_ms(s)) {
            conn->version = 0;
            return refuse(fault, AUTH_REFUSED,
                          out->by == CALLER_TOKEN ? "the token has expired"
                                                  : "the client certificate has expired");
        }
        struct auth_state *a = s->auth;
        a->expires_ms = out->expires_ms < a->expires_ms ? out->expires_ms : a->expires_ms;
    }
    return choose_tenant(s, presented->tenant, out, fault);
}

enum auth_verdict auth_check_need(const struct service *s, const struct caller *caller,
                                  enum need need, struct fault *fault)
{
    const struct policy *p = service_policy(s);
    enum right right = need == NEED_CLUSTER_READ ? RIGHT_READ : RIGHT_ADMIN;
    uint8_t text[PRINCIPAL_TEXT];
    if ((need != NEED_CLUSTER_READ && need != NEED_CLUSTER_ADMIN) ||
        policy_allows_cluster(p, caller->id.principal, right)) {
        return AUTH_PASSED;
    }
    struct slice who = policy_principal_text(p, caller->id.principal, text);
    (void)fault_set(fault, HF_DENIED, "principal %.*s has no right %s on the cluster", (int)who.len,
                    (const char *)who.data, right_name(right));
    return AUTH_UNSURE;
}
