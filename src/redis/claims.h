/* Names whose keys in Redis are or may be ours, and their grants. Private to tier.c and keys.c. No
 * I/O. */
#ifndef HOLDFAST_REDIS_CLAIMS_H
#define HOLDFAST_REDIS_CLAIMS_H

#include "base/heap.h"
#include "base/slice.h"
#include "base/table.h"

/* A name. Objects of the pool do not move. */
struct claim {
    ref self;
    ref next;
    uint32_t hash;
    uint32_t position;
    ref parts;         /* holders, newest first */
    ref leaving;       /* former holders, until Redis has answered */
    uint64_t token;    /* of the key, if Redis did the last operation */
    uint64_t highest;  /* ever sent to Redis */
    uint64_t until_ms; /* a key of ours exists until then at least; 0: no key */
    uint64_t gone_ms;  /* no key of ours exists after it; 0: no key */
    uint32_t ttl_ms;   /* the longest of its holders */
    bool is_dirty;     /* a holder ended; settle at the end of the turn */
    bool is_busy;      /* an extend is in flight */
    ref next_dirty;
    uint16_t name_len;
    uint8_t name[];
};

enum hold_state { HOLD_GATHERING, HOLD_REQUESTED, HOLD_POLLING, HOLD_HELD };

/* A grant. */
struct hold {
    ref self;
    ref next;
    uint32_t position; /* in `polls` */
    enum hold_state state;
    ref parts;
    uint64_t token;
    struct id lease;
    uint32_t ttl_ms;
    uint32_t backoff_ms;
    uint64_t wait_until_ms;
    bool is_new;
    bool is_waiting_reported;
    bool is_lost;    /* on_lost was called */
    bool is_renewed; /* on_renewed is due */
    uint8_t client_len;
    uint8_t client[];
};

/* One name of one grant. */
struct part {
    ref self;
    ref hold;
    ref claim;
    ref next_of_hold;
    ref next_of_claim;
    ref prev_of_claim;
    uint64_t prior_ms; /* the claim's gone_ms before the request */
};

/* An ended grant. Redis may still have a key with its token. */
struct leaver {
    ref self;
    ref next;
    uint64_t token;
    uint32_t names;  /* its names for which that is so */
    bool is_awaited; /* on_released is due */
};

/* One of those names. */
struct leaving {
    ref self;
    ref leaver;
    ref next_of_claim;
};

struct claims {
    const struct memory *memory;
    uint64_t key;
    struct pool pool;
    struct table names;
    struct table tokens;
    struct table leavers;
    struct heap due;   /* to extend, or retry giving back */
    struct heap polls; /* holds */
    ref dirty;
    uint64_t waiting; /* holds not in HOLD_HELD */
};

void claims_init(struct claims *c, const struct memory *memory, uint64_t key);
void claims_close(struct claims *c);

struct claim *claims_claim(const struct claims *c, ref object);
struct hold *claims_hold(const struct claims *c, ref object);
struct part *claims_part(const struct claims *c, ref object);
struct claim *claims_find_name(const struct claims *c, struct slice name);
struct hold *claims_find_token(const struct claims *c, uint64_t token);
static inline struct slice claim_name(const struct claim *c)
{
    return slice_make(c->name, c->name_len);
}

struct hold *claims_add_hold(struct claims *c, uint64_t token, struct slice client);
/* Creates the claim if needed. */
struct claim *claims_add_part(struct claims *c, struct hold *hold, struct slice name);
/* The claim stays. Frees the hold with its last part. */
void claims_drop_part(struct claims *c, struct hold *hold, struct slice name);
void claims_set_state(struct claims *c, struct hold *hold, enum hold_state state);
/* UINT64_MAX: never. */
void claims_set_due(struct claims *c, struct claim *claim, uint64_t at_ms);
void claims_set_poll(struct claims *c, struct hold *hold, uint64_t at_ms);
void claims_mark(struct claims *c, struct claim *claim);
struct claim *claims_take_marked(struct claims *c);
/* The grant held the name and has no part for it now. */
void claims_leave(struct claims *c, struct claim *claim, uint64_t token);
struct leaver *claims_find_leaver(const struct claims *c, uint64_t token);
/* Redis has no key of the name with a token strictly between the two. Returns the awaited leavers
 * whose last name this was, linked by `next`. */
ref claims_settle(struct claims *c, struct claim *claim, uint64_t above, uint64_t below);
uint64_t claims_take_settled(struct claims *c, ref *list);
/* No holders, no former holders, not marked. */
void claims_free(struct claims *c, struct claim *claim);

#endif
