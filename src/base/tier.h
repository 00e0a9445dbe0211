/* The two tiers (S10): CORRECTNESS is replicated, EFFICIENCY is the leader's memory. A token
 * contains its tier: C·1024 + e, where e is 0 in the replicated one (S3.1). */
#ifndef HOLDFAST_BASE_TIER_H
#define HOLDFAST_BASE_TIER_H

#include <stdint.h>

enum tier { TIER_CORRECTNESS, TIER_EFFICIENCY };

#define TIER_TOKENS 1024u /* per C */

static inline enum tier tier_of_token(uint64_t token)
{
    return token % TIER_TOKENS == 0 ? TIER_CORRECTNESS : TIER_EFFICIENCY;
}

/* The word of the tier in every interface; it is accepted in any case. */
static inline const char *tier_name(enum tier tier)
{
    return tier == TIER_EFFICIENCY ? "EFFICIENCY" : "CORRECTNESS";
}

#endif
