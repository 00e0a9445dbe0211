/* What a Redis behind the EFFICIENCY tier confirms, keeps alive and is given back (S10.3).
 *
 * The core in the leader's memory decides among our own clients: sessions, queues, TTLs, tokens.
 * Redis decides between them and everybody else who locks there. So a grant is told only after
 * Redis has taken the keys:
 *
 *      asking ──done──▶ held ──ended──▶ given back
 *        ▲ │ held there, and its wait goes on; Redis is away, and it is no new acquire
 *        │ ▼
 *      polling ──its wait is over──▶ refused
 *
 * A key lives for 2 TTL and a margin, and is extended every half TTL while somebody holds it. So
 * whatever prolongs a lock by its TTL, a keep-alive too, finds a key that lives long enough. When
 * Redis has not confirmed that for so long that it could end first, or says that the key is not
 * ours any more, the grant is lost, and the holder is told.
 *
 * What ended is given back once per turn: a waiter that follows takes the key over, so that
 * nobody outside comes between. What could not be given back is tried again until its PX is over.
 * Who released it hears so when Redis has answered: to the giving back, or to the one that follows.
 *
 * Times are boot time in ms. The tier's own calls (options) must not be made before the function
 * that they are about has returned: they come from redis_tier_run and from the loop. */
#ifndef HOLDFAST_REDIS_TIER_H
#define HOLDFAST_REDIS_TIER_H

#include "redis/backend.h"

struct redis_tier;

/* What becomes of a new acquire while Redis is away. */
enum redis_fallback {
    REDIS_FALLBACK_FAIL,        /* it is refused: unavailable */
    REDIS_FALLBACK_EMBEDDED,    /* the leader's memory alone grants it */
    REDIS_FALLBACK_CORRECTNESS, /* the other tier does */
};

/* What an operator says. */
struct redis_settings {
    struct address address;
    char path[REDIS_PATH_MAX + 1]; /* instead, if it is not "" */
    char user[REDIS_SECRET_MAX + 1];
    char password[REDIS_SECRET_MAX + 1];
    uint32_t db;
    char prefix[REDIS_PREFIX_MAX + 1];
    uint32_t timeout_ms;
    enum redis_fallback fallback;
};

enum redis_word {
    REDIS_CONFIRMED,
    REDIS_WAITING, /* of a grant: it takes longer, and goes on until the wait is over */
    REDIS_FOREIGN, /* of a grant: somebody else has it; of a renewal: it is lost */
    REDIS_FAILED,  /* Redis is away, and nothing was granted */
    REDIS_AGAIN,   /* ... and it should be asked for again, by the fallback or a little later */
};

/* One name under a token; of a multi-lock there are several. Borrowed for the call. */
struct redis_hold {
    struct slice name;
    struct slice client;
    uint64_t token;
    struct id lease;
    uint32_t part;    /* from 1 ... */
    uint32_t parts;   /* ... of so many */
    uint32_t ttl_ms;  /* the whole of it */
    uint64_t wait_ms; /* how long it may still be waited for; UINT64_MAX: for ever */
    bool is_new;      /* an acquire; false: it had waited in the queue */
};

struct redis_tier_options {
    struct redis_backend_options backend;
    enum redis_fallback fallback;
    void *ctx;
    uint64_t (*now_ms)(void *ctx);
    /* About a grant that redis_tier_grant took. `holder` and `holder_ms` with REDIS_FOREIGN. */
    void (*on_grant)(void *ctx, uint64_t token, enum redis_word word, struct slice holder,
                     uint64_t holder_ms);
    void (*on_renewed)(void *ctx, uint64_t token, enum redis_word word);
    /* REDIS_CONFIRMED: no key is of this token any more. REDIS_AGAIN: Redis has not answered. */
    void (*on_released)(void *ctx, uint64_t token, enum redis_word word);
    /* The grant must end: its key is gone, or soon will be. redis_tier_end may come before it
     * returns. */
    void (*on_lost)(void *ctx, uint64_t token, struct id lease, const char *why);
};

struct redis_tier *redis_tier_new(const struct redis_tier_options *options);
void redis_tier_close(struct redis_tier *t);

/* A lead begins with this first token, or ends (0): all is forgotten, and nothing is given back;
 * what is left in Redis ends by PX, when its holders have heard of it. */
void redis_tier_begin(struct redis_tier *t, uint64_t floor);

/* Where a new acquire goes now: REDIS_CONFIRMED: here; REDIS_FAILED: nowhere; REDIS_AGAIN: to the
 * other tier. */
enum redis_word redis_tier_route(const struct redis_tier *t);
/* False: confirmed, without Redis (fallback `embedded`). True: on_grant follows, once for all
 * parts. */
bool redis_tier_grant(struct redis_tier *t, const struct redis_hold *hold);
/* False: there is nothing to confirm. True: on_renewed follows. */
bool redis_tier_renew(struct redis_tier *t, uint64_t token, uint32_t ttl_ms);
void redis_tier_end(struct redis_tier *t, uint64_t token, struct slice name);
/* After it ended. False: there is nothing of it in Redis. True: on_released follows. */
bool redis_tier_release(struct redis_tier *t, uint64_t token);

/* Once per turn, after grants and ends; and at the time (boot ms) that redis_tier_next_ms names. */
void redis_tier_run(struct redis_tier *t);
uint64_t redis_tier_next_ms(const struct redis_tier *t);

struct redis_tier_view {
    struct redis_link_view link;
    enum redis_fallback fallback;
    uint64_t keys;     /* that are, or may be, ours */
    uint64_t holds;    /* that they belong to */
    uint64_t waiting;  /* grants that Redis has not confirmed */
    uint64_t granted;  /* confirmed by Redis, ever */
    uint64_t foreign;  /* refusals because somebody outside holds it */
    uint64_t embedded; /* granted without it, by the fallback */
    uint64_t lost;     /* grants that ended because of it */
};
void redis_tier_view(const struct redis_tier *t, struct redis_tier_view *out);
const char *redis_fallback_name(enum redis_fallback fallback);

#endif
