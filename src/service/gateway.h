/* How a request reaches the replicated state, whichever node it came to. The node implements it: on
 * the leader it submits to the replica, elsewhere it forwards to the leader and relays the answer;
 * it retries with the same command while that is safe, and gives up within a bounded time (S8.4).
 */
#ifndef HOLDFAST_SERVICE_GATEWAY_H
#define HOLDFAST_SERVICE_GATEWAY_H

#include "base/tier.h"
#include "core/core.h"

struct gateway_call;

/* Exactly once per call, never before the call returned. HF_OK: `result` is the core's answer
 * (which may be an error of its own). HF_UNAVAILABLE, HF_BUSY, HF_DISK_FULL: nothing was or will
 * be done.
 * HF_OUTCOME_UNKNOWN: it may have been done; ask again with the same request id. `result` is
 * borrowed. */
typedef void (*gateway_done_fn)(struct gateway_call *call, enum hf_error error,
                                const struct result *result);

/* Embedded in whatever the caller keeps about its request; must stay valid until `done`. */
struct gateway_call {
    gateway_done_fn done;
    void *owner; /* the caller's */
    /* The tier that an acquire asks for (S10). Whatever names a token goes where that is from,
     * whatever this says; a lease id alone, an attachment number and a name find their own tier. */
    enum tier tier;
    /* Of a barrier: what the leader is to look up in the tier EFFICIENCY then (memory_page.h),
     * which is copied; and while `done` runs, what it found. Both empty: nothing. */
    struct slice look;
    struct slice page;
    /* The connection that sent the request; connections take turns. 0: the node itself. */
    uint64_t source;
    /* Of a command: when to give up at the latest, from now. 0, or longer than the gateway's own
     * limit: that limit. */
    uint32_t within_ms;
    void *in_flight; /* the gateway's */
};

struct gateway_status {
    uint64_t node;
    uint64_t leader;                   /* 0: unknown */
    const char *leader_client_address; /* "HOST:PORT" of its client port, "" when unknown */
    uint64_t term;
    uint64_t epoch;
    bool serving;        /* a leader with a majority is known and answers */
    bool members_change; /* a change of the members has begun and is not committed */
    /* What counts against the limit of the state (S12.14), and the limit; 0: none. */
    uint64_t state_bytes;
    uint64_t state_max;
    /* What the tier EFFICIENCY stands on, as this node sees it (S10.3). */
    const char *backend; /* "embedded" or "redis"; NULL: not known */
    bool backend_healthy;
    const char *backend_breaker;  /* of "redis": "closed", "open" or "half_open"; */
    const char *backend_fallback; /* "fail", "embedded" or "correctness" */
    char backend_problem[128];    /* the last one; "": none since it is well */
};

/* One member of the cluster, as this node knows it. */
struct gateway_member {
    uint64_t id;
    const char *peer_address;
    const char *client_address; /* "" when unknown */
    bool voter;
    bool healthy; /* heard from within an election timeout; this node itself is */
    uint64_t lag; /* log entries behind the leader; UINT64_MAX: not known here */
};

/* What an operator changes about the members (DESIGN). The rules are kept by the leader. */
enum gateway_change {
    GATEWAY_ADD, /* as a non-voter; it catches up, then it may be promoted */
    GATEWAY_PROMOTE,
    GATEWAY_DEMOTE,
    GATEWAY_REMOVE,
    GATEWAY_TRANSFER, /* the lead; to id 0: to whoever is best */
    GATEWAY_CHANGES
};

/* As gateway_call. HF_OK: the leader has begun with it, and `members` shows when it is in force.
 * HF_MEMBERSHIP: refused, `problem` says why. HF_UNAVAILABLE, HF_OUTCOME_UNKNOWN: as there. */
struct gateway_change_call {
    void (*done)(struct gateway_change_call *call, enum hf_error error, const char *problem);
    void *owner;
    void *in_flight;
};

/* A file that holds the whole state as of `index`. */
struct gateway_snapshot {
    struct id cluster;
    uint64_t index;
    uint64_t term;
    uint64_t bytes;
};

/* The caller's, from snapshot_open to snapshot_close. */
struct gateway_snapshot_call {
    /* Once, unless it is closed first; never before snapshot_open returned. With HF_OK it may be
     * read from now on; else `problem` is a sentence, or NULL. May close it. */
    void (*done)(struct gateway_snapshot_call *call, enum hf_error error,
                 const struct gateway_snapshot *about, const char *problem);
    void *owner;
    void *in_flight;
};

struct gateway {
    void *ctx;
    /* The command is copied. */
    void (*submit)(void *ctx, const struct command *command, struct gateway_call *call);
    /* done(HF_OK, NULL) once the local state shows all that was done before (S9.1). */
    void (*barrier)(void *ctx, struct gateway_call *call);
    /* Whether what is read of the state now is as new as a command that is submitted now will find
     * it, as far as this node can know: on the leader, no batch is in flight. NULL: always. */
    bool (*is_settled)(void *ctx);
    /* This node's applied state, for reading after a barrier, or for `stale` reads. */
    const struct core *(*core)(void *ctx);
    /* The state of the tier EFFICIENCY, which only the leader has: NULL elsewhere, and while it is
     * not served. May be NULL itself. */
    const struct core *(*memory_core)(void *ctx);
    void (*status)(void *ctx, struct gateway_status *out);
    /* Random ids and clocks, which the service does not read itself. */
    struct id (*random_id)(void *ctx);
    uint64_t (*wall_ms)(void *ctx);
    uint64_t (*boot_ms)(void *ctx);
    /* The cluster time of this moment, as well as this node knows it (S1.2): for `expires_in_ms`,
     * never to decide. NULL: the newest stamp in the state stands for it. */
    uint64_t (*cluster_ms)(void *ctx);
    /* Fills in at most `max` members and returns how many; the texts last until the next call.
     * NULL: none are known. */
    uint32_t (*members)(void *ctx, struct gateway_member *out, uint32_t max);
    /* `address` ("HOST:PORT" of the peer port) is for GATEWAY_ADD, else "". Both are copied. NULL:
     * members cannot be changed here. */
    void (*change_member)(void *ctx, enum gateway_change change, uint64_t id, const char *address,
                          struct gateway_change_call *call);
    /* A snapshot with all that this node's state holds now; it is taken unless the newest one is
     * such. The file stays until snapshot_close. NULL: there is none to be had here. */
    void (*snapshot_open)(void *ctx, struct gateway_snapshot_call *call);
    /* `len` of its bytes, from `offset` on. False: the disk does not give them. */
    bool (*snapshot_read)(void *ctx, struct gateway_snapshot_call *call, uint64_t offset, void *to,
                          size_t len);
    void (*snapshot_close)(void *ctx, struct gateway_snapshot_call *call);
};

#endif
