/* The rows of the policy and the questions about them. See policy.h. */
#include "core/policy_state.h"

#include "base/panic.h"

/* ---- lists of rows ---- */

static void list_insert(struct policy *p, struct policy_list *list, uint32_t at, void *row)
{
    hf_assert(at <= list->count);
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 8 : 2 * list->capacity;
        list->at = memory_grow(p->memory, list->at, list->capacity * sizeof(void *),
                               capacity * sizeof(void *));
        list->capacity = capacity;
    }
    memmove(list->at + at + 1, list->at + at, (list->count - at) * sizeof(void *));
    list->at[at] = row;
    list->count++;
}

static void list_cut(struct policy_list *list, uint32_t at)
{
    hf_assert(at < list->count);
    memmove(list->at + at, list->at + at + 1, (list->count - at - 1) * sizeof(void *));
    list->count--;
}

static void list_close(struct policy *p, struct policy_list *list)
{
    if (list->capacity > 0) {
        memory_free(p->memory, list->at, list->capacity * sizeof(void *));
    }
}

/* `order`: of the row, compared with the wanted key. Returns the first row that is not before it. */
typedef int (*order_fn)(const void *row, const void *key);

static uint32_t list_seek(const struct policy_list *list, order_fn order, const void *key)
{
    uint32_t low = 0;
    uint32_t high = list->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (order(list->at[middle], key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void *list_find(const struct policy_list *list, order_fn order, const void *key)
{
    uint32_t at = list_seek(list, order, key);
    return at < list->count && order(list->at[at], key) == 0 ? list->at[at] : NULL;
}

static void list_add(struct policy *p, struct policy_list *list, order_fn order, const void *key,
                     void *row)
{
    uint32_t at = list_seek(list, order, key);
    hf_assert(at == list->count || order(list->at[at], key) != 0);
    list_insert(p, list, at, row);
}

static void list_drop(struct policy_list *list, order_fn order, const void *key, const void *row)
{
    uint32_t at = list_seek(list, order, key);
    hf_assert(at < list->count && list->at[at] == row);
    list_cut(list, at);
}

static int order_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int order_tenant(const void *row, const void *key)
{
    return order_u64(((const struct policy_tenant_row *)row)->number, *(const uint32_t *)key);
}

static int order_principal(const void *row, const void *key)
{
    return order_u64(((const struct policy_principal_row *)row)->number, *(const uint32_t *)key);
}

static int order_token(const void *row, const void *key)
{
    return order_u64(((const struct policy_token_row *)row)->number, *(const uint64_t *)key);
}

static int order_hash(const void *row, const void *key)
{
    return memcmp(((const struct policy_token_row *)row)->sha256, key, TOKEN_SHA_BYTES);
}

struct name_key {
    uint32_t tenant;
    struct slice name;
};

static int order_name(const void *row, const void *key)
{
    const struct policy_principal_row *a = row;
    const struct name_key *b = key;
    int by_tenant = order_u64(a->tenant, b->tenant);
    return by_tenant != 0 ? by_tenant : slice_compare(slice_make(a->name, a->name_len), b->name);
}

static int order_tenant_name(const void *row, const void *key)
{
    const struct policy_tenant_row *tenant = row;
    return slice_compare(slice_make(tenant->name, tenant->name_len), *(const struct slice *)key);
}

/* ---- tenants ---- */

static void *row_new(struct policy *p, size_t size)
{
    void *row = memory_alloc(p->memory, size);
    memset(row, 0, size);
    return row;
}

struct policy_tenant_row *policy_tenant_row(const struct policy *p, uint32_t number)
{
    return list_find(&p->tenants, order_tenant, &number);
}

struct policy_tenant_row *policy_tenant_named(const struct policy *p, struct slice name)
{
    return list_find(&p->tenants_by_name, order_tenant_name, &name);
}

static struct slice tenant_name(const struct policy_tenant_row *row)
{
    return slice_make(row->name, row->name_len);
}

void policy_link_tenant(struct policy *p, struct policy_tenant_row *row)
{
    struct slice name = tenant_name(row);
    list_add(p, &p->tenants, order_tenant, &row->number, row);
    list_add(p, &p->tenants_by_name, order_tenant_name, &name, row);
}

void policy_unlink_tenant(struct policy *p, struct policy_tenant_row *row)
{
    struct slice name = tenant_name(row);
    hf_assert(row->number != 0 && row->principals == 0 && row->grants == 0);
    list_drop(&p->tenants, order_tenant, &row->number, row);
    list_drop(&p->tenants_by_name, order_tenant_name, &name, row);
}

void policy_free_tenant(struct policy *p, struct policy_tenant_row *row)
{
    memory_free(p->memory, row, sizeof(*row));
}

struct policy_tenant_row *policy_add_tenant(struct policy *p, uint32_t number, struct slice name)
{
    hf_assert(policy_name_is_valid(name));
    struct policy_tenant_row *row = row_new(p, sizeof(*row));
    row->number = number;
    row->name_len = (uint32_t)name.len;
    memcpy(row->name, name.data, name.len);
    policy_link_tenant(p, row);
    p->last_tenant = number > p->last_tenant ? number : p->last_tenant;
    return row;
}

/* ---- principals ---- */

struct policy_principal_row *policy_principal_row(const struct policy *p, uint32_t number)
{
    return list_find(&p->principals, order_principal, &number);
}

struct policy_principal_row *policy_principal_named(const struct policy *p, uint32_t tenant,
                                                    struct slice name)
{
    return list_find(&p->by_name, order_name, &(struct name_key){tenant, name});
}

static bool grant_is_admin(const struct policy_grant_row *g)
{
    return g->tenant == TENANT_ALL && g->prefix.len == 0 && (g->rights & RIGHT_ADMIN) != 0;
}

bool policy_row_is_admin(const struct policy_principal_row *row)
{
    for (uint32_t i = 0; i < row->terms.grant_count; i++) {
        if (grant_is_admin(&row->terms.grants[i])) {
            return true;
        }
    }
    return false;
}

/* Counts what the terms of the row refer to. */
static void terms_count(struct policy *p, const struct policy_principal_row *row)
{
    p->admins += policy_row_is_admin(row);
    p->terms_bytes += row->terms.texts_len + (uint64_t)POLICY_GRANT_COST * row->terms.grant_count;
    for (uint32_t i = 0; i < row->terms.grant_count; i++) {
        if (row->terms.grants[i].tenant != TENANT_ALL) {
            policy_tenant_row(p, row->terms.grants[i].tenant)->grants++;
        }
    }
}

static void terms_uncount(struct policy *p, const struct policy_principal_row *row)
{
    p->admins -= policy_row_is_admin(row);
    p->terms_bytes -= row->terms.texts_len + (uint64_t)POLICY_GRANT_COST * row->terms.grant_count;
    for (uint32_t i = 0; i < row->terms.grant_count; i++) {
        if (row->terms.grants[i].tenant != TENANT_ALL) {
            struct policy_tenant_row *tenant = policy_tenant_row(p, row->terms.grants[i].tenant);
            hf_assert(tenant != NULL && tenant->grants > 0);
            tenant->grants--;
        }
    }
}

static struct slice text_add(struct policy_terms *terms, size_t *used, struct slice text)
{
    hf_assert(*used + text.len <= terms->texts_len);
    if (text.len == 0) {
        return slice_make(NULL, 0);
    }
    memcpy(terms->texts + *used, text.data, text.len);
    struct slice copy = slice_make(terms->texts + *used, text.len);
    *used += text.len;
    return copy;
}

static size_t texts_len(struct slice description, const struct packed *grants)
{
    struct reader r = packed_reader(grants);
    struct policy_grant grant;
    size_t len = description.len;
    while (unpack_policy_grant(&r, &grant)) {
        len += grant.prefix.len;
    }
    return len;
}

struct policy_terms policy_terms_new(struct policy *p, struct slice description,
                                     const struct packed *grants)
{
    hf_assert(grants->count <= LIMIT_PRINCIPAL_GRANTS);
    struct policy_terms terms = {.texts_len = (uint32_t)texts_len(description, grants)};
    terms.texts = terms.texts_len > 0 ? memory_alloc(p->memory, terms.texts_len) : NULL;
    terms.grants =
        grants->count > 0 ? memory_alloc(p->memory, grants->count * sizeof(*terms.grants)) : NULL;
    size_t used = 0;
    terms.description = text_add(&terms, &used, description);
    struct reader r = packed_reader(grants);
    struct policy_grant grant;
    while (unpack_policy_grant(&r, &grant)) {
        bool is_all = slice_equal(grant.tenant, slice_of("*"));
        const struct policy_tenant_row *tenant =
            is_all ? NULL : policy_tenant_named(p, grant.tenant);
        hf_assert(is_all || tenant != NULL);
        terms.grants[terms.grant_count++] =
            (struct policy_grant_row){.tenant = is_all ? TENANT_ALL : tenant->number,
                                      .rights = grant.rights,
                                      .prefix = text_add(&terms, &used, grant.prefix)};
    }
    hf_assert(terms.grant_count == grants->count && used == terms.texts_len);
    return terms;
}

void policy_terms_free(struct policy *p, const struct policy_terms *terms)
{
    if (terms->grant_count > 0) {
        memory_free(p->memory, terms->grants, terms->grant_count * sizeof(*terms->grants));
    }
    if (terms->texts_len > 0) {
        memory_free(p->memory, terms->texts, terms->texts_len);
    }
}

void policy_swap_terms(struct policy *p, struct policy_principal_row *row,
                       struct policy_terms *terms)
{
    struct policy_terms old = row->terms;
    terms_uncount(p, row);
    row->terms = *terms;
    terms_count(p, row);
    *terms = old;
}

static void tokens_link(struct policy *p, const struct policy_principal_row *row)
{
    for (struct policy_token_row *t = row->first_token; t != NULL; t = t->next) {
        list_add(p, &p->tokens, order_token, &t->number, t);
        list_add(p, &p->by_hash, order_hash, t->sha256, t);
    }
}

static void tokens_unlink(struct policy *p, const struct policy_principal_row *row)
{
    for (struct policy_token_row *t = row->first_token; t != NULL; t = t->next) {
        list_drop(&p->tokens, order_token, &t->number, t);
        list_drop(&p->by_hash, order_hash, t->sha256, t);
    }
}

void policy_link_principal(struct policy *p, struct policy_principal_row *row)
{
    struct name_key key = {row->tenant, slice_make(row->name, row->name_len)};
    list_add(p, &p->principals, order_principal, &row->number, row);
    list_add(p, &p->by_name, order_name, &key, row);
    policy_tenant_row(p, row->tenant)->principals++;
    terms_count(p, row);
    tokens_link(p, row);
}

void policy_unlink_principal(struct policy *p, struct policy_principal_row *row)
{
    struct name_key key = {row->tenant, slice_make(row->name, row->name_len)};
    struct policy_tenant_row *home = policy_tenant_row(p, row->tenant);
    hf_assert(home != NULL && home->principals > 0);
    tokens_unlink(p, row);
    terms_uncount(p, row);
    home->principals--;
    list_drop(&p->principals, order_principal, &row->number, row);
    list_drop(&p->by_name, order_name, &key, row);
}

void policy_free_principal(struct policy *p, struct policy_principal_row *row)
{
    while (row->first_token != NULL) {
        struct policy_token_row *token = row->first_token;
        row->first_token = token->next;
        policy_free_token(p, token);
    }
    policy_terms_free(p, &row->terms);
    memory_free(p->memory, row, sizeof(*row));
}

struct policy_principal_row *policy_add_principal(struct policy *p, uint32_t number,
                                                  uint32_t tenant, struct slice name)
{
    hf_assert(number != 0 && policy_name_is_valid(name));
    hf_assert(policy_tenant_row(p, tenant) != NULL);
    struct policy_principal_row *row = row_new(p, sizeof(*row));
    row->number = number;
    row->tenant = tenant;
    row->name_len = (uint32_t)name.len;
    memcpy(row->name, name.data, name.len);
    policy_link_principal(p, row);
    p->last_principal = number > p->last_principal ? number : p->last_principal;
    return row;
}

/* ---- tokens ---- */

struct policy_token_row *policy_token_row(const struct policy *p, uint64_t number)
{
    return list_find(&p->tokens, order_token, &number);
}

struct policy_token_row *policy_token_hashed(const struct policy *p,
                                             const uint8_t sha256[TOKEN_SHA_BYTES])
{
    return list_find(&p->by_hash, order_hash, sha256);
}

void policy_link_token(struct policy *p, struct policy_token_row *row)
{
    struct policy_principal_row *owner = policy_principal_row(p, row->principal);
    hf_assert(owner != NULL);
    row->next = owner->first_token;
    owner->first_token = row;
    owner->tokens++;
    list_add(p, &p->tokens, order_token, &row->number, row);
    list_add(p, &p->by_hash, order_hash, row->sha256, row);
}

void policy_unlink_token(struct policy *p, struct policy_token_row *row)
{
    struct policy_principal_row *owner = policy_principal_row(p, row->principal);
    hf_assert(owner != NULL && owner->tokens > 0);
    struct policy_token_row **at = &owner->first_token;
    while (*at != row) {
        hf_assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = row->next;
    owner->tokens--;
    list_drop(&p->tokens, order_token, &row->number, row);
    list_drop(&p->by_hash, order_hash, row->sha256, row);
}

void policy_free_token(struct policy *p, struct policy_token_row *row)
{
    memory_free(p->memory, row, sizeof(*row));
}

struct policy_token_row *policy_add_token(struct policy *p, const struct policy_token_row *fields)
{
    hf_assert(fields->number != 0);
    struct policy_token_row *row = row_new(p, sizeof(*row));
    *row = *fields;
    policy_link_token(p, row);
    p->last_token = row->number > p->last_token ? row->number : p->last_token;
    return row;
}

/* ---- serials ---- */

uint32_t policy_serial_at(const struct policy *p, struct slice serial)
{
    for (uint32_t i = 0; i < p->serials.count; i++) {
        const struct policy_serial_row *row = p->serials.at[i];
        if (slice_equal(slice_make(row->digits, row->len), serial)) {
            return i;
        }
    }
    return UINT32_MAX;
}

struct policy_serial_row *policy_serial_new(struct policy *p, struct slice serial)
{
    hf_assert(policy_serial_is_valid(serial));
    struct policy_serial_row *row = row_new(p, sizeof(*row));
    row->len = (uint32_t)serial.len;
    memcpy(row->digits, serial.data, serial.len);
    return row;
}

void policy_link_serial(struct policy *p, uint32_t at, struct policy_serial_row *row)
{
    list_insert(p, &p->serials, at, row);
}

struct policy_serial_row *policy_unlink_serial(struct policy *p, uint32_t at)
{
    struct policy_serial_row *row = p->serials.at[at];
    list_cut(&p->serials, at);
    return row;
}

void policy_free_serial(struct policy *p, struct policy_serial_row *row)
{
    memory_free(p->memory, row, sizeof(*row));
}

/* ---- the whole ---- */

struct policy *policy_new(const struct memory *memory)
{
    struct policy *p = memory_alloc(memory, sizeof(*p));
    memset(p, 0, sizeof(*p));
    p->memory = memory;
    (void)policy_add_tenant(p, 0, slice_of("default"));
    return p;
}

void policy_free(struct policy *p)
{
    for (uint32_t i = 0; i < p->principals.count; i++) {
        policy_free_principal(p, p->principals.at[i]);
    }
    for (uint32_t i = 0; i < p->tenants.count; i++) {
        policy_free_tenant(p, p->tenants.at[i]);
    }
    for (uint32_t i = 0; i < p->serials.count; i++) {
        policy_free_serial(p, p->serials.at[i]);
    }
    struct policy_list *lists[] = {&p->tenants, &p->tenants_by_name, &p->principals, &p->by_name,
                                   &p->tokens,  &p->by_hash,         &p->serials};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        list_close(p, lists[i]);
    }
    memory_free(p->memory, p, sizeof(*p));
}
