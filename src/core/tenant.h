/* The share of one tenant (S14.3); a part of core/state.h, for the files of core/ only.
 *
 * What a tenant is remembered for is bounded for each tenant separately: its answers, ends, fence
 * marks with their floor, counters and audit records displace only its own. Names, sessions and
 * waiters are in the tables of the core; the share counts them for quotas.
 *
 * Before version 6 all tenants share the memories of tenant 0. The upgrade moves each remembered
 * object to its tenant. */
#ifndef HOLDFAST_CORE_TENANT_H
#define HOLDFAST_CORE_TENANT_H

#include "base/heap.h"
#include "base/recent.h"
#include "core/core.h"
#include "core/objects.h"

#define TENANT_VERSION 6

/* Tenant 0 is a member of the core; others are created when they are first needed. Whether an
 * empty one exists affects no output. */
struct tenant {
    ref next;         /* chain of core->tenants */
    ref self;         /* 0: tenant 0 */
    struct links all; /* core->all_tenants, by rising number */
    uint32_t number;

    struct recent done_requests[DONE_KINDS]; /* by id, done */
    struct recent ended_grants;              /* by ENDED_BY_* */
    struct recent transacts;
    struct heap fence_heap;

    /* Rings (core/ring.h). */
    ref ended_sessions;
    ref fence_marks;
    ref counters;
    ref audit;
    ref *audit_at; /* LIMIT_AUDIT records by number; NULL: none yet */

    struct alert_rule **alerts; /* LIMIT_ALERTS pointers, by prefix; NULL: none yet */
    uint32_t alert_count;

    uint64_t audit_number; /* of the newest */
    uint64_t fence_floor;
    uint64_t fence_rejections;
    uint32_t ended_session_count;
    uint32_t fence_count;
    uint32_t counter_count;
    uint32_t audit_count;
    uint32_t strays; /* of another kind in DONE_OF_CLIENTS (before version 4) */

    struct tenant_usage usage; /* `bytes` without the current charge (tenant_charge) */
};

/* See tenant_look and tenant_get in core/state.h; for another tenant than 0. */
const struct tenant *tenant_look_other(const struct core *c, uint32_t number);
struct tenant *tenant_get_other(struct core *c, uint32_t number);

/* By rising number, from tenant 0; NULL at the end. */
struct tenant *tenant_first(const struct core *c);
struct tenant *tenant_after(const struct core *c, const struct tenant *t);
#define TENANT_EACH(c, t) \
    for (struct tenant *t = tenant_first(c); t != NULL; t = tenant_after(c, t))

/* See tenant_charge in core/state.h. */
void tenant_charge_other(struct core *c, uint32_t number);

void tenant_init(struct core *c, struct tenant *t, uint32_t number);
void tenant_close(struct core *c, struct tenant *t);
uint32_t tenant_hash(const void *ctx, const void *object);
/* Of its memories, without the objects in the pool. */
uint64_t tenant_overhead(const struct tenant *t);

/* When the version rises to TENANT_VERSION: moves what is remembered to its tenants. */
void tenant_upgrade(struct core *c);

#endif
