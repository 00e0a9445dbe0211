/* What a node counts of the state machine, for /metrics and /api/v1/stats.
 *
 * Every node applies every event. Only the node that proposed an entry as leader counts its events and
 * results, and only a leader has the tier EFFICIENCY: so a sum over all nodes counts each once, also
 * through a failover. What this node measures of itself (applying, its clients' requests) it
 * always counts.
 *
 * All zeros is the beginning. No allocation, no clock: time is an argument, in us of boot time. */
#ifndef HOLDFAST_NODE_COUNTS_COUNTS_H
#define HOLDFAST_NODE_COUNTS_COUNTS_H

#include "base/distribution.h"
#include "base/tier.h"
#include "core/event.h"
#include "node/counts/cluster_time.h"
#include "node/counts/hot.h"
#include "replica/ports.h"

/* Of an acquire. */
#define ACQUIRED_LIST(X) \
    X(GRANTED, granted)  \
    X(QUEUED, queued)    \
    X(REFUSED, refused)  \
    X(ERROR, error)      \
    X(UNKNOWN, unanswered)

enum acquired {
#define X(symbol, name) ACQUIRED_##symbol,
    ACQUIRED_LIST(X)
#undef X
        ACQUIRED_COUNT
};

enum { COUNTS_TIERS = 2 };

/* As leader, of one tier. Grants and their ends count each name of a multi-lock, the others each
 * request. Repeated answers do not count again. */
struct tier_counts {
    uint64_t acquires[ACQUIRED_COUNT];
    uint64_t refused[REASON_COUNT];
    uint64_t contended; /* acquires that found the name held, waited for or delayed */
    uint64_t grants;
    uint64_t waits_ended[REASON_COUNT]; /* NONE: by a grant */
    uint64_t releases;
    uint64_t release_failures[REASON_COUNT];
    uint64_t renewals;
    uint64_t renewal_failures[REASON_COUNT];
    uint64_t keepalives; /* sessions */
    uint64_t keepalive_failures;
    uint64_t expired;
    uint64_t overrun_worst_us; /* of overrun_us */
    uint64_t forced;
    uint64_t revoked;
    uint64_t revoke_requests;
    uint64_t long_held;
    uint64_t sessions_opened; /* none of them private */
    uint64_t sessions_closed;
    uint64_t sessions_expired;
    uint64_t fence_checks[2]; /* rejected, accepted */
    struct distribution hold_us;
    struct distribution wait_us;
    /* Of expired leases: from the deadline to the end, with the time without a leader since the TTL
     * began (S1.3). */
    struct distribution overrun_us;
};

/* Latencies that /api/v1/stats shows of the last seconds. */
#define LATENCY_LIST(X) X(acquire) X(commit) X(apply) X(wait) X(hold)
enum latency_kind {
#define X(name) LATENCY_##name,
    LATENCY_LIST(X)
#undef X
        LATENCY_COUNT
};

struct node_counts {
    struct tier_counts tiers[COUNTS_TIERS];
    uint64_t leaderships;    /* of this node */
    uint64_t leader_changes; /* as this node saw them */
    uint64_t snapshots_taken;
    uint64_t snapshots_failed;
    uint64_t snapshots_installed;
    struct cluster_time time;
    struct hot *hot;   /* NULL: not counted */
    uint64_t requests; /* commands and reads that this node answered as leader */
    /* Of the clients of this node: until the answer, which may be that the request waits. */
    struct distribution acquire_us[COUNTS_TIERS][ACQUIRED_COUNT];
    /* As leader: of the own entries, from the proposal to the commit; their commands and bytes. */
    struct distribution commit_us;
    struct distribution batch_commands;
    struct distribution batch_bytes;
    struct distribution apply_us; /* of one entry, on every node */
    /* As leader: from the arrival of an acquire at the leader to its result, both tiers. */
    struct distribution served_us;
    bool is_own;       /* the entry that is being applied is this node's */
    uint64_t begun_us; /* when applying began; 0: no entry is being applied */
    uint64_t recent_us;
    struct distribution recent[LATENCY_COUNT][2]; /* copies: the older, the younger */
};

/* Around the events and results of each entry; `now_us` is read for each call. */
void counts_begin_entry(struct node_counts *c, const struct replica_applying *entry,
                        uint64_t now_us);
void counts_end_entry(struct node_counts *c, uint64_t now_us);
/* Of the replicated state: counted if the entry is this node's. */
void counts_event(struct node_counts *c, const struct event *event);
/* Of the tier EFFICIENCY. */
void counts_tier_event(struct node_counts *c, const struct event *event);
/* As leader, for each command whose result is known. `tenant`, `took_us`: of an acquire. */
void counts_result(struct node_counts *c, enum tier tier, uint32_t tenant,
                   const struct result *result, uint64_t took_us);
/* The answer to an acquire of a client of this node; `result` NULL: none is known. */
void counts_acquired(struct node_counts *c, enum tier tier, const struct result *result,
                     uint64_t took_us);

/* Call this at least once a second. */
void counts_tick(struct node_counts *c, uint64_t now_us);
/* Of about the last ten seconds. UINT64_MAX: nothing was measured. */
uint64_t counts_recent(const struct node_counts *c, enum latency_kind what, uint32_t per_mille);

uint64_t counts_sum(const uint64_t *counts, unsigned count);

#endif
