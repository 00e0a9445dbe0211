/* Tenants with quotas, for metrics (S15). */
#include "node/node_state.h"

struct tenant_list {
    struct node *node;
    struct node_tenant *out;
    uint32_t count;
    uint32_t max;
};

static void add_tenant(void *ctx, const struct tenant_view *tenant)
{
    struct tenant_list *list = ctx;
    struct node *n = list->node;
    struct service_tenant has;
    if (!quotas_limit(&tenant->quotas) || list->count == list->max) {
        return;
    }
    struct node_tenant *row = &list->out[list->count++];
    service_tenant(n->service, tenant->number, &has);
    const struct quota_tenant *refused =
        n->admission.quotas == NULL ? NULL : quota_tenant_find(n->admission.quotas, tenant->number);
    *row = (struct node_tenant){.used = {[QUOTA_LOCKS] = has.usage.names,
                                         [QUOTA_SESSIONS] = has.usage.sessions,
                                         [QUOTA_WAITERS] = has.usage.waiters,
                                         [QUOTA_WATCHERS] = has.watchers,
                                         [QUOTA_STATE_BYTES] = has.usage.bytes}};
    memcpy(row->name, tenant->name.data, tenant->name.len);
    for (unsigned i = 0; i < QUOTA_COUNT; i++) {
        row->limits[i] = quota_of(&tenant->quotas, (enum quota)i);
        row->refused[i] = has.refused[i] + (refused == NULL ? 0 : refused->refused[i]);
    }
}

uint32_t node_tenants(struct node *n, struct node_tenant *out, uint32_t max)
{
    struct tenant_list list = {.node = n, .out = out, .max = max};
    policy_each_tenant(core_policy(replica_core(n->replica)), add_tenant, &list);
    return list.count;
}
