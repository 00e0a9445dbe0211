/* How a request reaches the replicated state (service/gateway.h), whichever node it came to: here
 * if this node leads, else over the link to the leader, which relays the answer.
 *
 *      waiting ──we lead──▶ here ──done──▶ answered
 *         │ ▲                │ not done, or leadership lost
 *         │ └────────────────┤
 *         │                  │ not done, link down, another leader
 *         └──another leads──▶ there ──done──▶ answered (a barrier first waits for our own state)
 *      any: ──too late──▶ answered: UNAVAILABLE, or BUSY, if it was surely done nowhere, else
 *                                     OUTCOME_UNKNOWN
 *
 * The same bytes are sent again after a doubt, which is safe: commands carry a lease id or a
 * request id (S8), and those that do not are not sent again. */
#ifndef HOLDFAST_NODE_FORWARD_FORWARD_H
#define HOLDFAST_NODE_FORWARD_FORWARD_H

#include "base/journal.h"
#include "node/peers/peers.h"
#include "replica/admission.h"
#include "replica/memory_tier.h"
#include "replica/replica.h"
#include "service/gateway.h"

struct forward;

struct forward_options {
    const struct memory *memory;
    const struct journal *journal;
    uint64_t node;
    uint32_t give_up_ms;
    void *ctx;
    struct replica_time (*now)(void *ctx);
    uint64_t (*boot_ms)(void *ctx); /* the same in ms, and cheaper, for time limits; NULL: `now` */
    struct admission *admission;    /* the limit of the state; NULL: none */
    struct memory_tier *tier;       /* NULL: there is none, and who asks for it waits in vain */
    const struct core *(*memory_core)(void *ctx); /* its state, or NULL; may be NULL without it */
    /* Of that tier, may be NULL without it: a node says what it wants to hear; an event came. */
    void (*on_interest)(void *ctx, uint64_t peer, uint64_t link, uint8_t level);
    bool (*on_event)(void *ctx, uint64_t peer, struct slice body);
    /* Changes the members, here, where this node leads: HF_OK, HF_MEMBERSHIP with a problem,
     * HF_UNAVAILABLE (it does not lead) or HF_BUSY (try again). */
    enum hf_error (*change)(void *ctx, enum gateway_change change, uint64_t id, const char *address,
                            const char **problem);
};

struct forward *forward_new(const struct forward_options *options);
/* What is outstanding is forgotten, and nobody is called. The replica must be gone. */
void forward_free(struct forward *f);
/* Both are there before the first call, and stay. */
void forward_connect(struct forward *f, struct replica *replica, struct peers *peers);

/* The gateway's calls. */
void forward_submit(struct forward *f, const struct command *command, struct gateway_call *call);
void forward_barrier(struct forward *f, struct gateway_call *call);
void forward_change(struct forward *f, enum gateway_change change, uint64_t id, const char *address,
                    struct gateway_change_call *call);
/* Before all others, which wait until it is done; used once, at the start of a node's life. */
void forward_submit_first(struct forward *f, const struct command *command,
                          struct gateway_call *call);
/* The disk is full: nothing new is submitted on this node, and what waits is refused in time; at
 * once when it is `alone` and cannot hope for another leader. */
void forward_set_read_only(struct forward *f, bool read_only, bool alone);
/* After a stall the sockets are read first (S1.5): the tier EFFICIENCY expires nothing meanwhile,
 * and so takes nothing. */
void forward_set_reading(struct forward *f, bool reading);
/* The lead is being given away: nothing is submitted here, so that the batch in flight is the last.
 */
void forward_set_paused(struct forward *f, bool paused);

/* From the replica. */
void forward_on_result(struct forward *f, void *cookie, enum replica_outcome outcome,
                       const struct result *result);
void forward_on_barrier(struct forward *f, void *cookie, bool reached);
void forward_on_change(struct forward *f);
/* From the tier EFFICIENCY: as the replica's. NULL: it cannot be known. */
void forward_on_tier_result(struct forward *f, void *cookie, const struct result *result);
/* Something was answered since the last call that the service has not seen to. */
bool forward_has_answered(struct forward *f);
/* For commands of the node itself, whose result nobody waits for. */
void *forward_no_cookie(void);

/* From the peers. */
bool forward_on_request(struct forward *f, uint64_t peer, uint64_t link, uint64_t number,
                        uint8_t kind, struct slice body);
bool forward_on_answer(struct forward *f, uint64_t peer, uint64_t number, uint8_t status,
                       struct slice body);
void forward_on_down(struct forward *f, uint64_t peer);

/* Once per turn of the loop, outside of the replica: sends what waits, gives up what is too old. */
void forward_run(struct forward *f);
/* When to run again at the latest, in boot time (ms); UINT64_MAX: nothing is outstanding. */
uint64_t forward_next_ms(const struct forward *f);
uint32_t forward_outstanding(const struct forward *f);
/* The highest epoch that a leader's answer named, or 0. The own state may be behind it (S10.2). */
uint64_t forward_epoch(const struct forward *f);
/* The cluster time that the present leader named last; its answers of the tier EFFICIENCY may be
 * ahead of what this node has applied. For showing, as gateway.cluster_ms. */
uint64_t forward_heard_ms(const struct forward *f);
void forward_hear_ms(struct forward *f, uint64_t cluster_ms);

#endif
