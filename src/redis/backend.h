/* The operations of the EFFICIENCY tier on Redis (S10.3), each one script of bounded cost.
 *
 *      take       set the keys; each is absent, or left by an earlier grant of this lead
 *      hand over  move one key from one grant of ours to another
 *      extend     compare and expire
 *      give back  compare and delete
 *
 * The key: prefix and name. The value:
 *
 *      hf:<cluster, 32 hex digits>:<token>:<client id>
 *
 * Tokens are arguments and rise, so a late script finds a higher token and does nothing, or finds
 * no key. Then it leaves a key that the next take of this lead replaces, and that PX removes.
 *
 * `floor`: the first token of this lead. Keys of an earlier lead stay until PX: their holders may
 * not know of the new lead. */
#ifndef HOLDFAST_REDIS_BACKEND_H
#define HOLDFAST_REDIS_BACKEND_H

#include "base/limits.h"
#include "redis/link.h"

enum {
    REDIS_PREFIX_MAX = 128,
    REDIS_HOLDER_MAX = 360,           /* bytes read of a foreign value */
    REDIS_NAME_MAX = LIMIT_NAME + 12, /* redis_tenant_name (tier.h) */
};

struct redis_backend;

struct redis_backend_options {
    struct redis_link_options link; /* the backend sets scripts and trial */
    char prefix[REDIS_PREFIX_MAX + 1];
    struct id cluster;
};

struct redis_backend *redis_backend_new(const struct redis_backend_options *options);
void redis_backend_close(struct redis_backend *b);

enum redis_verdict {
    REDIS_DONE,
    REDIS_HELD,   /* take: another holder has a key; nothing was taken */
    REDIS_GONE,   /* others: the key is not ours; nothing was done */
    REDIS_AWAY,   /* not done, will not be */
    REDIS_UNSURE, /* done, not done, or may be done later */
};

struct redis_result {
    enum redis_verdict verdict;
    const char *problem; /* of REDIS_AWAY and REDIS_UNSURE; otherwise "" */
    /* REDIS_HELD, REDIS_GONE: index of the name. REDIS_HELD: also the key's value ("" if not a
     * string) and remaining time; UINT64_MAX: no expiry. */
    uint32_t name;
    struct slice holder;
    uint64_t holder_ms;
};

/* Once, never before the call has returned. The result is borrowed. */
typedef void (*redis_result_fn)(void *owner, const struct redis_result *result);

struct redis_names {
    uint32_t count; /* 1 to LIMIT_MULTILOCK_NAMES */
    struct slice at[LIMIT_MULTILOCK_NAMES];
};

/* All names or none. A key that already has `token` is taken again. */
void redis_take(struct redis_backend *b, const struct redis_names *names, uint64_t token,
                uint64_t floor, uint64_t px_ms, struct slice client, redis_result_fn done,
                void *owner);
void redis_hand_over(struct redis_backend *b, struct slice name, uint64_t from, uint64_t to,
                     uint64_t px_ms, struct slice client, redis_result_fn done, void *owner);
/* All names or none. Each key must have its token, or a later one that shares the name. A longer
 * remaining time is kept. */
void redis_extend(struct redis_backend *b, const struct redis_names *names, const uint64_t *tokens,
                  uint64_t px_ms, redis_result_fn done, void *owner);
/* Deletes each key with its token, or an earlier one of this lead. REDIS_GONE: not all had. */
void redis_give_back(struct redis_backend *b, const struct redis_names *names,
                     const uint64_t *tokens, uint64_t floor, redis_result_fn done, void *owner);

bool redis_backend_is_usable(const struct redis_backend *b);
void redis_backend_view(const struct redis_backend *b, struct redis_link_view *out);

#endif
