/* Totals and distributions of a node (node/counts/counts.h). Those of the state machine count at the leader
 * only, so that sums over all nodes are right. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "core/result.h"
#include "server/metrics_text.h"

enum { LABEL_TEXT = 64, TIERS = COUNTS_TIERS };

static const char *const tier_labels[TIERS] = {"tier=\"CORRECTNESS\"", "tier=\"EFFICIENCY\""};

#define TIER_MEMBER(type, member) \
    _Generic(&((struct tier_counts *)NULL)->member, type * : offsetof(struct tier_counts, member))

struct total {
    const char *name;
    size_t offset;
    const char *help;
};
#define TOTAL(name, member, help)                 \
    {                                             \
        name, TIER_MEMBER(uint64_t, member), help \
    }

/* clang-format off */
static const struct total totals[] = {
    TOTAL("acquires_contended_total", contended, "Acquire requests that found the lock held, waited for or delayed."),
    TOTAL("grants_total", grants, "Locks granted; each name of a multi-lock counts."),
    TOTAL("releases_total", releases, "Release requests that released a lock."),
    TOTAL("renewals_total", renewals, "Renew requests that renewed a lock."),
    TOTAL("keepalives_total", keepalives, "Keep-alives of sessions that were alive."),
    TOTAL("keepalive_failures_total", keepalive_failures, "Keep-alives of sessions that had ended or did not exist."),
    TOTAL("locks_expired_total", expired, "Locks reclaimed because their holder did not renew them in time, its session expired, or max_hold was over."),
    TOTAL("force_unlocks_total", forced, "Locks taken from their holders by an operator."),
    TOTAL("revoke_requests_total", revoke_requests, "Holders requested to release their lock by a deadline."),
    TOTAL("revocations_total", revoked, "Locks taken from their holders at the deadline of a revocation, or with their principal."),
    TOTAL("long_held_total", long_held, "Holds reported as longer than their long-held rule allows."),
    TOTAL("sessions_opened_total", sessions_opened, "Sessions opened; the private sessions of locks do not count."),
    TOTAL("sessions_closed_total", sessions_closed, "Sessions closed by their clients."),
    TOTAL("sessions_expired_total", sessions_expired, "Sessions ended because they were not kept alive."),
};

/* By reason. The listed reasons are always present, others when they occur. */
struct reason_total {
    const char *name;
    size_t offset; /* of an array with a number for each reason */
    const char *help;
    uint32_t reasons;
};
#define REASONS(member) TIER_MEMBER(uint64_t_by_reason, member)
typedef uint64_t uint64_t_by_reason[REASON_COUNT];
#define R(symbol) (UINT32_C(1) << REASON_##symbol)
_Static_assert(REASON_COUNT <= 32, "a bit for each");

static const struct reason_total reason_totals[] = {
    {"acquires_refused_total", REASONS(refused), "Acquire requests that were refused at once, by reason.",
     R(HELD) | R(DELAYED) | R(DEADLOCK) | R(ALREADY_HELD) | R(MODE_MISMATCH) | R(LIMIT_MISMATCH)},
    {"waits_ended_total", REASONS(waits_ended), "Waits in the queue of a lock that ended, by reason; ok: by a grant.",
     R(NONE) | R(TIMEOUT) | R(CANCELLED) | R(DETACHED) | R(SESSION_ENDED)},
    {"release_failures_total", REASONS(release_failures), "Release requests that released nothing, by reason; ok: an error without a reason.",
     R(NOT_OWNER) | R(ALREADY_RELEASED) | R(EXPIRED)},
    {"renewal_failures_total", REASONS(renewal_failures), "Renew requests that renewed nothing, by reason; ok: an error without a reason.",
     R(NOT_OWNER) | R(ALREADY_RELEASED) | R(EXPIRED)},
};
/* clang-format on */

static void put_tier_totals(const struct node_counts *c, struct buffer *out)
{
    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        const struct total *t = &totals[i];
        metrics_put_title(out, t->name, COUNTER, t->help);
        for (unsigned tier = 0; tier < TIERS; tier++) {
            const void *at = (const char *)&c->tiers[tier] + t->offset;
            buffer_printf(out, "holdfast_%s{%s} %" PRIu64 "\n", t->name, tier_labels[tier],
                          *(const uint64_t *)at);
        }
    }
}

static void put_reason_totals(const struct node_counts *c, struct buffer *out)
{
    for (size_t i = 0; i < sizeof(reason_totals) / sizeof(reason_totals[0]); i++) {
        const struct reason_total *t = &reason_totals[i];
        metrics_put_title(out, t->name, COUNTER, t->help);
        for (unsigned tier = 0; tier < TIERS; tier++) {
            const void *at = (const char *)&c->tiers[tier] + t->offset;
            const uint64_t *counts = at;
            for (unsigned reason = 0; reason < REASON_COUNT; reason++) {
                if (counts[reason] > 0 || (t->reasons >> reason & 1) != 0) {
                    buffer_printf(out, "holdfast_%s{%s,reason=\"%s\"} %" PRIu64 "\n", t->name,
                                  tier_labels[tier], reason_name((enum reason)reason),
                                  counts[reason]);
                }
            }
        }
    }
}

static const char *const acquired_names[ACQUIRED_COUNT] = {
#define X(symbol, name) #name,
    ACQUIRED_LIST(X)
#undef X
};

/* Unanswered ones are known only to the node of the client. */
static void put_acquires(const struct node_counts *c, struct buffer *out)
{
    metrics_put_title(out, "acquires_total", COUNTER,
                      "Acquire requests by their first outcome; queued: it waits, and "
                      "waits_ended_total has its end. Repeated requests count once.");
    for (unsigned tier = 0; tier < TIERS; tier++) {
        for (unsigned i = 0; i < ACQUIRED_UNKNOWN; i++) {
            buffer_printf(out, "holdfast_acquires_total{%s,outcome=\"%s\"} %" PRIu64 "\n",
                          tier_labels[tier], acquired_names[i], c->tiers[tier].acquires[i]);
        }
    }
}

static void put_fence(const struct node_counts *c, struct buffer *out)
{
    static const char *const outcomes[] = {"rejected", "accepted"};
    uint64_t sums[2] = {0, 0};
    for (unsigned i = 0; i < 2; i++) {
        sums[i] = c->tiers[0].fence_checks[i] + c->tiers[1].fence_checks[i];
    }
    metrics_put_title(out, "fence_checks_total", COUNTER, "Fence checks by outcome.");
    for (unsigned i = 0; i < 2; i++) {
        buffer_printf(out, "holdfast_fence_checks_total{outcome=\"%s\"} %" PRIu64 "\n", outcomes[i],
                      sums[i]);
    }
    metrics_put_title(out, "fence_rejections_total", COUNTER,
                      "Tokens that the fence check rejected.");
    buffer_printf(out, "holdfast_fence_rejections_total %" PRIu64 "\n", sums[0]);
}

/* ---- histograms ---- */

static const struct metrics_buckets latency = {100, 10000000, false, true};     /* 0.1 ms to 10 s */
static const struct metrics_buckets quick = {10, 1000000, false, true};         /* 10 us to 1 s */
static const struct metrics_buckets duration = {1000, 1000000000, false, true}; /* to 1,000 s */
static const struct metrics_buckets hold = {1000, 100000000000, true, true};    /* to 28 hours */
static const struct metrics_buckets numbers = {1, 1000, false, false};
static const struct metrics_buckets sizes = {100, 10000000, true, false};

static void put_one(struct buffer *out, const char *name, const struct metrics_buckets *buckets,
                    const struct distribution *d, const char *help)
{
    metrics_put_title(out, name, HISTOGRAM, help);
    metrics_put_histogram(out, name, "", buckets, d);
}

static void put_both(struct buffer *out, const char *name, const struct metrics_buckets *buckets,
                     const struct distribution *first, const struct distribution *second,
                     const char *help)
{
    metrics_put_title(out, name, HISTOGRAM, help);
    metrics_put_histogram(out, name, tier_labels[0], buckets, first);
    metrics_put_histogram(out, name, tier_labels[1], buckets, second);
}

static void put_acquire_times(const struct node_counts *c, struct buffer *out)
{
    char labels[LABEL_TEXT];
    metrics_put_title(out, "acquire_seconds", HISTOGRAM,
                      "Time from the arrival of an acquire request at this node to its first "
                      "outcome, by outcome; waiting in a queue is not included.");
    for (unsigned tier = 0; tier < TIERS; tier++) {
        for (unsigned i = 0; i < ACQUIRED_COUNT; i++) {
            (void)snprintf(labels, sizeof(labels), "%s,outcome=\"%s\"", tier_labels[tier],
                           acquired_names[i]);
            metrics_put_histogram(out, "acquire_seconds", labels, &latency,
                                  &c->acquire_us[tier][i]);
        }
    }
}

static void put_histograms(const struct node_view *view, struct buffer *out)
{
    const struct node_counts *c = view->counts;
    const struct tier_counts *t = c->tiers;
    put_acquire_times(c, out);
    put_both(out, "lock_wait_seconds", &duration, &t[0].wait_us, &t[1].wait_us,
             "Time that acquire requests waited in the queue of a lock, whatever ended the wait.");
    put_both(out, "lock_hold_seconds", &hold, &t[0].hold_us, &t[1].hold_us,
             "Time from a grant to its end.");
    put_both(
        out, "lease_overrun_seconds", &duration, &t[0].overrun_us, &t[1].overrun_us,
        "How much longer than its TTL an expired lease lasted: until its end was applied, with "
        "the time without a leader.");
    put_one(out, "commit_seconds", &quick, &c->commit_us,
            "Time from the proposal of a batch to its commit, at the leader.");
    put_one(out, "apply_seconds", &quick, &c->apply_us,
            "Time to apply an entry to the lock state of this node.");
    put_one(out, "batch_commands", &numbers, &c->batch_commands,
            "Commands in a batch, at the leader.");
    put_one(out, "batch_bytes", &sizes, &c->batch_bytes, "Bytes of a batch, at the leader.");
    put_one(out, "log_append_seconds", &quick, &view->append_times,
            "Time of a write to the log with its sync.");
}

/* ---- this node ---- */

static void put_number(struct buffer *out, const char *name, enum metric_kind kind, uint64_t value,
                       const char *help)
{
    metrics_put_title(out, name, kind, help);
    buffer_printf(out, "holdfast_%s %" PRIu64 "\n", name, value);
}

static void put_time(const struct node_counts *c, struct buffer *out)
{
    char text[METRICS_SECONDS_TEXT];
    int64_t behind_us = cluster_time_behind_us(&c->time);
    metrics_put_title(out, "cluster_time_behind_seconds", GAUGE,
                      "How far cluster time has fallen behind the clock of this node since start: "
                      "time without a leader, and the difference of clock rates.");
    buffer_printf(out, "holdfast_cluster_time_behind_seconds %s%s\n", behind_us < 0 ? "-" : "",
                  metrics_seconds((uint64_t)(behind_us < 0 ? -behind_us : behind_us), text));
    metrics_put_title(out, "lease_overrun_worst_seconds", GAUGE,
                      "The largest value of lease_overrun_seconds since start.");
    for (unsigned tier = 0; tier < TIERS; tier++) {
        buffer_printf(out, "holdfast_lease_overrun_worst_seconds{%s} %s\n", tier_labels[tier],
                      metrics_seconds(c->tiers[tier].overrun_worst_us, text));
    }
}

void metrics_put_counts(const struct node_view *view, struct buffer *out)
{
    const struct node_counts *c = view->counts;
    put_acquires(c, out);
    put_tier_totals(c, out);
    put_reason_totals(c, out);
    put_fence(c, out);
    put_histograms(view, out);
    put_number(out, "leaderships_total", COUNTER, c->leaderships,
               "Times since start that this node began to lead.");
    put_number(out, "leader_changes_total", COUNTER, c->leader_changes,
               "Changes of the leader since start as this node saw them, the first included.");
    put_number(out, "leader_requests_total", COUNTER, c->requests,
               "Commands and reads that this node answered as leader since start, for all nodes.");
    put_number(out, "snapshots_taken_total", COUNTER, c->snapshots_taken,
               "Snapshots that this node has written since start.");
    put_number(out, "snapshots_failed_total", COUNTER, c->snapshots_failed,
               "Snapshots that this node could not write since start.");
    put_number(out, "snapshots_installed_total", COUNTER, c->snapshots_installed,
               "Snapshots of the leader that replaced the state of this node since start.");
    put_time(c, out);
}
