/* The seam behind the EFFICIENCY tier (S10.3): where a backend, for example an operator's Redis,
 * confirms what the memory of the leader has decided.
 *
 * The core in memory stays the one that decides queues, sessions, TTLs and tokens. A backend hears
 * of each name that is given away, kept longer or given back. While it has not confirmed a grant
 * nobody is told of it: neither the result of the acquire nor the event leaves the tier.
 *
 *      core: GRANTED ─▶ grant() ──memory_tier_confirm(token, true)──▶ result, or event, is told
 *                               └─memory_tier_confirm(token, false)─▶ taken back: `held`
 *      core: renewed ─▶ renew()                 (told at once; a backend that cannot follow calls
 *      core: released, expired, forced ─▶ end()  memory_tier_confirm(token, false) later)
 *
 * Calls come from inside memory_tier_*: a backend must not call back before it has returned. */
#ifndef HOLDFAST_REPLICA_TIER_BACKEND_H
#define HOLDFAST_REPLICA_TIER_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct memory_tier;

/* One name under a token; of a multi-lock there are several. Borrowed for the call. */
struct tier_hold {
    struct slice name;
    struct slice client;
    uint64_t token;
    struct id lease;
    uint32_t part;   /* from 1 ... */
    uint32_t parts;  /* ... of so many */
    uint64_t ttl_ms; /* that are left now */
};

struct tier_backend {
    void *ctx;
    /* False: there is no need to wait, it is confirmed. True: memory_tier_confirm follows. Asked
     * for each part; confirmed once for the token. */
    bool (*grant)(void *ctx, const struct tier_hold *hold);
    void (*renew)(void *ctx, const struct tier_hold *hold);
    void (*end)(void *ctx, const struct tier_hold *hold);
};

/* A grant that waited is confirmed, or somebody else has the name there. Unknown tokens (ended
 * meanwhile) are ignored. */
void memory_tier_confirm(struct memory_tier *t, uint64_t token, bool held);

#endif
