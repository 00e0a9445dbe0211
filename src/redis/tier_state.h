/* Private to tier.c (grants) and keys.c (requests to Redis). */
#ifndef HOLDFAST_REDIS_TIER_STATE_H
#define HOLDFAST_REDIS_TIER_STATE_H

#include "base/list.h"
#include "redis/claims.h"
#include "redis/tier.h"

struct redis_tier {
    struct redis_tier_options options;
    struct redis_backend *backend;
    uint64_t floor;      /* 0: this node does not lead */
    uint64_t generation; /* of the lead; results for an earlier one are ignored */
    struct claims claims;
    uint64_t connects;    /* at the last check of all keys */
    uint64_t scan;        /* position of that check; TABLE_SCAN_END: done */
    struct list requests; /* sent to Redis, not answered */
    struct redis_tier_view view;
};

/* tier.c */
uint64_t tier_now_ms(const struct redis_tier *t);
void tier_on_take(struct redis_tier *t, struct hold *hold, const struct redis_result *result);
void tier_lose(struct redis_tier *t, const struct claim *claim, const char *why);
/* No key of the name has a token strictly between the two. */
void tier_on_left(struct redis_tier *t, struct claim *claim, uint64_t above, uint64_t below);
/* REDIS_AGAIN for awaited releases. */
void tier_on_not_left(struct redis_tier *t, const struct claim *claim);
void tier_lose_hold(struct redis_tier *t, struct hold *hold, const char *why);

/* keys.c. Results change the claims and call the functions above. */
void keys_take(struct redis_tier *t, struct hold *hold);
void keys_renew(struct redis_tier *t, struct hold *hold);
/* After a holder ended: hands the key over, or gives it back. May free the claim. */
void keys_settle(struct redis_tier *t, struct claim *claim);
/* Extends the key, or retries giving it back. */
void keys_on_due(struct redis_tier *t, struct claim *claim);
/* The key outlives a lock prolonged by `ttl_ms` now. */
bool keys_cover(const struct redis_tier *t, const struct claim *claim, uint32_t ttl_ms);
void keys_forget(struct redis_tier *t);

#endif
