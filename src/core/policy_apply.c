/* Applies a policy_change: all of its changes, or none. The changes may build on each other (a
 * tenant, then its principal), so each is made at once and noted in a journal. If a later one fails,
 * the journal is undone from its end. The rules that need no state are policy_changes_check's. */
#include "base/panic.h"
#include "core/policy_state.h"

/* What was done. A removed row belongs to its entry. */
enum done {
    DONE_TENANT_ADDED,
    DONE_TENANT_SET, /* `quotas`: the earlier ones */
    DONE_TENANT_REMOVED,
    DONE_PRINCIPAL_ADDED,
    DONE_PRINCIPAL_SET, /* `terms`: the earlier ones */
    DONE_PRINCIPAL_REMOVED,
    DONE_TOKEN_ADDED,
    DONE_TOKEN_REMOVED,
    DONE_SERIAL_ADDED,
    DONE_SERIAL_REMOVED /* at `position` */
};

struct entry {
    enum done done;
    uint32_t position;
    void *row;
    union {
        struct quotas quotas;
        struct policy_terms terms;
    };
};

/* A principal_put of a new principal makes two entries, a rescue one for each administrator. */
enum { JOURNAL_MAX = 2 * LIMIT_POLICY_CHANGES + LIMIT_CLUSTER_ADMINS };

struct journal {
    struct policy *p;
    const struct policy_situation *now;
    struct policy_outcome *out;
    uint32_t count;
    struct entry entries[JOURNAL_MAX];
};

static struct entry *note(struct journal *j, enum done done, void *row)
{
    hf_assert(j->count < JOURNAL_MAX && row != NULL);
    struct entry *e = &j->entries[j->count++];
    e->done = done;
    e->row = row;
    j->out->steps++;
    return e;
}

static void undo(struct policy *p, struct entry *e)
{
    switch (e->done) {
    case DONE_TENANT_ADDED:
        policy_unlink_tenant(p, e->row);
        policy_free_tenant(p, e->row);
        return;
    case DONE_TENANT_SET:
        ((struct policy_tenant_row *)e->row)->quotas = e->quotas;
        return;
    case DONE_TENANT_REMOVED:
        policy_link_tenant(p, e->row);
        return;
    case DONE_PRINCIPAL_ADDED:
        policy_unlink_principal(p, e->row);
        policy_free_principal(p, e->row);
        return;
    case DONE_PRINCIPAL_SET:
        policy_swap_terms(p, e->row, &e->terms);
        policy_terms_free(p, &e->terms);
        return;
    case DONE_PRINCIPAL_REMOVED:
        policy_link_principal(p, e->row);
        return;
    case DONE_TOKEN_ADDED:
        policy_unlink_token(p, e->row);
        policy_free_token(p, e->row);
        return;
    case DONE_TOKEN_REMOVED:
        policy_link_token(p, e->row);
        return;
    case DONE_SERIAL_ADDED:
        policy_free_serial(p, policy_unlink_serial(p, e->position));
        return;
    case DONE_SERIAL_REMOVED:
        policy_link_serial(p, e->position, e->row);
        return;
    }
}

/* Frees what was replaced or removed. */
static void commit(struct policy *p, struct entry *e)
{
    switch (e->done) {
    case DONE_TENANT_REMOVED:
        policy_free_tenant(p, e->row);
        return;
    case DONE_PRINCIPAL_SET:
        policy_terms_free(p, &e->terms);
        return;
    case DONE_PRINCIPAL_REMOVED:
        policy_free_principal(p, e->row);
        return;
    case DONE_TOKEN_REMOVED:
        policy_free_token(p, e->row);
        return;
    case DONE_SERIAL_REMOVED:
        policy_free_serial(p, e->row);
        return;
    case DONE_TENANT_ADDED:
    case DONE_TENANT_SET:
    case DONE_PRINCIPAL_ADDED:
    case DONE_TOKEN_ADDED:
    case DONE_SERIAL_ADDED:
        return;
    }
}

/* ---- the changes ---- */

static enum hf_error put_tenant(struct journal *j, const struct policy_change *c)
{
    struct policy *p = j->p;
    struct policy_tenant_row *row = policy_tenant_named(p, c->tenant);
    if (row == NULL) {
        if (p->tenants.count == LIMIT_TENANTS || p->last_tenant + 1 == TENANT_ALL) {
            return HF_POLICY_FULL;
        }
        row = policy_add_tenant(p, p->last_tenant + 1, c->tenant);
        (void)note(j, DONE_TENANT_ADDED, row);
    } else {
        note(j, DONE_TENANT_SET, row)->quotas = row->quotas;
    }
    row->quotas = c->quotas;
    return HF_OK;
}

static enum hf_error remove_tenant(struct journal *j, const struct policy_change *c)
{
    struct policy_tenant_row *row = policy_tenant_named(j->p, c->tenant);
    if (row == NULL) {
        return HF_POLICY_NOT_FOUND;
    }
    if (row->number == 0) {
        return HF_INVALID_POLICY;
    }
    if (row->principals > 0 || row->grants > 0 || j->now->in_use(j->now->ctx, row->number)) {
        return HF_POLICY_EXISTS;
    }
    policy_unlink_tenant(j->p, row);
    (void)note(j, DONE_TENANT_REMOVED, row);
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

static enum hf_error put_principal(struct journal *j, const struct policy_change *c)
{
    struct policy *p = j->p;
    struct policy_tenant_row *home = policy_tenant_named(p, c->tenant);
    if (home == NULL || !tenants_exist(p, &c->grants)) {
        return HF_POLICY_NOT_FOUND;
    }
    struct policy_principal_row *row = policy_principal_named(p, home->number, c->name);
    if (row == NULL) {
        if (p->principals.count == LIMIT_PRINCIPALS || p->last_principal == UINT32_MAX) {
            return HF_POLICY_FULL;
        }
        row = policy_add_principal(p, p->last_principal + 1, home->number, c->name);
        (void)note(j, DONE_PRINCIPAL_ADDED, row);
    }
    struct entry *e = note(j, DONE_PRINCIPAL_SET, row);
    e->terms = policy_terms_new(p, c->description, &c->grants);
    policy_swap_terms(p, row, &e->terms);
    j->out->steps += c->grants.count;
    return p->admins > LIMIT_CLUSTER_ADMINS || p->terms_bytes > LIMIT_POLICY_TERMS ? HF_POLICY_FULL
                                                                                   : HF_OK;
}

static struct policy_principal_row *named(const struct policy *p, const struct policy_change *c)
{
    const struct policy_tenant_row *home = policy_tenant_named(p, c->tenant);
    return home == NULL ? NULL : policy_principal_named(p, home->number, c->name);
}

static void drop_principal(struct journal *j, struct policy_principal_row *row)
{
    j->out->steps += row->tokens;
    policy_unlink_principal(j->p, row);
    (void)note(j, DONE_PRINCIPAL_REMOVED, row);
}

static enum hf_error remove_principal(struct journal *j, const struct policy_change *c)
{
    struct policy_principal_row *row = named(j->p, c);
    if (row == NULL) {
        return HF_POLICY_NOT_FOUND;
    }
    drop_principal(j, row);
    return HF_OK;
}

static enum hf_error add_token(struct journal *j, const struct policy_change *c)
{
    struct policy *p = j->p;
    const struct policy_principal_row *owner = named(p, c);
    if (owner == NULL) {
        return HF_POLICY_NOT_FOUND;
    }
    if (policy_token_hashed(p, c->sha256.data) != NULL) {
        return HF_POLICY_EXISTS;
    }
    if (p->tokens.count == LIMIT_TOKENS || p->last_token + 1 == LIMIT_NUMBER ||
        owner->tokens == LIMIT_PRINCIPAL_TOKENS) {
        return HF_POLICY_FULL;
    }
    struct policy_token_row row = {.number = p->last_token + 1,
                                   .principal = owner->number,
                                   .description_len = (uint32_t)c->description.len,
                                   .created_wall_ms = j->now->wall_ms,
                                   .expires_wall_ms = c->expires_wall_ms};
    memcpy(row.sha256, c->sha256.data, sizeof(row.sha256));
    if (c->description.len > 0) {
        memcpy(row.description, c->description.data, c->description.len);
    }
    (void)note(j, DONE_TOKEN_ADDED, policy_add_token(p, &row));
    j->out->first_token = j->out->first_token == 0 ? row.number : j->out->first_token;
    return HF_OK;
}

static enum hf_error remove_token(struct journal *j, const struct policy_change *c)
{
    struct policy_token_row *row = policy_token_row(j->p, c->token);
    if (row == NULL) {
        return HF_POLICY_NOT_FOUND;
    }
    policy_unlink_token(j->p, row);
    (void)note(j, DONE_TOKEN_REMOVED, row);
    return HF_OK;
}

static enum hf_error bar_serial(struct journal *j, const struct policy_change *c)
{
    struct policy *p = j->p;
    if (policy_is_barred(p, c->serial)) {
        return HF_POLICY_EXISTS;
    }
    if (p->serials.count == LIMIT_BARRED_SERIALS) {
        return HF_POLICY_FULL;
    }
    struct policy_serial_row *row = policy_serial_new(p, c->serial);
    note(j, DONE_SERIAL_ADDED, row)->position = p->serials.count;
    policy_link_serial(p, p->serials.count, row);
    return HF_OK;
}

static enum hf_error allow_serial(struct journal *j, const struct policy_change *c)
{
    uint32_t at = policy_serial_at(j->p, c->serial);
    if (at == UINT32_MAX) {
        return HF_POLICY_NOT_FOUND;
    }
    note(j, DONE_SERIAL_REMOVED, policy_unlink_serial(j->p, at))->position = at;
    return HF_OK;
}

static enum hf_error apply_one(struct journal *j, const struct policy_change *c)
{
    switch (c->kind) {
    case POLICY_TENANT_PUT:
        return put_tenant(j, c);
    case POLICY_TENANT_REMOVE:
        return remove_tenant(j, c);
    case POLICY_PRINCIPAL_PUT:
        return put_principal(j, c);
    case POLICY_PRINCIPAL_REMOVE:
        return remove_principal(j, c);
    case POLICY_TOKEN_ADD:
        return add_token(j, c);
    case POLICY_TOKEN_REMOVE:
        return remove_token(j, c);
    case POLICY_SERIAL_BAR:
        return bar_serial(j, c);
    case POLICY_SERIAL_ALLOW:
        return allow_serial(j, c);
    case POLICY_CHANGE_NONE:
    case POLICY_CHANGE_COUNT:
        break;
    }
    hf_panic(__FILE__, __LINE__, "a change of no kind passed its check");
}

/* Removes every administrator of the cluster. */
static void rescue(struct journal *j)
{
    j->out->steps += j->p->principals.count / 16; /* looking at one is little work */
    for (uint32_t i = j->p->principals.count; i > 0 && j->p->admins > 0; i--) {
        struct policy_principal_row *row = j->p->principals.at[i - 1];
        if (policy_row_is_admin(row)) {
            drop_principal(j, row);
            j->out->changes++;
        }
    }
    hf_assert(j->p->admins == 0);
}

/* Whether the change leaves the cluster without an administrator. A policy that never had one may stay
 * so; a bootstrap and a rescue must make one. */
static bool locks_out(const struct policy *p, const struct command_policy_change *change,
                      uint32_t admins_before)
{
    bool needs_one = change->origin != POLICY_BY_PRINCIPAL || admins_before > 0;
    return needs_one && p->admins == 0;
}

void policy_apply(struct policy *p, const struct command_policy_change *change,
                  const struct policy_situation *now, struct policy_outcome *out)
{
    *out = (struct policy_outcome){.error = HF_OK};
    if (change->origin == POLICY_BOOTSTRAP && p->last_principal > 0) {
        out->error = HF_POLICY_EXISTS;
        return;
    }
    if (change->expect != UINT64_MAX && change->expect != p->version) {
        out->error = HF_POLICY_CONFLICT;
        return;
    }
    struct journal j = {.p = p, .now = now, .out = out};
    const uint32_t last_tenant = p->last_tenant;
    const uint32_t last_principal = p->last_principal;
    const uint64_t last_token = p->last_token;
    const uint32_t admins = p->admins;
    if (change->origin == POLICY_RESCUE) {
        rescue(&j);
    }
    struct reader r = packed_reader(&change->changes);
    struct policy_change one;
    while (out->error == HF_OK && unpack_policy_change(&r, &one)) {
        out->error = apply_one(&j, &one);
        out->changes++;
    }
    if (out->error == HF_OK && locks_out(p, change, admins)) {
        out->error = HF_INVALID_POLICY;
    }
    if (out->error == HF_OK) {
        p->version++;
        for (uint32_t i = 0; i < j.count; i++) {
            commit(p, &j.entries[i]);
        }
        return;
    }
    while (j.count > 0) {
        undo(p, &j.entries[--j.count]);
    }
    p->last_tenant = last_tenant;
    p->last_principal = last_principal;
    p->last_token = last_token;
}
