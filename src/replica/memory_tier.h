/* The EFFICIENCY tier (S10): a second core on the leader that is fed without a log. What it holds
 * is gone with the leadership; who held it knows by the epoch. No I/O and no clock here, either.
 *
 *      memory_tier_submit ─▶ routed ─┬─▶ applied at once ─▶ on_result (before it returns)
 *                                    ├─▶ TIER_PROPOSE: it is the log's, submit it to the replica
 *                                    └─▶ TIER_LATER: nothing was done, submit it again
 *
 * The rules of routing: an acquire goes where it asks to, unless the name is in use in the other
 * tier; whatever names a token goes where the token is from; a lease id, an attachment number or
 * a name finds its own tier.
 *
 * Tokens are C·1024 + e (S3.1). C is the applied one, or one of those that `advance` went over
 * since anything else raised it: below them are all CORRECTNESS tokens that were given, above them
 * all that will be (decision 22). At half of them the next `advance` is proposed; without one,
 * grants wait until it is applied. Whatever else raises C ends what was reserved.
 *
 * Sessions: private ones live here. A replicated one is mirrored when it is first used here, with
 * the same deadline; its keep-alives are told by memory_tier_on_replicated, and its end by
 * memory_tier_on_event alone: when its deadline comes, a keep-alive may be in flight. */
#ifndef HOLDFAST_REPLICA_MEMORY_TIER_H
#define HOLDFAST_REPLICA_MEMORY_TIER_H

#include "base/tier.h"
#include "core/core.h"
#include "replica/tier_backend.h"

struct memory_tier;

struct tier_time {
    uint64_t cluster_ms;
    uint64_t wall_ms;
    bool majority; /* one answered within an election timeout: only then the tier is served (S10.1)
                    */
};

struct memory_tier_options {
    const struct memory *memory;
    void *ctx;
    /* The replicated state, as far as it is applied here. */
    const struct core *(*replicated)(void *ctx);
    /* For what a backend says; may be NULL without one. */
    struct tier_time (*now)(void *ctx);
    /* The answer to a command that was taken; borrowed. NULL: the leadership ended while a backend
     * had not confirmed it. */
    void (*on_result)(void *ctx, void *cookie, const struct result *result);
    /* Nothing was done about it, and it should be submitted again. */
    void (*on_again)(void *ctx, void *cookie);
    /* Must not call back. `tier` is set. Numbers (index, ordinal) are of this tier and this
     * leadership. */
    void (*on_event)(void *ctx, const struct event *event);
    /* A command of the tier's own for the log: `advance`, and the record of an operator's deed.
     * False: not now. */
    bool (*propose)(void *ctx, const struct command *command);
};

struct memory_tier *memory_tier_new(const struct memory_tier_options *options);
void memory_tier_free(struct memory_tier *t);
/* NULL (the default): the embedded backend, which is this memory alone. */
void memory_tier_set_backend(struct memory_tier *t, const struct tier_backend *backend);

/* This node leads and has applied its `lead`: begins empty. Or leads no more: all is dropped. */
void memory_tier_begin(struct memory_tier *t, uint64_t hash_key);
void memory_tier_end(struct memory_tier *t);
bool memory_tier_is_on(const struct memory_tier *t);

/* On the leader, for every command, before it is proposed. */
enum tier_taken {
    TIER_TAKEN,   /* on_result was called, or will be */
    TIER_PROPOSE, /* not for this tier */
    TIER_LATER,   /* not now: no majority, no token, or what is in flight in the log decides it */
};
enum tier_taken memory_tier_submit(struct memory_tier *t, enum tier asked,
                                   const struct command *command, void *cookie,
                                   struct tier_time now);

/* An acquire was proposed / its outcome is known, whatever that is; in this order (S10.2). Told for
 * the commands for which memory_tier_is_counted says so. */
bool memory_tier_is_counted(const struct command *command);
void memory_tier_on_proposed(struct memory_tier *t, const struct command *command);
void memory_tier_on_settled(struct memory_tier *t);
/* What was applied to the replicated state and how it ended, each before the next is applied; and
 * its events. */
void memory_tier_on_replicated(struct memory_tier *t, const struct command *command,
                               const struct result *result);
void memory_tier_on_event(struct memory_tier *t, const struct event *event);

/* Time: call memory_tier_run when the cluster time memory_tier_next_ms is there (UINT64_MAX: no
 * need), and after something was applied. */
uint64_t memory_tier_next_ms(const struct memory_tier *t);
void memory_tier_run(struct memory_tier *t, struct tier_time now);

/* For reading; NULL while it is not on. */
const struct core *memory_tier_core(const struct memory_tier *t);

/* Attachment numbers of this tier are above this one, those of the replicated state below. */
#define TIER_ATTACHMENTS (UINT64_C(1) << 52)
static inline enum tier tier_of_attachment(uint64_t attachment)
{
    return attachment > TIER_ATTACHMENTS ? TIER_EFFICIENCY : TIER_CORRECTNESS;
}

#endif
