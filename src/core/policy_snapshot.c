/* The records of the policy in a snapshot: a head, then the rows in the order of their numbers. */
#include "base/panic.h"
#include "base/text.h"
#include "core/policy_state.h"

void policy_each_record(const struct policy *p, policy_put_fn put, void *ctx)
{
    put(ctx, POLICY_RECORD_HEAD, NULL);
    for (uint32_t i = 0; i < p->tenants.count; i++) {
        put(ctx, POLICY_RECORD_TENANT, p->tenants.at[i]);
    }
    for (uint32_t i = 0; i < p->principals.count; i++) {
        put(ctx, POLICY_RECORD_PRINCIPAL, p->principals.at[i]);
    }
    for (uint32_t i = 0; i < p->tokens.count; i++) {
        put(ctx, POLICY_RECORD_TOKEN, p->tokens.at[i]);
    }
    for (uint32_t i = 0; i < p->serials.count; i++) {
        put(ctx, POLICY_RECORD_SERIAL, p->serials.at[i]);
    }
}

static void write_tenant(struct writer *w, const struct policy_tenant_row *row)
{
    write_u64(w, row->number);
    write_slice(w, slice_make(row->name, row->name_len));
#define X(name) write_u64(w, row->quotas.name);
    QUOTA_LIST(X)
#undef X
}

static void write_principal(struct writer *w, const struct policy_principal_row *row)
{
    write_u64(w, row->number);
    write_u64(w, row->tenant);
    write_slice(w, slice_make(row->name, row->name_len));
    write_slice(w, row->terms.description);
    write_u64(w, row->terms.grant_count);
    for (uint32_t i = 0; i < row->terms.grant_count; i++) {
        write_u64(w, row->terms.grants[i].tenant);
        write_slice(w, row->terms.grants[i].prefix);
        write_u64(w, row->terms.grants[i].rights);
    }
}

static void write_token(struct writer *w, const struct policy_token_row *row)
{
    write_u64(w, row->number);
    write_u64(w, row->principal);
    write_u64(w, row->created_wall_ms);
    write_u64(w, row->expires_wall_ms);
    write_slice(w, slice_make(row->sha256, sizeof(row->sha256)));
    write_slice(w, slice_make(row->description, row->description_len));
}

void policy_record_write(struct writer *w, const struct policy *p, enum policy_record_kind kind,
                         const void *row)
{
    write_u8(w, (uint8_t)kind);
    switch (kind) {
    case POLICY_RECORD_HEAD:
        write_u64(w, p->version);
        write_u64(w, p->last_tenant);
        write_u64(w, p->last_principal);
        write_u64(w, p->last_token);
        return;
    case POLICY_RECORD_TENANT:
        write_tenant(w, row);
        return;
    case POLICY_RECORD_PRINCIPAL:
        write_principal(w, row);
        return;
    case POLICY_RECORD_TOKEN:
        write_token(w, row);
        return;
    case POLICY_RECORD_SERIAL: {
        const struct policy_serial_row *serial = row;
        write_slice(w, slice_make(serial->digits, serial->len));
        return;
    }
    case POLICY_RECORD_KINDS:
        break;
    }
    hf_panic(__FILE__, __LINE__, "a record of no kind");
}

static const char *read_head(struct policy *p, struct reader *r)
{
    p->version = read_u64(r);
    p->last_tenant = read_u32(r);
    p->last_principal = read_u32(r);
    p->last_token = read_u64(r);
    bool ok = p->version < LIMIT_NUMBER && p->last_token < LIMIT_NUMBER;
    return ok && p->last_tenant < TENANT_ALL ? NULL : "a number is too large";
}

static bool is_last_tenant(const struct policy *p, uint32_t number)
{
    const struct policy_tenant_row *last = p->tenants.at[p->tenants.count - 1];
    return number > last->number && number <= p->last_tenant;
}

/* The first is that of tenant 0, which exists already. */
static const char *read_tenant(struct policy *p, bool is_first, struct reader *r)
{
    uint32_t number = read_u32(r);
    struct slice name = read_slice(r, LIMIT_POLICY_NAME);
    struct quotas quotas;
#define X(name) quotas.name = read_u64(r);
    QUOTA_LIST(X)
#undef X
    if (r->bad || !policy_name_is_valid(name) || !policy_quotas_are_valid(&quotas) ||
        (number != 0 && p->tenants.count == LIMIT_TENANTS)) {
        return "the tenant is not valid";
    }
    struct policy_tenant_row *row = is_first ? policy_tenant_row(p, 0) : NULL;
    if (is_first != (number == 0) || (is_first && !slice_equal(name, slice_of("default")))) {
        return "the first tenant is not \"default\", or comes twice";
    }
    if (row == NULL) {
        if (!is_last_tenant(p, number) || policy_tenant_named(p, name) != NULL) {
            return "the tenant is not in order";
        }
        row = policy_add_tenant(p, number, name);
    }
    row->quotas = quotas;
    return NULL;
}

/* Reads grants into the packed form of a change, with names of tenants. */
static const char *read_grants(struct policy *p, struct reader *r, struct packer *packer)
{
    uint32_t count = read_u32(r);
    if (r->bad || count > LIMIT_PRINCIPAL_GRANTS) {
        return "it has too many grants";
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = read_u32(r);
        struct policy_grant grant = {.tenant = slice_of("*")};
        grant.prefix = read_slice(r, LIMIT_NAME);
        grant.rights = read_u32(r);
        const struct policy_tenant_row *tenant =
            number == TENANT_ALL ? NULL : policy_tenant_row(p, number);
        if (r->bad || (number != TENANT_ALL && tenant == NULL) ||
            !policy_prefix_is_valid(grant.prefix) || grant.rights == 0 ||
            grant.rights > RIGHTS_ALL) {
            return "a grant is not valid";
        }
        if (tenant != NULL) {
            grant.tenant = slice_make(tenant->name, tenant->name_len);
        }
        bool fits = pack_policy_grant(packer, &grant);
        hf_assert(fits);
    }
    return NULL;
}

static const char *read_principal(struct policy *p, struct reader *r)
{
    uint8_t bytes[POLICY_RECORD_MAX];
    uint32_t number = read_u32(r);
    uint32_t tenant = read_u32(r);
    struct slice name = read_slice(r, LIMIT_POLICY_NAME);
    struct slice description = read_slice(r, LIMIT_POLICY_TEXT);
    struct packer packer = packer_make(bytes, sizeof(bytes));
    const char *wrong = read_grants(p, r, &packer);
    const struct policy_principal_row *last =
        p->principals.count > 0 ? p->principals.at[p->principals.count - 1] : NULL;
    if (wrong != NULL || r->bad) {
        return wrong != NULL ? wrong : "the principal cannot be decoded";
    }
    if (p->principals.count == LIMIT_PRINCIPALS) {
        return "there are too many principals";
    }
    if (number <= (last != NULL ? last->number : 0) || number > p->last_principal ||
        policy_tenant_row(p, tenant) == NULL || !policy_name_is_valid(name) ||
        policy_principal_named(p, tenant, name) != NULL || !text_is_plain(description)) {
        return "the principal is not valid";
    }
    struct policy_principal_row *row = policy_add_principal(p, number, tenant, name);
    struct packed grants = packer_list(&packer);
    struct policy_terms terms = policy_terms_new(p, description, &grants);
    policy_swap_terms(p, row, &terms);
    return p->terms_bytes <= LIMIT_POLICY_TERMS && p->admins <= LIMIT_CLUSTER_ADMINS
               ? NULL
               : "the grants are too large";
}

static const char *read_token(struct policy *p, struct reader *r)
{
    struct policy_token_row row;
    memset(&row, 0, sizeof(row));
    row.number = read_u64(r);
    row.principal = read_u32(r);
    row.created_wall_ms = read_u64(r);
    row.expires_wall_ms = read_u64(r);
    struct slice sha256 = read_slice(r, TOKEN_SHA_BYTES);
    struct slice description = read_slice(r, LIMIT_POLICY_TEXT);
    const struct policy_token_row *last =
        p->tokens.count > 0 ? p->tokens.at[p->tokens.count - 1] : NULL;
    const struct policy_principal_row *owner = policy_principal_row(p, row.principal);
    if (p->tokens.count == LIMIT_TOKENS ||
        (owner != NULL && owner->tokens == LIMIT_PRINCIPAL_TOKENS)) {
        return "there are too many tokens";
    }
    if (r->bad || sha256.len != TOKEN_SHA_BYTES || !text_is_plain(description) ||
        row.number <= (last != NULL ? last->number : 0) || row.number > p->last_token ||
        owner == NULL || row.created_wall_ms >= LIMIT_NUMBER ||
        row.expires_wall_ms >= LIMIT_NUMBER || policy_token_hashed(p, sha256.data) != NULL) {
        return "the token is not valid";
    }
    memcpy(row.sha256, sha256.data, sizeof(row.sha256));
    row.description_len = (uint32_t)description.len;
    if (description.len > 0) {
        memcpy(row.description, description.data, description.len);
    }
    (void)policy_add_token(p, &row);
    return NULL;
}

const char *policy_record_read(struct policy *p, bool is_first, struct reader *r)
{
    const char *wrong = NULL;
    uint8_t kind = read_u8(r);
    bool follows_head = p->read == POLICY_RECORD_HEAD;
    if (is_first != (kind == POLICY_RECORD_HEAD) || kind < p->read ||
        (follows_head && kind != POLICY_RECORD_TENANT)) {
        return "it is out of order";
    }
    p->read = kind;
    switch (kind) {
    case POLICY_RECORD_HEAD:
        wrong = read_head(p, r);
        break;
    case POLICY_RECORD_TENANT:
        wrong = read_tenant(p, follows_head, r);
        break;
    case POLICY_RECORD_PRINCIPAL:
        wrong = read_principal(p, r);
        break;
    case POLICY_RECORD_TOKEN:
        wrong = read_token(p, r);
        break;
    case POLICY_RECORD_SERIAL: {
        struct slice serial = read_slice(r, LIMIT_SERIAL);
        if (r->bad || !policy_serial_is_valid(serial) || policy_is_barred(p, serial)) {
            return "the serial is not valid";
        }
        if (p->serials.count == LIMIT_BARRED_SERIALS) {
            return "there are too many serials";
        }
        policy_link_serial(p, p->serials.count, policy_serial_new(p, serial));
        break;
    }
    default:
        return "it is of no known kind";
    }
    return wrong != NULL ? wrong : reader_done(r) ? NULL : "it cannot be decoded";
}

static bool numbers_are_right(const struct policy *p)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < p->tenants.count; i++) {
        const struct policy_tenant_row *row = p->tenants.at[i];
        if ((i == 0) != (row->number == 0) || (i > 0 && row->number <= last)) {
            return false;
        }
        last = row->number;
    }
    bool ok = last <= p->last_tenant;
    last = 0;
    for (uint32_t i = 0; i < p->principals.count; i++) {
        const struct policy_principal_row *row = p->principals.at[i];
        ok = ok && row->number > last;
        last = row->number;
    }
    ok = ok && last <= p->last_principal;
    last = 0;
    for (uint32_t i = 0; i < p->tokens.count; i++) {
        const struct policy_token_row *row = p->tokens.at[i];
        ok = ok && row->number > last;
        last = row->number;
    }
    return ok && last <= p->last_token;
}

static uint32_t tokens_of(const struct policy_principal_row *row)
{
    uint32_t count = 0;
    for (const struct policy_token_row *t = row->first_token; t != NULL; t = t->next) {
        count += t->principal == row->number;
    }
    return count;
}

const char *policy_check_invariants(const struct policy *p)
{
    uint32_t admins = 0;
    uint32_t tokens = 0;
    uint64_t bytes = 0;
    if (!numbers_are_right(p)) {
        return "I37: a number of the policy is not above those before it, or was never given";
    }
    for (uint32_t i = 0; i < p->principals.count; i++) {
        const struct policy_principal_row *row = p->principals.at[i];
        admins += policy_row_is_admin(row);
        tokens += row->tokens;
        bytes += row->terms.texts_len + (uint64_t)POLICY_GRANT_COST * row->terms.grant_count;
        if (policy_principal_named(p, row->tenant, slice_make(row->name, row->name_len)) != row ||
            tokens_of(row) != row->tokens) {
            return "I37: a principal is not found by its name, or its tokens are counted wrongly";
        }
    }
    if (admins != p->admins || tokens != p->tokens.count || tokens != p->by_hash.count ||
        p->by_name.count != p->principals.count || p->tenants_by_name.count != p->tenants.count ||
        bytes != p->terms_bytes || bytes > LIMIT_POLICY_TERMS) {
        return "I37: the counts of the policy are wrong";
    }
    uint32_t at_home = 0;
    for (uint32_t i = 0; i < p->tenants.count; i++) {
        at_home += ((const struct policy_tenant_row *)p->tenants.at[i])->principals;
    }
    return at_home == p->principals.count ? NULL : "I37: a principal has no home";
}
