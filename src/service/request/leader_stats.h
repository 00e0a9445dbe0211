/* The figures of the leader: GET /api/v1/stats. */
#ifndef HOLDFAST_SERVICE_REQUEST_LEADER_STATS_H
#define HOLDFAST_SERVICE_REQUEST_LEADER_STATS_H

#include "base/buffer.h"
#include "core/field.h"
#include "service/request/leader_query.h"

/* Totals count what the node did in all its leaderships since its start (node/counts/counts.h). */
#define LEADER_TOTALS(F)                           \
    F(TOTAL, 7, u64, acquire_attempts, UINT64_MAX) \
    F(TOTAL, 7, u64, grants, UINT64_MAX)           \
    F(TOTAL, 7, u64, refused, UINT64_MAX)          \
    F(TOTAL, 7, u64, contended, UINT64_MAX)        \
    F(TOTAL, 7, u64, waits_ended, UINT64_MAX)      \
    F(TOTAL, 7, u64, releases, UINT64_MAX)         \
    F(TOTAL, 7, u64, release_failures, UINT64_MAX) \
    F(TOTAL, 7, u64, renewals, UINT64_MAX)         \
    F(TOTAL, 7, u64, renewal_failures, UINT64_MAX) \
    F(TOTAL, 7, u64, expired, UINT64_MAX)          \
    F(TOTAL, 7, u64, forced, UINT64_MAX)           \
    F(TOTAL, 7, u64, revoked, UINT64_MAX)          \
    F(TOTAL, 7, u64, sessions_opened, UINT64_MAX)  \
    F(TOTAL, 7, u64, sessions_expired, UINT64_MAX) \
    F(TOTAL, 7, u64, requests, UINT64_MAX)

/* In us, of about the last ten seconds. UINT64_MAX: nothing was measured. */
#define LEADER_LATENCIES(F)         \
    F(LATENCY, 7, pair, acquire, 0) \
    F(LATENCY, 7, pair, commit, 0)  \
    F(LATENCY, 7, pair, apply, 0)   \
    F(LATENCY, 7, pair, wait, 0)    \
    F(LATENCY, 7, pair, hold, 0)

#define LEADER_STATS_FIELDS(F)                 \
    F(NOW, 7, u64, node, UINT64_MAX)           \
    F(NOW, 7, u64, term, UINT64_MAX)           \
    F(NOW, 7, flag, serving, 1)                \
    F(NOW, 7, u64, uptime_ms, UINT64_MAX)      \
    F(NOW, 7, u64, locks, UINT64_MAX)          \
    F(NOW, 7, u64, holders, UINT64_MAX)        \
    F(NOW, 7, u64, waiters, UINT64_MAX)        \
    F(NOW, 7, u64, sessions, UINT64_MAX)       \
    F(NOW, 7, u64, long_held, UINT64_MAX)      \
    F(NOW, 7, u64, oldest_hold_ms, UINT64_MAX) \
    LEADER_TOTALS(F)                           \
    LEADER_LATENCIES(F)

struct latency_pair {
    uint64_t p50_us;
    uint64_t p99_us;
};

typedef struct latency_pair FIELD_C_pair;

struct leader_stats {
    LEADER_STATS_FIELDS(FIELD_MEMBER)
};

size_t leader_stats_query(uint8_t at[LEADER_QUERY_HEAD]);
/* On the leader. False: the query has an unknown format, or the answer does not fit. */
bool leader_stats_answer(const struct leader_stats *stats, struct slice query, struct buffer *out);
/* On any node. False: the leader's program has no such figures. */
bool leader_stats_read(struct slice answer, struct leader_stats *out);

#endif
