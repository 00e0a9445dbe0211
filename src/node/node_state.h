/* The node in memory. Private to node*.c. */
#ifndef HOLDFAST_NODE_NODE_STATE_H
#define HOLDFAST_NODE_NODE_STATE_H

#include "net/net.h"
#include "node/admin/admin_socket.h"
#include "node/clients/client_listener.h"
#include "node/clients/descriptors.h"
#include "node/counts/counts.h"
#include "node/forward/forward.h"
#include "node/lines/lock_lines.h"
#include "node/log/logger.h"
#include "node/node.h"
#include "node/node_events.h"
#include "node/peers/known_stores.h"
#include "node/peers/peers.h"
#include "node/snapshot/snapshot_child.h"
#include "node/snapshot/snapshot_fetch.h"
#include "node/snapshot/snapshot_give.h"
#include "node/snapshot/snapshot_send.h"
#include "node/stall.h"
#include "replica/memory_tier.h"
#include "replica/replica.h"
#include "service/request/leader_stats.h"
#include "service/service.h"

enum node_phase {
    NODE_STARTING, /* a joining node waits for its cluster id */
    NODE_RUNNING,
    NODE_HANDING_OVER,
    NODE_DRAINING,
    NODE_CLOSING,
    NODE_STOPPED
};

struct node_absence {
    uint64_t id;
    bool declared;
};

/* A pause in which a learner catches up; node_promote.c. */
struct node_promotion {
    uint64_t id;            /* the learner; 0: no pause */
    uint64_t until_us;      /* boot time of its end */
    uint64_t not_before_us; /* boot time; no earlier pause */
};

/* An iteration over the sessions, for the streams of a gone node; node_streams.c. */
struct node_stream_walk {
    uint64_t node;   /* 0: none */
    uint64_t last;   /* later streams are not affected */
    uint64_t cursor; /* of view_sessions */
};

/* A scan for grants past their long-held rule; node_alerts.c. */
struct node_alerts {
    bool scanning;
    bool in_tier;     /* in the tier EFFICIENCY */
    uint64_t cursor;  /* of view_long_held */
    uint64_t next_us; /* boot time before which no other scan begins */
};

/* Lines about slow requests; node_slow.c. */
struct node_slow {
    const struct command *command; /* whose result is being reported; NULL: none */
    uint64_t proposed_us;          /* of the own entry that is being applied; 0: none */
    uint64_t committed_us;
    uint64_t second_us; /* boot time at which the present second of lines began */
    uint32_t lines;     /* in it */
    uint64_t omitted;   /* since the last line */
};

/* The oldest hold; node_oldest.c. */
struct node_oldest {
    bool scanning;
    bool in_tier; /* the cursor is in the tier EFFICIENCY */
    bool found_in_tier;
    uint64_t cursor;  /* of view_oldest */
    uint64_t next_us; /* boot time before which no other scan begins */
    struct oldest_hold found;
    struct oldest_hold scanned; /* by the scan in progress */
    bool scanned_in_tier;
};

/* Looked at every ten seconds; node_disk.c. */
struct node_disk_use {
    uv_fs_t request; /* statfs, in a thread of libuv */
    bool is_looking;
    uint64_t next_us; /* boot time of the next look */
    uint64_t free_bytes;
    uint64_t total_bytes; /* 0: not known yet */
    uint64_t appends;     /* since start, at the last look */
    uint64_t sync_us;
    uint64_t append_us; /* mean of the writes between the last two looks; 0: none */
};

/* node_sinks.c */
struct node_sinks;
enum { NODE_SINKS = 3 }; /* file, kafka, webhook */

/* A node's subscription to events of the tier EFFICIENCY. */
struct node_interest {
    uint64_t peer;
    uint64_t link; /* the subscription ends with this link */
    enum service_wants level;
};

/* TLS of new connections; NULL: clear text. */
struct node_contexts {
    struct tls_context *http;
    struct tls_context *resp;
    struct tls_context *peer_server;
    struct tls_context *peer_client;
};

enum { NODE_TLS_FILES = 3 };

/* Differs after every change of a file. */
struct node_file_stamp {
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    int64_t changed_s;
    int64_t changed_ns;
};

/* An audit record about refused nodes of one address; node_refusals.c. */
struct node_refusal {
    char address[PEER_ADDRESS_MAX + 1]; /* "": unused */
    char reason[PEER_SENTENCE_MAX];
    uint64_t count;     /* not submitted yet */
    uint64_t submitted; /* in the command in flight; 0: none */
    struct gateway_call call;
    struct node *node;
};

enum { NODE_SETTING_NOTES = 16 };

/* An audit record about a changed setting or a change of the members; node_settings.c. */
struct node_setting_note {
    struct node *node;
    uint32_t action; /* NOTE_SETTING, ... */
    bool is_used;
    bool is_submitted;
    size_t name_len, actor_len, reason_len;
    char name[64];
    char actor[LIMIT_ACTOR];
    char reason[LIMIT_REASON];
    struct gateway_call call;
};

/* The files that node_contexts were made from; node_certificate.c. */
struct node_certificate {
    int64_t until_s;    /* wall clock: end of our own certificate */
    int64_t ca_until_s; /* of the CA that expires first */
    struct node_file_stamp stamps[NODE_TLS_FILES];
    bool is_settling; /* a file has changed since the last load */
    bool is_refused;  /* the last load failed; the files of an earlier one are in use */
    uint64_t look_us; /* boot time of the next look */
    uint64_t warn_us; /* boot time before which there is no more warning */
};

struct node {
    struct node_options options;
    enum node_phase phase;
    struct net net;
    bool net_open;
    uint64_t started_us;
    uint64_t phase_us; /* boot time when the phase began */

    struct disk *disk;
    struct store store;
    bool store_open;
    struct known_stores known;
    struct known_stores met;             /* of non-members; see node_note_store */
    uint64_t committed_ids[LIMIT_NODES]; /* of the last committed configuration */
    uint32_t committed_count;
    struct peer_self self;
    char address_text[ADDRESS_TEXT]; /* of our peer port, as in the configuration */

    struct logger *logger;
    struct peers *peers;
    struct snapshot_child *child;
    struct snapshot_fetch *fetch;
    struct snapshot_send_options send;
    struct snapshot_gives gives;
    struct lock_lines *lock_lines;
    struct replica *replica;
    struct forward *forward;
    struct service *service;
    struct admin_socket *admin; /* NULL: auth = off */
    struct gateway admin_gateway;
    struct client_listener *http;
    struct client_listener *resp; /* NULL: not served */
    struct node_contexts tls;
    struct node_certificate certificate;
    struct peer_secrets secrets;
    struct node_refusal refused_nodes[PEER_REFUSALS + 1];
    struct node_setting_note setting_notes[NODE_SETTING_NOTES];

    /* node_clients.c */
    struct client_table *clients;
    struct refusals *refusals;
    struct descriptor_use descriptors;
    uint64_t limits_logged_us; /* boot time before which each is not logged again */
    uint64_t refused_logged_us;
    uint64_t paused_logged_us;
    uint64_t refused_logged; /* already logged */
    uint64_t evicted_logged;

    /* Leader's side, then followers'; node_tier.c. */
    struct memory_tier *tier;
    struct redis_tier *redis; /* its backend; NULL: none */
    uint64_t tier_term;
    struct node_interest interests[LIMIT_NODES];
    uint32_t interest_count;
    uint64_t interest_leader; /* has our interest_level; 0: none */
    enum service_wants interest_level;

    struct node_counts *counts; /* node_counts.c */
    struct node_events events;
    struct node_sinks *sinks; /* node_sinks.c; NULL: none is configured */

    /* node_limit.c */
    struct admission admission;
    bool state_warned;        /* nearly full, and logged */
    uint64_t state_refused;   /* logged refusals */
    uint64_t state_refuse_us; /* boot time before which no more are logged */

    int timer_fd;
    uv_poll_t timer;
    uint64_t timer_us; /* when it fires */
    uint64_t awake_ms; /* boot time, read once after the loop slept (node_awake_ms); 0: not read */
    uint64_t maintenance_us;
    uint64_t closed_noted;   /* connections closed because of their memory, already logged */
    uint64_t closed_note_us; /* boot time before which no more are logged */
    struct stall stall;      /* time of the last on_turn; whether sockets are read first (S1.5) */
    uv_idle_t awake;

    /* The state that this node has acted on. */
    bool changed;
    bool serving;
    bool ready;
    uint64_t serving_us;
    uint64_t leader;
    uint64_t leader_seen; /* the last one that was known */
    uint64_t term;
    uint64_t snapshot_size; /* of the newest, in bytes */
    uint64_t drop_before;   /* the log thread reads it while `dropping` */
    bool dropping;
    bool cancel_child; /* the leader sends a snapshot: cancel our own */
    bool disk_full;
    struct node_disk_use disk_use;
    bool transferring;
    bool transfer_begun; /* the engine has started it */
    uint64_t transfer_to;
    uint64_t transfer_until_us;
    uint64_t transfer_failed_us; /* when the last transfer failed; 0: it did not */
    uint64_t retry_transfer_us;
    struct node_promotion promotion;
    bool first_done; /* the waiters of our previous run are detached */
    struct gateway_call first;
    struct node_absence absences[LIMIT_NODES];
    uint32_t absence_count;
    struct node_stream_walk stream_walks[LIMIT_NODES];
    struct node_alerts alerts;
    struct node_slow slow;
    struct node_oldest oldest;

    uint8_t random[4096]; /* for future ids */
    uint32_t random_left;
    struct replica_member member_scratch[LIMIT_NODES];
    char member_text[LIMIT_NODES][ADDRESS_TEXT];
    char member_problem[160];
};

static inline unsigned long long ull(uint64_t n)
{
    return (unsigned long long)n;
}

/* node.c */
/* Starts everything that needs the replicated state. The cluster id must be known. */
bool node_start_serving(struct node *n, char problem[NODE_PROBLEM]);
void node_step_stop(struct node *n, struct replica_time now);
void node_fail(struct node *n, const char *text);
void node_set_term(struct node *n, uint64_t term);

/* node_turn.c */
struct replica_time node_now(const struct node *n);
bool node_is_late(const struct node *n, struct replica_time now);
uint64_t node_boot_us(void);
uint64_t node_awake_ms(struct node *n);
bool node_open_timer(struct node *n, char problem[NODE_PROBLEM]);
void node_on_turn(void *ctx);
void node_on_sleep(void *ctx);

/* node_parts.c */
void node_open_disk_users(struct node *n);
bool node_open_peers(struct node *n, char problem[NODE_PROBLEM]);
void node_on_fetched(void *ctx, struct core *core, uint64_t bytes);
void node_on_abandoned(void *ctx);
void node_on_disk_failed(void *ctx, const char *text);

/* node_parts.c */
/* Nothing with auth = off. */
bool node_open_admin(struct node *n, char problem[NODE_PROBLEM]);

/* node_clients.c */
bool node_open_clients(struct node *n, char problem[NODE_PROBLEM]);
void node_close_clients(struct node *n);
uint32_t node_peer_connections(const struct node *n);
void node_step_clients(struct node *n, struct replica_time now);
void node_on_accept_paused(void *ctx, int error);

/* node_limit.c */
void node_step_limit(struct node *n, struct replica_time now);
uint64_t node_state_bytes(struct node *n);

/* node_start.c */
bool node_open_store(struct node *n, char problem[NODE_PROBLEM]);
bool node_bootstrap(struct node *n, char problem[NODE_PROBLEM]);
/* Needs the cluster's id. */
bool node_start_replica(struct node *n, char problem[NODE_PROBLEM]);
void node_on_cluster(void *ctx, struct id cluster, struct slice name);

/* node_stores.c */
void node_publish_stores(struct node *n);
bool node_admits(void *ctx, uint64_t id, char sentence[PEER_SENTENCE_MAX]);
enum peer_store node_find_store(void *ctx, uint64_t id, struct id store);
void node_note_store(void *ctx, uint64_t id, struct id store);
void node_on_introduced(void *ctx, const struct peer_introduction *intro);
void node_follow_stores(struct node *n);

/* node_ports.c */
struct replica_ports node_ports(struct node *n);

void node_note_event(struct node *n, const struct event *e);

/* node_counts.c */
/* Of this node, whose figures are those of the leader while it leads. */
void node_stats(struct node *n, struct leader_stats *out);
bool node_answer_query(void *ctx, struct slice query, struct buffer *out);
void node_step_counts(struct node *n, struct replica_time now);

/* node_disk.c */
void node_step_disk(struct node *n, struct replica_time now);
void node_close_disk(struct node *n);

/* node_sinks.c */
bool node_open_sinks(struct node *n, char problem[NODE_PROBLEM]);
/* Before the event log closes. */
void node_close_sinks(struct node *n);
void node_step_sinks(struct node *n, struct replica_time now);
/* After entries were applied, before their events become readable. */
void node_sinks_policy(struct node *n);

/* node_redis.c */
void node_open_redis(struct node *n);
void node_close_redis(struct node *n);
void node_redis_status(const struct node *n, struct gateway_status *out);

/* node_tls.c */
bool node_open_tls(struct node *n, char problem[NODE_PROBLEM]);
void node_close_tls(struct node *n);
/* Replaces the contexts, or changes nothing and sets `problem`. */
bool node_load_tls(struct node *n, char problem[NODE_PROBLEM]);
void node_secure_peer(void *ctx, struct connection *c, bool dialled);

/* node_secret.c */
bool node_open_secret(struct node *n, char problem[NODE_PROBLEM]);
void node_close_secret(struct node *n);

/* node_refusals.c */
void node_note_refusal(void *ctx, const struct peer_refusal *refusal);
void node_step_refusals(struct node *n);

/* node_settings.c */
void node_step_settings(struct node *n);

/* node_certificate.c */
void node_watch_tls(struct node *n);
void node_step_tls(struct node *n, struct replica_time now);

/* node_tier.c */
void node_open_tier(struct node *n);
struct tier_time node_tier_now(void *ctx);
/* When the leadership may have changed; also from inside the replica. */
void node_follow_tier(struct node *n);
void node_tier_members(struct node *n);
void node_on_interest(void *ctx, uint64_t peer, uint64_t link, uint8_t level);
bool node_on_peer_event(void *ctx, uint64_t peer, struct slice body);
void node_tier_link(struct node *n, uint64_t peer, bool is_up);
void node_step_tier(struct node *n, struct replica_time now);
uint64_t node_tier_next_us(struct node *n);
void node_tier_gone(struct node *n, const struct command *gone, struct replica_time now);
const struct core *node_memory_core(void *ctx);

/* node_gateway.c */
struct gateway node_gateway(struct node *n);
bool node_is_serving(const struct node *n);

/* node_members.c */
enum hf_error node_change_member(void *ctx, enum gateway_change change, uint64_t id,
                                 const char *address, const char **problem);
/* Transfers the leadership to `to`, 0: to the best voter. Nothing new is submitted here until that
 * is done or has failed. */
void node_transfer(struct node *n, uint64_t to);
void node_step_transfer(struct node *n, struct replica_time now);

/* node_promote.c */
/* Whether the promotion of `id` waits for the end of a pause, which it may begin. */
bool node_promote_pauses(struct node *n, uint64_t id, const struct replica_status *status);
void node_promote_end(struct node *n);
void node_step_promote(struct node *n, struct replica_time now);
/* UINT64_MAX: no pause. */
uint64_t node_promote_next_us(const struct node *n);

/* node_snapshots.c */
void node_snapshot_open(void *ctx, struct gateway_snapshot_call *call);
bool node_snapshot_read(void *ctx, struct gateway_snapshot_call *call, uint64_t offset, void *to,
                        size_t len);
void node_snapshot_close(void *ctx, struct gateway_snapshot_call *call);
void node_step_snapshots(struct node *n, struct replica_time now);

/* node_duties.c */
void node_follow_change(struct node *n);
/* node_streams.c */
void node_streams_gone(struct node *n, uint32_t node);
void node_step_streams(struct node *n, struct replica_time now);
/* node_slow.c */
void node_slow_entry(struct node *n, const struct replica_applying *entry);
void node_on_slow(void *ctx, const struct forward_slow *slow);
/* node_alerts.c */
void node_step_alerts(struct node *n, struct replica_time now);
/* node_oldest.c */
void node_step_oldest(struct node *n, struct replica_time now);
/* On the leader; 0 if nothing is held, and on other nodes. */
uint64_t node_oldest_hold_ms(struct node *n);
void node_maintain(struct node *n, struct replica_time now);

#endif
