/* Read access to the policy, and whether a principal has a right. */
#include "base/panic.h"
#include "core/policy_state.h"

uint64_t policy_version(const struct policy *p)
{
    return p->version;
}

uint32_t policy_tenants(const struct policy *p)
{
    return p->tenants.count;
}

uint32_t policy_principals(const struct policy *p)
{
    return p->principals.count;
}

uint32_t policy_tokens(const struct policy *p)
{
    return p->tokens.count;
}

static struct tenant_view tenant_view_of(const struct policy_tenant_row *row)
{
    return (struct tenant_view){
        .number = row->number, .name = slice_make(row->name, row->name_len), .quotas = row->quotas};
}

static bool show_tenant(const struct policy_tenant_row *row, struct tenant_view *out)
{
    if (row != NULL && out != NULL) {
        *out = tenant_view_of(row);
    }
    return row != NULL;
}

bool policy_tenant(const struct policy *p, uint32_t number, struct tenant_view *out)
{
    return show_tenant(policy_tenant_row(p, number), out);
}

bool policy_find_tenant(const struct policy *p, struct slice name, struct tenant_view *out)
{
    return show_tenant(policy_tenant_named(p, name), out);
}

static struct principal_view principal_view_of(const struct policy_principal_row *row)
{
    return (struct principal_view){.number = row->number,
                                   .tenant = row->tenant,
                                   .name = slice_make(row->name, row->name_len),
                                   .description = row->terms.description,
                                   .grants = row->terms.grant_count,
                                   .tokens = row->tokens};
}

static bool show_principal(const struct policy_principal_row *row, struct principal_view *out)
{
    if (row != NULL && out != NULL) {
        *out = principal_view_of(row);
    }
    return row != NULL;
}

bool policy_principal(const struct policy *p, uint32_t number, struct principal_view *out)
{
    return show_principal(policy_principal_row(p, number), out);
}

bool policy_find_principal(const struct policy *p, uint32_t tenant, struct slice name,
                           struct principal_view *out)
{
    return show_principal(policy_principal_named(p, tenant, name), out);
}

bool policy_grant_at(const struct policy *p, uint32_t principal, uint32_t i,
                     struct policy_grant_view *out)
{
    const struct policy_principal_row *row = policy_principal_row(p, principal);
    if (row == NULL || i >= row->terms.grant_count) {
        return false;
    }
    const struct policy_grant_row *g = &row->terms.grants[i];
    *out = (struct policy_grant_view){g->tenant, g->prefix, g->rights};
    return true;
}

static struct token_view token_view_of(const struct policy_token_row *row)
{
    return (struct token_view){.number = row->number,
                               .principal = row->principal,
                               .created_wall_ms = row->created_wall_ms,
                               .expires_wall_ms = row->expires_wall_ms,
                               .description = slice_make(row->description, row->description_len)};
}

static bool show_token(const struct policy_token_row *row, struct token_view *out)
{
    if (row != NULL && out != NULL) {
        *out = token_view_of(row);
    }
    return row != NULL;
}

bool policy_token(const struct policy *p, uint64_t number, struct token_view *out)
{
    return show_token(policy_token_row(p, number), out);
}

bool policy_find_token(const struct policy *p, const uint8_t sha256[TOKEN_SHA_BYTES],
                       struct token_view *out)
{
    return show_token(policy_token_hashed(p, sha256), out);
}

bool policy_is_barred(const struct policy *p, struct slice serial)
{
    return policy_serial_at(p, serial) != UINT32_MAX;
}

/* ---- rights ---- */

static bool grant_has(const struct policy_grant_row *g, enum right right)
{
    uint32_t rights = (g->rights & RIGHT_LOCK) != 0 ? g->rights | RIGHT_READ : g->rights;
    return (rights & (uint32_t)right) != 0;
}

static bool grant_covers(const struct policy_grant_row *g, struct slice name)
{
    if (g->prefix.len == 0) {
        return true;
    }
    return g->prefix.data[g->prefix.len - 1] == '/' ? slice_starts_with(name, g->prefix)
                                                    : slice_equal(name, g->prefix);
}

/* How much of a tenant a grant must cover. */
enum reach { REACH_NAME, REACH_SOME, REACH_TENANT };

static bool allows(const struct policy *p, uint32_t principal, uint32_t tenant, enum right right,
                   enum reach reach, struct slice name)
{
    if (principal == 0) {
        return true;
    }
    const struct policy_principal_row *row = policy_principal_row(p, principal);
    for (uint32_t i = 0; row != NULL && i < row->terms.grant_count; i++) {
        const struct policy_grant_row *g = &row->terms.grants[i];
        bool is_covered =
            reach == REACH_NAME ? grant_covers(g, name) : reach == REACH_SOME || g->prefix.len == 0;
        if ((g->tenant == tenant || g->tenant == TENANT_ALL) && grant_has(g, right) && is_covered) {
            return true;
        }
    }
    return false;
}

bool policy_allows(const struct policy *p, uint32_t principal, uint32_t tenant, enum right right,
                   struct slice name)
{
    return allows(p, principal, tenant, right, REACH_NAME, name);
}

bool policy_allows_some(const struct policy *p, uint32_t principal, uint32_t tenant,
                        enum right right)
{
    return allows(p, principal, tenant, right, REACH_SOME, slice_make(NULL, 0));
}

bool policy_allows_tenant(const struct policy *p, uint32_t principal, uint32_t tenant,
                          enum right right)
{
    return allows(p, principal, tenant, right, REACH_TENANT, slice_make(NULL, 0));
}

bool policy_allows_cluster(const struct policy *p, uint32_t principal, enum right right)
{
    return allows(p, principal, TENANT_ALL, right, REACH_TENANT, slice_make(NULL, 0));
}

/* ---- all rows ---- */

void policy_each_tenant(const struct policy *p,
                        void (*each)(void *ctx, const struct tenant_view *tenant), void *ctx)
{
    for (uint32_t i = 0; i < p->tenants.count; i++) {
        struct tenant_view view = tenant_view_of(p->tenants.at[i]);
        each(ctx, &view);
    }
}

void policy_each_principal(const struct policy *p,
                           void (*each)(void *ctx, const struct principal_view *principal),
                           void *ctx)
{
    for (uint32_t i = 0; i < p->principals.count; i++) {
        struct principal_view view = principal_view_of(p->principals.at[i]);
        each(ctx, &view);
    }
}

void policy_each_token(const struct policy *p,
                       void (*each)(void *ctx, const struct token_view *token), void *ctx)
{
    for (uint32_t i = 0; i < p->tokens.count; i++) {
        struct token_view view = token_view_of(p->tokens.at[i]);
        each(ctx, &view);
    }
}

void policy_each_serial(const struct policy *p, void (*each)(void *ctx, struct slice serial),
                        void *ctx)
{
    for (uint32_t i = 0; i < p->serials.count; i++) {
        const struct policy_serial_row *row = p->serials.at[i];
        each(ctx, slice_make(row->digits, row->len));
    }
}

struct slice policy_principal_text(const struct policy *p, uint32_t number,
                                   uint8_t out[PRINCIPAL_TEXT])
{
    const struct policy_principal_row *row = policy_principal_row(p, number);
    if (row == NULL) {
        return slice_make(NULL, 0);
    }
    const struct policy_tenant_row *home = policy_tenant_row(p, row->tenant);
    hf_assert(home != NULL);
    memcpy(out, home->name, home->name_len);
    out[home->name_len] = '/';
    memcpy(out + home->name_len + 1, row->name, row->name_len);
    return slice_make(out, home->name_len + 1 + row->name_len);
}

static const struct {
    enum right right;
    const char *word;
} words[] = {
    {RIGHT_LOCK, "lock"}, {RIGHT_READ, "read"}, {RIGHT_OPERATE, "operate"}, {RIGHT_ADMIN, "admin"}};

const char *right_name(enum right right)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i].right == right) {
            return words[i].word;
        }
    }
    hf_panic(__FILE__, __LINE__, "this is not one right");
}

uint32_t right_of_word(struct slice word)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (slice_is_word(word, words[i].word)) {
            return words[i].right;
        }
    }
    return 0;
}
