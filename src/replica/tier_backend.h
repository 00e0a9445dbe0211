/* The interface to a backend of the EFFICIENCY tier (S10.3), for example an operator's Redis.
 *
 * The core in memory decides queues, sessions, TTLs and tokens. Until the backend confirms a grant,
 * neither the result of the acquire nor an event leaves the tier.
 *
 *      core: GRANTED ─▶ grant() ──▶ memory_tier_confirm(token, word), with the word:
 *           TIER_CONFIRMED ─▶ the result, or the event, is reported
 *           TIER_WAITS ─▶ it waits like one in the queue, and another word follows
 *           TIER_FOREIGN, TIER_FAILED, TIER_AGAIN ─▶ the grant is revoked
 *      core: renewed ─▶ renew() ──▶ memory_tier_confirm_renewal ──▶ the result is reported
 *      core: released, expired, forced ─▶ end()
 *      core: released ─▶ release() ──▶ memory_tier_confirm_release ──▶ the result is reported
 *      the backend lost it: memory_tier_lose ─▶ it expires; end() is called before that returns
 *
 * The backend must not call the tier before it has returned. */
#ifndef HOLDFAST_REPLICA_TIER_BACKEND_H
#define HOLDFAST_REPLICA_TIER_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct memory_tier;

enum tier_word {
    TIER_CONFIRMED,
    TIER_WAITS,   /* a grant: it takes longer */
    TIER_FOREIGN, /* a grant: another holder has it, and the wait is over; a renewal: lost */
    TIER_FAILED,  /* not reachable, nothing is granted */
    TIER_AGAIN,   /* ... and the client should retry; a renewal or release: the result is unknown */
};

/* One name under a token; a multi-lock has several. Borrowed for the call. */
struct tier_hold {
    uint32_t tenant;
    struct slice name;
    struct slice client;
    uint64_t token;
    struct id lease;
    uint32_t part;    /* from 1 ... */
    uint32_t parts;   /* ... of so many */
    uint32_t ttl_ms;  /* full; the session's deadline may be earlier */
    uint64_t wait_ms; /* the remaining wait; UINT64_MAX: no limit */
    bool is_new;      /* false: it has waited in the queue */
};

struct tier_backend {
    void *ctx;
    /* `first` > 0: a leadership begins, its tokens are above `first`. 0: it ends, every grant is
     * void. */
    void (*lead)(void *ctx, uint64_t first);
    /* Where a new acquire goes. TIER_CONFIRMED: here; TIER_FAILED: nowhere; TIER_AGAIN: to the
     * other tier. */
    enum tier_word (*route)(void *ctx);
    /* `route` may have sent acquires that requested this tier to the other one. */
    bool falls_back;
    /* False: confirmed already. True: memory_tier_confirm follows. Called for each part; confirmed
     * once for the token. */
    bool (*grant)(void *ctx, const struct tier_hold *hold);
    /* False: confirmed already. True: memory_tier_confirm_renewal follows. */
    bool (*renew)(void *ctx, uint64_t token, uint32_t ttl_ms);
    void (*end)(void *ctx, uint64_t token, uint32_t tenant, struct slice name);
    /* After all parts ended. False: confirmed already. True: memory_tier_confirm_release
     * follows. */
    bool (*release)(void *ctx, uint64_t token);
};

/* These ignore unknown tokens, which ended meanwhile. TIER_FOREIGN uses `holder` (any bytes, for
 * display) and `holder_ms` (UINT64_MAX: no limit). */
void memory_tier_confirm(struct memory_tier *t, uint64_t token, enum tier_word word,
                         struct slice holder, uint64_t holder_ms);
void memory_tier_confirm_renewal(struct memory_tier *t, uint64_t token, enum tier_word word);
/* TIER_CONFIRMED or TIER_AGAIN. */
void memory_tier_confirm_release(struct memory_tier *t, uint64_t token, enum tier_word word);
void memory_tier_lose(struct memory_tier *t, struct id lease);

#endif
