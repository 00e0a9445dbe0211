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

/* ---- rows ---- */

struct policy *policy_new(const struct memory *memory)
{
    struct policy *p = memory_alloc(memory, sizeof(*p));
    memset(p, 0, sizeof(*p));
    p->memory = memory;
    (void)policy_add_tenant(p, 0, slice_of("default"));
    return p;
}

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
    for (uint32_t i = 0; i < p->tenants.count; i++) {
        struct policy_tenant_row *row = p->tenants.at[i];
        if (slice_equal(slice_make(row->name, row->name_len), name)) {
            return row;
        }
    }
    return NULL;
}

struct policy_principal_row *policy_principal_row(const struct policy *p, uint32_t number)
{
    return list_find(&p->principals, order_principal, &number);
}

struct policy_principal_row *policy_principal_named(const struct policy *p, uint32_t tenant,
                                                    struct slice name)
{
    return list_find(&p->by_name, order_name, &(struct name_key){tenant, name});
}

struct policy_token_row *policy_token_row(const struct policy *p, uint64_t number)
{
    return list_find(&p->tokens, order_token, &number);
}

struct policy_token_row *policy_token_hashed(const struct policy *p,
                                             const uint8_t sha256[TOKEN_SHA_BYTES])
{
    return list_find(&p->by_hash, order_hash, sha256);
}

static bool grant_is_admin(const struct policy_grant_row *g)
{
    return g->tenant == TENANT_ALL && g->prefix.len == 0 && (g->rights & RIGHT_ADMIN) != 0;
}

bool policy_row_is_admin(const struct policy_principal_row *row)
{
    for (uint32_t i = 0; i < row->grant_count; i++) {
        if (grant_is_admin(&row->grants[i])) {
            return true;
        }
    }
    return false;
}

struct policy_tenant_row *policy_add_tenant(struct policy *p, uint32_t number, struct slice name)
{
    hf_assert(policy_name_is_valid(name));
    struct policy_tenant_row *row = row_new(p, sizeof(*row));
    row->number = number;
    row->name_len = (uint32_t)name.len;
    memcpy(row->name, name.data, name.len);
    list_add(p, &p->tenants, order_tenant, &number, row);
    p->last_tenant = number > p->last_tenant ? number : p->last_tenant;
    return row;
}

void policy_drop_tenant(struct policy *p, struct policy_tenant_row *row)
{
    hf_assert(row->number != 0 && row->principals == 0 && row->grants == 0);
    list_drop(&p->tenants, order_tenant, &row->number, row);
    memory_free(p->memory, row, sizeof(*row));
}

struct policy_principal_row *policy_add_principal(struct policy *p, uint32_t number,
                                                  uint32_t tenant, struct slice name)
{
    struct policy_tenant_row *home = policy_tenant_row(p, tenant);
    hf_assert(number != 0 && home != NULL && policy_name_is_valid(name));
    struct policy_principal_row *row = row_new(p, sizeof(*row));
    row->number = number;
    row->tenant = tenant;
    row->name_len = (uint32_t)name.len;
    memcpy(row->name, name.data, name.len);
    list_add(p, &p->principals, order_principal, &number, row);
    list_add(p, &p->by_name, order_name, &(struct name_key){tenant, name}, row);
    home->principals++;
    p->last_principal = number > p->last_principal ? number : p->last_principal;
    return row;
}

static void grants_clear(struct policy *p, struct policy_principal_row *row)
{
    p->admins -= policy_row_is_admin(row);
    for (uint32_t i = 0; i < row->grant_count; i++) {
        if (row->grants[i].tenant != TENANT_ALL) {
            struct policy_tenant_row *tenant = policy_tenant_row(p, row->grants[i].tenant);
            hf_assert(tenant != NULL && tenant->grants > 0);
            tenant->grants--;
        }
    }
    if (row->grant_count > 0) {
        memory_free(p->memory, row->grants, row->grant_count * sizeof(*row->grants));
    }
    if (row->texts_len > 0) {
        memory_free(p->memory, row->texts, row->texts_len);
    }
    row->grant_count = 0;
    row->texts_len = 0;
    row->description = slice_make(NULL, 0);
}

static struct slice text_add(struct policy_principal_row *row, size_t *used, struct slice text)
{
    hf_assert(*used + text.len <= row->texts_len);
    if (text.len == 0) {
        return slice_make(NULL, 0);
    }
    memcpy(row->texts + *used, text.data, text.len);
    struct slice copy = slice_make(row->texts + *used, text.len);
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

void policy_set_principal(struct policy *p, struct policy_principal_row *row,
                          struct slice description, const struct packed *grants)
{
    hf_assert(grants->count <= LIMIT_PRINCIPAL_GRANTS);
    grants_clear(p, row);
    row->texts_len = (uint32_t)texts_len(description, grants);
    row->texts = row->texts_len > 0 ? memory_alloc(p->memory, row->texts_len) : NULL;
    row->grants =
        grants->count > 0 ? memory_alloc(p->memory, grants->count * sizeof(*row->grants)) : NULL;
    size_t used = 0;
    row->description = text_add(row, &used, description);
    struct reader r = packed_reader(grants);
    struct policy_grant grant;
    while (unpack_policy_grant(&r, &grant)) {
        struct policy_tenant_row *tenant =
            slice_equal(grant.tenant, slice_of("*")) ? NULL : policy_tenant_named(p, grant.tenant);
        row->grants[row->grant_count++] =
            (struct policy_grant_row){.tenant = tenant != NULL ? tenant->number : TENANT_ALL,
                                      .rights = grant.rights,
                                      .prefix = text_add(row, &used, grant.prefix)};
        if (tenant != NULL) {
            tenant->grants++;
        }
    }
    hf_assert(row->grant_count == grants->count && used == row->texts_len);
    p->admins += policy_row_is_admin(row);
}

void policy_drop_principal(struct policy *p, struct policy_principal_row *row)
{
    for (uint32_t i = p->tokens.count; i > 0 && row->tokens > 0; i--) {
        struct policy_token_row *token = p->tokens.at[i - 1];
        if (token->principal == row->number) {
            policy_drop_token(p, token);
        }
    }
    hf_assert(row->tokens == 0);
    grants_clear(p, row);
    struct policy_tenant_row *home = policy_tenant_row(p, row->tenant);
    hf_assert(home != NULL && home->principals > 0);
    home->principals--;
    list_drop(&p->principals, order_principal, &row->number, row);
    struct name_key key = {row->tenant, slice_make(row->name, row->name_len)};
    list_drop(&p->by_name, order_name, &key, row);
    memory_free(p->memory, row, sizeof(*row));
}

void policy_add_token(struct policy *p, const struct policy_token_row *fields)
{
    struct policy_principal_row *owner = policy_principal_row(p, fields->principal);
    hf_assert(owner != NULL && fields->number != 0);
    struct policy_token_row *row = row_new(p, sizeof(*row));
    *row = *fields;
    list_add(p, &p->tokens, order_token, &row->number, row);
    list_add(p, &p->by_hash, order_hash, row->sha256, row);
    owner->tokens++;
    p->last_token = row->number > p->last_token ? row->number : p->last_token;
}

void policy_drop_token(struct policy *p, struct policy_token_row *row)
{
    struct policy_principal_row *owner = policy_principal_row(p, row->principal);
    hf_assert(owner != NULL && owner->tokens > 0);
    owner->tokens--;
    list_drop(&p->tokens, order_token, &row->number, row);
    list_drop(&p->by_hash, order_hash, row->sha256, row);
    memory_free(p->memory, row, sizeof(*row));
}

static uint32_t serial_at(const struct policy *p, struct slice serial)
{
    uint32_t i = 0;
    for (; i < p->serials.count; i++) {
        const struct policy_serial_row *row = p->serials.at[i];
        if (slice_equal(slice_make(row->digits, row->len), serial)) {
            break;
        }
    }
    return i;
}

void policy_add_serial(struct policy *p, struct slice serial)
{
    hf_assert(policy_serial_is_valid(serial) && !policy_is_barred(p, serial));
    struct policy_serial_row *row = row_new(p, sizeof(*row));
    row->len = (uint32_t)serial.len;
    memcpy(row->digits, serial.data, serial.len);
    list_insert(p, &p->serials, p->serials.count, row);
}

void policy_drop_serial(struct policy *p, struct slice serial)
{
    uint32_t at = serial_at(p, serial);
    hf_assert(at < p->serials.count);
    memory_free(p->memory, p->serials.at[at], sizeof(struct policy_serial_row));
    list_cut(&p->serials, at);
}

void policy_free(struct policy *p)
{
    while (p->principals.count > 0) {
        policy_drop_principal(p, p->principals.at[p->principals.count - 1]);
    }
    for (uint32_t i = 0; i < p->tenants.count; i++) {
        memory_free(p->memory, p->tenants.at[i], sizeof(struct policy_tenant_row));
    }
    for (uint32_t i = 0; i < p->serials.count; i++) {
        memory_free(p->memory, p->serials.at[i], sizeof(struct policy_serial_row));
    }
    list_close(p, &p->tenants);
    list_close(p, &p->principals);
    list_close(p, &p->by_name);
    list_close(p, &p->tokens);
    list_close(p, &p->by_hash);
    list_close(p, &p->serials);
    memory_free(p->memory, p, sizeof(*p));
}
