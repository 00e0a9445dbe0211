/* The replicated policy (S14): tenants, principals with their grants, bearer tokens, barred serials.
 * It is changed only by the command policy_change; every question about it is a pure function.
 *
 * Tenant 0 is `default` and always exists. Numbers of tenants, principals and tokens are given in
 * order and never used again. Wall-clock expiry of tokens is not checked here: the edge and the leader
 * compare token_view.expires_wall_ms with their clocks.
 *
 * Answer of a policy_change (core/result.h): `token` is the new version of the policy, `count` the
 * number of changes, `highest` the number of the first token that it added (the others follow in the
 * order of the changes; 0: none). */
#ifndef HOLDFAST_CORE_POLICY_H
#define HOLDFAST_CORE_POLICY_H

#include "core/command.h"
#include "core/policy_change.h"

/* Of a grant: every tenant, and the cluster itself. */
#define TENANT_ALL UINT32_MAX

/* Who made a policy_change. */
enum policy_origin {
    POLICY_BY_PRINCIPAL,
    POLICY_BOOTSTRAP, /* only while no principal exists, else policy_exists */
    POLICY_RESCUE,    /* first removes every principal with `admin` on the cluster */
    POLICY_ORIGINS
};

struct core;
struct policy;

/* Slices of views are borrowed until the next command. */
struct tenant_view {
    uint32_t number;
    struct slice name;
    struct quotas quotas;
};

struct principal_view {
    uint32_t number;
    uint32_t tenant; /* its home */
    struct slice name;
    struct slice description;
    uint32_t grants; /* policy_grant_at */
    uint32_t tokens;
};

struct policy_grant_view {
    uint32_t tenant; /* or TENANT_ALL */
    struct slice prefix;
    uint32_t rights;
};

struct token_view {
    uint64_t number;
    uint32_t principal;
    uint64_t created_wall_ms;
    uint64_t expires_wall_ms; /* 0: never */
    struct slice description;
};

/* Never NULL. Of a core with a policy source: that of the source (core_set_policy_source). */
const struct policy *core_policy(const struct core *core);

uint64_t policy_version(const struct policy *p); /* 0: never changed; rises by one */
uint32_t policy_tenants(const struct policy *p); /* with `default` */
uint32_t policy_principals(const struct policy *p);
uint32_t policy_tokens(const struct policy *p);

/* False: no such object; `out` (or NULL) is unchanged. */
bool policy_tenant(const struct policy *p, uint32_t number, struct tenant_view *out);
bool policy_find_tenant(const struct policy *p, struct slice name, struct tenant_view *out);
bool policy_principal(const struct policy *p, uint32_t number, struct principal_view *out);
bool policy_find_principal(const struct policy *p, uint32_t tenant, struct slice name,
                           struct principal_view *out);
bool policy_grant_at(const struct policy *p, uint32_t principal, uint32_t i,
                     struct policy_grant_view *out);
bool policy_token(const struct policy *p, uint64_t number, struct token_view *out);
bool policy_find_token(const struct policy *p, const uint8_t sha256[TOKEN_SHA_BYTES],
                       struct token_view *out);
bool policy_is_barred(const struct policy *p, struct slice serial);

/* Whether the principal has the right on the name. Principal 0: true. A removed one: false. */
bool policy_allows(const struct policy *p, uint32_t principal, uint32_t tenant, enum right right,
                   struct slice name);
/* On some name of the tenant. */
bool policy_allows_some(const struct policy *p, uint32_t principal, uint32_t tenant,
                        enum right right);
/* On every name of the tenant: by a grant with an empty prefix. */
bool policy_allows_tenant(const struct policy *p, uint32_t principal, uint32_t tenant,
                          enum right right);
/* By a grant of TENANT_ALL with an empty prefix. */
bool policy_allows_cluster(const struct policy *p, uint32_t principal, enum right right);

/* By rising numbers; serials in the order of barring. */
void policy_each_tenant(const struct policy *p,
                        void (*each)(void *ctx, const struct tenant_view *tenant), void *ctx);
void policy_each_principal(const struct policy *p,
                           void (*each)(void *ctx, const struct principal_view *principal),
                           void *ctx);
void policy_each_token(const struct policy *p,
                       void (*each)(void *ctx, const struct token_view *token), void *ctx);
void policy_each_serial(const struct policy *p, void (*each)(void *ctx, struct slice serial),
                        void *ctx);

/* "TENANT/NAME" into `out`; an empty slice: the principal was removed. */
enum { PRINCIPAL_TEXT = 2 * LIMIT_POLICY_NAME + 1 };
struct slice policy_principal_text(const struct policy *p, uint32_t number,
                                   uint8_t out[PRINCIPAL_TEXT]);
/* Of a denied command, for the error message: the right, and the name on which it is missing (empty:
 * some name, or the cluster). */
struct denial {
    enum right right;
    struct slice name;
    bool of_cluster;
};

/* HF_OK or HF_DENIED, for every type of command. Rules that need other state (who owns a session or a
 * grant; the name of a renewed lease) are core_apply's. `denial` may be NULL. */
enum hf_error authorise_command(const struct policy *p, const struct command *command,
                                struct denial *denial);

const char *right_name(enum right right);
/* 0: no such right. */
uint32_t right_of_word(struct slice word);

#endif
