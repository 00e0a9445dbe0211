/* One node's service: what stands between the doors (HTTP, gRPC, the Redis protocol) and the
 * replicated state. It has no socket, no thread and no clock of its own.
 *
 *     door: a request ─▶ ask ─▶ gateway ─▶ ... ─▶ result ─▶ the door renders it
 *                          └─▶ QUEUED: parked ──── an event of this node's state ─▶ rendered
 *
 * Results and events come from inside the replica, which must not be called back then. So whatever
 * has to be submitted is left for service_run, which the node calls once per turn of its loop,
 * after it has delivered everything and before it writes to its sockets. */
#ifndef HOLDFAST_SERVICE_SERVICE_H
#define HOLDFAST_SERVICE_SERVICE_H

#include "base/buffer.h"
#include "core/event.h"
#include "service/gateway.h"

struct service;

/* What the node logs, by subsystem, in words. */
struct service_log {
    void *ctx;
    void (*each)(void *ctx, void (*visit)(void *to, const char *subsystem, const char *level),
                 void *to);
    /* "debug" for all, "raft=debug,peer=warn" for some. NULL, or what is wrong; then nothing was
     * changed. */
    const char *(*set)(void *ctx, const char *text);
};

#define SERVICE_PASSWORD_MAX 255

struct service_options {
    const struct memory *memory;
    struct gateway gateway;
    /* The rest may be 0, which stands for the value in brackets. */
    uint32_t ttl_min_ms;   /* shortest TTL that is taken in (1,000) */
    uint32_t heartbeat_ms; /* of event streams (15,000) */
    uint32_t request_ms;   /* for a request to arrive as a whole (10,000) */
    uint32_t idle_ms;      /* between two requests of a connection (300,000) */
    size_t event_bytes;    /* recent events kept for those who watch (8 MiB) */
    size_t conn_bytes;     /* memory of all HTTP connections together (512 MiB) */
    /* Pages that are not the service's: the dashboard, metrics. Asked for a GET that matches
     * nothing here; writes the page and says what it is, or returns false. May be NULL. */
    bool (*page)(void *ctx, struct slice path, struct buffer *out, const char **content_type);
    void *page_ctx;
    /* The Redis protocol. */
    enum tier resp_tier;                          /* that its keys are in (S10) */
    char resp_password[SERVICE_PASSWORD_MAX + 1]; /* "": none is asked for */
    bool resp_del_refused;  /* a plain DEL of somebody else's lock, instead of a force-unlock */
    struct service_log log; /* `each` NULL: not to be seen or changed here */
};

/* Close the connections first. What is in flight is forgotten, so the gateway must not come back
 * with it. */
struct service *service_new(const struct service_options *options);
void service_free(struct service *s);

/* Every event that is applied on this node, in order; and those of the tier EFFICIENCY that reach
 * it (`tier` is set), between them. */
void service_on_event(struct service *s, const struct event *event);
/* What this node wants to hear of that tier besides what its own waiters wait for. */
enum service_wants {
    SERVICE_WANTS_NOTHING,
    SERVICE_WANTS_SESSIONS, /* what a holder is told (LOST, REVOKE_REQUESTED), of sessions */
    SERVICE_WANTS_ALL,
};
enum service_wants service_wants(const struct service *s);
/* The connection to the leader broke, and with it the way of that tier's events: those who wait
 * for one of its locks are asked for again (S7). */
void service_leader_lost(struct service *s);
/* The state was replaced by a snapshot, and events were skipped: those who wait are asked for again
 * (S7), those who watch start over (S9.3). */
void service_state_replaced(struct service *s);

/* Once per turn of the loop, and at the time that service_next_ms names (boot_ms; UINT64_MAX: there
 * is none). */
void service_run(struct service *s);
uint64_t service_next_ms(const struct service *s);

/* Runs what is to become one command over the applied state: transactions of the Redis protocol, as
 * far as gateway.is_settled allows. The node calls it before it closes a batch, service_run does,
 * too. */
void service_transact(struct service *s);
bool service_has_transactions(const struct service *s);

/* The node stops soon: who waits is told to ask elsewhere (a place in a queue is kept for one who
 * gave a request_id), streams end, connections close behind their next answer, readyz says no. */
void service_drain(struct service *s);

struct service_stats {
    uint64_t connections;
    uint64_t requests; /* answered so far */
    uint64_t waiting;  /* acquires held open */
    uint64_t streams;
    uint64_t dropped_streams; /* too slow, so far */
    uint64_t conn_bytes;      /* memory that HTTP connections hold, and its limit */
    uint64_t conn_bytes_max;
    uint64_t conn_closed;     /* connections closed because of that limit, so far */
    uint64_t stalled_streams; /* of HTTP/2, reset because the client took nothing, so far */
    /* Of the Redis protocol. */
    uint64_t resp_connections;
    uint64_t resp_accepted; /* connections, so far */
    uint64_t resp_commands;
    uint64_t resp_errors;
    uint64_t resp_conflicts; /* transactions that were run again */
    uint64_t resp_dropped;   /* subscribers that were too slow */
    uint64_t resp_scripts;   /* runs of scripts */
    uint64_t resp_stopped;   /* ... that reached a limit */
};

void service_stats(const struct service *s, struct service_stats *out);

#endif
