/* What this node counts of the state machine and measures of itself, and the queries of other nodes
 * for it (service/request/leader_query.h). */
#include "node/node_state.h"
#include "service/request/memory_page.h"
#include "service/request/session_check.h"
#include "service/request/sink_report.h"

static void fill_state(struct node *n, struct leader_stats *out)
{
    struct core_stats state;
    struct core_stats memory = {0};
    core_stats(replica_core(n->replica), &state);
    const struct core *core = node_memory_core(n);
    if (core != NULL) {
        core_stats(core, &memory);
    }
    out->locks = state.names + memory.names;
    out->holders = state.grants + memory.grants;
    out->waiters = state.waiters + memory.waiters;
    out->sessions = state.sessions + memory.sessions;
    out->long_held = state.long_held + memory.long_held;
    out->oldest_hold_ms = node_oldest_hold_ms(n);
}

static void add_tier(const struct tier_counts *t, struct leader_stats *out)
{
    out->acquire_attempts += counts_sum(t->acquires, ACQUIRED_COUNT);
    out->grants += t->grants;
    out->refused += t->acquires[ACQUIRED_REFUSED];
    out->contended += t->contended;
    out->waits_ended += counts_sum(t->waits_ended, REASON_COUNT);
    out->releases += t->releases;
    out->release_failures += counts_sum(t->release_failures, REASON_COUNT);
    out->renewals += t->renewals + t->keepalives;
    out->renewal_failures += counts_sum(t->renewal_failures, REASON_COUNT) + t->keepalive_failures;
    out->expired += t->expired;
    out->forced += t->forced;
    out->revoked += t->revoked;
    out->sessions_opened += t->sessions_opened;
    out->sessions_expired += t->sessions_expired;
}

static struct latency_pair pair_of(const struct node_counts *c, enum latency_kind what)
{
    return (struct latency_pair){counts_recent(c, what, 500), counts_recent(c, what, 990)};
}

void node_stats(struct node *n, struct leader_stats *out)
{
    struct replica_status status;
    const struct node_counts *c = n->counts;
    replica_status(n->replica, node_now(n), &status);
    *out = (struct leader_stats){.node = n->options.id,
                                 .term = status.term,
                                 .serving = status.serving,
                                 .uptime_ms = (node_boot_us() - n->started_us) / 1000,
                                 .requests = c->requests};
    fill_state(n, out);
    for (unsigned tier = 0; tier < COUNTS_TIERS; tier++) {
        add_tier(&c->tiers[tier], out);
    }
#define SET_LATENCY(name) out->name = pair_of(c, LATENCY_##name);
    LATENCY_LIST(SET_LATENCY)
#undef SET_LATENCY
}

static bool answer_stats(struct node *n, struct slice query, struct buffer *out)
{
    struct leader_stats stats;
    node_stats(n, &stats);
    return leader_stats_answer(&stats, query, out);
}

static bool answer_hot(struct node *n, struct slice query, struct buffer *out)
{
    struct leader_hot hot;
    enum hot_by by;
    uint32_t limit;
    struct replica_status status;
    if (!leader_hot_requested(query, &by, &limit)) {
        return false;
    }
    replica_status(n->replica, node_now(n), &status);
    hot_top(n->counts->hot, by, limit, node_boot_us(), &hot);
    hot.node = n->options.id;
    hot.term = status.term;
    return leader_hot_answer(&hot, query, out);
}

static bool answer_sinks(struct node *n, struct slice query, struct buffer *out)
{
    struct sink_reports sinks;
    node_sink_reports(n, &sinks);
    return sink_reports_answer(&sinks, query, out);
}

bool node_answer_query(void *ctx, struct slice query, struct buffer *out)
{
    struct node *n = ctx;
    switch (leader_query_of(query)) {
    case QUERY_STATS:
        return answer_stats(n, query, out);
    case QUERY_HOT:
        return answer_hot(n, query, out);
    case QUERY_SINKS:
        return answer_sinks(n, query, out);
    case QUERY_SESSION_CHECKS:
        return session_checks_answer(replica_core(n->replica), node_memory_core(n), query, out);
    default:
        return memory_page_write(node_memory_core(n), query, out);
    }
}

void node_step_counts(struct node *n, struct replica_time now)
{
    struct replica_status status;
    replica_status(n->replica, now, &status);
    counts_tick(n->counts, now.boot_us);
    hot_tick(n->counts->hot, now.boot_us);
    if (status.leader != 0) {
        cluster_time_note(&n->counts->time, status.term, status.clock_from_ms, status.cluster_ms,
                          now.boot_us);
    }
}
