/* The EFFICIENCY tier (S10): a second core on the leader, without a log. Its contents end with the
 * leadership; holders detect that by the epoch. No I/O and no clock here.
 *
 *      memory_tier_submit ─▶ routed ─┬─▶ applied at once ─▶ on_result (before it returns)
 *                                    ├─▶ TIER_PROPOSE: for the log, submit it to the replica
 *                                    └─▶ TIER_LATER: nothing was done, submit it again
 *
 * Routing: an acquire goes to the tier that it requests, unless the other tier uses the name. Other
 * commands go to the tier that has their token, lease id, attachment number or name.
 *
 * Tokens are C·1024 + e (S3.1). C is the applied counter, or a value that `advance` skipped since
 * any other command raised C: CORRECTNESS tokens granted so far are below, later ones above
 * (decision 22). When half are used, the next `advance` is proposed; without tokens, grants wait
 * for it.
 *
 * Sessions: private ones exist only here. A replicated one is mirrored at its first use here, with
 * the same deadline. Only memory_tier_on_event reports its end: at its deadline a keep-alive may be
 * in flight.
 *
 * Rights: commands and waiters are authorised by the policy of the replicated core (decision 29). */
#ifndef HOLDFAST_REPLICA_MEMORY_TIER_H
#define HOLDFAST_REPLICA_MEMORY_TIER_H

#include "base/tier.h"
#include "core/core.h"
#include "replica/tier_backend.h"

struct memory_tier;

struct tier_time {
    uint64_t cluster_ms;
    uint64_t wall_ms;
    bool majority; /* a majority answered within an election timeout; else the tier is not served
                      (S10.1) */
};

struct memory_tier_options {
    const struct memory *memory;
    void *ctx;
    /* The applied replicated state. */
    const struct core *(*replicated)(void *ctx);
    /* The time for calls of a backend; NULL is allowed without one. */
    struct tier_time (*now)(void *ctx);
    /* The result of a taken command; borrowed. NULL: the leadership ended before a backend
     * confirmed it. */
    void (*on_result)(void *ctx, void *cookie, const struct result *result);
    /* Nothing was done; submit it again. */
    void (*on_again)(void *ctx, void *cookie);
    /* Must not call the tier. `tier` is set. index and ordinal are of this tier and leadership. */
    void (*on_event)(void *ctx, const struct event *event);
    /* Proposes `advance`, or the audit record of an operator's action. False: not now. */
    bool (*propose)(void *ctx, const struct command *command);
};

struct memory_tier *memory_tier_new(const struct memory_tier_options *options);
void memory_tier_free(struct memory_tier *t);
/* NULL (the default): this memory alone. */
void memory_tier_set_backend(struct memory_tier *t, const struct tier_backend *backend);

/* begin: this node leads and has applied its `lead`. end: everything is dropped. */
void memory_tier_begin(struct memory_tier *t, uint64_t hash_key);
void memory_tier_end(struct memory_tier *t);
bool memory_tier_is_on(const struct memory_tier *t);

/* For every command on the leader, before it is proposed. */
enum tier_taken {
    TIER_TAKEN,   /* on_result was called, or will be */
    TIER_PROPOSE, /* not for this tier */
    TIER_LATER,   /* no majority, no token, or a command in flight in the log decides it */
};
enum tier_taken memory_tier_submit(struct memory_tier *t, enum tier requested,
                                   const struct command *command, void *cookie,
                                   struct tier_time now);

/* True: memory_tier_submit would only return TIER_PROPOSE. */
bool memory_tier_is_for_log(const struct memory_tier *t, enum tier requested,
                            const struct command *command);

/* An acquire was proposed; its outcome is known (S10.2). Both only if memory_tier_is_counted.
 * on_proposed returns the number of the proposal. While the tier is on, proposals are settled in
 * the order of their numbers. All are of this leadership: the replica reports earlier ones before
 * it serves again. */
bool memory_tier_is_counted(const struct command *command);
uint64_t memory_tier_on_proposed(struct memory_tier *t, const struct command *command);
void memory_tier_on_settled(struct memory_tier *t, uint64_t number);
/* Marks a grant of this tier that is past its rule, and reports the event (S16.2). False: not now. */
bool memory_tier_report_long_held(struct memory_tier *t, const struct command *command,
                                  struct tier_time now);
/* A command was applied to the replicated state; called before the next one is applied. And an
 * event of that state. */
void memory_tier_on_replicated(struct memory_tier *t, const struct command *command,
                               const struct result *result);
void memory_tier_on_event(struct memory_tier *t, const struct event *event);

/* Call memory_tier_run at the cluster time memory_tier_next_ms (UINT64_MAX: no need), and after
 * something was applied. */
uint64_t memory_tier_next_ms(const struct memory_tier *t);
void memory_tier_run(struct memory_tier *t, struct tier_time now);

/* NULL while the tier is off. */
const struct core *memory_tier_core(const struct memory_tier *t);

/* Attachment numbers of this tier are above, those of the replicated state below. */
#define TIER_ATTACHMENTS (UINT64_C(1) << 52)
static inline enum tier tier_of_attachment(uint64_t attachment)
{
    return attachment > TIER_ATTACHMENTS ? TIER_EFFICIENCY : TIER_CORRECTNESS;
}

#endif
