/* Brings a request of the service (service/gateway.h) to the replicated state: submits it here if
 * this node leads, else sends it to the leader.
 *
 *      new     ──this node leads, no call waits──────▶ here
 *      new     ──otherwise───────────────────────────▶ waiting
 *      waiting ──this node leads─────▶ here  ──done──▶ answered
 *      waiting ──another node leads──▶ there ──done──▶ answered (barrier: when our state caught up)
 *      here    ──not done, leadership lost───────────▶ waiting
 *      there   ──not done, link down, new leader─────▶ waiting
 *      any     ──timeout──▶ answered: UNAVAILABLE or BUSY if it was certainly not done,
 *                                     else OUTCOME_UNKNOWN
 *
 * A call in doubt is sent again with the same bytes, which is safe with a lease id or a request id
 * (S8). A command without one is not sent again. */
#ifndef HOLDFAST_NODE_FORWARD_FORWARD_H
#define HOLDFAST_NODE_FORWARD_FORWARD_H

#include "base/journal.h"
#include "node/counts/counts.h"
#include "node/peers/peers.h"
#include "replica/admission.h"
#include "replica/memory_tier.h"
#include "replica/replica.h"
#include "service/gateway.h"

struct forward;

/* A command that took longer than slow_ms, until its answer. Times are boot times. */
struct forward_slow {
    struct slice command; /* encoded; empty: the one that is being applied */
    uint64_t took_ms;
    uint64_t begun_us;   /* when it arrived at this node */
    uint64_t sent_us;    /* when it went into the open batch or to the leader last; 0: never */
    uint64_t peer;       /* the node that forwarded it; 0: a client of this node */
    uint64_t leader;     /* the node that it was sent to; 0: this one */
    enum hf_error error; /* of the answer */
};

struct forward_options {
    const struct memory *memory;
    const struct journal *journal;
    uint64_t node;
    uint32_t give_up_ms;
    void *ctx;
    struct replica_time (*now)(void *ctx);
    uint64_t (*boot_ms)(void *ctx); /* boot time in ms, cheaper, for timeouts; NULL: use `now` */
    bool auth; /* clients' commands need a principal, if the state knows principals */
    struct admission *admission; /* NULL: no limit of the state */
    struct memory_tier *tier;    /* tier EFFICIENCY; NULL: none, its calls time out */
    const struct core *(*memory_core)(void *ctx); /* its state, or NULL; may be NULL without it */
    /* On the leader: appends the answer to gateway_call.look. False: malformed, or too long. NULL:
     * only pages of the tier EFFICIENCY (memory_page.h). */
    bool (*answer_query)(void *ctx, struct slice query, struct buffer *out);
    struct node_counts *counts; /* NULL: nothing is counted */
    uint64_t slow_ms;           /* 0: on_slow is not called */
    void (*on_slow)(void *ctx, const struct forward_slow *slow);
    /* Of that tier, may be NULL without it: a node subscribes to events; an event was received. */
    void (*on_interest)(void *ctx, uint64_t peer, uint64_t link, uint8_t level);
    bool (*on_event)(void *ctx, uint64_t peer, struct slice body);
    /* Changes the members. HF_OK, HF_MEMBERSHIP with a problem, HF_UNAVAILABLE (this node does not
     * lead) or HF_BUSY (try again). */
    enum hf_error (*change)(void *ctx, enum gateway_change change, uint64_t id, const char *address,
                            const char **problem);
};

struct forward *forward_new(const struct forward_options *options);
/* Drops outstanding calls without callbacks. The replica must be freed before. */
void forward_free(struct forward *f);
/* Before the first call. Both must outlive `f`. */
void forward_connect(struct forward *f, struct replica *replica, struct peers *peers);

void forward_submit(struct forward *f, const struct command *command, struct gateway_call *call);
void forward_barrier(struct forward *f, struct gateway_call *call);
void forward_change(struct forward *f, enum gateway_change change, uint64_t id, const char *address,
                    struct gateway_change_call *call);
/* Submits a command before all others, which wait for it. Used once, at the start. */
void forward_submit_first(struct forward *f, const struct command *command,
                          struct gateway_call *call);
/* Disk full: nothing new is submitted here, and waiting calls time out. If `alone` (no other node
 * can lead), they fail immediately. */
void forward_set_read_only(struct forward *f, bool read_only, bool alone);
/* After a stall the sockets are read first (S1.5): the tier EFFICIENCY expires nothing and accepts
 * no command. */
void forward_set_reading(struct forward *f, bool reading);
/* For a leadership transfer, or a learner that catches up: nothing is submitted here, the batch in
 * flight is the last one. */
void forward_set_paused(struct forward *f, bool paused);

/* From the replica. */
void forward_on_result(struct forward *f, void *cookie, enum replica_outcome outcome,
                       const struct result *result);
void forward_on_barrier(struct forward *f, void *cookie, bool reached);
void forward_on_change(struct forward *f);
/* From the tier EFFICIENCY. `result` NULL: the outcome is unknown. */
void forward_on_tier_result(struct forward *f, void *cookie, const struct result *result);
/* Whether calls were answered since the last call of this. */
bool forward_has_answered(struct forward *f);
/* Commands that this node denied as leader, by the missing right; 0: they had no principal. */
enum { FORWARD_DENIAL_REASONS = 5 };
uint64_t forward_denied(const struct forward *f, unsigned reason);
const char *forward_denial_reason(unsigned reason);
/* For commands of the node itself, whose result is not used. */
void *forward_no_cookie(void);

/* From the peers. */
bool forward_on_request(struct forward *f, uint64_t peer, uint64_t link, uint64_t number,
                        uint8_t kind, struct slice body);
bool forward_on_answer(struct forward *f, uint64_t peer, uint64_t number, uint8_t status,
                       struct slice body);
void forward_on_down(struct forward *f, uint64_t peer);

/* Once per turn, outside of the replica: sends waiting calls, fails overdue calls. */
void forward_run(struct forward *f);
/* Latest boot time (ms) of the next forward_run; UINT64_MAX: nothing is outstanding. */
uint64_t forward_next_ms(const struct forward *f);
uint32_t forward_outstanding(const struct forward *f);
/* Of these: not sent yet. */
uint32_t forward_queued(const struct forward *f);
/* The highest epoch in an answer of a leader, or 0. Our own state may be behind it (S10.2). */
uint64_t forward_epoch(const struct forward *f);
/* Cluster time of the current leader, whose answers of the tier EFFICIENCY may be ahead of our
 * applied state. For display only. */
uint64_t forward_leader_ms(const struct forward *f);
void forward_note_leader_ms(struct forward *f, uint64_t cluster_ms);

#endif
