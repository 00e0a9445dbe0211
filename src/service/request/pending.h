/* A submitted command, or an acquire that waits: from the submission until the client has its
 * answer, or until the cleanup is done that the request needs when its client disconnects (S7).
 *
 *   GATHERED (keep-alives)
 *      │ sent together in one command
 *      ▼       QUEUED             event             service_run
 *   SUBMITTED ────────▶ WAITING ────────▶ NOTIFIED ────────────▶ ANSWERED ──written──▶ freed
 *    │  │  ▲             │  │                │                    ▲  │
 *    │  │  └─submit again┘  │                │                    │  │
 *    │  └──any other result─┼────────────────┼────────────────────┘  │
 *    │                      │                │                       │
 *    ▼ client gone          ▼ client gone    ▼ client gone           ▼ client gone, not written
 *   CLEANUP ◀───────────────┴────────────────┴───────────────────────┘
 *      └──done, or nothing to clean up──▶ freed
 *
 * `gone` marks a request whose client disconnects while its command is in flight. The result of the
 * command then decides which cleanup is needed, if any. S7.2: without a request_id the waiter is
 * cancelled and a grant released. With a request_id the waiter is detached and a grant kept, so
 * that the client can send the request again. */
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
    PENDING_GATHERED, /* a keep-alive that is not sent yet; more are collected for one command */
};

/* The command that a pending request has to submit next. */
enum pending_cleanup {
    CLEANUP_NONE,
    CLEANUP_AGAIN,       /* the acquire again: does it still wait, with which attachment number? */
    CLEANUP_CANCEL,      /* S7.2 */
    CLEANUP_DETACH,      /* S7.3 */
    CLEANUP_RELEASE,     /* S7.2: the client has no record of the grant */
    CLEANUP_STREAM_DOWN, /* S4.6 */
    CLEANUP_STREAM_UP,   /* the cluster treats a working stream as broken */
};

/* The event that ended a wait. */
struct wait_outcome {
    enum event_type type; /* GRANTED, WAIT_ENDED or SUPERSEDED; EVENT_NONE: no event */
    enum reason reason;
    enum mode mode;
    uint32_t slot;
    uint64_t attachment;
    uint64_t token;
    uint64_t deadline_ms;
    struct id lease;
};

/* `error` is the gateway's. With HF_OK there is a result, which may hold an error itself. Both are
 * borrowed for the call. Must not submit anything. The owner calls pending_settle afterwards. */
typedef void (*pending_answer_fn)(void *owner, enum hf_error error, const struct result *result);

struct pending_request {
    struct gateway_call call;
    uint64_t source; /* of its calls */
    struct service *service;
    ref self;
    enum pending_state state;
    enum pending_cleanup cleanup;
    bool may_wait; /* an acquire that waits; `command` is kept */
    bool is_acquire;
    bool is_stream;   /* a stream_up, which needs a stream_down if the client is gone */
    bool keeps_place; /* the client has an id to retry with (S7.3) */
    bool gone;        /* the client disconnected */
    bool in_flight;   /* the gateway has `call` */
    bool repeated;    /* submitted more than once */
    bool again;       /* submit again as soon as the result is here */
    bool held;        /* ANSWERED: with a grant */
    bool unknown;     /* ANSWERED: with outcome_unknown */
    bool unchecked;   /* deadlock_unchecked (S6.4) */
    bool cancels;     /* withdraws an acquire; `cleanup` is the step in flight */
    bool is_void;     /* it waited in the tier EFFICIENCY, under an earlier leader */
    enum tier tier;   /* requested */
    uint32_t timer;   /* position in the heap, 0: none */
    uint32_t tenant;
    ref parked_next; /* in service.parked */
    bool is_parked;  /* is in service.parked */
    ref command;     /* encoded, 0: not kept */
    uint32_t command_len;
    struct id lease;      /* of a keep-alive, or of a stream: the session */
    struct id cleanup_id; /* part of the request id of a release, which must take effect once */
    uint64_t attachment;
    uint64_t wait_deadline_ms; /* cluster time; UINT64_MAX: none */
    uint64_t give_up_ms;       /* boot time; UINT64_MAX: never */
    uint64_t mark;             /* the owner's, until the answer is written */
    struct wait_outcome outcome;
    pending_answer_fn on_answer;
    void *owner;
    struct list link; /* in service.waiting or service.gathered; the owner's when ANSWERED */
    struct list work; /* in service.notified or service.cleanups, for service_run */
};

/* Calls `on_answer` once, never before this returned, and not after pending_abandon. `keeps_place`:
 * the client gave a request_id. */
struct pending_request *pending_submit(struct service *s, const struct command *command,
                                       bool keeps_place, pending_answer_fn on_answer, void *owner);
/* The same, with the tier that the client requests (gateway_call.tier). */
struct pending_request *pending_submit_tier(struct service *s, const struct command *command,
                                            enum tier tier, bool keeps_place,
                                            pending_answer_fn on_answer, void *owner);
/* Withdraws an acquire that the client identifies by its request id (S7.5), see pending_cancel.c.
 * Answers when the cluster has done it: refused with the reason CANCELLED, or the earlier result of
 * the acquire. After an error of the gateway the client must send the cancel again. */
struct pending_request *pending_cancel(struct service *s, const struct command *acquire,
                                       enum tier tier, pending_answer_fn on_answer, void *owner);
/* on_answer(HF_OK, NULL) once the local state includes every command completed before (S9.1). */
struct pending_request *pending_barrier(struct service *s, pending_answer_fn on_answer,
                                        void *owner);
/* The same, and queries the tier EFFICIENCY of the leader (gateway_call.look). service.looked has
 * the result while on_answer runs. */
struct pending_request *pending_look(struct service *s, struct slice look,
                                     pending_answer_fn on_answer, void *owner);
/* A keep-alive; it is sent with others in one command (S4.5). */
struct pending_request *pending_keepalive(struct service *s, struct id session,
                                          pending_answer_fn on_answer, void *owner);

/* Call after on_answer. True: the owner must not use it again. False: it is a grant that the client
 * cannot request again. Keep it until the answer is written, then call pending_written; call
 * pending_abandon if the answer cannot be written. */
bool pending_settle(struct pending_request *pending);
void pending_written(struct pending_request *pending);

/* The client is gone, or its answer could not be written. The request does its cleanup, then frees
 * itself. */
void pending_abandon(struct pending_request *pending);

/* Releases a grant whose answer was sent, but not received. Retries until the cluster answers. */
void pending_give_back(struct service *s, uint32_t tenant, struct id lease, enum tier tier);

/* Reports that the stream of a session has ended (S4.6). Retries until the cluster answers. */
void pending_stream_down(struct service *s, uint32_t tenant, struct id session, uint64_t stream);
/* The cluster treats a working stream as broken: gets a new stream number. Retries likewise. */
void pending_stream_up(struct service *s, uint32_t tenant, struct id session, uint64_t stream);

#endif
