/* A submitted command or waiting acquire: until the client has its answer, or the cleanup after its
 * disconnect is done (S7).
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
 * `gone`: the client disconnected while the command is in flight; the result decides the cleanup.
 * S7.2: without a request_id the waiter is cancelled and a grant released. With one the waiter is
 * detached and a grant kept: the client can send the request again. */
#ifndef HOLDFAST_SERVICE_REQUEST_PENDING_H
#define HOLDFAST_SERVICE_REQUEST_PENDING_H

#include "core/view.h"
#include "service/auth/caller.h"
#include "service/list.h"
#include "service/service.h"

enum pending_state {
    PENDING_SUBMITTED,
    PENDING_WAITING,
    PENDING_NOTIFIED,
    PENDING_ANSWERED,
    PENDING_CLEANUP,
    PENDING_GATHERED, /* a keep-alive, collected with others for one command */
    PENDING_DIFFERS,  /* a confirmed keep-alive whose check failed: the locks are listed next */
};

/* The command to submit next. */
enum pending_cleanup {
    CLEANUP_NONE,
    CLEANUP_AGAIN,       /* the acquire: does it still wait, with which attachment number? */
    CLEANUP_CANCEL,      /* S7.2 */
    CLEANUP_DETACH,      /* S7.3 */
    CLEANUP_RELEASE,     /* S7.2: the client does not know of the grant */
    CLEANUP_STREAM_DOWN, /* S4.6 */
    CLEANUP_STREAM_UP,   /* the cluster treats a working stream as broken */
};

struct wait_outcome {
    enum event_type type; /* GRANTED, WAIT_ENDED, SUPERSEDED or EVENT_NONE */
    enum reason reason;
    enum mode mode;
    uint32_t slot;
    uint64_t attachment;
    uint64_t token;
    uint64_t deadline_ms;
    uint64_t since_ms;  /* of the grant; 0 before version 7 */
    uint64_t waited_ms; /* ... */
    struct id lease;
};

/* `error` is the gateway's. HF_OK: `result` may hold an error. Both are borrowed. Must not submit.
 * The owner calls pending_settle afterwards. */
typedef void (*pending_answer_fn)(void *owner, enum hf_error error, const struct result *result);

/* Of a keep-alive: the tokens that the client believes to hold (S4.8). If they differ from those of
 * the session, its locks are listed from `cursor` (session_names.h). */
struct keepalive_check {
    struct token_sum tokens;
    uint64_t cursor;
};

struct pending_request {
    struct gateway_call call;
    uint64_t source;
    struct service *service;
    ref self;
    enum pending_state state;
    enum pending_cleanup cleanup;
    bool may_wait; /* an acquire that waits; `command` is kept */
    bool is_acquire;
    bool is_stream;   /* a stream_up; needs a stream_down if the client is gone */
    bool is_own;      /* gateway_call.is_own */
    bool keeps_place; /* the client has an id to retry with (S7.3) */
    bool gone;
    bool in_flight;  /* the gateway has `call` */
    bool repeated;   /* submitted more than once */
    bool again;      /* submit again when the result is here */
    bool held;       /* ANSWERED: with a grant */
    bool unknown;    /* ANSWERED: with outcome_unknown */
    bool unchecked;  /* deadlock_unchecked (S6.4) */
    bool cancels;    /* withdraws an acquire; `cleanup` is the step in flight */
    bool is_void;    /* waited in EFFICIENCY under an earlier leader */
    bool is_checked; /* a keep-alive with `check` */
    bool is_listed;  /* ANSWERED: its tokens differ; the locks can be listed during on_answer */
    enum tier tier;  /* requested */
    uint32_t timer;  /* position in the heap, 0: none */
    struct caller_id who;
    ref parked_next; /* in service.parked */
    bool is_parked;
    ref command; /* encoded, 0: not kept */
    uint32_t command_len;
    struct id lease;      /* of a keep-alive or stream: the session */
    struct id cleanup_id; /* in the request id of a release: it takes effect once */
    uint64_t attachment;
    uint64_t wait_deadline_ms; /* cluster time; UINT64_MAX: none */
    uint64_t give_up_ms;       /* boot time; UINT64_MAX: never */
    uint64_t mark;             /* the owner's, until the answer is written */
    struct wait_outcome outcome;
    struct keepalive_check check;
    pending_answer_fn on_answer;
    void *owner;
    /* In service.waiting, gathered or differing; the owner's when ANSWERED. */
    struct list link;
    struct list work; /* in service.notified or service.cleanups */
};

/* Calls `on_answer` once, never before this returned or after pending_abandon. `keeps_place`: the
 * client gave a request_id. */
struct pending_request *pending_submit(struct service *s, const struct command *command,
                                       bool keeps_place, pending_answer_fn on_answer, void *owner);
/* In the tier that the client requests (gateway_call.tier). */
struct pending_request *pending_submit_tier(struct service *s, const struct command *command,
                                            enum tier tier, bool keeps_place,
                                            pending_answer_fn on_answer, void *owner);
/* See pending_cancel.c (S7.5). Answers when done: refused with the reason CANCELLED, or the
 * acquire's earlier result. After a gateway error the client must send the cancel again. */
struct pending_request *pending_cancel(struct service *s, const struct command *acquire,
                                       enum tier tier, pending_answer_fn on_answer, void *owner);
/* on_answer(HF_OK, NULL) once the local state includes every command completed before (S9.1). */
struct pending_request *pending_barrier(struct service *s, pending_answer_fn on_answer,
                                        void *owner);
/* The same with gateway_call.look; service.looked has the result during on_answer. */
struct pending_request *pending_look(struct service *s, struct slice look,
                                     pending_answer_fn on_answer, void *owner);
/* Sent with others of the caller in one command (S4.5). `check`: NULL for none. If the tokens differ,
 * `is_listed` is set in on_answer, and session_names_held lists the locks. */
struct pending_request *pending_keepalive(struct service *s, struct caller_id who,
                                          struct id session, const struct keepalive_check *check,
                                          pending_answer_fn on_answer, void *owner);

/* Call after on_answer. True: the owner must not use it again. False: a grant that the client
 * cannot request again. Keep it until the answer is written, then call pending_written;
 * pending_abandon if it cannot be written. */
bool pending_settle(struct pending_request *pending);
void pending_written(struct pending_request *pending);

/* The client is gone, or its answer could not be written. Cleans up, then frees itself. */
void pending_abandon(struct pending_request *pending);

/* Releases a grant whose answer was not received. Retries until the cluster answers. */
void pending_give_back(struct service *s, struct caller_id who, struct id lease, enum tier tier);

/* The stream of a session has ended (S4.6). Retries likewise. */
void pending_stream_down(struct service *s, struct caller_id who, struct id session,
                         uint64_t stream);
/* Gets a new number for a working stream that the cluster treats as broken. Retries likewise. */
void pending_stream_up(struct service *s, struct caller_id who, struct id session, uint64_t stream);

#endif
