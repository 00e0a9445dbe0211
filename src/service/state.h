/* struct service and functions shared by its files. Private to src/service/. */
#ifndef HOLDFAST_SERVICE_STATE_H
#define HOLDFAST_SERVICE_STATE_H

#include "base/bump.h"
#include "base/heap.h"
#include "base/pool.h"
#include "base/table.h"
#include "core/policy.h"
#include "service/auth/auth.h"
#include "service/http/conn_budget.h"
#include "service/list.h"
#include "service/request/event_ring.h"
#include "service/request/pending.h"
#include "service/service.h"
#include "wire/http1_response.h"

enum {
    SERVICE_EARLY = 4096,           /* slots for events that precede their result */
    SERVICE_ANSWER_MAX = 16 << 20,  /* bytes of one answer's body */
    SERVICE_ARENA_MAX = 2 << 20,    /* bytes to decode one gRPC message */
    SERVICE_RENDER_MAX = 64 << 20,  /* bytes to render one: no answer reaches it */
    SERVICE_COMMAND_MAX = 48 << 10, /* bytes of an encoded acquire */
    SERVICE_RETRY_MS = 500,         /* between two attempts of a cleanup */
    SERVICE_WAIT_QUERY_MS = 250,    /* after a wait without event: query it */
    SERVICE_WAIT_GRACE_MS = 500,    /* after a wait: answer, outcome known or not */
    SERVICE_WAIT_REACH_MS = 2000,   /* minimum time of a wait to reach a leader */
};

struct service {
    const struct memory *memory;
    struct gateway gateway;
    struct service_options options;
    uint32_t node;
    bool draining;
    uint64_t sources;      /* number of the last connection */
    uint64_t source;       /* of requests that start now; 0: none */
    struct buffer scratch; /* body of the answer being rendered */
    struct slice looked;   /* gateway_call.page, while rendering from it */
    uint8_t *encoded;      /* SERVICE_COMMAND_MAX bytes */

    /* pending*.c */
    struct pool pool;    /* pending requests, commands, HTTP/2 streams */
    struct table parked; /* by attachment number, for events */
    struct heap timers;
    struct list waiting; /* acquires that may wait, not answered yet */
    uint64_t waiting_count;
    struct list notified;       /* to be answered by service_run */
    struct list cleanups;       /* with a command for service_run to submit */
    struct wait_outcome *early; /* at attachment modulo SERVICE_EARLY */
    uint64_t early_lost[2];     /* per tier: highest attachment overwritten in `early` */
    struct list gathered;       /* keep-alives not sent yet */
    uint32_t gathered_count;
    uint64_t gathered_due_ms; /* boot time */
    struct list rounds;       /* keep-alive commands in flight */
    struct list differing;    /* keep-alives whose locks are to be listed */

    struct list changes; /* membership changes in flight; api_member.c */

    struct list policy_work; /* changes of the policy to compute; auth/policy_api.c */

    struct list downloads; /* snapshots being taken or sent; api_snapshot.c */
    uint32_t download_count;

    /* watch*.c */
    struct event_ring events;
    struct list streams;
    uint64_t stream_count;
    uint64_t dropped_streams;
    uint64_t events_pumped; /* position offered to every stream */
    /* Without streams, events need not be in the ring, if the event log has them: rest_ring in watch.c. */
    bool ring_rests;
    bool ring_used;        /* by a stream, since the last look */
    uint64_t ring_look_ms; /* boot time of the next look */
    uint64_t ring_dropped; /* records that the event log had lost at the last one */
    bool pump;             /* a stream is new, or takes output again */
    uint32_t replays;      /* pages of the event log in flight; watch_replay.c */

    /* http_conn*.c */
    struct list conns;
    uint64_t conn_count;
    uint64_t conns_accepted;
    uint64_t http2_conn_count;
    uint64_t http2_accepted;
    struct conn_budget budget;
    struct list ready; /* with input to process or output to write */
    /* In order of the deadlines. */
    struct list transfers; /* receive a request or send an answer */
    struct list idle;      /* between two requests */
    /* http2_*.c and grpc/ */
    struct http2_shared *http2;  /* allocated for the first connection */
    struct list http2_requests;  /* in RECEIVING */
    struct list http2_answers;   /* with unread output */
    struct list http2_gone;      /* in CLOSED, to be freed */
    struct heap http2_deadlines; /* of gRPC calls */
    struct table sessions;       /* session streams, by session id; grpc/session.c */
    struct list session_calls;   /* all of them */
    struct list session_work;    /* with a command to submit */
    bool is_safe;                /* last value sent to them */
    struct list health_watches;  /* grpc/health.c */
    bool was_serving;            /* last value sent to them */
    struct bump arena;           /* of the gRPC message being decoded or rendered */

    struct resp_shared *resp; /* resp/ */

    struct auth_state *auth; /* auth/; NULL: auth = off */
    uint64_t auth_failures;  /* credentials refused, since start */
    uint64_t denied;         /* calls denied, since start */

    struct list quiet; /* with HTTP/2 streams, by last input */

    uint64_t requests;
    uint64_t grpc_requests; /* a part of them */
    uint64_t date_s;        /* of `date` */
    char date[HTTP1_DATE_LEN + 1];
};

static inline uint64_t service_boot_ms(const struct service *s)
{
    return s->gateway.boot_ms(s->gateway.ctx);
}

static inline const struct core *service_core(const struct service *s)
{
    return s->gateway.core(s->gateway.ctx);
}

static inline const struct policy *service_policy(const struct service *s)
{
    return core_policy(service_core(s));
}

/* NULL: this node lacks that tier's state. */
static inline const struct core *service_tier_core(const struct service *s, enum tier tier)
{
    if (tier == TIER_CORRECTNESS) {
        return service_core(s);
    }
    return s->gateway.memory_core == NULL ? NULL : s->gateway.memory_core(s->gateway.ctx);
}

static inline struct id service_random_id(const struct service *s)
{
    return s->gateway.random_id(s->gateway.ctx);
}

/* Never earlier than the newest timestamp in the state. */
uint64_t service_cluster_ms(const struct service *s);

/* pending*.c */
void pending_open_all(struct service *s);
void pending_close_all(struct service *s);
void pending_on_event(struct service *s, const struct event *event);
void pending_forget_early(struct service *s);
void pending_repeat_all(struct service *s);
/* Those in the tier EFFICIENCY. `is_void`: the tier lost its waiters. */
void pending_repeat_memory(struct service *s, bool is_void);
void pending_run(struct service *s);
uint64_t pending_next_ms(const struct service *s);

/* Shared by pending*.c. */
static inline struct pending_request *pending_at(const struct service *s, ref who)
{
    return pool_at(&s->pool, who);
}

static inline uint32_t pending_hash(uint64_t attachment)
{
    return (uint32_t)(attachment ^ attachment >> 32);
}

struct pending_request *pending_new(struct service *s, pending_answer_fn on_answer, void *owner);
void pending_free(struct pending_request *a);
void pending_send(struct pending_request *a, const struct command *command);
void pending_keep_command(struct pending_request *a, const struct command *command);
void pending_cancel_step(struct pending_request *a, enum hf_error error,
                         const struct result *result);
void pending_answer(struct pending_request *a, enum hf_error error, const struct result *result);
void pending_notify(struct pending_request *a, const struct wait_outcome *outcome);
void pending_stop_waiting(struct pending_request *a);
void pending_cleanup(struct pending_request *a, enum pending_cleanup cleanup);
void pending_timer(struct pending_request *a, uint64_t at_ms);
void pending_park(struct pending_request *a);
void pending_unpark(struct pending_request *a);
void pending_submit_again(struct pending_request *a);
void pending_leave(struct pending_request *a, enum hf_error error, const struct result *result);
void pending_cleanup_run(struct pending_request *a);
void pending_cleanup_done(struct pending_request *a, enum hf_error error,
                          const struct result *result);
void pending_answer_notified(struct pending_request *a);
void keepalive_run(struct service *s);
void keepalive_close_all(struct service *s);

/* http_conn.c */
void http_conn_run_all(struct service *s);
uint64_t http_conn_next_ms(const struct service *s);
void http_conn_drain_all(struct service *s);

/* resp/conn.c */
void resp_open_all(struct service *s);
void resp_close_all(struct service *s);
/* Resets the script time of this turn. */
void resp_begin_turn(struct service *s);
void resp_run_all(struct service *s);
uint64_t resp_next_ms(const struct service *s);
/* For conn_budget_enforce: breaks off the connection that uses the most memory, if that is more than
 * `above` bytes. False: none does. */
bool resp_break_off_largest(struct service *s, size_t above);
void resp_drain_all(struct service *s);
void resp_on_event(struct service *s, const struct event *event);
void resp_waits_run_all(struct service *s);
bool resp_has_subscribers(const struct service *s);
void resp_stats(const struct service *s, struct service_stats *out);

/* api_member.c */
void member_close_all(struct service *s);

/* auth/policy_api.c */
void policy_run(struct service *s);

/* api_snapshot.c */
void download_run(struct service *s);
uint64_t download_next_ms(const struct service *s);

/* watch.c */
void watch_run(struct service *s);
uint64_t watch_next_ms(const struct service *s);

#endif
