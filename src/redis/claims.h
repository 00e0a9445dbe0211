/* Names whose keys in Redis are ours, or may be, and the grants that they belong to; found by name,
 * by token, and by what is due next. Private to redis_tier*.c. No I/O. */
#ifndef HOLDFAST_REDIS_CLAIMS_H
#define HOLDFAST_REDIS_CLAIMS_H

#include "base/heap.h"
#include "base/slice.h"
#include "base/table.h"

/* A name. Objects of the pool do not move. */
struct claim {
    ref self;
    ref next; /* in the table */
    uint32_t hash;
    uint32_t position; /* in the heap */
    ref parts;         /* who holds it, the newest first */
    ref leaving;       /* who held it, until Redis knows */
    uint64_t token;    /* that the key has, if Redis did what it was told */
    uint64_t highest;  /* that was ever sent to Redis for it */
    uint64_t until_ms; /* so long a key of ours lives there at the least; 0: there is none */
    uint64_t gone_ms;  /* ... and may live; 0: there is none */
    uint32_t ttl_ms;   /* the longest of its holders */
    bool is_dirty;     /* something has ended; see to it at the end of the turn */
    bool is_busy;      /* it is being extended */
    ref next_dirty;
    uint16_t name_len;
    uint8_t name[];
};

enum hold_state { HOLD_GATHERING, HOLD_ASKING, HOLD_POLLING, HOLD_HELD };

/* A grant. */
struct hold {
    ref self;
    ref next;
    uint32_t position; /* in the heap of those that poll */
    enum hold_state state;
    ref parts;
    uint64_t token;
    struct id lease;
    uint32_t ttl_ms;
    uint32_t backoff_ms;
    uint64_t wait_until_ms;
    bool is_new;
    bool is_told;    /* that it takes longer */
    bool is_lost;    /* on_lost was called */
    bool is_renewed; /* somebody waits for on_renewed */
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
    uint64_t prior_ms; /* the claim's gone_ms before this part asked for it */
};

/* A grant that has ended: Redis may still have a key of its own. */
struct leaver {
    ref self;
    ref next; /* in the table */
    uint64_t token;
    uint32_t names; /* of which that is so */
    bool is_asked;  /* somebody waits to hear of it */
};

/* One of those names. */
struct leaving {
    ref self;
    ref leaver;
    ref next_of_claim;
};

struct claims {
    const struct memory *memory;
    uint64_t key; /* of the hash */
    struct pool pool;
    struct table names;
    struct table tokens;
    struct table leavers; /* by token */
    struct heap due;      /* claims: when to extend them, or to give them back again */
    struct heap polls;    /* holds */
    ref dirty;
    uint64_t waiting; /* holds that are not held */
};

void claims_init(struct claims *c, const struct memory *memory, uint64_t key);
void claims_close(struct claims *c);

struct claim *claims_claim(const struct claims *c, ref who);
struct hold *claims_hold(const struct claims *c, ref who);
struct part *claims_part(const struct claims *c, ref who);
struct claim *claims_find_name(const struct claims *c, struct slice name);
struct hold *claims_find_token(const struct claims *c, uint64_t token);
static inline struct slice claim_name(const struct claim *c)
{
    return slice_make(c->name, c->name_len);
}

struct hold *claims_add_hold(struct claims *c, uint64_t token, struct slice client);
/* The name becomes a part of the grant; its claim is made if need be. */
struct claim *claims_add_part(struct claims *c, struct hold *hold, struct slice name);
/* The reverse; the claim stays. Frees the hold with its last part. */
void claims_drop_part(struct claims *c, struct hold *hold, struct slice name);
void claims_set_state(struct claims *c, struct hold *hold, enum hold_state state);
/* UINT64_MAX: not at all. */
void claims_set_due(struct claims *c, struct claim *claim, uint64_t at_ms);
void claims_set_poll(struct claims *c, struct hold *hold, uint64_t at_ms);
void claims_mark(struct claims *c, struct claim *claim);
struct claim *claims_take_marked(struct claims *c);
/* The grant of this token has held the name, and has no part of it any more. */
void claims_leave(struct claims *c, struct claim *claim, uint64_t token);
struct leaver *claims_find_leaver(const struct claims *c, uint64_t token);
/* Redis has no key of this name any more that is of a token between the two, which are not meant
 * themselves. Returns those of whom that was the last name, and somebody asked; by `next`. */
ref claims_settle(struct claims *c, struct claim *claim, uint64_t above, uint64_t below);
/* Takes the first of them off that list: its token. */
uint64_t claims_take_settled(struct claims *c, ref *list);
/* Nobody holds it or is leaving it, and it is not marked. */
void claims_free(struct claims *c, struct claim *claim);

#endif
