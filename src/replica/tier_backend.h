/* The seam behind the EFFICIENCY tier (S10.3): where a backend, for example an operator's Redis,
 * confirms what the memory of the leader has decided.
 *
 * The core in memory stays the one that decides queues, sessions, TTLs and tokens. A backend hears
 * of each name that is given away, kept longer or given back. While it has not confirmed a grant
 * nobody is told of it: neither the result of the acquire nor an event leaves the tier.
 *
 *      core: GRANTED ─▶ grant() ──memory_tier_confirm(token, word), and by the word:
 *           TIER_CONFIRMED ─▶ the result, or the event, is told
 *           TIER_WAITS ─▶ it waits like one in the queue, and another word comes
 *           TIER_FOREIGN, TIER_FAILED, TIER_AGAIN ─▶ it is taken back
 *      core: renewed ─▶ renew() ──memory_tier_confirm_renewal─▶ the result is told
 *      core: released, expired, forced ─▶ end()
 *      core: released ─▶ release() ──memory_tier_confirm_release─▶ the result is told
 *      the backend lost it: memory_tier_lose ─▶ it expires, end() comes before that returns
 *
 * Calls come from inside memory_tier_*: a backend must not call back before it has returned. */
#ifndef HOLDFAST_REPLICA_TIER_BACKEND_H
#define HOLDFAST_REPLICA_TIER_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct memory_tier;

enum tier_word {
    TIER_CONFIRMED,
    TIER_WAITS,   /* of a grant: it takes longer */
    TIER_FOREIGN, /* of a grant: somebody else has it there, and the wait is over; of a renewal:
                     lost */
    TIER_FAILED,  /* the backend is away, nothing is granted */
    TIER_AGAIN,   /* ... and it should be asked for again; of a renewal or release: nobody knows */
};

/* One name under a token; of a multi-lock there are several. Borrowed for the call. */
struct tier_hold {
    struct slice name;
    struct slice client;
    uint64_t token;
    struct id lease;
    uint32_t part;    /* from 1 ... */
    uint32_t parts;   /* ... of so many */
    uint32_t ttl_ms;  /* the whole of it; its session may leave less */
    uint64_t wait_ms; /* how long it may still be waited for; UINT64_MAX: without limit */
    bool is_new;      /* an acquire; false: it had waited */
};

struct tier_backend {
    void *ctx;
    /* A lead begins whose tokens are above this one, or (0) ends: all is void. */
    void (*lead)(void *ctx, uint64_t first);
    /* Where a new acquire goes now: TIER_CONFIRMED: here; TIER_FAILED: nowhere; TIER_AGAIN: to the
     * other tier. */
    enum tier_word (*route)(void *ctx);
    /* Acquires that asked for this tier may be in the other one, by the above. */
    bool falls_back;
    /* False: there is no need to wait, it is confirmed. True: memory_tier_confirm follows. Asked
     * for each part; confirmed once for the token. */
    bool (*grant)(void *ctx, const struct tier_hold *hold);
    /* False: no need to wait. True: memory_tier_confirm_renewal follows. */
    bool (*renew)(void *ctx, uint64_t token, uint32_t ttl_ms);
    void (*end)(void *ctx, uint64_t token, struct slice name);
    /* After all of it ended. False: no need to wait. True: memory_tier_confirm_release follows. */
    bool (*release)(void *ctx, uint64_t token);
};

/* Unknown tokens (ended meanwhile) are ignored, by all of them. `holder` (for people, any bytes)
 * and `holder_ms` (UINT64_MAX: without end) go with TIER_FOREIGN. */
void memory_tier_confirm(struct memory_tier *t, uint64_t token, enum tier_word word,
                         struct slice holder, uint64_t holder_ms);
void memory_tier_confirm_renewal(struct memory_tier *t, uint64_t token, enum tier_word word);
/* TIER_CONFIRMED or TIER_AGAIN. */
void memory_tier_confirm_release(struct memory_tier *t, uint64_t token, enum tier_word word);
void memory_tier_lose(struct memory_tier *t, struct id lease);

#endif
