/* One table: name, kind, unit and help of each metric, and where its value is. Names and units
 * follow the habits of Prometheus: base units, `_total` for what only rises. */
#include "server/metrics.h"

#include <inttypes.h>
#include <stddef.h>

enum kind { GAUGE, COUNTER };
enum unit { PLAIN, FLAG, MS, US }; /* of the value here; times are shown in seconds */

struct metric {
    const char *name;
    enum kind kind;
    enum unit unit;
    size_t offset;
    const char *help;
};

#define AT(member) offsetof(struct node_view, member)

/* clang-format off */
static const struct metric metrics[] = {
    {"uptime_seconds", GAUGE, MS, AT(uptime_ms), "Since this node started."},
    {"serving", GAUGE, FLAG, AT(serving), "1 while this node reaches a leader that has a majority."},
    {"leader", GAUGE, FLAG, AT(leads), "1 while this node leads."},
    {"leader_id", GAUGE, PLAIN, AT(leader), "The node that leads, as this one knows it; 0: none."},
    {"term", GAUGE, PLAIN, AT(term), "Of the consensus; rises with each election."},
    {"log_last_index", GAUGE, PLAIN, AT(last_index), "The last entry of the log."},
    {"log_stored_index", GAUGE, PLAIN, AT(stored_index), "The last entry that is durable here."},
    {"log_commit_index", GAUGE, PLAIN, AT(commit_index), "The last entry that a majority has."},
    {"log_applied_index", GAUGE, PLAIN, AT(applied_index), "The last entry that is part of the state."},
    {"snapshot_index", GAUGE, PLAIN, AT(snapshot_index), "The entry that the newest snapshot ends with."},
    {"snapshot_bytes", GAUGE, PLAIN, AT(snapshot_bytes), "Of the newest snapshot."},
    {"log_disk_bytes", GAUGE, PLAIN, AT(log_disk_bytes), "Of all files of the log."},
    {"log_appends_total", COUNTER, PLAIN, AT(appends), "Writes to the log, each with its sync."},
    {"log_direct_appends_total", COUNTER, PLAIN, AT(direct_appends), "Of these, direct writes that no thread waited for."},
    {"log_entries_total", COUNTER, PLAIN, AT(appended_entries), "Entries written."},
    {"log_bytes_total", COUNTER, PLAIN, AT(appended_bytes), "Bytes of entries written."},
    {"log_append_seconds_total", COUNTER, US, AT(append_us), "Spent in those writes and syncs."},
    {"log_append_worst_seconds", GAUGE, US, AT(append_worst_us), "The longest of them."},
    {"disk_full", GAUGE, FLAG, AT(disk_full), "1 while the log waits for room on the disk."},
    {"requests_outstanding", GAUGE, PLAIN, AT(outstanding), "On their way to the leader and back."},
    {"client_connections", GAUGE, PLAIN, AT(connections), "Open now."},
    {"clients", GAUGE, PLAIN, AT(clients), "Client connections of all ports together, open now."},
    {"clients_max", GAUGE, PLAIN, AT(clients_max), "How many of them there may be: max-clients, or what the limit of open files leaves."},
    {"clients_refused_total", COUNTER, PLAIN, AT(clients_refused), "Connections refused since as many as allowed were in use."},
    {"clients_evicted_total", COUNTER, PLAIN, AT(clients_evicted), "Idle connections closed in favour of a new one."},
    {"accept_pauses_total", COUNTER, PLAIN, AT(accept_pauses), "Times that no connection was accepted for a while, since descriptors or memory had run out."},
    {"client_connections_bytes", GAUGE, PLAIN, AT(connection_bytes), "Memory that HTTP connections hold."},
    {"client_connections_max_bytes", GAUGE, PLAIN, AT(connection_bytes_max), "Their limit together (connections-max-bytes)."},
    {"client_connections_closed_total", COUNTER, PLAIN, AT(connections_closed), "HTTP connections closed because all together held more than that limit."},
    {"http2_streams_stalled_total", COUNTER, PLAIN, AT(stalled_streams), "Streams of HTTP/2 reset because the client took nothing of their answer."},
    {"requests_total", COUNTER, PLAIN, AT(requests), "Answered through this node."},
    {"requests_waiting", GAUGE, PLAIN, AT(waiting), "Acquires that are held open here."},
    {"watch_streams", GAUGE, PLAIN, AT(streams), "Open now."},
    {"watch_streams_dropped_total", COUNTER, PLAIN, AT(dropped_streams), "Readers that were too slow."},
    {"resp_connections", GAUGE, PLAIN, AT(resp_connections), "Clients of the Redis protocol, now."},
    {"resp_connections_total", COUNTER, PLAIN, AT(resp_accepted), "... that have come."},
    {"resp_commands_total", COUNTER, PLAIN, AT(resp_commands), "Commands of the Redis protocol that were answered."},
    {"resp_errors_total", COUNTER, PLAIN, AT(resp_errors), "... with an error."},
    {"resp_conflicts_total", COUNTER, PLAIN, AT(resp_conflicts), "Times that a command or script was run again, since its keys had changed."},
    {"resp_scripts_total", COUNTER, PLAIN, AT(resp_scripts), "Runs of scripts."},
    {"resp_scripts_stopped_total", COUNTER, PLAIN, AT(resp_stopped), "... that were stopped at a limit."},
    {"resp_subscribers_dropped_total", COUNTER, PLAIN, AT(resp_dropped), "Subscribers that were too slow."},
    {"locks", GAUGE, PLAIN, AT(state.names), "Names that are held, waited for or delayed."},
    {"grants", GAUGE, PLAIN, AT(state.grants), "Names held, each holder counted."},
    {"waiters", GAUGE, PLAIN, AT(state.waiters), "In all queues."},
    {"sessions", GAUGE, PLAIN, AT(state.sessions), "Private ones included."},
    {"fence_marks", GAUGE, PLAIN, AT(state.fence_marks), "Resources whose highest token is known."},
    {"fence_rejections_total", COUNTER, PLAIN, AT(state.fence_rejections), "Writes that a fence check refused."},
    {"audit_records", GAUGE, PLAIN, AT(state.audit_records), "Kept."},
    {"state_bytes", GAUGE, PLAIN, AT(state_bytes), "What counts against state-max: live state of both tiers; without what is free for reuse or only remembered."},
    {"state_max_bytes", GAUGE, PLAIN, AT(state_max), "The smallest state-max of the members, as this node knows them; 0: no limit."},
    {"state_nearly_full", GAUGE, FLAG, AT(state_nearly_full), "1 from 80 % of that limit until the state is below 70 %."},
    {"state_refused_total", COUNTER, PLAIN, AT(state_refused), "Commands that this node refused as leader because the state was full."},
    {"state_reserved_bytes", GAUGE, PLAIN, AT(state.bytes), "Memory that the replicated state takes, everything counted."},
    {"memory_locks", GAUGE, PLAIN, AT(memory.names), "Of the tier EFFICIENCY, on the leader: names in use."},
    {"memory_grants", GAUGE, PLAIN, AT(memory.grants), "Of that tier: names held, each holder counted."},
    {"memory_waiters", GAUGE, PLAIN, AT(memory.waiters), "Of that tier: in all queues."},
    {"memory_sessions", GAUGE, PLAIN, AT(memory.sessions), "Of that tier: private and mirrored ones."},
    {"memory_bytes", GAUGE, PLAIN, AT(memory.bytes), "Of that tier: memory that it takes."},
    {"token_counter", GAUGE, PLAIN, AT(counter), "C of the fencing tokens (a token is C * 1024 + e)."},
    {"epoch", GAUGE, PLAIN, AT(epoch), "The C of the newest lead."},
};

/* Only with a Redis behind the tier EFFICIENCY. */
static const struct metric redis_metrics[] = {
    {"redis_up", GAUGE, FLAG, AT(redis.link.up), "1 while the connection to Redis stands."},
    {"redis_healthy", GAUGE, FLAG, AT(redis_healthy), "1 while it stands and the circuit breaker is closed."},
    {"redis_connects_total", COUNTER, PLAIN, AT(redis.link.connects), "Connections that were made and greeted."},
    {"redis_connects_failed_total", COUNTER, PLAIN, AT(redis.link.connects_failed), "Attempts that failed."},
    {"redis_calls_total", COUNTER, PLAIN, AT(redis.link.calls), "Scripts that were to be run."},
    {"redis_calls_answered_total", COUNTER, PLAIN, AT(redis.link.answered), "Of them: answered."},
    {"redis_calls_refused_total", COUNTER, PLAIN, AT(redis.link.refused), "Of them: answered with an error."},
    {"redis_calls_not_sent_total", COUNTER, PLAIN, AT(redis.link.not_sent), "Of them: not sent, Redis was away."},
    {"redis_calls_in_doubt_total", COUNTER, PLAIN, AT(redis.link.doubts), "Of them: sent and not answered."},
    {"redis_answer_seconds_total", COUNTER, US, AT(redis.link.answer_us), "Until the answers came, all together."},
    {"redis_answer_worst_seconds", GAUGE, US, AT(redis.link.answer_worst_us), "The longest of them."},
    {"redis_timeouts_total", COUNTER, PLAIN, AT(redis.link.timeouts), "Connections given up because it did not answer in time."},
    {"redis_breaker_opened_total", COUNTER, PLAIN, AT(redis.link.breaker_opened), "How often the circuit breaker opened."},
    {"redis_keys", GAUGE, PLAIN, AT(redis.keys), "In Redis that are, or may be, this leader's."},
    {"redis_grants_waiting", GAUGE, PLAIN, AT(redis.waiting), "Grants that Redis has not confirmed."},
    {"redis_grants_total", COUNTER, PLAIN, AT(redis.granted), "Grants that it confirmed."},
    {"redis_foreign_total", COUNTER, PLAIN, AT(redis.foreign), "Acquires refused because somebody outside holds the key."},
    {"redis_fallback_embedded_total", COUNTER, PLAIN, AT(redis.embedded), "Grants made without it, by the fallback."},
    {"redis_locks_lost_total", COUNTER, PLAIN, AT(redis.lost), "Locks that ended because Redis lost their key or was away too long."},
};
/* clang-format on */

static void put_title(struct buffer *out, const char *name, enum kind kind, const char *help)
{
    buffer_printf(out, "# HELP holdfast_%s %s\n# TYPE holdfast_%s %s\n", name, help, name,
                  kind == COUNTER ? "counter" : "gauge");
}

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

/* The only ones with a label: how the leader sees the others. */
static void put_members(struct buffer *out, const struct gateway_member *members, uint32_t count)
{
    put_title(out, "member_healthy", GAUGE, "1 while this node hears that member.");
    for (uint32_t i = 0; i < count; i++) {
        buffer_printf(out, "holdfast_member_healthy{member=\"%" PRIu64 "\"} %d\n", members[i].id,
                      members[i].healthy);
    }
    put_title(out, "member_voter", GAUGE, "1 for a voter, 0 for a learner.");
    for (uint32_t i = 0; i < count; i++) {
        buffer_printf(out, "holdfast_member_voter{member=\"%" PRIu64 "\"} %d\n", members[i].id,
                      members[i].voter);
    }
    put_title(out, "member_lag_entries", GAUGE,
              "Log entries behind the leader, told by the leader.");
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].lag != UINT64_MAX) {
            buffer_printf(out, "holdfast_member_lag_entries{member=\"%" PRIu64 "\"} %" PRIu64 "\n",
                          members[i].id, members[i].lag);
        }
    }
}

void metrics_write(const struct node_view *view, const struct gateway_member *members,
                   uint32_t member_count, struct buffer *out)
{
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
        put_title(out, metrics[i].name, metrics[i].kind, metrics[i].help);
        put_value(out, &metrics[i], view);
    }
    for (size_t i = 0; view->has_redis && i < sizeof(redis_metrics) / sizeof(redis_metrics[0]);
         i++) {
        put_title(out, redis_metrics[i].name, redis_metrics[i].kind, redis_metrics[i].help);
        put_value(out, &redis_metrics[i], view);
    }
    put_members(out, members, member_count);
}
