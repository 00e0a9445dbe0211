/* The table of all metrics: name, kind, unit, member of node_view, help text. Names follow
 * Prometheus: base units, `_total` for counters. */
#include "server/metrics.h"

#include <inttypes.h>
#include <stddef.h>

#include "server/metrics_text.h"

enum unit { PLAIN, FLAG, MS, US }; /* of the member; times are printed in seconds */

struct metric {
    const char *name; /* with its label, if any; rows of one metric follow each other */
    enum metric_kind kind;
    enum unit unit;
    size_t offset;
    const char *help;
};

/* A member of another type does not compile. */
#define MEMBER(type, member) \
    _Generic(&((struct node_view *)NULL)->member, type * : offsetof(struct node_view, member))
#define U64(member) MEMBER(uint64_t, member)
#define BOOL(member) MEMBER(bool, member)

/* clang-format off */
static const struct metric metrics[] = {
    {"uptime_seconds", GAUGE, MS, U64(uptime_ms), "Seconds since this node started."},
    {"serving", GAUGE, FLAG, BOOL(serving), "1 if this node can reach a leader that has a majority, else 0."},
    {"leader", GAUGE, FLAG, BOOL(leads), "1 if this node is the leader, else 0."},
    {"leader_id", GAUGE, PLAIN, U64(leader), "Id of the current leader as seen by this node, 0 if it sees none."},
    {"term", GAUGE, PLAIN, U64(term), "Current Raft term of this node."},
    {"log_last_index", GAUGE, PLAIN, U64(last_index), "Index of the last entry in the log of this node."},
    {"log_stored_index", GAUGE, PLAIN, U64(stored_index), "Index of the last log entry that is durable on the disk of this node."},
    {"log_commit_index", GAUGE, PLAIN, U64(commit_index), "Index of the last log entry that this node has seen committed."},
    {"log_applied_index", GAUGE, PLAIN, U64(applied_index), "Index of the last log entry applied to the lock state of this node."},
    {"snapshot_index", GAUGE, PLAIN, U64(snapshot_index), "Index of the last log entry contained in the newest snapshot."},
    {"snapshot_bytes", GAUGE, PLAIN, U64(snapshot_bytes), "Size of the newest snapshot file in bytes."},
    {"log_disk_bytes", GAUGE, PLAIN, U64(log_disk_bytes), "Size of all log files on disk in bytes, including preallocated space."},
    {"log_appends_total", COUNTER, PLAIN, U64(appends), "Writes to the log since start, each followed by a sync."},
    {"log_direct_appends_total", COUNTER, PLAIN, U64(direct_appends), "Log writes since start that used direct I/O without a thread; a part of log_appends_total."},
    {"log_entries_total", COUNTER, PLAIN, U64(appended_entries), "Entries written to the log since start."},
    {"log_bytes_total", COUNTER, PLAIN, U64(appended_bytes), "Bytes of entries written to the log since start."},
    {"log_append_seconds_total", COUNTER, US, U64(append_us), "Seconds spent in log writes and their syncs since start."},
    {"log_append_worst_seconds", GAUGE, US, U64(append_worst_us), "Duration of the slowest log write and sync since start, in seconds."},
    {"disk_full", GAUGE, FLAG, BOOL(disk_full), "1 if the log is waiting for free disk space, else 0."},
    {"requests_outstanding", GAUGE, PLAIN, U64(outstanding), "Requests of this node's clients to the leader that are not answered yet."},
    {"requests_queued", GAUGE, PLAIN, U64(queued), "Requests of requests_outstanding that are not sent to the leader yet."},
    {"connections{protocol=\"http1\"}", GAUGE, PLAIN, U64(http1_connections), "Open client connections by protocol; gRPC uses HTTP/2."},
    {"connections{protocol=\"http2\"}", GAUGE, PLAIN, U64(http2_connections), ""},
    {"connections{protocol=\"resp\"}", GAUGE, PLAIN, U64(resp_connections), ""},
    {"connections_accepted_total{protocol=\"http1\"}", COUNTER, PLAIN, U64(http1_accepted), "Client connections since start by protocol; gRPC uses HTTP/2."},
    {"connections_accepted_total{protocol=\"http2\"}", COUNTER, PLAIN, U64(http2_accepted), ""},
    {"connections_accepted_total{protocol=\"resp\"}", COUNTER, PLAIN, U64(resp_accepted), ""},
    {"protocol_requests_total{protocol=\"http\"}", COUNTER, PLAIN, U64(http_requests), "Requests answered by this node since start by protocol."},
    {"protocol_requests_total{protocol=\"grpc\"}", COUNTER, PLAIN, U64(grpc_requests), ""},
    {"protocol_requests_total{protocol=\"resp\"}", COUNTER, PLAIN, U64(resp_commands), ""},
    {"client_connections", GAUGE, PLAIN, U64(connections), "Open HTTP and gRPC client connections."},
    {"clients", GAUGE, PLAIN, U64(clients), "Open client connections on all ports."},
    {"clients_max", GAUGE, PLAIN, U64(clients_max), "Limit of open client connections: max-clients, or less if the limit of open files is lower."},
    {"clients_refused_total", COUNTER, PLAIN, U64(clients_refused), "Client connections refused since start because the limit was reached and none was idle."},
    {"clients_evicted_total", COUNTER, PLAIN, U64(clients_evicted), "Idle client connections closed since start to admit a new one."},
    {"accept_pauses_total", COUNTER, PLAIN, U64(accept_pauses), "Times since start that accepting connections paused because file descriptors or memory ran out."},
    {"client_connections_bytes", GAUGE, PLAIN, U64(connection_bytes), "Memory held by all HTTP connections in bytes."},
    {"client_connections_max_bytes", GAUGE, PLAIN, U64(connection_bytes_max), "Limit of the memory held by all HTTP connections in bytes (connections-max-bytes)."},
    {"client_connections_closed_total", COUNTER, PLAIN, U64(connections_closed), "HTTP connections closed since start because client_connections_max_bytes was exceeded."},
    {"http2_streams_stalled_total", COUNTER, PLAIN, U64(stalled_streams), "HTTP/2 streams reset since start because the client stopped reading the answer."},
    {"requests_total", COUNTER, PLAIN, U64(requests), "Requests answered by this node since start."},
    {"requests_waiting", GAUGE, PLAIN, U64(waiting), "Acquire requests at this node that are waiting for a lock."},
    {"watch_streams", GAUGE, PLAIN, U64(streams), "Open watch streams at this node."},
    {"watch_streams_dropped_total", COUNTER, PLAIN, U64(dropped_streams), "Watch streams closed since start because the client read too slowly."},
    {"resp_connections", GAUGE, PLAIN, U64(resp_connections), "Open Redis-protocol connections."},
    {"resp_connections_total", COUNTER, PLAIN, U64(resp_accepted), "Redis-protocol connections accepted since start."},
    {"resp_commands_total", COUNTER, PLAIN, U64(resp_commands), "Redis-protocol commands answered since start."},
    {"resp_errors_total", COUNTER, PLAIN, U64(resp_errors), "Redis-protocol commands answered with an error since start."},
    {"resp_conflicts_total", COUNTER, PLAIN, U64(resp_conflicts), "Redis-protocol commands and scripts run again since start because their keys had changed."},
    {"resp_scripts_total", COUNTER, PLAIN, U64(resp_scripts), "Scripts run since start."},
    {"resp_scripts_stopped_total", COUNTER, PLAIN, U64(resp_stopped), "Scripts stopped at a limit since start."},
    {"resp_subscribers", GAUGE, PLAIN, U64(subscribers), "Open Redis-protocol connections that are subscribed to a channel."},
    {"resp_subscribers_dropped_total", COUNTER, PLAIN, U64(resp_dropped), "Redis-protocol subscribers closed since start because they read too slowly."},
    {"locks", GAUGE, PLAIN, U64(state.names), "Lock names that are held, waited for or in lock-delay."},
    {"grants", GAUGE, PLAIN, U64(state.grants), "Current lock holders; a lock with several holders counts once for each."},
    {"long_held_locks", GAUGE, PLAIN, U64(long_held), "Locks of both tiers that are held longer than their long-held rule; 0 on nodes that are not the leader."},
    {"waiters", GAUGE, PLAIN, U64(state.waiters), "Requests waiting in the queues of all locks."},
    {"sessions", GAUGE, PLAIN, U64(state.sessions), "Open sessions, including the private sessions of locks that were acquired without one."},
    {"fence_marks", GAUGE, PLAIN, U64(state.fence_marks), "Resources for which the fence check stores the highest token."},
    {"audit_records", GAUGE, PLAIN, U64(state.audit_records), "Audit records stored."},
    {"state_bytes", GAUGE, PLAIN, U64(state_bytes), "Bytes of live state in both tiers that count against state-max."},
    {"state_max_bytes", GAUGE, PLAIN, U64(state_max), "Smallest state-max of the members as far as this node knows them, in bytes; 0 if there is no limit."},
    {"state_nearly_full", GAUGE, FLAG, BOOL(state_nearly_full), "1 if state_bytes has reached 80 % of state_max_bytes and has not fallen below 70 % since, else 0."},
    {"state_refused_total", COUNTER, PLAIN, U64(state_refused), "Commands refused by this node as leader since start because state_max_bytes was reached."},
    {"state_reserved_bytes", GAUGE, PLAIN, U64(state.bytes), "Memory allocated for the replicated state in bytes, including free blocks and remembered requests."},
    {"memory_locks", GAUGE, PLAIN, U64(memory.names), "Lock names in use in the EFFICIENCY tier; 0 on nodes that are not the leader."},
    {"memory_grants", GAUGE, PLAIN, U64(memory.grants), "Current lock holders in the EFFICIENCY tier; a lock with several holders counts once for each."},
    {"memory_waiters", GAUGE, PLAIN, U64(memory.waiters), "Requests waiting in the queues of the EFFICIENCY tier."},
    {"memory_sessions", GAUGE, PLAIN, U64(memory.sessions), "Sessions in the EFFICIENCY tier, private and mirrored ones."},
    {"memory_bytes", GAUGE, PLAIN, U64(memory.bytes), "Memory used by the EFFICIENCY tier in bytes."},
    {"token_number", GAUGE, PLAIN, U64(counter), "Number C of the fencing tokens; a token is C * 1024 + e."},
    {"epoch", GAUGE, PLAIN, U64(epoch), "Number C at the start of the newest leadership."},
    {"state_version", GAUGE, PLAIN, U64(version), "Version of the replicated state."},
    {"counters", GAUGE, PLAIN, U64(state.counters), "Counters of the Redis protocol."},
    {"long_held_rules", GAUGE, PLAIN, U64(state.alerts), "Long-held rules of all tenants."},
    {"oldest_hold_seconds", GAUGE, MS, U64(oldest_hold_ms), "Age of the oldest current hold of both tiers; 0 on nodes that are not the leader."},
};

/* Only with an event log. */
static const struct metric event_metrics[] = {
    {"event_log_bytes", GAUGE, PLAIN, U64(events.bytes), "Size of the event log on the disk of this node in bytes."},
    {"event_log_max_bytes", GAUGE, PLAIN, U64(events.max_bytes), "Limit of the size of the event log in bytes (events-max-bytes)."},
    {"event_log_records_total", COUNTER, PLAIN, U64(events.appended), "Events and audit records written to the event log since start."},
    {"event_log_dropped_total", COUNTER, PLAIN, U64(events.dropped), "Events and audit records lost since start because the disk was full or too slow for the event log."},
    {"event_log_segments", GAUGE, PLAIN, U64(events.segments), "Files of the event log."},
    {"event_log_gaps", GAUGE, PLAIN, U64(events.gaps), "Ranges of log entries whose events are missing in the event log."},
    {"event_log_oldest_timestamp_seconds", GAUGE, MS, U64(events.oldest_ms), "Unix time of the oldest record in the event log, 0 if it is empty."},
    {"event_log_complete_since_timestamp_seconds", GAUGE, MS, U64(events.complete_since_ms), "Unix time since which no event is missing in the event log, 0 if none is missing at all."},
    {"event_log_index", GAUGE, PLAIN, U64(events.last_index), "Index of the newest log entry whose events are in the event log."},
    {"event_log_disk_full", GAUGE, FLAG, BOOL(events.disk_full), "1 if the last write to the event log failed, else 0."},
};

/* Only with auth = on. */
#define DENIED(reason) {"denied_commands_total{reason=\"" #reason "\"}", COUNTER, PLAIN, U64(denied_##reason), "Commands of clients that this node as leader denied since start, by the right that was missing."}
static const struct metric auth_metrics[] = {
    {"policy_version", GAUGE, PLAIN, U64(policy_version), "Version of the policy applied at this node."},
    {"authentication_failures_total", COUNTER, PLAIN, U64(auth_failures), "Requests since start whose credentials were not valid."},
    DENIED(no_principal), DENIED(lock), DENIED(read), DENIED(operate), DENIED(admin),
};

/* Only with TLS. */
static const struct metric tls_metrics[] = {
    {"certificate_expiry_timestamp_seconds", GAUGE, PLAIN, U64(certificate_until_s), "Unix time at which the certificate of this node expires."},
    {"ca_expiry_timestamp_seconds", GAUGE, PLAIN, U64(ca_until_s), "Unix time at which the first CA certificate of tls-ca expires."},
    {"certificate_refused", GAUGE, FLAG, BOOL(certificate_refused), "1 if the changed files of tls-cert, tls-key and tls-ca could not be used, so that those of before stay in use, else 0."},
};

/* Only if the EFFICIENCY tier has a Redis backend. */
static const struct metric redis_metrics[] = {
    {"redis_up", GAUGE, FLAG, BOOL(redis.link.up), "1 if the connection to the Redis backend is open, else 0."},
    {"redis_healthy", GAUGE, FLAG, BOOL(redis_healthy), "1 if the connection to the Redis backend is open and its circuit breaker is closed, else 0."},
    {"redis_connects_total", COUNTER, PLAIN, U64(redis.link.connects), "Connections to the Redis backend established since start."},
    {"redis_connects_failed_total", COUNTER, PLAIN, U64(redis.link.connects_failed), "Failed attempts to connect to the Redis backend since start."},
    {"redis_calls_total", COUNTER, PLAIN, U64(redis.link.calls), "Script calls requested from the Redis backend since start."},
    {"redis_calls_answered_total", COUNTER, PLAIN, U64(redis.link.answered), "Script calls that the Redis backend answered since start."},
    {"redis_calls_refused_total", COUNTER, PLAIN, U64(redis.link.refused), "Script calls that the Redis backend answered with an error since start."},
    {"redis_calls_not_sent_total", COUNTER, PLAIN, U64(redis.link.not_sent), "Script calls not sent since start because the Redis backend was unreachable."},
    {"redis_calls_in_doubt_total", COUNTER, PLAIN, U64(redis.link.doubts), "Script calls sent to the Redis backend and never answered since start."},
    {"redis_answer_seconds_total", COUNTER, US, U64(redis.link.answer_us), "Sum of the response times of the Redis backend since start, in seconds."},
    {"redis_answer_worst_seconds", GAUGE, US, U64(redis.link.answer_worst_us), "Slowest response of the Redis backend since start, in seconds."},
    {"redis_timeouts_total", COUNTER, PLAIN, U64(redis.link.timeouts), "Connections to the Redis backend closed since start because of a response timeout."},
    {"redis_breaker_opened_total", COUNTER, PLAIN, U64(redis.link.breaker_opened), "Times that the circuit breaker of the Redis backend opened since start."},
    {"redis_keys", GAUGE, PLAIN, U64(redis.keys), "Keys in the Redis backend that this leader has set or may have set."},
    {"redis_grants_waiting", GAUGE, PLAIN, U64(redis.waiting), "Grants that wait for the confirmation of the Redis backend."},
    {"redis_grants_total", COUNTER, PLAIN, U64(redis.granted), "Grants confirmed by the Redis backend since start."},
    {"redis_foreign_total", COUNTER, PLAIN, U64(redis.foreign), "Acquire requests refused since start because a client outside Holdfast holds the key in Redis."},
    {"redis_fallback_embedded_total", COUNTER, PLAIN, U64(redis.embedded), "Grants made without the Redis backend since start (fallback = embedded)."},
    {"redis_locks_lost_total", COUNTER, PLAIN, U64(redis.lost), "Locks lost since start because the Redis backend lost their key or was unreachable too long."},
};
/* clang-format on */

static void put_value(struct buffer *out, const struct metric *m, const struct node_view *view)
{
    const char *at = (const char *)view + m->offset;
    uint64_t value = 0;
    if (m->unit == FLAG) {
        value = *(const bool *)at;
    } else {
        memcpy(&value, at, sizeof(value));
    }
    if (m->unit == MS) {
        buffer_printf(out, "holdfast_%s %" PRIu64 ".%03" PRIu64 "\n", m->name, value / 1000,
                      value % 1000);
    } else if (m->unit == US) {
        buffer_printf(out, "holdfast_%s %" PRIu64 ".%06" PRIu64 "\n", m->name, value / 1000000,
                      value % 1000000);
    } else {
        buffer_printf(out, "holdfast_%s %" PRIu64 "\n", m->name, value);
    }
}

/* With the id as a label. */
static void put_members(struct buffer *out, const struct gateway_member *members, uint32_t count)
{
    metrics_put_title(out, "member_healthy", GAUGE,
                      "1 if this node is in contact with the member, else 0.");
    for (uint32_t i = 0; i < count; i++) {
        buffer_printf(out, "holdfast_member_healthy{member=\"%" PRIu64 "\"} %d\n", members[i].id,
                      members[i].healthy);
    }
    metrics_put_title(out, "member_voter", GAUGE, "1 for a voter, 0 for a learner.");
    for (uint32_t i = 0; i < count; i++) {
        buffer_printf(out, "holdfast_member_voter{member=\"%" PRIu64 "\"} %d\n", members[i].id,
                      members[i].voter);
    }
    metrics_put_title(
        out, "member_lag_entries", GAUGE,
        "Log entries that the member is behind the leader; only the leader reports it.");
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].lag != UINT64_MAX) {
            buffer_printf(out, "holdfast_member_lag_entries{member=\"%" PRIu64 "\"} %" PRIu64 "\n",
                          members[i].id, members[i].lag);
        }
    }
}

enum tenant_metric { TENANT_USED, TENANT_LIMIT, TENANT_REFUSED };
static const char *const tenant_metrics[] = {"tenant_used", "tenant_quota", "tenant_refused_total"};

static void put_tenant(struct buffer *out, const struct node_tenant *tenant,
                       enum tenant_metric metric)
{
    for (unsigned i = 0; i < QUOTA_COUNT; i++) {
        bool has_none = metric == TENANT_USED && i == QUOTA_REQUESTS_PER_SECOND;
        uint64_t value = metric == TENANT_USED    ? tenant->used[i]
                         : metric == TENANT_LIMIT ? tenant->limits[i]
                                                  : tenant->refused[i];
        if (tenant->limits[i] != 0 && !has_none) {
            buffer_printf(out, "holdfast_%s{tenant=\"%s\",quota=\"%s\"} %" PRIu64 "\n",
                          tenant_metrics[metric], tenant->name, quota_name((enum quota)i), value);
        }
    }
}

/* Names of tenants need no escapes (policy_name_is_valid). */
static void put_tenants(struct buffer *out, const struct node_tenant *tenants, uint32_t count)
{
    static const char *const help[] = {
        ("What the tenant has that the quota limits; only the leader counts the EFFICIENCY tier, "
         "watchers are those of this node."),
        "The quota of the tenant.",
        "Requests of the tenant refused by this node because of the quota."};
    for (unsigned metric = TENANT_USED; metric <= TENANT_REFUSED && count > 0; metric++) {
        metrics_put_title(out, tenant_metrics[metric], metric == TENANT_REFUSED ? COUNTER : GAUGE,
                          help[metric]);
        for (uint32_t i = 0; i < count; i++) {
            put_tenant(out, &tenants[i], (enum tenant_metric)metric);
        }
    }
}

static bool is_same_metric(const char *a, const char *b)
{
    size_t len = strcspn(a, "{");
    return len == strcspn(b, "{") && memcmp(a, b, len) == 0;
}

static void put_table(struct buffer *out, const struct metric *table, size_t count,
                      const struct node_view *view)
{
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || !is_same_metric(table[i].name, table[i - 1].name)) {
            metrics_put_title(out, table[i].name, table[i].kind, table[i].help);
        }
        put_value(out, &table[i], view);
    }
}

static void put_build(struct buffer *out)
{
    metrics_put_title(out, "build_info", GAUGE, "1; the label has the version of the program.");
    buffer_append_text(out, "holdfast_build_info{version=\"" HOLDFAST_VERSION "\"} 1\n");
}

void metrics_write(const struct node_view *view, const struct metric_rows *rows, struct buffer *out)
{
    put_build(out);
    put_table(out, metrics, sizeof(metrics) / sizeof(metrics[0]), view);
    if (view->has_events) {
        put_table(out, event_metrics, sizeof(event_metrics) / sizeof(event_metrics[0]), view);
    }
    metrics_put_counts(view, out);
    if (view->has_auth) {
        put_table(out, auth_metrics, sizeof(auth_metrics) / sizeof(auth_metrics[0]), view);
    }
    if (view->has_tls) {
        put_table(out, tls_metrics, sizeof(tls_metrics) / sizeof(tls_metrics[0]), view);
    }
    if (view->has_redis) {
        put_table(out, redis_metrics, sizeof(redis_metrics) / sizeof(redis_metrics[0]), view);
    }
    put_members(out, rows->members, rows->member_count);
    put_tenants(out, rows->tenants, rows->tenant_count);
}
