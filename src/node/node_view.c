/* Status of a running node, for its page and metrics. */
#include "node/node_state.h"

static void view_replica(struct node *n, struct node_view *out)
{
    struct replica_status status;
    struct gateway_status reach;
    struct gateway gateway = node_gateway(n);
    const struct core *core = replica_core(n->replica);
    replica_status(n->replica, node_now(n), &status);
    gateway.status(gateway.ctx, &reach);
    out->leader = status.leader;
    out->leader_client_address = reach.leader_client_address;
    out->leads = status.is_leader;
    out->serving = reach.serving;
    out->term = status.term;
    out->last_index = status.last_index;
    out->stored_index = status.stored_index;
    out->commit_index = status.commit_index;
    out->applied_index = status.applied_index;
    out->snapshot_index = status.snapshot_index;
    out->counter = core_counter(core);
    out->epoch = core_epoch(core);
    out->version = core_version(core);
    core_stats(core, &out->state);
    const struct core *memory = node_memory_core(n);
    if (memory != NULL) {
        core_stats(memory, &out->memory);
    }
    out->long_held = status.is_leader ? out->state.long_held + out->memory.long_held : 0;
}

static void view_disk(struct node *n, struct node_view *out)
{
    struct logger_stats stats;
    logger_stats(n->logger, &stats);
    out->appends = stats.appends;
    out->direct_appends = stats.direct;
    out->appended_entries = stats.entries;
    out->appended_bytes = stats.bytes;
    out->append_us = stats.sync_us;
    out->append_worst_us = stats.worst_us;
    logger_append_times(n->logger, &out->append_times);
    out->log_disk_bytes = stats.disk_bytes;
    out->snapshot_bytes = n->snapshot_size;
}

static void view_auth(const struct node *n, const struct service_stats *stats,
                      struct node_view *out)
{
    uint64_t *const denied[FORWARD_DENIAL_REASONS] = {&out->denied_no_principal, &out->denied_lock,
                                                      &out->denied_read, &out->denied_operate,
                                                      &out->denied_admin};
    out->has_auth = n->options.auth;
    out->policy_version = policy_version(core_policy(replica_core(n->replica)));
    out->auth_failures = stats->auth_failures;
    for (unsigned i = 0; i < FORWARD_DENIAL_REASONS; i++) {
        *denied[i] = forward_denied(n->forward, i);
    }
}

static void count_voters(struct node *n, struct node_pulse *out)
{
    struct gateway_member members[LIMIT_NODES];
    uint32_t count = node_members(n, members, LIMIT_NODES);
    for (uint32_t i = 0; i < count; i++) {
        out->voters += members[i].voter ? 1 : 0;
        out->voters_reached += members[i].voter && members[i].healthy ? 1 : 0;
    }
}

void node_pulse(struct node *n, struct node_pulse *out)
{
    *out = (struct node_pulse){.is_stopping = n->phase > NODE_RUNNING,
                               .is_joining = n->replica == NULL && n->phase == NODE_STARTING,
                               .disk_full = n->disk_full,
                               .turn_us = n->stall.turn_us,
                               .is_stalled = n->stall.reading};
    if (n->replica != NULL) {
        struct replica_status status;
        replica_status(n->replica, node_now(n), &status);
        out->leads = status.is_leader;
        out->leader = status.leader;
        out->term = status.term;
        out->serving = node_is_serving(n);
        count_voters(n, out);
    }
}

static void view_events(struct node *n, struct node_view *out)
{
    out->has_events = node_event_log(n) != NULL;
    if (out->has_events) {
        event_log_stats(node_event_log(n), &out->events);
    }
}

void node_view(struct node *n, struct node_view *out)
{
    struct service_stats stats;
    *out = (struct node_view){.node = n->options.id,
                              .cluster = n->self.cluster,
                              .cluster_name = n->self.cluster_name,
                              .leader_client_address = "",
                              .disk_full = n->disk_full,
                              .uptime_ms = (node_now(n).boot_us - n->started_us) / 1000,
                              .outstanding = forward_outstanding(n->forward),
                              .queued = forward_queued(n->forward),
                              .oldest_hold_ms = node_oldest_hold_ms(n),
                              .counts = n->counts};
    view_replica(n, out);
    view_disk(n, out);
    view_events(n, out);
    out->state_bytes = node_state_bytes(n);
    out->state_max = n->admission.max;
    out->state_refused = n->admission.refused;
    out->state_nearly_full = n->state_warned;
    out->has_tls = n->self.is_certified;
    out->certificate_until_s = (uint64_t)n->certificate.until_s;
    out->ca_until_s = (uint64_t)n->certificate.ca_until_s;
    out->certificate_refused = n->certificate.is_refused;
    if (n->redis != NULL) {
        out->has_redis = true;
        redis_tier_view(n->redis, &out->redis);
        out->redis_healthy = out->redis.link.up && out->redis.link.breaker == REDIS_CLOSED;
    }
    struct client_table_stats clients;
    client_table_stats(n->clients, &clients);
    out->clients = clients.count;
    out->clients_max = clients.max;
    out->clients_refused = clients.refused;
    out->clients_evicted = clients.evicted;
    out->accept_pauses = n->net.accept_pauses;
    service_stats(n->service, &stats);
    view_auth(n, &stats, out);
    out->connections = stats.connections;
    out->http2_connections = stats.http2_connections;
    out->http1_connections = stats.connections - stats.http2_connections;
    out->http2_accepted = stats.http2_accepted;
    out->http1_accepted = stats.accepted - stats.http2_accepted;
    out->requests = stats.requests;
    out->grpc_requests = stats.grpc_requests;
    out->http_requests = stats.requests - stats.grpc_requests;
    out->subscribers = service_subscribers(n->service);
    out->waiting = stats.waiting;
    out->streams = stats.streams;
    out->dropped_streams = stats.dropped_streams;
    out->connection_bytes = stats.conn_bytes;
    out->connection_bytes_max = stats.conn_bytes_max;
    out->connections_closed = stats.conn_closed;
    out->stalled_streams = stats.stalled_streams;
    out->resp_connections = stats.resp_connections;
    out->resp_accepted = stats.resp_accepted;
    out->resp_commands = stats.resp_commands;
    out->resp_errors = stats.resp_errors;
    out->resp_conflicts = stats.resp_conflicts;
    out->resp_dropped = stats.resp_dropped;
    out->resp_scripts = stats.resp_scripts;
    out->resp_stopped = stats.resp_stopped;
}
