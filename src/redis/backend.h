/* The four things that the EFFICIENCY tier asks of a Redis (S10.3), each one script, each bounded.
 *
 *      take       the keys become ours: absent before, or left by an earlier grant of this lead
 *      hand over  one key, from one grant of ours to another
 *      extend     compare and expire
 *      give back  compare and delete
 *
 * A key is the prefix and the name; its value can be read by people:
 *
 *      hf:<cluster, 32 hex digits>:<token>:<client id>
 *
 * The token is ours and an argument of the script; none comes from Redis. Tokens rise, so a script
 * that Redis runs late (it was stopped, the packet went astray) finds a higher token and does
 * nothing; or finds no key, and then leaves one that the next take of this lead replaces, and that
 * PX removes. `floor` is the first token of this lead: what an earlier leader's grants left stays
 * until PX, since their holders may not have heard of the new lead yet. */
#ifndef HOLDFAST_REDIS_BACKEND_H
#define HOLDFAST_REDIS_BACKEND_H

#include "base/limits.h"
#include "redis/link.h"

enum {
    REDIS_PREFIX_MAX = 128,
    REDIS_HOLDER_MAX = 360, /* bytes of a foreign value that are looked at */
};

struct redis_backend;

struct redis_backend_options {
    struct redis_link_options link; /* scripts and trial are ours */
    char prefix[REDIS_PREFIX_MAX + 1];
    struct id cluster;
};

struct redis_backend *redis_backend_new(const struct redis_backend_options *options);
void redis_backend_close(struct redis_backend *b);

enum redis_verdict {
    REDIS_DONE,
    REDIS_HELD,   /* take: somebody else's; nothing was taken */
    REDIS_GONE,   /* the others: the key is not ours (any more); nothing was done */
    REDIS_AWAY,   /* it was not done and will not be */
    REDIS_UNSURE, /* it was done, or not, or will be */
};

struct redis_result {
    enum redis_verdict verdict;
    const char *problem; /* of REDIS_AWAY and REDIS_UNSURE; "" else */
    /* Of REDIS_HELD and REDIS_GONE: which of the names; of REDIS_HELD also the value that it has
     * ("" if it is no string) and for how long; UINT64_MAX: for ever. */
    uint32_t name;
    struct slice holder;
    uint64_t holder_ms;
};

/* Once, never before the call returned; the result is borrowed. */
typedef void (*redis_result_fn)(void *owner, const struct redis_result *result);

struct redis_names {
    uint32_t count; /* 1 to LIMIT_MULTILOCK_NAMES */
    struct slice at[LIMIT_MULTILOCK_NAMES];
};

/* All names or none. What has `token` itself is taken again. */
void redis_take(struct redis_backend *b, const struct redis_names *names, uint64_t token,
                uint64_t floor, uint64_t px_ms, struct slice client, redis_result_fn done,
                void *owner);
void redis_hand_over(struct redis_backend *b, struct slice name, uint64_t from, uint64_t to,
                     uint64_t px_ms, struct slice client, redis_result_fn done, void *owner);
/* All names or none, if they are that token's, or a later one's that shares them; a time that is
 * longer already stays. */
void redis_extend(struct redis_backend *b, const struct redis_names *names, const uint64_t *tokens,
                  uint64_t px_ms, redis_result_fn done, void *owner);
/* Each name that is that token's, or an earlier one's of this lead; REDIS_GONE: not all were. */
void redis_give_back(struct redis_backend *b, const struct redis_names *names,
                     const uint64_t *tokens, uint64_t floor, redis_result_fn done, void *owner);

/* Whether it is worth asking now. */
bool redis_backend_is_usable(const struct redis_backend *b);
void redis_backend_view(const struct redis_backend *b, struct redis_link_view *out);

#endif
