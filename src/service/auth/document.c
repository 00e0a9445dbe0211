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

/* Texts of the document, sorted. */
struct document_texts {
    struct slice *at; /* NULL: none */
    size_t count;
};

struct policy_document {
    const struct memory *memory;
    struct json_t *tree;
    const struct json_t *tenants;
    const struct json_t *serials;
    struct document_texts tenant_names;
    struct document_texts serial_texts;
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

/* Absent, or a whole number that is not negative. */
static bool is_number(const struct json_t *value, const char *what, struct fault *fault)
{
    if (value != NULL && json_tree_u64(value, UINT64_MAX) >= LIMIT_NUMBER) {
        (void)fault_set(fault, HF_INVALID_POLICY, "%s: must be a whole number from 0 to 2^53 - 1",
                        what);
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
    for (size_t i = 0; quota_keys[i] != NULL; i++) {
        if (!is_number(json_tree_get(quotas, quota_keys[i]), quota_keys[i], fault)) {
            return false;
        }
    }
    return true;
}

static int compare_texts(const void *a, const void *b)
{
    return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

/* Of the rows of a list, or of their member `key`. False: a text is there twice. */
static bool sort_texts(const struct memory *memory, const struct json_t *list, const char *key,
                       struct document_texts *out)
{
    size_t count = json_tree_count(list);
    if (count == 0) {
        return true;
    }
    out->at = memory_alloc(memory, count * sizeof(*out->at));
    out->count = count;
    for (size_t i = 0; i < count; i++) {
        const struct json_t *row = json_tree_at(list, i);
        out->at[i] = json_tree_text(key == NULL ? row : json_tree_get(row, key));
    }
    qsort(out->at, count, sizeof(*out->at), compare_texts);
    for (size_t i = 1; i < count; i++) {
        if (slice_equal(out->at[i - 1], out->at[i])) {
            return false;
        }
    }
    return true;
}

static bool has_text(const struct document_texts *texts, struct slice text)
{
    return texts->count > 0 &&
           bsearch(&text, texts->at, texts->count, sizeof(text), compare_texts) != NULL;
}

/* A tenant of the document, or `default`. */
static bool has_tenant(const struct policy_document *d, struct slice name)
{
    return slice_equal(name, slice_of("default")) || has_text(&d->tenant_names, name);
}

static bool is_tenant(const struct policy_document *d, struct slice name, struct fault *fault)
{
    if (!has_tenant(d, name)) {
        (void)fault_set(fault, HF_INVALID_POLICY,
                        "tenants: there is no tenant %.*s, which a principal or a grant names; the "
                        "document is the whole policy",
                        fault_clip(name, LIMIT_POLICY_NAME), (const char *)name.data);
        return false;
    }
    return true;
}

static bool is_short(const struct json_t *list, size_t max, const char *what, struct fault *fault)
{
    if (json_tree_count(list) > max) {
        (void)fault_set(fault, HF_INVALID_POLICY, "%s: more than %zu", what, max);
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

static bool check_grant(const struct policy_document *d, const struct json_t *row,
                        struct fault *fault)
{
    uint32_t rights;
    if (!is_object(row, "grants", grant_keys, fault)) {
        return false;
    }
    struct slice tenant = json_tree_text(json_tree_get(row, "tenant"));
    struct slice prefix = json_tree_text(json_tree_get(row, "prefix"));
    bool is_any = slice_equal(prefix, slice_of("*"));
    if (tenant.len == 0 || prefix.len == 0 || (!is_any && !policy_prefix_is_valid(prefix)) ||
        !read_rights(json_tree_get(row, "rights"), &rights)) {
        (void)fault_set(fault, HF_INVALID_POLICY,
                        "grants: a grant has tenant (a name or *), prefix (*, a prefix that ends "
                        "in /, or a name) and rights (some of lock, read, operate, admin)");
        return false;
    }
    return slice_equal(tenant, slice_of("*")) || is_tenant(d, tenant, fault);
}

static bool check_principal(const struct policy_document *d, const struct json_t *row,
                            struct fault *fault)
{
    const struct json_t *description = json_tree_get(row, "description");
    struct slice tenant = json_tree_text(json_tree_get(row, "tenant"));
    const struct json_t *grants = json_tree_get(row, "grants");
    if (!is_object(row, "principals", principal_keys, fault) || !is_list(grants, "grants", fault)) {
        return false;
    }
    if (!policy_name_is_valid(tenant) ||
        !policy_name_is_valid(json_tree_text(json_tree_get(row, "name")))) {
        (void)fault_set(fault, HF_INVALID_POLICY, "principals: a row has no valid tenant and name");
        return false;
    }
    if (description != NULL &&
        (!json_tree_is_text(description) || json_tree_text(description).len > LIMIT_POLICY_TEXT)) {
        (void)fault_set(fault, HF_INVALID_POLICY,
                        "principals: a description is a text of at most %d bytes",
                        LIMIT_POLICY_TEXT);
        return false;
    }
    if (!is_tenant(d, tenant, fault)) {
        return false;
    }
    for (size_t i = 0; i < json_tree_count(grants); i++) {
        if (!check_grant(d, json_tree_at(grants, i), fault)) {
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

static bool check_tenants(struct policy_document *d, struct fault *fault)
{
    for (size_t i = 0; i < json_tree_count(d->tenants); i++) {
        if (!check_tenant(json_tree_at(d->tenants, i), fault)) {
            return false;
        }
    }
    if (!sort_texts(d->memory, d->tenants, "name", &d->tenant_names)) {
        (void)fault_set(fault, HF_INVALID_POLICY, "tenants: a tenant is there twice");
        return false;
    }
    return true;
}

static bool check_serials(struct policy_document *d, struct fault *fault)
{
    bool is_valid = sort_texts(d->memory, d->serials, NULL, &d->serial_texts);
    for (size_t i = 0; i < d->serial_texts.count && is_valid; i++) {
        is_valid = policy_serial_is_valid(d->serial_texts.at[i]);
    }
    if (!is_valid) {
        (void)fault_set(fault, HF_INVALID_POLICY,
                        "barred_serials: a serial number is lower-case hexadecimal without leading "
                        "zeros, and is there once");
    }
    return is_valid;
}

static bool check_form(struct policy_document *d, struct fault *fault)
{
    const struct json_t *principals = json_tree_get(d->tree, "principals");
    d->tenants = json_tree_get(d->tree, "tenants");
    d->serials = json_tree_get(d->tree, "barred_serials");
    if (!is_object(d->tree, "the policy", document_keys, fault) ||
        !is_number(json_tree_get(d->tree, "version"), "version", fault) ||
        !is_list(d->tenants, "tenants", fault) || !is_list(principals, "principals", fault) ||
        !is_list(d->serials, "barred_serials", fault) ||
        !is_short(d->tenants, LIMIT_TENANTS, "tenants", fault) ||
        !is_short(principals, LIMIT_PRINCIPALS, "principals", fault) ||
        !is_short(d->serials, LIMIT_BARRED_SERIALS, "barred_serials", fault) ||
        !check_tenants(d, fault) || !check_serials(d, fault)) {
        return false;
    }
    for (size_t i = 0; i < json_tree_count(principals); i++) {
        if (!check_principal(d, json_tree_at(principals, i), fault)) {
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

static void free_texts(const struct memory *memory, struct document_texts *texts)
{
    if (texts->at != NULL) {
        memory_free(memory, texts->at, texts->count * sizeof(*texts->at));
    }
}

void document_free(struct policy_document *d)
{
    if (d == NULL) {
        return;
    }
    json_tree_free(d->tree);
    free_texts(d->memory, &d->tenant_names);
    free_texts(d->memory, &d->serial_texts);
    if (d->principals != NULL) {
        memory_free(d->memory, d->principals, d->principal_count * sizeof(*d->principals));
    }
    memory_free(d->memory, d, sizeof(*d));
}

uint64_t document_version(const struct policy_document *d)
{
    return json_tree_u64(json_tree_get(d->tree, "version"), UINT64_MAX);
}

bool document_has_administrator(const struct policy_document *d)
{
    for (size_t i = 0; i < d->principal_count; i++) {
        const struct json_t *grants = json_tree_get(d->principals[i].row, "grants");
        for (size_t g = 0; g < json_tree_count(grants); g++) {
            const struct json_t *row = json_tree_at(grants, g);
            uint32_t rights = 0;
            (void)read_rights(json_tree_get(row, "rights"), &rights);
            if (slice_equal(json_tree_text(json_tree_get(row, "tenant")), slice_of("*")) &&
                slice_equal(json_tree_text(json_tree_get(row, "prefix")), slice_of("*")) &&
                (rights & RIGHT_ADMIN) != 0) {
                return true;
            }
        }
    }
    return false;
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
    if (tenant->number != 0 && !has_tenant(c->d, tenant->name)) {
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

static void allow_serial(void *ctx, struct slice serial)
{
    struct comparison *c = ctx;
    if (!has_text(&c->d->serial_texts, serial)) {
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
