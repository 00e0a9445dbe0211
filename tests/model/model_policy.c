/* The policy, as plainly as possible (S14): a change is made on a copy of everything, which replaces the
 * original if all parts fit. Rights are looked up grant by grant. */
#include "model_state.h"

enum { ALL_TENANTS = -1 };

/* ---- rows ---- */

static void principal_free(struct model_principal *p)
{
    owned_free(&p->name);
    owned_free(&p->description);
    for (size_t i = 0; i < p->grant_count; i++) {
        owned_free(&p->grants[i].prefix);
    }
    free(p);
}

static void tenant_free(struct model_tenant *t)
{
    owned_free(&t->name);
    free(t);
}

static void token_free(struct model_token *t)
{
    owned_free(&t->description);
    free(t);
}

static void serial_free(struct owned *serial)
{
    owned_free(serial);
    free(serial);
}

void model_policy_close(struct model_policy *p)
{
    for (size_t i = 0; i < p->tenants.count; i++) {
        tenant_free(p->tenants.at[i]);
    }
    for (size_t i = 0; i < p->principals.count; i++) {
        principal_free(p->principals.at[i]);
    }
    for (size_t i = 0; i < p->tokens.count; i++) {
        token_free(p->tokens.at[i]);
    }
    for (size_t i = 0; i < p->serials.count; i++) {
        serial_free(p->serials.at[i]);
    }
    model_list_free(&p->tenants);
    model_list_free(&p->principals);
    model_list_free(&p->tokens);
    model_list_free(&p->serials);
}

static struct model_tenant *tenant_add(struct model_policy *p, int64_t number, struct slice name)
{
    struct model_tenant *t = model_alloc(sizeof(*t));
    t->number = number;
    t->name = owned_copy(name);
    model_list_add(&p->tenants, t);
    return t;
}

void model_policy_open(struct model_policy *p)
{
    memset(p, 0, sizeof(*p));
    (void)tenant_add(p, 0, slice_of("default"));
}

static void policy_copy(const struct model_policy *from, struct model_policy *to)
{
    *to = *from;
    memset(&to->tenants, 0, sizeof(to->tenants));
    memset(&to->principals, 0, sizeof(to->principals));
    memset(&to->tokens, 0, sizeof(to->tokens));
    memset(&to->serials, 0, sizeof(to->serials));
    for (size_t i = 0; i < from->tenants.count; i++) {
        const struct model_tenant *t = from->tenants.at[i];
        tenant_add(to, t->number, owned_slice(&t->name))->quotas = t->quotas;
    }
    for (size_t i = 0; i < from->principals.count; i++) {
        const struct model_principal *old = from->principals.at[i];
        struct model_principal *p = model_alloc(sizeof(*p));
        *p = *old;
        p->name = owned_copy(owned_slice(&old->name));
        p->description = owned_copy(owned_slice(&old->description));
        for (size_t k = 0; k < old->grant_count; k++) {
            p->grants[k].prefix = owned_copy(owned_slice(&old->grants[k].prefix));
        }
        model_list_add(&to->principals, p);
    }
    for (size_t i = 0; i < from->tokens.count; i++) {
        const struct model_token *old = from->tokens.at[i];
        struct model_token *t = model_alloc(sizeof(*t));
        *t = *old;
        t->description = owned_copy(owned_slice(&old->description));
        model_list_add(&to->tokens, t);
    }
    for (size_t i = 0; i < from->serials.count; i++) {
        struct owned *serial = model_alloc(sizeof(*serial));
        *serial = owned_copy(owned_slice(from->serials.at[i]));
        model_list_add(&to->serials, serial);
    }
}

static struct model_tenant *tenant_named(const struct model_policy *p, struct slice name)
{
    for (size_t i = 0; i < p->tenants.count; i++) {
        struct model_tenant *t = p->tenants.at[i];
        if (slice_equal(owned_slice(&t->name), name)) {
            return t;
        }
    }
    return NULL;
}

static struct model_principal *principal_numbered(const struct model_policy *p, uint32_t number)
{
    for (size_t i = 0; i < p->principals.count; i++) {
        struct model_principal *principal = p->principals.at[i];
        if (principal->number == number) {
            return principal;
        }
    }
    return NULL;
}

static struct model_principal *principal_named(const struct model_policy *p, struct slice tenant,
                                               struct slice name)
{
    const struct model_tenant *home = tenant_named(p, tenant);
    for (size_t i = 0; home != NULL && i < p->principals.count; i++) {
        struct model_principal *principal = p->principals.at[i];
        if (principal->tenant == home->number && slice_equal(owned_slice(&principal->name), name)) {
            return principal;
        }
    }
    return NULL;
}

static bool is_cluster_admin(const struct model_principal *p)
{
    for (size_t i = 0; i < p->grant_count; i++) {
        if (p->grants[i].tenant == ALL_TENANTS && p->grants[i].prefix.len == 0 &&
            (p->grants[i].rights & RIGHT_ADMIN) != 0) {
            return true;
        }
    }
    return false;
}

static size_t count_admins(const struct model_policy *p)
{
    size_t count = 0;
    for (size_t i = 0; i < p->principals.count; i++) {
        count += is_cluster_admin(p->principals.at[i]);
    }
    return count;
}

static size_t count_tokens(const struct model_policy *p, uint32_t principal)
{
    size_t count = 0;
    for (size_t i = 0; i < p->tokens.count; i++) {
        count += ((const struct model_token *)p->tokens.at[i])->principal == principal;
    }
    return count;
}

/* ---- changes ---- */

static bool tenant_is_needed(struct model *m, const struct model_policy *p, int64_t number)
{
    struct tenant_usage usage;
    for (size_t i = 0; i < p->principals.count; i++) {
        const struct model_principal *principal = p->principals.at[i];
        if (principal->tenant == number) {
            return true;
        }
        for (size_t k = 0; k < principal->grant_count; k++) {
            if (principal->grants[k].tenant == number) {
                return true;
            }
        }
    }
    model_tenant_usage(m, (uint32_t)number, &usage);
    return usage.names + usage.sessions + usage.waiters > 0 ||
           model_alert_count(m, (uint32_t)number) > 0;
}

static enum hf_error put_principal(struct model_policy *p, const struct policy_change *c)
{
    const struct model_tenant *home = tenant_named(p, c->tenant);
    struct model_principal *principal = principal_named(p, c->tenant, c->name);
    struct reader r = packed_reader(&c->grants);
    struct policy_grant grant;
    bool all_exist = home != NULL;
    while (unpack_policy_grant(&r, &grant)) {
        all_exist = all_exist && (slice_equal(grant.tenant, slice_of("*")) ||
                                  tenant_named(p, grant.tenant) != NULL);
    }
    if (!all_exist) {
        return HF_POLICY_NOT_FOUND;
    }
    if (principal == NULL) {
        if (p->principals.count >= LIMIT_PRINCIPALS) {
            return HF_POLICY_FULL;
        }
        principal = model_alloc(sizeof(*principal));
        principal->number = ++p->last_principal;
        principal->tenant = home->number;
        principal->name = owned_copy(c->name);
        model_list_add(&p->principals, principal);
    } else {
        owned_free(&principal->description);
        for (size_t i = 0; i < principal->grant_count; i++) {
            owned_free(&principal->grants[i].prefix);
        }
    }
    principal->description = owned_copy(c->description);
    principal->grant_count = 0;
    r = packed_reader(&c->grants);
    while (unpack_policy_grant(&r, &grant)) {
        bool is_all = slice_equal(grant.tenant, slice_of("*"));
        principal->grants[principal->grant_count++] = (struct model_policy_grant){
            is_all ? ALL_TENANTS : tenant_named(p, grant.tenant)->number, owned_copy(grant.prefix),
            grant.rights};
    }
    return count_admins(p) > LIMIT_CLUSTER_ADMINS ? HF_POLICY_FULL : HF_OK;
}

static void remove_principal(struct model_policy *p, struct model_principal *principal)
{
    for (size_t i = 0; i < p->tokens.count;) {
        struct model_token *t = p->tokens.at[i];
        if (t->principal == principal->number) {
            model_list_remove_at(&p->tokens, i);
            token_free(t);
        } else {
            i++;
        }
    }
    hf_assert(model_list_remove(&p->principals, principal));
    principal_free(principal);
}

static enum hf_error add_token(struct model *m, struct model_policy *p,
                               const struct policy_change *c)
{
    const struct model_principal *owner = principal_named(p, c->tenant, c->name);
    if (owner == NULL) {
        return HF_POLICY_NOT_FOUND;
    }
    for (size_t i = 0; i < p->tokens.count; i++) {
        if (memcmp(((const struct model_token *)p->tokens.at[i])->sha256, c->sha256.data,
                   TOKEN_SHA_BYTES) == 0) {
            return HF_POLICY_EXISTS;
        }
    }
    if (p->tokens.count >= LIMIT_TOKENS ||
        count_tokens(p, owner->number) >= LIMIT_PRINCIPAL_TOKENS) {
        return HF_POLICY_FULL;
    }
    struct model_token *t = model_alloc(sizeof(*t));
    t->number = ++p->last_token;
    t->principal = owner->number;
    t->created_wall_ms = m->wall_ms;
    t->expires_wall_ms = c->expires_wall_ms;
    t->description = owned_copy(c->description);
    memcpy(t->sha256, c->sha256.data, TOKEN_SHA_BYTES);
    model_list_add(&p->tokens, t);
    return HF_OK;
}

static enum hf_error remove_token(struct model_policy *p, uint64_t number)
{
    for (size_t i = 0; i < p->tokens.count; i++) {
        struct model_token *t = p->tokens.at[i];
        if (t->number == number) {
            model_list_remove_at(&p->tokens, i);
            token_free(t);
            return HF_OK;
        }
    }
    return HF_POLICY_NOT_FOUND;
}

static enum hf_error change_serial(struct model_policy *p, bool bar, struct slice digits)
{
    for (size_t i = 0; i < p->serials.count; i++) {
        struct owned *serial = p->serials.at[i];
        if (slice_equal(owned_slice(serial), digits)) {
            if (bar) {
                return HF_POLICY_EXISTS;
            }
            model_list_remove_at(&p->serials, i);
            serial_free(serial);
            return HF_OK;
        }
    }
    if (!bar) {
        return HF_POLICY_NOT_FOUND;
    }
    if (p->serials.count >= LIMIT_BARRED_SERIALS) {
        return HF_POLICY_FULL;
    }
    struct owned *serial = model_alloc(sizeof(*serial));
    *serial = owned_copy(digits);
    model_list_add(&p->serials, serial);
    return HF_OK;
}

static enum hf_error apply_one(struct model *m, struct model_policy *p,
                               const struct policy_change *c)
{
    struct model_tenant *tenant = tenant_named(p, c->tenant);
    struct model_principal *principal = principal_named(p, c->tenant, c->name);
    switch (c->kind) {
    case POLICY_TENANT_PUT:
        if (tenant == NULL && p->tenants.count >= LIMIT_TENANTS) {
            return HF_POLICY_FULL;
        }
        tenant = tenant != NULL ? tenant : tenant_add(p, ++p->last_tenant, c->tenant);
        tenant->quotas = c->quotas;
        return HF_OK;
    case POLICY_TENANT_REMOVE:
        if (tenant == NULL) {
            return HF_POLICY_NOT_FOUND;
        }
        if (tenant->number == 0) {
            return HF_INVALID_POLICY;
        }
        if (tenant_is_needed(m, p, tenant->number)) {
            return HF_POLICY_EXISTS;
        }
        hf_assert(model_list_remove(&p->tenants, tenant));
        tenant_free(tenant);
        return HF_OK;
    case POLICY_PRINCIPAL_PUT:
        return put_principal(p, c);
    case POLICY_PRINCIPAL_REMOVE:
        if (principal == NULL) {
            return HF_POLICY_NOT_FOUND;
        }
        remove_principal(p, principal);
        return HF_OK;
    case POLICY_TOKEN_ADD:
        return add_token(m, p, c);
    case POLICY_TOKEN_REMOVE:
        return remove_token(p, c->token);
    case POLICY_SERIAL_BAR:
    case POLICY_SERIAL_ALLOW:
        return change_serial(p, c->kind == POLICY_SERIAL_BAR, c->serial);
    case POLICY_CHANGE_NONE:
    case POLICY_CHANGE_COUNT:
        break;
    }
    return HF_MALFORMED;
}

static enum hf_error apply_all(struct model *m, struct model_policy *p,
                               const struct command_policy_change *change, uint32_t *count)
{
    size_t admins = count_admins(p);
    for (size_t i = 0; change->origin == POLICY_RESCUE && i < p->principals.count;) {
        if (is_cluster_admin(p->principals.at[i])) {
            remove_principal(p, p->principals.at[i]);
            ++*count;
        } else {
            i++;
        }
    }
    struct reader r = packed_reader(&change->changes);
    struct policy_change one;
    while (unpack_policy_change(&r, &one)) {
        enum hf_error error = apply_one(m, p, &one);
        if (error != HF_OK) {
            return error;
        }
        ++*count;
    }
    bool needs_admin = admins > 0 || change->origin != POLICY_BY_PRINCIPAL;
    return needs_admin && count_admins(p) == 0 ? HF_INVALID_POLICY : HF_OK;
}

void model_policy_change(struct model *m, const struct command *c, struct result *out)
{
    static const char *const actions[] = {"POLICY", "BOOTSTRAP", "RESCUE"};
    const struct command_policy_change *change = &c->policy_change;
    if (change->origin == POLICY_BOOTSTRAP && m->policy.last_principal > 0) {
        out->error = HF_POLICY_EXISTS;
        return;
    }
    if (change->expect != UINT64_MAX && change->expect != m->policy.version) {
        out->error = HF_POLICY_CONFLICT;
        return;
    }
    struct slice actor = model_actor(m, c, change->actor);
    struct model_policy next;
    uint64_t last_token = m->policy.last_token;
    policy_copy(&m->policy, &next);
    out->error = apply_all(m, &next, change, &out->count);
    if (out->error != HF_OK) {
        model_policy_close(&next);
        return;
    }
    model_policy_close(&m->policy);
    m->policy = next;
    out->token = ++m->policy.version;
    out->highest = next.last_token > last_token ? last_token + 1 : 0;
    if (change->end_sessions != 0) {
        m->purge_at = m->sessions.count > 0 ? m->sessions.at[0] : NULL;
    }
    model_audit(m, 0, actions[change->origin], slice_of("*"), actor, change->reason,
                slice_make(NULL, 0), out->count);
}

/* ---- rights ---- */

static bool covers(struct slice prefix, struct slice name)
{
    if (prefix.len == 0) {
        return true;
    }
    if (prefix.data[prefix.len - 1] != '/') {
        return slice_equal(prefix, name);
    }
    return name.len >= prefix.len && memcmp(prefix.data, name.data, prefix.len) == 0;
}

/* `name` NULL: some name. */
static bool has_right(const struct model *m, uint32_t principal, int64_t tenant, enum right right,
                      const struct slice *name, bool all_names)
{
    const struct model_principal *p = principal_numbered(&m->policy, principal);
    for (size_t i = 0; p != NULL && i < p->grant_count; i++) {
        const struct model_policy_grant *g = &p->grants[i];
        bool in_tenant = g->tenant == tenant || g->tenant == ALL_TENANTS;
        bool has = (g->rights & (uint32_t)right) != 0 ||
                   (right == RIGHT_READ && (g->rights & RIGHT_LOCK) != 0);
        bool on_name = all_names      ? g->prefix.len == 0
                       : name == NULL ? true
                                      : covers(owned_slice(&g->prefix), *name);
        if (in_tenant && has && on_name) {
            return true;
        }
    }
    return false;
}

bool model_may_lock(const struct model *m, uint32_t principal, uint32_t tenant, struct slice name)
{
    return principal == 0 || has_right(m, principal, tenant, RIGHT_LOCK, &name, false);
}

bool model_principal_exists(const struct model *m, uint32_t principal)
{
    return principal == 0 || principal_numbered(&m->policy, principal) != NULL;
}

bool model_owns(const struct command *c, const struct model_session *s)
{
    return s->tenant == c->tenant &&
           (s->principal == c->principal || s->principal == 0 || c->principal == 0);
}

struct slice model_actor(struct model *m, const struct command *c, struct slice said)
{
    const struct model_principal *p = principal_numbered(&m->policy, c->principal);
    if (c->principal == 0 || p == NULL) {
        return said;
    }
    for (size_t i = 0; i < m->policy.tenants.count; i++) {
        const struct model_tenant *t = m->policy.tenants.at[i];
        if (t->number == p->tenant) {
            char *text = model_scratch(m, t->name.len + 1 + p->name.len + 1);
            memcpy(text, t->name.data, t->name.len);
            text[t->name.len] = '/';
            memcpy(text + t->name.len + 1, p->name.data, p->name.len);
            return slice_make(text, t->name.len + 1 + p->name.len);
        }
    }
    return said;
}

static bool may_change_token(const struct model *m, const struct command *c,
                             const struct policy_change *change)
{
    const struct model_principal *owner = NULL;
    if (change->kind == POLICY_TOKEN_ADD) {
        owner = principal_named(&m->policy, change->tenant, change->name);
        for (size_t i = 0; owner != NULL && i < owner->grant_count; i++) {
            if (owner->grants[i].tenant != owner->tenant) {
                return false;
            }
        }
    } else if (change->kind == POLICY_TOKEN_REMOVE) {
        for (size_t i = 0; i < m->policy.tokens.count; i++) {
            const struct model_token *t = m->policy.tokens.at[i];
            owner =
                t->number == change->token ? principal_numbered(&m->policy, t->principal) : owner;
        }
    }
    return owner != NULL && has_right(m, c->principal, owner->tenant, RIGHT_ADMIN, NULL, true);
}

static bool may_change_policy(const struct model *m, const struct command *c)
{
    const struct model_principal *p = principal_numbered(&m->policy, c->principal);
    if (p != NULL && is_cluster_admin(p)) {
        return true;
    }
    const struct command_policy_change *change = &c->policy_change;
    struct reader r = packed_reader(&change->changes);
    struct policy_change one;
    while (unpack_policy_change(&r, &one)) {
        if (!may_change_token(m, c, &one)) {
            return false;
        }
    }
    return change->origin == POLICY_BY_PRINCIPAL && change->end_sessions == 0;
}

static bool may_transact(const struct model *m, const struct command *c)
{
    struct reader r = packed_reader(&c->transact.checks);
    struct key_check check;
    struct effect e;
    while (unpack_check(&r, &check)) {
        if (!has_right(m, c->principal, c->tenant, RIGHT_READ, &check.name, false)) {
            return false;
        }
    }
    r = packed_reader(&c->transact.effects);
    while (unpack_effect(&r, &e)) {
        enum right right =
            e.kind == EFFECT_DROP && (e.flags & EFFECT_FORCED) ? RIGHT_OPERATE : RIGHT_LOCK;
        if (!has_right(m, c->principal, c->tenant, right, &e.name, false)) {
            return false;
        }
    }
    return true;
}

bool model_is_allowed(const struct model *m, const struct command *c)
{
    const struct slice *name = NULL;
    enum right right = RIGHT_LOCK;
    bool has_tenant = false;
    if (c->principal == 0) {
        return true;
    }
    for (size_t i = 0; i < m->policy.tenants.count; i++) {
        has_tenant |= ((const struct model_tenant *)m->policy.tenants.at[i])->number == c->tenant;
    }
    if (!has_tenant) {
        return false;
    }
    switch (c->type) {
    case COMMAND_LEAD:
    case COMMAND_TICK:
    case COMMAND_ADVANCE:
    case COMMAND_UPGRADE:
    case COMMAND_NODE_GONE:
    case COMMAND_LONG_HELD:
    case COMMAND_SINK_POSITION:
        return false;
    case COMMAND_ALERT_SET:
    case COMMAND_ALERT_REMOVE:
        return has_right(m, c->principal, c->tenant, RIGHT_OPERATE, NULL, true);
    case COMMAND_SESSION_OPEN:
        return has_right(m, c->principal, c->tenant, RIGHT_LOCK, NULL, false);
    case COMMAND_ACQUIRE:
        for (uint32_t i = 0; i < c->acquire.names.count; i++) {
            if (!model_may_lock(m, c->principal, c->tenant, c->acquire.names.at[i])) {
                return false;
            }
        }
        return true;
    case COMMAND_TRANSACT:
        return may_transact(m, c);
    case COMMAND_POLICY_CHANGE:
        return may_change_policy(m, c);
    case COMMAND_RENEW:
        if (c->renew.name.len == 0) {
            return true;
        }
        name = &c->renew.name;
        break;
    case COMMAND_PROCLAIM:
        name = &c->proclaim.name;
        break;
    case COMMAND_FENCE_CHECK:
        name = &c->fence_check.resource;
        break;
    case COMMAND_FORCE_UNLOCK:
        name = &c->force_unlock.name;
        right = RIGHT_OPERATE;
        break;
    case COMMAND_REVOKE:
        name = &c->revoke.name;
        right = RIGHT_OPERATE;
        break;
    case COMMAND_FENCE_RESET:
        name = &c->fence_reset.resource;
        right = RIGHT_OPERATE;
        break;
    case COMMAND_NOTE:
        if (c->note.action == NOTE_DENIED) {
            return true;
        }
        name = &c->note.name;
        right = RIGHT_OPERATE;
        break;
    case COMMAND_KEEPALIVE:
    case COMMAND_SESSION_CLOSE:
    case COMMAND_STREAM_UP:
    case COMMAND_STREAM_THROUGH:
    case COMMAND_STREAM_DOWN:
    case COMMAND_CANCEL:
    case COMMAND_DETACH:
    case COMMAND_RELEASE:
    case COMMAND_NONE:
    case COMMAND_COUNT:
        return true; /* who owns it decides */
    }
    return has_right(m, c->principal, c->tenant, right, name, false);
}

/* ---- the view ---- */

const struct model_policy *model_policy_of(const struct model *m)
{
    return &m->policy;
}
