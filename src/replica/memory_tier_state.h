/* Private to memory_tier.c (routing) and tier_confirm.c (confirmation by a backend). */
#ifndef HOLDFAST_REPLICA_MEMORY_TIER_STATE_H
#define HOLDFAST_REPLICA_MEMORY_TIER_STATE_H

#include "replica/memory_tier.h"
#include "replica/tier_held.h"

enum {
    TIER_PENDING_SLOTS = 4096,
    /* The attachment numbers of one leadership. The upper half is for acquires that wait for a
     * backend. */
    TIER_ATTACHMENT_BITS = 28,
    TIER_ATTACHMENT_EPOCHS = 1 << 24,
};

struct memory_tier {
    struct memory_tier_options options;
    struct core *core; /* NULL: the tier is off */
    uint64_t index;
    uint64_t counter;  /* applied C at the last search for tokens */
    uint64_t since;    /* from this C up to `reserved` only `advance` raised C */
    uint64_t reserved; /* what the last `advance` raised C to */
    uint64_t low;      /* reserve more at this number of remaining tokens */
    uint64_t advanced; /* the C for which `advance` was proposed */
    uint64_t noted;    /* the first audit record of this tier that is not in the log */

    /* By name: the number of the last proposed, unsettled acquire. Names that share a slot only
     * cause a short wait. */
    uint64_t pending[TIER_PENDING_SLOTS];
    uint64_t proposed; /* number of the last proposal, over all leaderships */
    uint64_t settled;  /* number of the last settled one */

    struct tier_backend backend;
    bool has_backend;
    struct held_table held;
    struct held_table renewals; /* of grants that are confirmed */
    struct held_table releases; /* of grants that are over */
    struct held *over;          /* grants that ended unconfirmed, for tier_settle_over */
    uint64_t muted;             /* the token being revoked */
    uint64_t attachments;       /* numbers assigned here */
    uint64_t wait_ms;           /* of the acquire that is being applied */
};

/* memory_tier.c: begins an entry. */
void tier_begin(struct memory_tier *t, struct tier_time now);

/* tier_confirm.c */
void tier_on_core_event(void *ctx, const struct event *event);
/* Reports the result, or keeps it until the backend confirms it. */
void tier_report(struct memory_tier *t, const struct command *command, void *cookie,
                 const struct result *result);
/* After something was applied: reports the end of unconfirmed grants to their requests. */
void tier_settle_over(struct memory_tier *t);
void tier_drop_held(struct memory_tier *t, bool report);

#endif
