/* Private to memory_tier.c (what goes where) and tier_confirm.c (what a backend must confirm). */
#ifndef HOLDFAST_REPLICA_MEMORY_TIER_STATE_H
#define HOLDFAST_REPLICA_MEMORY_TIER_STATE_H

#include "replica/memory_tier.h"
#include "replica/tier_held.h"

enum {
    TIER_PENDING_SLOTS = 4096,
    /* Attachment numbers of one leadership do not meet those of the next; the upper half of them
     * is for those who wait for a backend. */
    TIER_ATTACHMENT_BITS = 28,
    TIER_ATTACHMENT_EPOCHS = 1 << 24,
};

struct memory_tier {
    struct memory_tier_options options;
    struct core *core; /* NULL: not on */
    uint64_t index;
    uint64_t counter;  /* the C that was applied when tokens were last looked for */
    uint64_t since;    /* from this C up to `reserved` nothing but `advance` raised it: ours */
    uint64_t reserved; /* what the last `advance` raised C to */
    uint64_t low;      /* so many tokens left: time to reserve more */
    uint64_t advanced; /* the C for which `advance` was proposed */
    uint64_t noted;    /* the first record of its trail that the log does not have */

    /* Names of acquires that were proposed and are not settled: at a name's slot stands the number
     * of the last of them. Other names share the slot: then a request only waits a little. */
    uint64_t pending[TIER_PENDING_SLOTS];
    uint64_t proposed;
    uint64_t settled;

    struct tier_backend backend;
    bool has_backend;
    struct held_table held;     /* grants */
    struct held_table renewals; /* of grants that are confirmed */
    struct held_table releases; /* of grants that are over */
    struct held *over;          /* grants that ended before they were confirmed: see to them */
    uint64_t muted;             /* the token that is being taken back */
    uint64_t attachments;       /* given out here */
    uint64_t wait_ms;           /* of the acquire that is being applied */
};

/* memory_tier.c: an entry of this tier begins. */
void tier_begin(struct memory_tier *t, struct tier_time now);

/* tier_confirm.c */
void tier_on_core_event(void *ctx, const struct event *event);
/* The result of a command that was applied: told, or kept until the backend has confirmed it. */
void tier_tell(struct memory_tier *t, const struct command *command, void *cookie,
               const struct result *result);
/* After something was applied: whoever asked for a grant that is over is told so. */
void tier_settle_over(struct memory_tier *t);
/* The leadership ends. */
void tier_drop_held(struct memory_tier *t, bool tell);

#endif
