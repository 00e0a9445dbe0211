/* The invariants (invariants.c) of what a tenant's share counts for quotas. */
#include "core/invariants.h"

static uint64_t rounded_blob(const struct core *c, ref obj)
{
    return obj == 0 ? 0 : pool_rounded(sizeof(struct blob) + blob_at(c, obj)->len);
}

static uint64_t carried_bytes(const struct core *c, const struct carried_refs *refs)
{
#define F(role, since, type, name, limit) +rounded_blob(c, refs->name)
    return 0 CARRIED_FIELDS(F);
#undef F
}

/* By id; one by seq is counted with its session. */
static uint64_t request_bytes(const struct core *c, ref request)
{
    const struct request *r = request == 0 ? NULL : request_at(c, request);
    return r == NULL || r->id_len == 0 ? 0 : pool_rounded(request_size(r));
}

static uint64_t grant_bytes(const struct core *c, ref obj)
{
    const struct grant *g = grant_at(c, obj);
    uint64_t bytes = pool_rounded(grant_size(g));
    const struct detail *d = grant_detail(c, g);
    if (d != NULL) {
        bytes +=
            pool_rounded(sizeof(*d)) + carried_bytes(c, &d->carried) + request_bytes(c, d->request);
    }
    if (d != NULL && d->group != 0 && grant_first_part(c, obj) == obj) {
        bytes += pool_rounded(sizeof(struct group) + sizeof(ref) * group_at(c, d->group)->count);
    }
    return bytes;
}

static uint64_t session_bytes(const struct core *c, const struct session *s)
{
    uint64_t bytes = pool_rounded(session_size(s));
    const struct session_extra *x = session_extra_get(c, s);
    if (x != NULL) {
        bytes += pool_rounded(sizeof(*x)) + rounded_blob(c, x->metadata);
        RING_EACH(c, obj, x->replies, request, ring)
        {
            bytes += pool_rounded(request_size(request_at(c, obj)));
        }
    }
    RING_EACH(c, obj, s->holds, grant, in_session)
    {
        bytes += grant_bytes(c, obj);
    }
    RING_EACH(c, obj, s->waits, waiter, in_session)
    {
        const struct waiter *w = waiter_at(c, obj);
        bytes += pool_rounded(waiter_size(w)) + carried_bytes(c, &w->carried) +
                 request_bytes(c, w->request) + w->parts * pool_rounded(sizeof(struct place));
    }
    return bytes;
}

struct tally {
    const struct core *c;
    uint32_t tenant;
    struct tenant_usage usage;
};

static void count_lock(void *ctx, ref obj)
{
    struct tally *tally = ctx;
    const struct core *c = tally->c;
    const struct lock *l = lock_at(c, obj);
    if (l->tenant != tally->tenant) {
        return;
    }
    tally->usage.names++;
    tally->usage.bytes += pool_rounded(lock_size(l));
    const struct lock_extra *x = lock_extra_get(c, l);
    if (x != NULL) {
        tally->usage.bytes += pool_rounded(sizeof(*x));
        if (x->slots != 0) {
            tally->usage.bytes += pool_rounded(lock_slots_size(x->limit));
        }
    }
}

static void count_counter(void *ctx, ref obj)
{
    struct tally *tally = ctx;
    const struct counter *n = counter_at(tally->c, obj);
    if (n->tenant == tally->tenant) {
        tally->usage.names++;
        tally->usage.bytes += pool_rounded(sizeof(*n) + n->name_len);
    }
}

const char *check_usage(struct census *n)
{
    const struct core *c = n->c;
    struct tally tally = {.c = c, .tenant = n->tenant->number};
    struct tenant_usage usage;
    core_tenant_usage(c, n->tenant->number, &usage);
    RING_EACH(c, obj, c->all_sessions, session, all)
    {
        const struct session *s = session_at(c, obj);
        if (s->tenant == tally.tenant) {
            tally.usage.sessions++;
            tally.usage.bytes += session_bytes(c, s);
            RING_EACH(c, waiter, s->waits, waiter, in_session)
            {
                tally.usage.waiters++;
            }
        }
    }
    for (uint64_t at = 0; at != TABLE_SCAN_END;) {
        at = table_scan(&c->locks, at, count_lock, &tally);
    }
    for (uint64_t at = 0; at != TABLE_SCAN_END;) {
        at = table_scan(&c->counters, at, count_counter, &tally);
    }
    if (usage.names != tally.usage.names || usage.sessions != tally.usage.sessions ||
        usage.waiters != tally.usage.waiters) {
        return "I36: the names, sessions or waiters of a tenant are counted wrongly";
    }
    return usage.bytes == tally.usage.bytes ? NULL : "I36: the bytes of a tenant are wrong";
}
