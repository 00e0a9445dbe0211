/* Compares the policies of the core and of the model, row by row. */
#include "driver.h"

#include <inttypes.h>

struct rows {
    const struct policy *core;
    const struct model_policy *model;
    size_t tenants;
    size_t principals;
    size_t tokens;
    size_t serials;
    bool bad;
};

static bool same_text(struct slice a, const struct owned *b)
{
    return slice_equal(a, slice_make(b->data, b->len));
}

static void check(struct rows *rows, const char *what, bool good, size_t row)
{
    if (!good && !rows->bad) {
        printf("  %s differs, row %zu\n", what, row);
        rows->bad = true;
    }
}

static void compare_tenant(void *ctx, const struct tenant_view *a)
{
    struct rows *rows = ctx;
    size_t i = rows->tenants++;
    bool good = i < rows->model->tenants.count;
    if (good) {
        const struct model_tenant *b = rows->model->tenants.at[i];
        good = a->number == b->number && same_text(a->name, &b->name) &&
               memcmp(&a->quotas, &b->quotas, sizeof(a->quotas)) == 0;
    }
    check(rows, "a tenant", good, i);
}

static bool same_grants(const struct rows *rows, const struct model_principal *b)
{
    struct policy_grant_view a;
    for (uint32_t i = 0; i < b->grant_count; i++) {
        const struct model_policy_grant *grant = &b->grants[i];
        uint32_t tenant = grant->tenant < 0 ? TENANT_ALL : (uint32_t)grant->tenant;
        if (!policy_grant_at(rows->core, b->number, i, &a) || a.tenant != tenant ||
            a.rights != grant->rights || !same_text(a.prefix, &grant->prefix)) {
            return false;
        }
    }
    return true;
}

static uint32_t tokens_of(const struct model_policy *p, uint32_t principal)
{
    uint32_t count = 0;
    for (size_t i = 0; i < p->tokens.count; i++) {
        count += ((const struct model_token *)p->tokens.at[i])->principal == principal;
    }
    return count;
}

static void compare_principal(void *ctx, const struct principal_view *a)
{
    struct rows *rows = ctx;
    struct principal_view found;
    size_t i = rows->principals++;
    bool good = i < rows->model->principals.count;
    if (good) {
        const struct model_principal *b = rows->model->principals.at[i];
        good = a->number == b->number && a->tenant == b->tenant && same_text(a->name, &b->name) &&
               same_text(a->description, &b->description) && a->grants == b->grant_count &&
               a->tokens == tokens_of(rows->model, b->number) && same_grants(rows, b) &&
               policy_find_principal(rows->core, a->tenant, a->name, &found) &&
               found.number == b->number;
    }
    check(rows, "a principal", good, i);
}

static void compare_token(void *ctx, const struct token_view *a)
{
    struct rows *rows = ctx;
    struct token_view found;
    size_t i = rows->tokens++;
    bool good = i < rows->model->tokens.count;
    if (good) {
        const struct model_token *b = rows->model->tokens.at[i];
        good = a->number == b->number && a->principal == b->principal &&
               a->created_wall_ms == b->created_wall_ms &&
               a->expires_wall_ms == b->expires_wall_ms &&
               same_text(a->description, &b->description) &&
               policy_find_token(rows->core, b->sha256, &found) && found.number == b->number;
    }
    check(rows, "a token", good, i);
}

static void compare_serial(void *ctx, struct slice serial)
{
    struct rows *rows = ctx;
    size_t i = rows->serials++;
    bool good = i < rows->model->serials.count && same_text(serial, rows->model->serials.at[i]);
    check(rows, "a barred serial", good, i);
}

bool compare_policy(const struct policy *core, const struct model_policy *model)
{
    struct rows rows = {.core = core, .model = model};
    policy_each_tenant(core, compare_tenant, &rows);
    policy_each_principal(core, compare_principal, &rows);
    policy_each_token(core, compare_token, &rows);
    policy_each_serial(core, compare_serial, &rows);
    check(&rows, "the number of tenants", rows.tenants == model->tenants.count, rows.tenants);
    check(&rows, "the number of principals", rows.principals == model->principals.count,
          rows.principals);
    check(&rows, "the number of tokens", rows.tokens == model->tokens.count, rows.tokens);
    check(&rows, "the number of serials", rows.serials == model->serials.count, rows.serials);
    check(&rows, "the version", policy_version(core) == model->version, (size_t)model->version);
    return !rows.bad;
}
