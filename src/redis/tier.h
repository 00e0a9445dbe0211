/* The keys of the EFFICIENCY tier in Redis (S10.3).
 *
 * The leader's core decides between our clients, Redis between them and its other users. So a grant
 * is reported only after Redis has taken the keys:
 *
 *      requested ──done──▶ held ──ended──▶ given back
 *        ▲ │ another user holds it, and the wait is not over;
 *        │ ▼ or Redis is unavailable, and this is not a new acquire
 *      polling ──the wait is over──▶ refused
 *
 * A held key lives for 2 TTL and a margin, and is extended every half TTL: it outlives a lock
 * prolonged by its TTL. A grant is lost, and its holder notified, when the key could expire before
 * the lock, or when Redis reports that the key is not ours.
 *
 * Keys of ended grants are given back once per turn. A following waiter takes the key over, so no
 * other user gets it. A failed give-back is retried until PX. A release is confirmed when Redis has
 * answered the give-back, or the next holder's take.
 *
 * Times are boot time in ms. Callbacks come from redis_tier_run and the loop, never before the
 * function concerned has returned. */
#ifndef HOLDFAST_REDIS_TIER_H
#define HOLDFAST_REDIS_TIER_H

#include "redis/backend.h"

struct redis_tier;

/* New acquires while Redis is unavailable. */
enum redis_fallback {
    REDIS_FALLBACK_FAIL,        /* unavailable */
    REDIS_FALLBACK_EMBEDDED,    /* the leader's memory grants it */
    REDIS_FALLBACK_CORRECTNESS, /* that tier grants it */
};

struct redis_settings {
    struct address address;
    char path[REDIS_PATH_MAX + 1]; /* replaces the address unless "" */
    char user[REDIS_SECRET_MAX + 1];
    char password[REDIS_SECRET_MAX + 1];
    uint32_t db;
    char prefix[REDIS_PREFIX_MAX + 1];
    uint32_t timeout_ms;
    enum redis_fallback fallback;
};

/* What a key has behind the prefix. A name of tenant 0 is its own; one of another tenant is
 * "/NUMBER/NAME", which no lock name is. */
struct slice redis_tenant_name(uint32_t tenant, struct slice name, uint8_t out[REDIS_NAME_MAX]);

enum redis_word {
    REDIS_CONFIRMED,
    REDIS_WAITING, /* grant: not confirmed yet; until the wait is over */
    REDIS_FOREIGN, /* grant: another user holds it; renewal: it is lost */
    REDIS_FAILED,  /* Redis is unavailable; nothing was granted */
    REDIS_AGAIN,   /* the same; submit again, to the fallback or later */
};

/* One name under a token; borrowed. */
struct redis_hold {
    struct slice name; /* redis_tenant_name */
    struct slice client;
    uint64_t token;
    struct id lease;
    uint32_t part;    /* from 1 ... */
    uint32_t parts;   /* ... to this */
    uint32_t ttl_ms;  /* the full TTL */
    uint64_t wait_ms; /* remaining; UINT64_MAX: no limit */
    bool is_new;      /* false: it waited in the queue */
};

struct redis_tier_options {
    struct redis_backend_options backend;
    enum redis_fallback fallback;
    void *ctx;
    uint64_t (*now_ms)(void *ctx);
    /* After redis_tier_grant returned true. REDIS_FOREIGN sets `holder` and `holder_ms`. */
    void (*on_grant)(void *ctx, uint64_t token, enum redis_word word, struct slice holder,
                     uint64_t holder_ms);
    void (*on_renewed)(void *ctx, uint64_t token, enum redis_word word);
    /* REDIS_CONFIRMED: no key has this token. REDIS_AGAIN: Redis has not answered. */
    void (*on_released)(void *ctx, uint64_t token, enum redis_word word);
    /* The grant must end: its key is gone or about to expire. May call redis_tier_end. */
    void (*on_lost)(void *ctx, uint64_t token, struct id lease, const char *why);
};

struct redis_tier *redis_tier_new(const struct redis_tier_options *options);
void redis_tier_close(struct redis_tier *t);

/* A lead begins with this first token, or ends (0). Forgets all grants without giving back: keys
 * expire by PX, after their holders have learned of it. */
void redis_tier_begin(struct redis_tier *t, uint64_t floor);

/* REDIS_CONFIRMED: a new acquire goes here. REDIS_FAILED: nowhere. REDIS_AGAIN: to the other
 * tier. */
enum redis_word redis_tier_route(const struct redis_tier *t);
/* False: confirmed without Redis (fallback `embedded`). True: one on_grant for all parts
 * follows. */
bool redis_tier_grant(struct redis_tier *t, const struct redis_hold *hold);
/* False: nothing to confirm. True: on_renewed follows. */
bool redis_tier_renew(struct redis_tier *t, uint64_t token, uint32_t ttl_ms);
void redis_tier_end(struct redis_tier *t, uint64_t token, struct slice name);
/* After the grant ended. False: Redis has no key of it. True: on_released follows. */
bool redis_tier_release(struct redis_tier *t, uint64_t token);

/* Once per turn, after grants and ends, and at redis_tier_next_ms. */
void redis_tier_run(struct redis_tier *t);
uint64_t redis_tier_next_ms(const struct redis_tier *t);

struct redis_tier_view {
    struct redis_link_view link;
    enum redis_fallback fallback;
    uint64_t keys;     /* that are or may be ours */
    uint64_t holds;    /* of those keys */
    uint64_t waiting;  /* not confirmed by Redis yet */
    uint64_t granted;  /* by Redis, since start */
    uint64_t foreign;  /* refusals: another user of Redis holds the name */
    uint64_t embedded; /* by the fallback, without Redis */
    uint64_t lost;     /* because of Redis */
};
void redis_tier_view(const struct redis_tier *t, struct redis_tier_view *out);
const char *redis_fallback_name(enum redis_fallback fallback);

#endif
