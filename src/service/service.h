/* One node's service, between the transports (HTTP, gRPC, the Redis protocol) and the replicated
 * state. It has no socket, thread or clock.
 *
 *     transport ──▶ api_request ──▶ pending_request ──▶ gateway ──▶ ... ──▶ result ──▶ answer
 *                                          │
 *                                          └──QUEUED──▶ waits ──event in the local state──▶ answer
 *
 * The replica delivers results and events and must not be called back from there. service_run
 * submits instead: once per loop turn, after all deliveries and before writes to sockets. */
#ifndef HOLDFAST_SERVICE_SERVICE_H
#define HOLDFAST_SERVICE_SERVICE_H

#include "base/buffer.h"
#include "base/peer_identity.h"
#include "core/event.h"
#include "replica/quota.h"
#include "service/gateway.h"

struct service;

struct service_log {
    void *ctx;
    void (*each)(void *ctx, void (*visit)(void *to, const char *subsystem, const char *level),
                 void *to);
    /* "debug" or "raft=debug,peer=warn". Returns NULL, or an error text and changes nothing. */
    const char *(*set)(void *ctx, const char *text);
};

#define SERVICE_PASSWORD_MAX 255

enum { CLIENT_ADDRESS_MAX = 80 };

struct service_asset {
    struct slice body; /* static */
    const char *content_type;
};

struct service_options {
    const struct memory *memory;
    struct gateway gateway;
    /* 0: the default in brackets. */
    uint32_t ttl_min_ms;      /* shortest accepted (1,000) */
    uint64_t resp_ttl_min_ms; /* ... of a Redis key (1) */
    uint64_t resp_ttl_max_ms; /* longest (LIMIT_KEY_TTL_MAX_MS; only then keys without TTL) */
    uint32_t resp_value_max;  /* bytes of a Redis key's value (LIMIT_VALUE) */
    uint32_t heartbeat_ms;    /* of event streams (15,000) */
    uint32_t request_ms;      /* to receive a request (10,000) */
    uint32_t idle_ms;         /* between two requests (300,000) */
    size_t event_bytes;       /* recent, for watchers (8 MiB) */
    size_t conn_bytes;        /* of all HTTP connections (512 MiB) */
    /* Constant pages of other modules, for a GET without a route: the dashboard. Anybody may load
     * them. Returns false if it has none of that path. May be NULL. */
    bool (*asset)(struct slice path, struct service_asset *out);
    /* The same for pages with figures of this node, which need the right to read all. Writes the
     * page and its content type. May be NULL. */
    bool (*page)(void *ctx, struct slice path, struct buffer *out, const char **content_type);
    void *page_ctx;
    enum tier resp_tier;                          /* of Redis keys (S10) */
    char resp_password[SERVICE_PASSWORD_MAX + 1]; /* "": none is required */
    bool resp_ping_serving;                       /* PING is an error while no leader serves */
    bool resp_del_refused;       /* DEL of another client's lock is an error, not a force-unlock */
    bool auth;                   /* every request needs a principal */
    const char *server_names;    /* allowed in Host (host.h); NULL: none; must stay valid */
    const char *program_version; /* shown; NULL: not known; must stay valid */
    struct service_log log;      /* `each` NULL: not available */
};

/* service_free: close the connections first. The gateway must not call `done` of calls still in
 * flight. */
struct service *service_new(const struct service_options *options);
void service_free(struct service *s);

/* Every event applied here, in order, and events of the tier EFFICIENCY that reach this node
 * (`tier` is set). */
void service_on_event(struct service *s, const struct event *event);
/* Events of the tier EFFICIENCY that this node needs, besides those of its waiters. */
enum service_wants {
    SERVICE_WANTS_NOTHING,
    SERVICE_WANTS_SESSIONS, /* notifications to holders (LOST, REVOKE_REQUESTED), of sessions */
    SERVICE_WANTS_ALL,
};
enum service_wants service_wants(const struct service *s);
/* Events of the tier EFFICIENCY may be lost: submits its waiting acquires again (S7). */
void service_leader_lost(struct service *s);
/* Events were skipped: submits waiting acquires again (S7), restarts watches (S9.3). */
void service_state_replaced(struct service *s);

/* Once per loop turn, and at service_next_ms (boot_ms; UINT64_MAX: no timer). */
void service_run(struct service *s);
uint64_t service_next_ms(const struct service *s);

/* Runs Redis-protocol transactions over the applied state, as far as gateway.is_settled allows;
 * each becomes one command. Called by service_run, and by the node before it closes a batch. */
void service_transact(struct service *s);
bool service_has_transactions(const struct service *s);

/* The node stops soon. Waiting requests fail with a hint to use another node; those with a
 * request_id keep their place in the queue. Streams end, connections close after their next answer,
 * readyz fails. */
void service_drain(struct service *s);

struct service_stats {
    uint64_t connections;       /* HTTP and gRPC */
    uint64_t http2_connections; /* of these */
    uint64_t accepted;          /* HTTP and gRPC connections, since start */
    uint64_t http2_accepted;    /* of these */
    uint64_t requests;          /* answered since start */
    uint64_t grpc_requests;     /* of these */
    uint64_t waiting;           /* acquires held open */
    uint64_t streams;
    uint64_t dropped_streams; /* the client was too slow, since start */
    uint64_t conn_bytes;      /* held by HTTP connections, and its limit */
    uint64_t conn_bytes_max;
    uint64_t conn_closed;     /* because of that limit, since start */
    uint64_t stalled_streams; /* HTTP/2 streams reset as unread, since start */
    uint64_t resp_connections;
    uint64_t resp_accepted; /* connections, since start */
    uint64_t resp_commands;
    uint64_t resp_errors;
    uint64_t resp_conflicts; /* transactions run again */
    uint64_t resp_dropped;   /* subscribers that were too slow */
    uint64_t resp_scripts;   /* runs of scripts */
    uint64_t resp_stopped;   /* of those, stopped at a limit */
    uint64_t auth_failures;  /* requests without valid credentials, since start */
};

void service_stats(const struct service *s, struct service_stats *out);
/* Redis-protocol connections that are subscribed to a channel. Visits all connections. */
uint64_t service_subscribers(const struct service *s);

/* One tenant as this node sees it (S15): its state in both tiers on the leader, in the tier
 * CORRECTNESS on other nodes; watches, and refused reads and watches, of this node. */
struct service_tenant {
    struct tenant_usage usage;
    uint64_t watchers;
    uint64_t refused[QUOTA_COUNT];
};
void service_tenant(const struct service *s, uint32_t tenant, struct service_tenant *out);

#endif
