/* The service in memory, and what its files share. Private to src/service/. */
#ifndef HOLDFAST_SERVICE_STATE_H
#define HOLDFAST_SERVICE_STATE_H

#include "base/bump.h"
#include "base/heap.h"
#include "base/pool.h"
#include "base/table.h"
#include "service/http/conn_budget.h"
#include "service/list.h"
#include "service/request/event_ring.h"
#include "service/request/pending.h"
#include "service/service.h"
#include "wire/http1_response.h"

enum {
    SERVICE_EARLY = 4096,           /* events that came before the result they belong to */
    SERVICE_ANSWER_MAX = 16 << 20,  /* bytes of one answer's body */
    SERVICE_ARENA_MAX = 2 << 20,    /* bytes that reading one message may take */
    SERVICE_RENDER_MAX = 64 << 20,  /* ... that making one may: more than any answer does */
    SERVICE_COMMAND_MAX = 48 << 10, /* bytes of an encoded acquire */
    SERVICE_RETRY_MS = 500,         /* between two attempts of an errand */
    SERVICE_WAIT_ASK_MS = 250,      /* after a wait's end without its event: the node asks for it */
    SERVICE_WAIT_GRACE_MS = 500,    /* ... and answers, when it cannot find out what happened */
    SERVICE_WAIT_REACH_MS = 2000,   /* a wait has at least this long to reach a leader */
};

struct service {
    const struct memory *memory;
    struct gateway gateway;
    struct service_options options;
    uint32_t node;
    bool draining;
    uint64_t sources;      /* numbers given to connections, see gateway_call.source */
    uint64_t source;       /* of the connection whose requests are being begun; 0: none */
    struct buffer scratch; /* the body of the answer that is being made */
    struct slice looked; /* what the leader found in the tier EFFICIENCY, while that is rendered */
    uint8_t *encoded;    /* SERVICE_COMMAND_MAX bytes */

    /* ask*.c */
    struct pool pool; /* asks and their commands */
    struct table parked;
    struct heap timers;
    struct list waiting; /* acquires that may wait and are not answered yet */
    uint64_t waiting_count;
    struct list told;
    struct list errands;
    struct wait_outcome *early; /* at attachment modulo SERVICE_EARLY */
    uint64_t early_lost[2]; /* the highest attachment of each tier that was dropped from there */
    struct list gathered;   /* keep-alives */
    uint32_t gathered_count;
    uint64_t gathered_due_ms; /* boot time */
    struct list rounds;       /* keep-alive commands in flight */

    struct list changes; /* of members, in flight; api_member.c */

    struct list downloads; /* snapshots that are taken for clients, or sent; api_snapshot.c */
    uint32_t download_count;

    /* watch*.c */
    struct event_ring events;
    struct list streams;
    uint64_t stream_count;
    uint64_t dropped_streams;
    uint64_t events_pumped; /* up to here every stream was looked at */
    bool pump;              /* a stream has room again, or is new */

    /* http_conn*.c */
    struct list conns;
    uint64_t conn_count;
    struct conn_budget budget;
    struct list ready;     /* connections that have something to do or to write */
    struct list transfers; /* connections in the middle of a request or of the last answer */
    struct list idle; /* ... between two requests; both lists are in the order of their deadlines */
    /* http2_*.c and rpc*.c */
    struct http2_shared *http2;  /* made for the first connection */
    struct list http2_requests;  /* streams whose request is still coming */
    struct list http2_answers;   /* ... whose answer is still leaving */
    struct list http2_gone;      /* ... that are over, and to be freed */
    struct heap http2_deadlines; /* of calls */
    struct table sessions;       /* streams of sessions, by the session's id; rpc_session.c */
    struct list session_calls;   /* ... all of them */
    struct list session_work;    /* ... that have something to submit */
    bool is_safe;                /* what they were told last */
    struct list health_watches;  /* rpc_health.c */
    bool was_serving;            /* what they were told last */
    struct bump arena;           /* of the message that is being read or written */

    struct resp_shared *resp; /* resp_*.c */

    struct list quiet; /* connections with streams, by when they were heard last */

    uint64_t requests;
    uint64_t date_s; /* the second that `date` names */
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

/* Of either tier; NULL where this node does not have it. */
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

/* Cluster time now, never behind the state. */
uint64_t service_cluster_ms(const struct service *s);

/* ask.c and its errands, for service.c. */
void pending_open_all(struct service *s);
void pending_close_all(struct service *s);
void pending_on_event(struct service *s, const struct event *event);
void pending_forget_early(struct service *s);
void pending_repeat_all(struct service *s);
/* Those that wait in the tier EFFICIENCY; `is_void`: nobody knows them there any more. */
void pending_repeat_memory(struct service *s, bool is_void);
void pending_run(struct service *s);
uint64_t pending_next_ms(const struct service *s);

/* Between the files ask*.c. */
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
void pending_tell(struct pending_request *a, const struct wait_outcome *news);
void pending_stop_waiting(struct pending_request *a);
void pending_cleanup(struct pending_request *a, enum pending_cleanup errand);
void pending_timer(struct pending_request *a, uint64_t at_ms);
void pending_park(struct pending_request *a);
void pending_unpark(struct pending_request *a);
void pending_submit_again(struct pending_request *a);
void pending_leave(struct pending_request *a, enum hf_error error, const struct result *result);
void pending_cleanup_run(struct pending_request *a);
void pending_cleanup_done(struct pending_request *a, enum hf_error error,
                          const struct result *result);
void pending_answer_told(struct pending_request *a);
void keepalive_run(struct service *s);
void keepalive_close_all(struct service *s);

/* http_conn.c, for service.c. */
void http_conn_run_all(struct service *s);
uint64_t http_conn_next_ms(const struct service *s);
void http_conn_drain_all(struct service *s);

/* resp_conn.c, for service.c. */
void resp_open_all(struct service *s);
void resp_close_all(struct service *s);
/* Scripts have their share of time again. */
void resp_begin_turn(struct service *s);
void resp_run_all(struct service *s);
uint64_t resp_next_ms(const struct service *s);
void resp_drain_all(struct service *s);
void resp_on_event(struct service *s, const struct event *event);
bool resp_has_subscribers(const struct service *s);
void resp_stats(const struct service *s, struct service_stats *out);

/* api_member.c, for service.c. */
void member_close_all(struct service *s);

/* api_snapshot.c, for service.c. */
void download_run(struct service *s);
uint64_t download_next_ms(const struct service *s);

/* watch.c, for service.c. */
void watch_run(struct service *s);
uint64_t watch_next_ms(const struct service *s);

#endif
