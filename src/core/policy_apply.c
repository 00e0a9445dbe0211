/* Applies a policy_change: all of its changes, or none. The changes may build on each other (a
 * tenant, then its principal), so they are made on a copy, which replaces the policy if all are
 * valid. The rules that need no state are policy_changes_check's. */
#include "base/panic.h"
#include "core/policy_state.h"

/* Copies rows through their snapshot records: one description of a row serves both. */
struct copying {
    struct policy *to;
    const struct policy *from;
};

static void copy_row(void *ctx, enum policy_record_kind kind, const void *row)
{
    struct copying *c = ctx;
    uint8_t bytes[POLICY_RECORD_MAX];
    struct writer w = writer_make(bytes, sizeof(bytes));
    policy_record_write(&w, c->from, kind, row);
    hf_assert(!w.full);
    struct reader r = reader_make(slice_make(bytes, (size_t)(w.at - bytes)));
    const char *wrong = policy_record_read(c->to, &r);
    hf_assert(wrong == NULL);
}

static struct policy *policy_copy(const struct policy *from)
{
    struct copying c = {policy_new(from->memory), from};
    policy_each_record(from, copy_row, &c);
    return c.to;
}

static void swap(struct policy *a, struct policy *b)
{
    struct policy c = *a;
    *a = *b;
    *b = c;
}

static enum hf_error put_tenant(struct policy *p, const struct policy_change *c)
{
    struct policy_tenant_row *row = policy_tenant_named(p, c->tenant);
    if (row == NULL) {
        if (p->tenants.count == LIMIT_TENANTS) {
            return HF_POLICY_FULL;
        }
        row = policy_add_tenant(p, p->last_tenant + 1, c->tenant);
    }
    row->quotas = c->quotas;
    return HF_OK;
}

static enum hf_error remove_tenant(struct policy *p, const struct policy_change *c,
                                   const struct policy_situation *now)
{
    struct policy_tenant_row *row = policy_tenant_named(p, c->tenant);
    if (row == NULL) {
        return HF_POLICY_NOT_FOUND;
    }
    if (row->number == 0) {
        return HF_INVALID_POLICY;
    }
    if (row->principals > 0 || row->grants > 0 || now->in_use(now->ctx, row->number)) {
        return HF_POLICY_EXISTS;
    }
    policy_drop_tenant(p, row);
    return HF_OK;
}

static bool tenants_exist(const struct policy *p, const struct packed *grants)
{
    struct reader r = packed_reader(grants);
    struct policy_grant grant;
    while (unpack_policy_grant(&r, &grant)) {
        if (!slice_equal(grant.tenant, slice_of("*")) &&
            policy_tenant_named(p, grant.tenant) == NULL) {
            return false;
        }
    }
    return true;
}

static enum hf_error put_principal(struct policy *p, const struct policy_change *c)
{
    struct policy_tenant_row *home = policy_tenant_named(p, c->tenant);
    if (home == NULL || !tenants_exist(p, &c->grants)) {
        return HF_POLICY_NOT_FOUND;
    }
    struct policy_principal_row *row = policy_principal_named(p, home->number, c->name);
    if (row == NULL) {
        if (p->principals.count == LIMIT_PRINCIPALS) {
            return HF_POLICY_FULL;
        }
        row = policy_add_principal(p, p->last_principal + 1, home->number, c->name);
    }
    policy_set_principal(p, row, c->description, &c->grants);
    return p->admins > LIMIT_CLUSTER_ADMINS ? HF_POLICY_FULL : HF_OK;
}

static struct policy_principal_row *named(const struct policy *p, const struct policy_change *c)
{
    const struct policy_tenant_row *home = policy_tenant_named(p, c->tenant);
    return home == NULL ? NULL : policy_principal_named(p, home->number, c->name);
}

static enum hf_error remove_principal(struct policy *p, const struct policy_change *c,
                                      struct policy_outcome *out)
{
    struct policy_principal_row *row = named(p, c);
    if (row == NULL) {
        return HF_POLICY_NOT_FOUND;
    }
    policy_drop_principal(p, row);
    out->has_removed = true;
    return HF_OK;
}

static enum hf_error add_token(struct policy *p, const struct policy_change *c, uint64_t wall_ms,
                               struct policy_outcome *out)
{
    const struct policy_principal_row *owner = named(p, c);
    if (owner == NULL) {
        return HF_POLICY_NOT_FOUND;
    }
    if (policy_token_hashed(p, c->sha256.data) != NULL) {
        return HF_POLICY_EXISTS;
    }
    if (p->tokens.count == LIMIT_TOKENS || owner->tokens == LIMIT_PRINCIPAL_TOKENS) {
        return HF_POLICY_FULL;
    }
    struct policy_token_row row = {.number = p->last_token + 1,
                                   .principal = owner->number,
                                   .description_len = (uint32_t)c->description.len,
                                   .created_wall_ms = wall_ms,
                                   .expires_wall_ms = c->expires_wall_ms};
    memcpy(row.sha256, c->sha256.data, sizeof(row.sha256));
    if (c->description.len > 0) {
        memcpy(row.description, c->description.data, c->description.len);
    }
    policy_add_token(p, &row);
    out->first_token = out->first_token == 0 ? row.number : out->first_token;
    return HF_OK;
}

static enum hf_error apply_one(struct policy *p, const struct policy_change *c,
                               const struct policy_situation *now, struct policy_outcome *out)
{
    switch (c->kind) {
    case POLICY_TENANT_PUT:
        return put_tenant(p, c);
    case POLICY_TENANT_REMOVE:
        return remove_tenant(p, c, now);
    case POLICY_PRINCIPAL_PUT:
        return put_principal(p, c);
    case POLICY_PRINCIPAL_REMOVE:
        return remove_principal(p, c, out);
    case POLICY_TOKEN_ADD:
        return add_token(p, c, now->wall_ms, out);
    case POLICY_TOKEN_REMOVE: {
        struct policy_token_row *row = policy_token_row(p, c->token);
        if (row == NULL) {
            return HF_POLICY_NOT_FOUND;
        }
        policy_drop_token(p, row);
        return HF_OK;
    }
    case POLICY_SERIAL_BAR:
        if (policy_is_barred(p, c->serial)) {
            return HF_POLICY_EXISTS;
        }
        if (p->serials.count == LIMIT_BARRED_SERIALS) {
            return HF_POLICY_FULL;
        }
        policy_add_serial(p, c->serial);
        return HF_OK;
    case POLICY_SERIAL_ALLOW:
        if (!policy_is_barred(p, c->serial)) {
            return HF_POLICY_NOT_FOUND;
        }
        policy_drop_serial(p, c->serial);
        return HF_OK;
    case POLICY_CHANGE_NONE:
    case POLICY_CHANGE_COUNT:
        break;
    }
    hf_panic(__FILE__, __LINE__, "a change of no kind passed its check");
}

/* Removes every administrator of the cluster. */
static void rescue(struct policy *p, struct policy_outcome *out)
{
    for (uint32_t i = p->principals.count; i > 0; i--) {
        struct policy_principal_row *row = p->principals.at[i - 1];
        if (policy_row_is_admin(row)) {
            policy_drop_principal(p, row);
            out->has_removed = true;
            out->changes++;
        }
    }
    hf_assert(p->admins == 0);
}

void policy_apply(struct policy *p, const struct command_policy_change *change,
                  const struct policy_situation *now, struct policy_outcome *out)
{
    *out = (struct policy_outcome){.error = HF_OK};
    if (change->expect != UINT64_MAX && change->expect != p->version) {
        out->error = HF_POLICY_CONFLICT;
        return;
    }
    if (change->origin == POLICY_BOOTSTRAP && p->last_principal > 0) {
        out->error = HF_POLICY_EXISTS;
        return;
    }
    struct policy *next = policy_copy(p);
    if (change->origin == POLICY_RESCUE) {
        rescue(next, out);
    }
    struct reader r = packed_reader(&change->changes);
    struct policy_change one;
    while (out->error == HF_OK && unpack_policy_change(&r, &one)) {
        out->error = apply_one(next, &one, now, out);
        out->changes++;
    }
    if (out->error == HF_OK) {
        next->version = p->version + 1;
        swap(p, next);
    }
    policy_free(next);
}
