/* One running node: storage, peers, replica, service and the client port, on one loop.
 *
 *     node_new ──▶ starting ──store open, cluster known──▶ running
 *                                                             │ node_stop
 *                                                             ▼
 *                                                        handing over
 *                                                             │ this node does not lead
 *                                                             ▼
 *                          on_stopped ◀── closing ◀──────  draining
 *
 * One turn of the loop:
 *   1. read the sockets and take the results of the log thread
 *   2. on_turn: run timers, service and forwarding, then close the batch
 *   3. write all output */
#ifndef HOLDFAST_NODE_NODE_H
#define HOLDFAST_NODE_NODE_H

#include <uv.h>

#include "base/buffer.h"
#include "base/journal.h"
#include "base/limits.h"
#include "events/event_log.h"
#include "net/address.h"
#include "node/counts/counts.h"
#include "node/peers/peer_protocol.h"
#include "redis/tier.h"
#include "replica/quota.h"
#include "service/gateway.h"
#include "sinks/driver.h"
#include "tls/context.h"

struct node;
struct service_asset;
struct sink_reports;

struct node_member {
    uint64_t id;
    struct address address; /* of its peer port */
};

/* Where the events go (decision 0033). A path, brokers or URL "": no such sink. Texts must stay valid. */
struct node_sink_settings {
    struct file_settings file;
    struct kafka_settings kafka;
    struct webhook_settings webhook;
    const char *prefix; /* only events of these names; "": all */
};

struct node_options {
    uv_loop_t *loop;
    const struct memory *memory;
    const struct journal *journal;

    uint64_t id;
    const char *data;
    const char *cluster_name;
    const char *program_version; /* shown to operators; static */
    struct node_member
        members[LIMIT_NODES]; /* of a new cluster, or of one to join; self included */
    uint32_t member_count;
    bool bootstrap; /* create the cluster if the folder is new (S12.1) */
    bool join;      /* the folder may be new: an existing cluster will add this node */

    struct address client; /* listen addresses */
    struct address peer;
    struct address resp;
    bool resp_is_configured; /* then the node does not start without that port */
    bool resp_is_off;
    char client_advertised[PEER_ADDRESS_MAX + 1]; /* sent to other nodes; "": made of `client` */

    uint32_t election_ms;
    uint32_t heartbeat_ms;
    uint32_t request_ms; /* a request that reaches no leader fails after this */
    uint32_t slow_ms;    /* a command that takes longer is logged; 0: none */
    uint32_t ttl_min_ms;
    uint64_t resp_ttl_min_ms;
    uint64_t resp_ttl_max_ms;
    uint32_t resp_value_max;
    uint64_t snapshot_bytes;   /* bytes of log that trigger a snapshot */
    uint64_t connection_bytes; /* memory of all HTTP connections, see service/service.h */
    uint64_t state_max;        /* bytes of state (S12.14); 0: no limit */
    uint32_t segment_bytes;    /* 0: the default of storage */
    uint64_t events_max_bytes; /* of the event log on the disk; 0: none is kept */
    uint64_t events_max_age_ms;
    bool log_by_thread;               /* no direct writes, see node/log/logger.h */
    uint32_t max_clients;             /* of all listeners together */
    uint32_t max_clients_per_address; /* 0: no such limit */
    enum tier resp_tier;
    bool resp_del_refused;
    bool resp_ping_serving;
    const char *resp_password;   /* "": none */
    struct credential_files tls; /* no certificate: clear text */
    enum tls_version tls_min;
    const char *peer_secret_file; /* "": none; must stay valid */
    bool peer_secret_optional;    /* nodes without a secret are accepted */
    bool auth;                    /* every request needs a principal */
    const char *server_names;     /* service_options; must stay valid */
    bool has_redis;               /* behind the tier EFFICIENCY (S10.3) */
    struct redis_settings redis;
    struct node_sink_settings sinks;

    void *ctx;
    /* Pages outside the API, see service/service.h. May be NULL. */
    bool (*asset)(struct slice path, struct service_asset *out);
    bool (*page)(void *ctx, struct slice path, struct buffer *out, const char **content_type);
    /* While node_new loads the state: a step ("reading the log"), bytes or entries; at its end once with
     * NULL. May be NULL. */
    void (*on_loading)(void *ctx, const char *step, bool is_bytes, uint64_t done, uint64_t total);
    /* Called once, when a leader serves and this node answers. */
    void (*on_ready)(void *ctx, uint64_t leader);
    /* The disk failed: the process must end now. */
    void (*on_failed)(void *ctx, const char *text);
    /* Call node_free next. */
    void (*on_stopped)(void *ctx);
};

#define NODE_PROBLEM 640
/* On failure returns NULL, sets `problem`, and leaves no handle in the loop. */
struct node *node_new(const struct node_options *options, char problem[NODE_PROBLEM]);
/* Transfers the leadership, lets clients finish. on_stopped follows within seconds. */
void node_stop(struct node *n);
/* Now, or as soon as possible. */
void node_take_snapshot(struct node *n);
/* Reads certificate, key and CA again. If they do not match, the old ones stay and an error is
 * logged. Nothing without TLS. Changed files are also noticed without this call. */
void node_reload_tls(struct node *n);
/* Reads the file of the peer secret again. If it is wrong, the old secrets stay and an error is
 * logged. Connections stay. */
void node_reload_secret(struct node *n);
/* Sinks read their files again: the log of events may have been renamed, a secret replaced. */
void node_reload_sinks(struct node *n);
/* After on_stopped, when the loop is idle. Runs the loop to close the last handles. */
void node_free(struct node *n);

uint16_t node_client_port(const struct node *n);
uint16_t node_peer_port(const struct node *n);
uint16_t node_resp_port(const struct node *n); /* 0: not served */

/* Of a node that serves. Counters count since its start. */
struct node_view {
    uint64_t node;
    struct id cluster;
    const char *cluster_name;
    uint64_t leader; /* 0: unknown */
    const char *leader_client_address;
    bool leads, serving, disk_full;
    uint64_t uptime_ms, term;
    uint64_t last_index, stored_index, commit_index, applied_index, snapshot_index;
    uint64_t snapshot_bytes, log_disk_bytes;
    uint64_t appends, direct_appends, appended_entries, appended_bytes, append_us, append_worst_us;
    uint64_t outstanding; /* requests in flight to the leader, or waiting for one */
    uint64_t queued;      /* of these: not sent yet */
    uint64_t http1_connections, http2_connections, http1_accepted, http2_accepted;
    uint64_t http_requests, grpc_requests, subscribers;
    uint64_t connections, requests, waiting, streams, dropped_streams;
    uint64_t clients, clients_max, clients_refused, clients_evicted, accept_pauses;
    uint64_t connection_bytes, connection_bytes_max, connections_closed, stalled_streams;
    uint64_t resp_connections, resp_accepted, resp_commands, resp_errors, resp_conflicts,
        resp_dropped, resp_scripts, resp_stopped;
    struct core_stats state;
    struct core_stats memory; /* tier EFFICIENCY; zero if this node does not lead */
    uint64_t long_held;       /* both tiers; the same */
    /* Bytes that count against the limit; the limit that a leader applies (0: none); commands
     * refused. */
    uint64_t state_bytes, state_max, state_refused;
    bool state_nearly_full;
    uint64_t counter, epoch;
    uint64_t oldest_hold_ms; /* 0: none, or this node does not lead */
    uint64_t version;        /* of the state machine */
    const struct node_counts *counts;
    struct distribution append_times;
    bool has_auth;
    uint64_t policy_version, auth_failures;
    /* As leader since start, by the missing right. */
    uint64_t denied_no_principal, denied_lock, denied_read, denied_operate, denied_admin;
    bool has_tls;
    uint64_t certificate_until_s, ca_until_s; /* wall clock */
    bool certificate_refused;                 /* the changed files do not match or are malformed */
    bool has_redis, redis_healthy;
    struct redis_tier_view redis;
    bool has_events;
    struct event_log_stats events; /* with has_events */
};
void node_view(struct node *n, struct node_view *out);
/* See service/gateway.h. */
uint32_t node_members(struct node *n, struct gateway_member *out, uint32_t max);

/* For the service manager, about once a second; also of a node that does not serve yet. */
struct node_pulse {
    bool is_joining; /* waits for a cluster to add it */
    bool is_stopping;
    bool leads, serving, disk_full;
    uint32_t voters, voters_reached; /* this node included, if it is a voter */
    uint64_t leader;                 /* 0: unknown */
    uint64_t term;
    uint64_t turn_us; /* boot time at which the last turn of the loop began */
    bool is_stalled;  /* the loop was blocked for more than a second (S1.5) and has not caught up */
};
void node_pulse(struct node *n, struct node_pulse *out);

/* Tenants with quotas, by rising number, at most `max`. What they have, the limits (0: none), and
 * the requests refused by this node since a quota was set; `used` has no requests a second. */
enum { NODE_TENANTS = 100 };
struct node_tenant {
    char name[LIMIT_POLICY_NAME + 1];
    uint64_t used[QUOTA_COUNT];
    uint64_t limits[QUOTA_COUNT];
    uint64_t refused[QUOTA_COUNT];
};
uint32_t node_tenants(struct node *n, struct node_tenant *out, uint32_t max);

/* Writes an audit record, when there is a leader: the setting `name` of this node was changed. Texts are
 * copied and not empty. `ctx` is the node. */
void node_note_setting(void *ctx, struct slice name, struct slice actor, struct slice reason);
/* The same about a change of the members. */
void node_note_member(void *ctx, uint32_t action, struct slice name, struct slice actor,
                      struct slice reason);

/* The event sinks of this node; request/sink_report.h. */
void node_sink_reports(struct node *n, struct sink_reports *out);

bool node_folder_is_used(const char *data);

#endif
