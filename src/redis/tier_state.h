/* Private to redis_tier.c (what it is told) and redis_keys.c (what it asks of Redis). */
#ifndef HOLDFAST_REDIS_TIER_STATE_H
#define HOLDFAST_REDIS_TIER_STATE_H

#include "base/list.h"
#include "redis/claims.h"
#include "redis/tier.h"

struct redis_tier {
    struct redis_tier_options options;
    struct redis_backend *backend;
    uint64_t floor;      /* 0: this node does not lead */
    uint64_t generation; /* of leads: answers to an earlier one are not for this one */
    struct claims claims;
    uint64_t connects; /* at which every key was looked at */
    uint64_t scan;     /* looking at them again; TABLE_SCAN_END: done */
    struct list asked; /* of Redis, and not answered */
    struct redis_tier_view view;
};

/* redis_tier.c */
uint64_t tier_now_ms(const struct redis_tier *t);
void tier_on_take(struct redis_tier *t, struct hold *hold, const struct redis_result *result);
/* The grants of this name are over. */
void tier_lose(struct redis_tier *t, const struct claim *claim, const char *why);
/* Redis has answered: no key of the name is of a token between the two. */
void tier_on_left(struct redis_tier *t, struct claim *claim, uint64_t above, uint64_t below);
/* It has not: whoever asked hears that nobody knows. */
void tier_on_not_left(struct redis_tier *t, const struct claim *claim);
void tier_lose_hold(struct redis_tier *t, struct hold *hold, const char *why);

/* redis_keys.c: questions; the answers change the claims and come to the functions above. */
void keys_take(struct redis_tier *t, struct hold *hold);
void keys_renew(struct redis_tier *t, struct hold *hold);
/* After something ended: handed over to who is left, or given back. Frees claims that are over. */
void keys_settle(struct redis_tier *t, struct claim *claim);
/* Its time has come: extended, or given back again. */
void keys_on_due(struct redis_tier *t, struct claim *claim);
/* Whether it lives long enough for a lock that is prolonged by `ttl_ms` now. */
bool keys_cover(const struct redis_tier *t, const struct claim *claim, uint32_t ttl_ms);
void keys_forget(struct redis_tier *t);

#endif
