/* A command on its way, and a wait that is held open: from the moment a door submits it until its
 * answer has reached the client, or until what it left behind has been tidied up (S7).
 *
 *              QUEUED                 an event
 *   ASKED ─────────────────▶ PARKED ─────────────▶ TOLD
 *    │ ▲                      │ │                   │ service_run
 *    │ └──────────────────────┘ │                   ▼
 *    │       ask again          │               ANSWERED ──written──▶ freed
 *    └──────anything else───────┼──────────────────▲ │
 *                               │ client gone        │ not written, client gone
 *                               ▼                    ▼
 *                            LEAVING ◀───────────────┘ ──done──▶ freed
 *
 * A client that is gone while its command is in flight is remembered as `gone`; what then comes
 * back decides what there is to tidy up. S7.2: without a request_id the waiter is cancelled and a
 * grant released; with one the waiter is detached and a grant kept, for the client to ask again. */
#ifndef HOLDFAST_SERVICE_REQUEST_PENDING_H
#define HOLDFAST_SERVICE_REQUEST_PENDING_H

#include "service/list.h"
#include "service/service.h"

enum pending_state {
    PENDING_SUBMITTED,
    PENDING_WAITING,
    PENDING_NOTIFIED,
    PENDING_ANSWERED,
    PENDING_CLEANUP,
    PENDING_GATHERED, /* a keep-alive that waits for company */
};

/* What an ask has left to submit. */
enum pending_cleanup {
    CLEANUP_NONE,
    CLEANUP_AGAIN,       /* the acquire itself: is it still waiting, and under which number? */
    CLEANUP_CANCEL,      /* S7.2 */
    CLEANUP_DETACH,      /* S7.3 */
    CLEANUP_RELEASE,     /* S7.2: nobody knows that it was granted */
    CLEANUP_STREAM_DOWN, /* S4.6 */
    CLEANUP_STREAM_UP,   /* ... again, since the cluster took it for broken */
};

/* What an event said about a waiter. */
struct wait_outcome {
    enum event_type type; /* GRANTED, WAIT_ENDED or SUPERSEDED; EVENT_NONE: no news */
    enum reason reason;
    enum mode mode;
    uint32_t slot;
    uint64_t attachment;
    uint64_t token;
    uint64_t deadline_ms;
    struct id lease;
};

/* `error` is the gateway's; with HF_OK there is a result, which may hold an error of its own. Both
 * are borrowed for the call. Submit nothing from here. Then the owner settles the ask. */
typedef void (*pending_answer_fn)(void *owner, enum hf_error error, const struct result *result);

struct pending_request {
    struct gateway_call call;
    uint64_t source; /* of its calls */
    struct service *service;
    ref self;
    enum pending_state state;
    enum pending_cleanup errand;
    bool may_wait; /* an acquire that waits; `command` is kept */
    bool is_acquire;
    bool is_stream;   /* a stream_up, which somebody has to take back */
    bool keeps_place; /* the client has an id to ask again with (S7.3) */
    bool gone;        /* the client is */
    bool in_flight;   /* `call` is with the gateway */
    bool repeated;    /* asked more than once */
    bool again;       /* to be asked again as soon as it is back */
    bool held;        /* ANSWERED: with a grant */
    bool unknown;     /* ANSWERED: with outcome_unknown */
    bool unchecked;   /* deadlock_unchecked (S6.4) */
    bool cancels;     /* withdraws an acquire; `errand` is the step that is in flight */
    bool is_void;     /* it waited in the tier EFFICIENCY, under a leader that is gone */
    enum tier tier;   /* that it asks for */
    uint32_t timer;   /* position in the heap, 0: none */
    uint32_t tenant;
    ref parked_next; /* in the table of attachment numbers */
    bool is_parked;  /* is in that table */
    ref command;     /* encoded, 0: not kept */
    uint32_t command_len;
    struct id lease;      /* of a keep-alive, or of a stream: the session */
    struct id cleanup_id; /* makes the id of a release, which must not be done twice */
    uint64_t attachment;
    uint64_t wait_deadline_ms; /* cluster time; UINT64_MAX: none */
    uint64_t give_up_ms;       /* boot time; UINT64_MAX: never */
    uint64_t mark;             /* the owner's, while the answer is being written */
    struct wait_outcome news;
    pending_answer_fn on_answer;
    void *owner;
    struct list link; /* among those that wait, or that are gathered; the owner's when ANSWERED */
    struct list work; /* among those that service_run has to see to */
};

/* `on_answer` is called once, never before this returned, unless pending_abandon comes first. With
 * `keeps_place` the client gave a request_id. */
struct pending_request *pending_submit(struct service *s, const struct command *command,
                                       bool keeps_place, pending_answer_fn on_answer, void *owner);
/* The same for the tier that the command asks for (gateway_call.tier). */
struct pending_request *pending_submit_tier(struct service *s, const struct command *command,
                                            enum tier tier, bool keeps_place,
                                            pending_answer_fn on_answer, void *owner);
/* Withdraws an acquire that the client names by its id (S7.5), see pending_cancel.c. The answer comes
 * when the cluster has done it: refused, with the reason CANCELLED, or how the acquire ended before.
 * An error of the gateway: send it again. */
struct pending_request *pending_cancel(struct service *s, const struct command *acquire,
                                       enum tier tier, pending_answer_fn on_answer, void *owner);
/* on_answer(HF_OK, NULL) once the local state shows everything done before (S9.1). */
struct pending_request *pending_barrier(struct service *s, pending_answer_fn on_answer,
                                        void *owner);
/* The same, and the leader looks something up meanwhile: service.looked has it in on_answer. */
struct pending_request *pending_look(struct service *s, struct slice look,
                                     pending_answer_fn on_answer, void *owner);
/* A keep-alive, which is gathered with others (S4.5). */
struct pending_request *pending_keepalive(struct service *s, struct id session,
                                          pending_answer_fn on_answer, void *owner);

/* After on_answer: true when the ask is done with. False when it is a grant that nobody could ask
 * for again: keep it until the answer is written, then call pending_written, or else pending_abandon. */
bool pending_settle(struct pending_request *pending);
void pending_written(struct pending_request *pending);

/* The client is gone, or its answer could not be written. The ask sees to itself from here on. */
void pending_abandon(struct pending_request *pending);

/* A grant whose answer left, and was not taken. The lock is given back, as often as it takes. */
void pending_give_back(struct service *s, uint32_t tenant, struct id lease, enum tier tier);

/* The stream of a session has ended (S4.6): tells so, as often as it takes. */
void pending_stream_down(struct service *s, uint32_t tenant, struct id session, uint64_t stream);
/* The stream is up, and the cluster took it for broken: it gets a new number. */
void pending_stream_up(struct service *s, uint32_t tenant, struct id session, uint64_t stream);

#endif
