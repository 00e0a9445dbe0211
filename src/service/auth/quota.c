/* Quotas that each node enforces for itself: the requests a second of reads, and watches. The leader
 * enforces those of commands (replica/quota.h). And the texts of refusals. */
#include <inttypes.h>
#include <stdio.h>

#include "service/auth/state.h"

static const char *advice(enum quota quota)
{
    switch (quota) {
    case QUOTA_LOCKS:
        return "release locks";
    case QUOTA_SESSIONS:
        return "close sessions, and release locks that were acquired without one";
    case QUOTA_WAITERS:
        return "wait with fewer requests at a time";
    case QUOTA_WATCHERS:
        return "close watches and subscriptions of this node";
    case QUOTA_STATE_BYTES:
        return "release locks or close sessions";
    case QUOTA_REQUESTS_PER_SECOND:
    case QUOTA_COUNT:
        break;
    }
    return "send fewer requests";
}

void auth_quota_text(const struct policy *p, uint32_t tenant, const struct quota_refusal *refusal,
                     char out[AUTH_TEXT])
{
    struct tenant_view view = {.name = slice_of("?")};
    (void)policy_tenant(p, tenant, &view);
    int len = snprintf(out, AUTH_TEXT, "quota %s of tenant %.*s is reached (%" PRIu64 "); ",
                       quota_name(refusal->quota), (int)view.name.len, (const char *)view.name.data,
                       refusal->limit);
    hf_assert(len > 0 && len < AUTH_TEXT);
    if (refusal->quota == QUOTA_REQUESTS_PER_SECOND) {
        (void)snprintf(out + len, AUTH_TEXT - (size_t)len,
                       "this request did nothing; repeat it with the same request_id after "
                       "%" PRIu64 " ms",
                       refusal->retry_ms);
    } else {
        (void)snprintf(out + len, AUTH_TEXT - (size_t)len,
                       "nothing was done; %s, or have an administrator raise the quota",
                       advice(refusal->quota));
    }
}

struct quota_refusal auth_refusal_of(const struct result *result)
{
    hf_assert(result->error == HF_QUOTA);
    bool is_known = result->count < QUOTA_COUNT; /* else of a node with more quotas */
    return (struct quota_refusal){.quota = is_known ? (enum quota)result->count : QUOTA_STATE_BYTES,
                                  .limit = result->highest,
                                  .retry_ms = result->ttl_ms};
}

static bool limit_of(const struct service *s, uint32_t tenant, enum quota quota, uint64_t *limit)
{
    struct tenant_view view;
    *limit = s->auth != NULL && policy_tenant(service_policy(s), tenant, &view)
                 ? quota_of(&view.quotas, quota)
                 : 0;
    return *limit != 0;
}

bool auth_takes_read(struct service *s, uint32_t tenant, struct quota_refusal *refusal)
{
    uint64_t limit;
    if (!limit_of(s, tenant, QUOTA_REQUESTS_PER_SECOND, &limit)) {
        return true;
    }
    struct quota_tenant *t = quota_tenant_get(s->auth->quotas, tenant);
    uint64_t now_us = service_boot_ms(s) * 1000;
    uint64_t wait_us = rate_wait_us(&t->requests, limit, now_us);
    if (wait_us > 0) {
        *refusal = (struct quota_refusal){QUOTA_REQUESTS_PER_SECOND, limit, (wait_us + 999) / 1000};
        t->refused[QUOTA_REQUESTS_PER_SECOND]++;
        return false;
    }
    rate_take(&t->requests, limit, now_us);
    return true;
}

bool auth_takes_watch(struct service *s, uint32_t tenant, struct quota_refusal *refusal)
{
    uint64_t limit;
    if (s->auth == NULL) {
        return true;
    }
    struct quota_tenant *t = quota_tenant_get(s->auth->quotas, tenant);
    if (limit_of(s, tenant, QUOTA_WATCHERS, &limit) && t->watchers >= limit) {
        *refusal = (struct quota_refusal){QUOTA_WATCHERS, limit, QUOTA_RETRY_MS};
        t->refused[QUOTA_WATCHERS]++;
        return false;
    }
    t->watchers++;
    return true;
}

void auth_watch_ended(struct service *s, uint32_t tenant)
{
    if (s->auth != NULL) {
        struct quota_tenant *t = quota_tenant_get(s->auth->quotas, tenant);
        hf_assert(t->watchers > 0);
        t->watchers--;
    }
}
