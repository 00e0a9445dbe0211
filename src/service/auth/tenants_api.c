/* The tenants over HTTP, with what they have and their quotas (S15): all for administrators of the
 * cluster, else those that the caller administers, and its own. */
#include "service/auth/state.h"
#include "service/http/api.h"

struct tenant_rows {
    struct api_request *x;
    struct json_writer *w;
};

static bool may_see(const struct api_request *x, uint32_t tenant)
{
    uint32_t principal = x->caller.id.principal;
    return principal == 0 || tenant == x->caller.id.tenant ||
           policy_allows_tenant(service_policy(x->service), principal, tenant, RIGHT_ADMIN);
}

void service_tenant(const struct service *s, uint32_t tenant, struct service_tenant *out)
{
    const struct core *memory =
        s->gateway.memory_core != NULL ? s->gateway.memory_core(s->gateway.ctx) : NULL;
    const struct quota_tenant *t =
        s->auth == NULL ? NULL : quota_tenant_find(s->auth->quotas, tenant);
    struct tenant_usage more = {.names = 0};
    *out = (struct service_tenant){.watchers = t == NULL ? 0 : t->watchers};
    core_tenant_usage(service_core(s), tenant, &out->usage);
    if (memory != NULL) {
        core_tenant_usage(memory, tenant, &more);
    }
    out->usage.names += more.names;
    out->usage.sessions += more.sessions;
    out->usage.waiters += more.waiters;
    out->usage.bytes += more.bytes;
    for (unsigned i = 0; i < QUOTA_COUNT && t != NULL; i++) {
        out->refused[i] = t->refused[i];
    }
}

static void put_tenant(void *ctx, const struct tenant_view *tenant)
{
    const struct tenant_rows *rows = ctx;
    struct json_writer *w = rows->w;
    struct service_tenant has;
    if (!may_see(rows->x, tenant->number)) {
        return;
    }
    service_tenant(rows->x->service, tenant->number, &has);
    json_write_open(w, '{');
    json_put_string(w, "name", tenant->name);
    json_put_u64(w, "number", tenant->number);
    json_put_open(w, "quotas", '{');
#define X(name) json_put_u64(w, #name, tenant->quotas.name);
    QUOTA_LIST(X)
#undef X
    json_write_close(w);
    json_put_open(w, "usage", '{');
    json_put_u64(w, "locks", has.usage.names);
    json_put_u64(w, "sessions", has.usage.sessions);
    json_put_u64(w, "waiters", has.usage.waiters);
    json_put_u64(w, "watchers", has.watchers);
    json_put_u64(w, "state_bytes", has.usage.bytes);
    json_write_close(w);
    json_write_close(w);
}

static void render(struct api_request *x, const struct result *r, struct json_writer *w)
{
    const struct service *s = x->service;
    struct tenant_rows rows = {.x = x, .w = w};
    bool has_memory =
        s->gateway.memory_core != NULL && s->gateway.memory_core(s->gateway.ctx) != NULL;
    (void)r;
    json_put_bool(w, "has_efficiency", has_memory);
    json_put_open(w, "tenants", '[');
    policy_each_tenant(service_policy(s), put_tenant, &rows);
    json_write_close(w);
}

void api_tenants(struct api_request *x)
{
    api_request_read(x, render);
}
