/* How a request reaches the replicated state; the node implements it. The leader submits to its
 * replica, a follower forwards. Retries the same command while that is safe, for a bounded time
 * (S8.4). */
#ifndef HOLDFAST_SERVICE_GATEWAY_H
#define HOLDFAST_SERVICE_GATEWAY_H

#include "base/tier.h"
#include "core/core.h"
#include "events/event_scan.h"

struct gateway_call;

/* Once, never before the call returned. HF_OK: `result` (borrowed) is the core's answer, which may
 * hold an error. HF_UNAVAILABLE, HF_BUSY, HF_DISK_FULL: the command was not and will not be
 * applied. HF_OUTCOME_UNKNOWN: it may be applied; retry with the same request id. */
typedef void (*gateway_done_fn)(struct gateway_call *call, enum hf_error error,
                                const struct result *result);

/* Embedded in the caller's request; valid until `done`. */
struct gateway_call {
    gateway_done_fn done;
    void *owner; /* the caller's */
    /* Requested by an acquire (S10). A token goes to its own tier. The gateway finds the tier of a
     * lease id, an attachment number or a name. */
    enum tier tier;
    /* Of a barrier or a keep-alive. `look` (copied): query of the leader's memory
     * (request/leader_query.h); empty: none. `page`: its result, empty if the leader does not support
     * it; valid during `done`. A keep-alive is applied before its query is answered. */
    struct slice look;
    struct slice page;
    /* The connection, for fair scheduling. 0: the node itself. */
    uint64_t source;
    /* Of a barrier: the tenant whose turns it takes. A command has its own. */
    uint32_t tenant;
    /* Of a command: it is the node's, not a client's. A leader with auth = on takes no other command
     * without a principal. */
    bool is_own;
    /* Of a command: limit from now. 0, or above the gateway's limit: that limit. */
    uint32_t within_ms;
    void *in_flight; /* the gateway's */
};

struct gateway_status {
    struct id cluster;
    uint64_t node;
    uint64_t leader;                   /* 0: unknown */
    const char *leader_client_address; /* "HOST:PORT" of its client port; "": unknown */
    uint64_t term;
    uint64_t epoch;
    bool serving;        /* a leader with a majority is known and answers */
    bool members_change; /* not committed yet */
    /* Bytes counted against the limit of the state (S12.14), and that limit; 0: none. */
    uint64_t state_bytes;
    uint64_t state_max;
    /* Wall clock seconds at which the node's certificate and the first of its CAs expire; 0: no
     * TLS. */
    uint64_t certificate_until_s;
    uint64_t ca_until_s;
    /* The backend of EFFICIENCY, as seen here (S10.3). */
    const char *backend; /* "embedded" or "redis"; NULL: unknown */
    bool backend_healthy;
    const char *backend_breaker;  /* of "redis": "closed", "open" or "half_open" */
    const char *backend_fallback; /* "fail", "embedded" or "correctness" */
    char backend_problem[128];    /* the last; "" while healthy */
    /* Of the data folder, looked at every ten seconds; 0: not known yet. */
    uint64_t disk_free;
    uint64_t disk_total;
    uint64_t
        append_us;  /* mean time of a write to the log in about the last ten seconds; 0: no write */
    bool disk_full; /* a write failed for that reason, and is tried again */
    uint32_t state_version; /* in force */
};

/* As this node sees it. */
struct gateway_member {
    uint64_t id;
    const char *peer_address;
    const char *client_address; /* "": unknown */
    bool voter;
    bool healthy;           /* a message arrived within an election timeout; true for this node */
    uint64_t lag;           /* log entries behind the leader; UINT64_MAX: unknown */
    uint32_t state_version; /* newest that its program supports; 0: not known */
};

/* By an operator (DESIGN). The leader enforces the rules. */
enum gateway_change {
    GATEWAY_ADD, /* as a non-voter; may be promoted after it caught up */
    GATEWAY_PROMOTE,
    GATEWAY_DEMOTE,
    GATEWAY_REMOVE,
    GATEWAY_TRANSFER, /* of leadership; id 0: to the most suitable voter */
    GATEWAY_CHANGES
};

/* As gateway_call. HF_OK: the change has begun; `members` shows when it is in force. HF_MEMBERSHIP:
 * refused; `problem` is the reason. */
struct gateway_change_call {
    void (*done)(struct gateway_change_call *call, enum hf_error error, const char *problem);
    void *owner;
    void *in_flight;
};

/* The complete state at `index`. */
struct gateway_snapshot {
    struct id cluster;
    uint64_t index;
    uint64_t term;
    uint64_t bytes;
};

/* Owned by the caller; valid from snapshot_open to snapshot_close. */
struct gateway_snapshot_call {
    /* Once, never before snapshot_open returned or after snapshot_close. HF_OK: snapshot_read is
     * allowed. Else `problem` is a sentence, or NULL. May close it. */
    void (*done)(struct gateway_snapshot_call *call, enum hf_error error,
                 const struct gateway_snapshot *about, const char *problem);
    void *owner;
    void *in_flight;
};

/* The event log of this node (events/event_log.h). */
struct gateway_events {
    bool is_kept; /* false: the rest is 0 */
    uint64_t bytes;
    uint64_t max_bytes;
    uint64_t gaps;
    bool gaps_stay;             /* no reachable node has what is missing; tried again each minute */
    uint64_t dropped;           /* records, since start */
    uint64_t complete_since_ms; /* wall clock; 0: from the begin of the cluster */
    uint64_t complete_index;    /* all entries after this one are in it */
};

/* A page of a search in this node's event log (event_scan.h), which a thread reads. Owned by the caller;
 * valid until `done` or scan_cancel.
 *
 * `done`: once, never before scan_events returned. `page` is valid during it; NULL after an error:
 *
 *   HF_EVENT_LOG   the node has no event log, or cannot read it; `why` is a sentence
 *   HF_BUSY        too many searches at once; nothing was done
 *   HF_DEADLINE    the disk was too slow */
enum { GATEWAY_SCANS = 16, GATEWAY_SCAN_MS = 5000 };

struct gateway_scan_call {
    void (*done)(struct gateway_scan_call *call, enum hf_error error, const struct event_page *page,
                 const char *why);
    void *owner;
    void *in_flight; /* the gateway's */
};

struct gateway {
    void *ctx;
    /* The command is copied. */
    void (*submit)(void *ctx, const struct command *command, struct gateway_call *call);
    /* done(HF_OK, NULL) once the local state includes every command completed before (S9.1). */
    void (*barrier)(void *ctx, struct gateway_call *call);
    /* Whether a command submitted now would apply to the present state, as far as this node knows:
     * on the leader, no batch is in flight. NULL: always. */
    bool (*is_settled)(void *ctx);
    /* The applied state, for reads after a barrier and `stale` reads. */
    const struct core *(*core)(void *ctx);
    /* Of the tier EFFICIENCY. Returns NULL on a follower and while the tier is not served. The
     * pointer may be NULL. */
    const struct core *(*memory_core)(void *ctx);
    void (*status)(void *ctx, struct gateway_status *out);
    /* The only source of random ids and clocks. */
    struct id (*random_id)(void *ctx);
    uint64_t (*wall_ms)(void *ctx);
    uint64_t (*boot_ms)(void *ctx);
    /* Estimated cluster time (S1.2), for display only. NULL: the newest timestamp in the state is
     * used. */
    uint64_t (*cluster_ms)(void *ctx);
    /* Fills in at most `max`, returns the count. Strings are valid until the next call. NULL:
     * unknown. */
    uint32_t (*members)(void *ctx, struct gateway_member *out, uint32_t max);
    /* `address` ("HOST:PORT" of the peer port, copied): for GATEWAY_ADD, else "". NULL: not
     * supported. */
    void (*change_member)(void *ctx, enum gateway_change change, uint64_t id, const char *address,
                          struct gateway_change_call *call);
    /* Of the current state; takes a new one if the newest is older. The file stays until
     * snapshot_close. NULL: no snapshots. */
    void (*snapshot_open)(void *ctx, struct gateway_snapshot_call *call);
    /* False: the disk read failed. */
    bool (*snapshot_read)(void *ctx, struct gateway_snapshot_call *call, uint64_t offset, void *to,
                          size_t len);
    void (*snapshot_close)(void *ctx, struct gateway_snapshot_call *call);
    /* Takes locks and visits each file of the log, so `status`, which each answer needs, does not have it. */
    void (*events)(void *ctx, struct gateway_events *out);
    /* `scan` and its slices are copied. The page includes all that was applied here before the call.
     * May be called while another call reports. NULL: no event log. */
    void (*scan_events)(void *ctx, const struct event_scan *scan, struct gateway_scan_call *call);
    /* The caller is no longer interested; `done` is not called. Only between scan_events and `done`. */
    void (*scan_cancel)(void *ctx, struct gateway_scan_call *call);
    /* Adds an audit record about a changed setting of this node, without waiting. Texts are copied.
     * NULL: no records. */
    void (*note_setting)(void *ctx, struct slice name, struct slice actor, struct slice reason);
    /* The same about a change of the members: NOTE_MEMBER_ADD to NOTE_TRANSFER. */
    void (*note_member)(void *ctx, uint32_t action, struct slice name, struct slice actor,
                        struct slice reason);
};

#endif
