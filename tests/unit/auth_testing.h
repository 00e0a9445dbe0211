/* A policy for tests with auth = on: tenants red and blue, and a token "t-TENANT-NAME" of each
 * principal. To be included after the world. */
#ifndef HOLDFAST_TESTS_AUTH_TESTING_H
#define HOLDFAST_TESTS_AUTH_TESTING_H

#include "base/peer_identity.h"
#include "core/policy.h"
#include "fake_gateway.h"
#include "tls/digest.h"

static const struct service_options with_auth = {.auth = true};

/* One change of the policy, by another node. */
static inline void change_policy(struct fake_gateway *g, const struct policy_change *change)
{
    static uint8_t bytes[LIMIT_POLICY_BYTES];
    struct packer p = packer_make(bytes, sizeof(bytes));
    struct command c;
    struct result r;
    assert_true(pack_policy_change(&p, change));
    command_init(&c, COMMAND_POLICY_CHANGE);
    c.policy_change.expect = UINT64_MAX;
    c.policy_change.actor = slice_of("test");
    c.policy_change.reason = slice_of("test");
    c.policy_change.changes = packer_list(&p);
    fake_gateway_apply(g, &c, &r);
    assert_int_equal(r.error, HF_OK);
}

static inline void put_tenant(struct fake_gateway *g, const char *name)
{
    change_policy(g, &(struct policy_change){.kind = POLICY_TENANT_PUT, .tenant = slice_of(name)});
}

/* With one grant, or none if `rights` is 0. */
static inline void put_principal(struct fake_gateway *g, const char *tenant, const char *name,
                                 const char *of, const char *prefix, uint32_t rights)
{
    uint8_t bytes[256];
    struct packer p = packer_make(bytes, sizeof(bytes));
    struct policy_grant grant = {slice_of(of), slice_of(prefix), rights};
    assert_true(rights == 0 || pack_policy_grant(&p, &grant));
    change_policy(g, &(struct policy_change){.kind = POLICY_PRINCIPAL_PUT,
                                             .tenant = slice_of(tenant),
                                             .name = slice_of(name),
                                             .grants = packer_list(&p)});
}

static inline void put_token(struct fake_gateway *g, const char *tenant, const char *name,
                             const char *text, uint64_t expires_wall_ms)
{
    uint8_t hash[DIGEST_SIZE];
    digest_sha256(slice_of(text), hash);
    change_policy(g, &(struct policy_change){.kind = POLICY_TOKEN_ADD,
                                             .tenant = slice_of(tenant),
                                             .name = slice_of(name),
                                             .sha256 = slice_make(hash, sizeof(hash)),
                                             .expires_wall_ms = expires_wall_ms});
}

static inline uint64_t token_number(const struct fake_gateway *g, const char *text)
{
    uint8_t hash[DIGEST_SIZE];
    struct token_view token;
    digest_sha256(slice_of(text), hash);
    assert_true(policy_find_token(core_policy(g->core), hash, &token));
    return token.number;
}

static inline void remove_token(struct fake_gateway *g, const char *text)
{
    change_policy(
        g, &(struct policy_change){.kind = POLICY_TOKEN_REMOVE, .token = token_number(g, text)});
}

static inline void bar_serial(struct fake_gateway *g, const char *serial)
{
    change_policy(g,
                  &(struct policy_change){.kind = POLICY_SERIAL_BAR, .serial = slice_of(serial)});
}

static inline void put_policy(struct fake_gateway *g)
{
    put_tenant(g, "red");
    put_tenant(g, "blue");
    put_principal(g, "default", "root", "*", "", RIGHTS_ALL);
    put_principal(g, "red", "lock", "red", "app/", RIGHT_LOCK);
    put_principal(g, "red", "read", "red", "app/", RIGHT_READ);
    put_principal(g, "red", "none", "red", "", 0);
    put_principal(g, "red", "admin", "red", "", RIGHTS_ALL);
    put_principal(g, "blue", "lock", "blue", "app/", RIGHT_LOCK);
    put_token(g, "default", "root", "t-default-root", 0);
    put_token(g, "red", "lock", "t-red-lock", 0);
    put_token(g, "red", "read", "t-red-read", 0);
    put_token(g, "red", "none", "t-red-none", 0);
    put_token(g, "red", "admin", "t-red-admin", 0);
    put_token(g, "blue", "lock", "t-blue-lock", 0);
}

static inline struct peer_identity certificate(const char *uri, const char *serial,
                                               int64_t not_after_s)
{
    struct peer_identity peer = {.uri_count = 1, .not_after_s = not_after_s};
    (void)snprintf(peer.uris[0], sizeof(peer.uris[0]), "%s", uri);
    (void)snprintf(peer.serial, sizeof(peer.serial), "%s", serial);
    return peer;
}

#endif
