/* Reads a document and compares it with the policy, see document.h. */
#include "service/auth/document.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "wire/json_tree.h"

/* A principal of the document; sorted by tenant and name. */
struct document_principal {
    struct slice tenant;
    struct slice name;
    const struct json_t *row;
};

struct policy_document {
    const struct memory *memory;
    struct json_t *tree;
    const struct json_t *tenants;
    const struct json_t *serials;
    struct document_principal *principals;
    size_t principal_count;
    struct packer changes;
    uint8_t packed[LIMIT_POLICY_BYTES];
    uint8_t grants[LIMIT_POLICY_BYTES]; /* of one principal, from the document */
    uint8_t others[LIMIT_POLICY_BYTES]; /* ... and from the policy */
};

static const char *const document_keys[] = {"version", "tenants", "principals", "barred_serials",
                                            NULL};
static const char *const tenant_keys[] = {"name", "number", "quotas", NULL};
static const char *const principal_keys[] = {"tenant",      "name",   "number",
                                             "description", "grants", NULL};
static const char *const grant_keys[] = {"tenant", "prefix", "rights", NULL};
static const char *const quota_keys[] = {
#define X(name) #name,
    QUOTA_LIST(X)
#undef X
        NULL};

bool document_split(struct slice text, struct slice *tenant, struct slice *name)
{
    const uint8_t *slash = text.len == 0 ? NULL : memchr(text.data, '/', text.len);
    if (slash == NULL) {
        return false;
    }
    size_t len = (size_t)(slash - text.data);
    *tenant = slice_make(text.data, len);
    *name = slice_make(slash + 1, text.len - len - 1);
    return policy_name_is_valid(*tenant) && policy_name_is_valid(*name);
}

/* ---- form ---- */

static bool is_object(const struct json_t *value, const char *what, const char *const *keys,
                      struct fault *fault)
{
    if (!json_tree_is_object(value)) {
        (void)fault_set(fault, HF_INVALID_POLICY, "%s: must be an object", what);
        return false;
    }
    const char *other = json_tree_other_key(value, keys);
    if (other != NULL) {
        (void)fault_set(fault, HF_INVALID_POLICY, "%s: there is no member %.60s", what, other);
        return false;
    }
    return true;
}

static bool is_list(const struct json_t *value, const char *what, struct fault *fault)
{
    if (value != NULL && !json_tree_is_array(value)) {
        (void)fault_set(fault, HF_INVALID_POLICY, "%s: must be an array", what);
        return false;
    }
    return true;
}

static bool check_tenant(const struct json_t *row, struct fault *fault)
{
    const struct json_t *quotas = json_tree_get(row, "quotas");
    if (!is_object(row, "tenants", tenant_keys, fault) ||
        (quotas != NULL && !is_object(quotas, "quotas", quota_keys, fault))) {
        return false;
    }
    if (!policy_name_is_valid(json_tree_text(json_tree_get(row, "name")))) {
        (void)fault_set(fault, HF_INVALID_POLICY, "tenants: a row has no valid name");
        return false;
    }
    return true;
}

static bool read_rights(const struct json_t *words, uint32_t *rights)
{
    *rights = 0;
    for (size_t i = 0; i < json_tree_count(words); i++) {
        uint32_t right = right_of_word(json_tree_text(json_tree_at(words, i)));
        if (right == 0) {
            return false;
        }
        *rights |= right;
    }
    return *rights != 0;
}

static bool check_grant(const struct json_t *row, struct fault *fault)
{
    uint32_t rights;
    if (!is_object(row, "grants", grant_keys, fault)) {
        return false;
    }
    if (json_tree_text(json_tree_get(row, "tenant")).len == 0 ||
        json_tree_text(json_tree_get(row, "prefix")).len == 0 ||
        !read_rights(json_tree_get(row, "rights"), &rights)) {
        (void)fault_set(fault, HF_INVALID_POLICY,
                        "grants: a grant has tenant (a name or *), prefix (*, a prefix that ends "
                        "in /, or a name) and rights (some of lock, read, operate, admin)");
        return false;
    }
    return true;
}

static bool check_principal(const struct json_t *row, struct fault *fault)
{
    const struct json_t *grants = json_tree_get(row, "grants");
    if (!is_object(row, "principals", principal_keys, fault) || !is_list(grants, "grants", fault)) {
        return false;
    }
    if (!policy_name_is_valid(json_tree_text(json_tree_get(row, "tenant"))) ||
        !policy_name_is_valid(json_tree_text(json_tree_get(row, "name")))) {
        (void)fault_set(fault, HF_INVALID_POLICY, "principals: a row has no valid tenant and name");
        return false;
    }
    for (size_t i = 0; i < json_tree_count(grants); i++) {
        if (!check_grant(json_tree_at(grants, i), fault)) {
            return false;
        }
    }
    return true;
}

static int compare_keys(struct slice tenant_a, struct slice name_a, struct slice tenant_b,
                        struct slice name_b)
{
    int order = slice_compare(tenant_a, tenant_b);
    return order != 0 ? order : slice_compare(name_a, name_b);
}

static int compare_principals(const void *a, const void *b)
{
    const struct document_principal *x = a;
    const struct document_principal *y = b;
    return compare_keys(x->tenant, x->name, y->tenant, y->name);
}

static bool sort_principals(struct policy_document *d, const struct json_t *rows,
                            struct fault *fault)
{
    size_t count = json_tree_count(rows);
    if (count == 0) {
        return true;
    }
    d->principals = memory_alloc(d->memory, count * sizeof(*d->principals));
    d->principal_count = count;
    for (size_t i = 0; i < count; i++) {
        const struct json_t *row = json_tree_at(rows, i);
        d->principals[i] =
            (struct document_principal){json_tree_text(json_tree_get(row, "tenant")),
                                        json_tree_text(json_tree_get(row, "name")), row};
    }
    qsort(d->principals, count, sizeof(*d->principals), compare_principals);
    for (size_t i = 1; i < count; i++) {
        if (compare_principals(&d->principals[i - 1], &d->principals[i]) == 0) {
            (void)fault_set(fault, HF_INVALID_POLICY, "principals: a principal is there twice");
            return false;
        }
    }
    return true;
}

static bool check_form(struct policy_document *d, struct fault *fault)
{
    const struct json_t *principals = json_tree_get(d->tree, "principals");
    d->tenants = json_tree_get(d->tree, "tenants");
    d->serials = json_tree_get(d->tree, "barred_serials");
    if (!is_object(d->tree, "the policy", document_keys, fault) ||
        !is_list(d->tenants, "tenants", fault) || !is_list(principals, "principals", fault) ||
        !is_list(d->serials, "barred_serials", fault)) {
        return false;
    }
    for (size_t i = 0; i < json_tree_count(d->tenants); i++) {
        if (!check_tenant(json_tree_at(d->tenants, i), fault)) {
            return false;
        }
    }
    for (size_t i = 0; i < json_tree_count(principals); i++) {
        if (!check_principal(json_tree_at(principals, i), fault)) {
            return false;
        }
    }
    for (size_t i = 0; i < json_tree_count(d->serials); i++) {
        if (!policy_serial_is_valid(json_tree_text(json_tree_at(d->serials, i)))) {
            (void)fault_set(fault, HF_INVALID_POLICY,
                            "barred_serials: a serial number is lower-case hexadecimal");
            return false;
        }
    }
    return sort_principals(d, principals, fault);
}

struct policy_document *document_new(const struct memory *memory, struct slice text,
                                     struct fault *fault)
{
    struct json_t *tree = json_tree_parse(text, fault);
    if (tree == NULL) {
        fault->code = HF_INVALID_POLICY;
        return NULL;
    }
    struct policy_document *d = memory_alloc(memory, sizeof(*d));
    memset(d, 0, sizeof(*d));
    d->memory = memory;
    d->tree = tree;
    if (!check_form(d, fault)) {
        document_free(d);
        return NULL;
    }
    return d;
}

void document_free(struct policy_document *d)
{
    if (d == NULL) {
        return;
    }
    json_tree_free(d->tree);
    if (d->principals != NULL) {
        memory_free(d->memory, d->principals, d->principal_count * sizeof(*d->principals));
    }
    memory_free(d->memory, d, sizeof(*d));
}

uint64_t document_version(const struct policy_document *d)
{
    return json_tree_u64(json_tree_get(d->tree, "version"), UINT64_MAX);
}

/* ---- difference ---- */

struct comparison {
    struct policy_document *d;
    const struct policy *p;
    struct buffer *texts;
    bool is_full;
};

static void add(struct comparison *c, const struct policy_change *change, const char *what)
{
    c->is_full = c->is_full || c->d->changes.count == LIMIT_POLICY_CHANGES ||
                 !pack_policy_change(&c->d->changes, change);
    if (c->is_full) {
        return;
    }
    if (change->serial.len > 0) {
        buffer_printf(c->texts, "%s %.*s\n", what, (int)change->serial.len,
                      (const char *)change->serial.data);
    } else {
        buffer_printf(c->texts, "%s %.*s%s%.*s\n", what, (int)change->tenant.len,
                      (const char *)change->tenant.data, change->name.len > 0 ? "/" : "",
                      (int)change->name.len, (const char *)change->name.data);
    }
}

static const struct json_t *document_tenant(const struct policy_document *d, struct slice name)
{
    for (size_t i = 0; i < json_tree_count(d->tenants); i++) {
        const struct json_t *row = json_tree_at(d->tenants, i);
        if (slice_equal(json_tree_text(json_tree_get(row, "name")), name)) {
            return row;
        }
    }
    return NULL;
}

static void put_tenants(struct comparison *c)
{
    for (size_t i = 0; i < json_tree_count(c->d->tenants); i++) {
        const struct json_t *row = json_tree_at(c->d->tenants, i);
        const struct json_t *quotas = json_tree_get(row, "quotas");
        struct policy_change change = {.kind = POLICY_TENANT_PUT,
                                       .tenant = json_tree_text(json_tree_get(row, "name"))};
        struct tenant_view now = {.number = 0};
#define X(name) change.quotas.name = json_tree_u64(json_tree_get(quotas, #name), 0);
        QUOTA_LIST(X)
#undef X
        bool exists = policy_find_tenant(c->p, change.tenant, &now);
        bool is_same = true;
#define X(name) is_same = is_same && now.quotas.name == change.quotas.name;
        QUOTA_LIST(X)
#undef X
        if (!exists || !is_same) {
            add(c, &change, exists ? "change tenant" : "add tenant");
        }
    }
}

static void drop_tenant(void *ctx, const struct tenant_view *tenant)
{
    struct comparison *c = ctx;
    if (tenant->number != 0 && document_tenant(c->d, tenant->name) == NULL) {
        add(c, &(struct policy_change){.kind = POLICY_TENANT_REMOVE, .tenant = tenant->name},
            "remove tenant");
    }
}

static struct packed pack_document_grants(struct comparison *c, const struct json_t *rows)
{
    struct packer out = packer_make(c->d->grants, sizeof(c->d->grants));
    for (size_t i = 0; i < json_tree_count(rows); i++) {
        const struct json_t *row = json_tree_at(rows, i);
        struct slice prefix = json_tree_text(json_tree_get(row, "prefix"));
        struct policy_grant grant = {.tenant = json_tree_text(json_tree_get(row, "tenant")),
                                     .prefix = prefix};
        if (slice_equal(prefix, slice_of("*"))) {
            grant.prefix = slice_make("", 0);
        }
        (void)read_rights(json_tree_get(row, "rights"), &grant.rights);
        c->is_full = !pack_policy_grant(&out, &grant) || c->is_full;
    }
    return packer_list(&out);
}

static struct packed pack_policy_grants(struct comparison *c,
                                        const struct principal_view *principal)
{
    struct packer out = packer_make(c->d->others, sizeof(c->d->others));
    for (uint32_t i = 0; i < principal->grants; i++) {
        struct policy_grant_view view;
        struct tenant_view tenant = {.name = slice_of("*")};
        if (!policy_grant_at(c->p, principal->number, i, &view)) {
            continue;
        }
        if (view.tenant != TENANT_ALL) {
            (void)policy_tenant(c->p, view.tenant, &tenant);
        }
        struct policy_grant grant = {
            .tenant = tenant.name, .prefix = view.prefix, .rights = view.rights};
        (void)pack_policy_grant(&out, &grant);
    }
    return packer_list(&out);
}

static void put_principals(struct comparison *c)
{
    for (size_t i = 0; i < c->d->principal_count; i++) {
        const struct document_principal *row = &c->d->principals[i];
        struct policy_change change = {.kind = POLICY_PRINCIPAL_PUT,
                                       .tenant = row->tenant,
                                       .name = row->name,
                                       .description =
                                           json_tree_text(json_tree_get(row->row, "description"))};
        struct tenant_view tenant;
        struct principal_view now;
        change.grants = pack_document_grants(c, json_tree_get(row->row, "grants"));
        bool exists = policy_find_tenant(c->p, row->tenant, &tenant) &&
                      policy_find_principal(c->p, tenant.number, row->name, &now);
        if (exists && slice_equal(now.description, change.description) &&
            slice_equal(pack_policy_grants(c, &now).bytes, change.grants.bytes)) {
            continue;
        }
        add(c, &change, exists ? "change principal" : "add principal");
    }
}

static void drop_principal(void *ctx, const struct principal_view *principal)
{
    struct comparison *c = ctx;
    struct tenant_view tenant = {.number = 0};
    (void)policy_tenant(c->p, principal->tenant, &tenant);
    struct document_principal key = {tenant.name, principal->name, NULL};
    if (c->d->principal_count == 0 || bsearch(&key, c->d->principals, c->d->principal_count,
                                              sizeof(key), compare_principals) == NULL) {
        add(c,
            &(struct policy_change){
                .kind = POLICY_PRINCIPAL_REMOVE, .tenant = tenant.name, .name = principal->name},
            "remove principal");
    }
}

static bool has_serial(const struct policy_document *d, struct slice serial)
{
    for (size_t i = 0; i < json_tree_count(d->serials); i++) {
        if (slice_equal(json_tree_text(json_tree_at(d->serials, i)), serial)) {
            return true;
        }
    }
    return false;
}

static void allow_serial(void *ctx, struct slice serial)
{
    struct comparison *c = ctx;
    if (!has_serial(c->d, serial)) {
        add(c, &(struct policy_change){.kind = POLICY_SERIAL_ALLOW, .serial = serial},
            "allow serial");
    }
}

static void bar_serials(struct comparison *c)
{
    for (size_t i = 0; i < json_tree_count(c->d->serials); i++) {
        struct slice serial = json_tree_text(json_tree_at(c->d->serials, i));
        if (!policy_is_barred(c->p, serial)) {
            add(c, &(struct policy_change){.kind = POLICY_SERIAL_BAR, .serial = serial},
                "bar serial");
        }
    }
}

enum hf_error document_compare(struct policy_document *d, const struct policy *p,
                               struct packed *changes, struct buffer *texts, struct fault *fault)
{
    struct comparison c = {.d = d, .p = p, .texts = texts};
    d->changes = packer_make(d->packed, sizeof(d->packed));
    put_tenants(&c);
    policy_each_principal(p, drop_principal, &c); /* frees names and tenants */
    put_principals(&c);
    policy_each_tenant(p, drop_tenant, &c);
    policy_each_serial(p, allow_serial, &c);
    bar_serials(&c);
    if (c.is_full) {
        return fault_set(fault, HF_POLICY_FULL,
                         "the difference has more than %d changes or %u bytes; apply it in parts",
                         LIMIT_POLICY_CHANGES, LIMIT_POLICY_BYTES);
    }
    *changes = packer_list(&d->changes);
    return HF_OK;
}
