/* The limit of client connections, and what is logged at it. */
#include <errno.h>
#include <stdio.h>

#include "node/node_state.h"

enum {
    LOOPBACK_RESERVED = 8,
    QUIET_US = 60000000,      /* between two journal lines of one kind */
    SEGMENT_BYTES = 16 << 20, /* if no size is configured */
};

/* The log is cut at 1.5 times `snapshot_bytes`, with large snapshots later: the current number of
 * segments counts, too. */
static uint64_t log_segments(const struct node *n)
{
    const struct node_options *o = &n->options;
    uint64_t segment = o->segment_bytes != 0 ? o->segment_bytes : SEGMENT_BYTES;
    uint64_t expected = o->snapshot_bytes / 2 * 3 / segment + 2;
    struct logger_stats stats = {0};
    if (n->logger != NULL) {
        logger_stats(n->logger, &stats);
    }
    uint64_t there = stats.disk_bytes / segment;
    return there > expected ? there : expected;
}

static uint32_t allowed(struct node *n)
{
    struct descriptor_shares shares;
    n->descriptors.log_segments = log_segments(n);
    descriptors_share(&n->descriptors, &shares);
    return shares.clients < n->options.max_clients ? shares.clients : n->options.max_clients;
}

/* Of `max` connections, for clients on this machine. */
static uint32_t reserved_of(uint32_t max)
{
    return max / 8 < LOOPBACK_RESERVED ? max / 8 : LOOPBACK_RESERVED;
}

static void log_lowered(struct node *n, uint32_t max)
{
    uint64_t needed = descriptors_needed(&n->descriptors, n->options.max_clients);
    char next[160];
    snprintf(
        next, sizeof(next),
        "raise the hard limit of open files (ulimit -Hn, or LimitNOFILE= of the unit) to %llu, "
        "or set max-clients to at most %u",
        ull(needed), max);
    journal_note(
        n->options.journal, WARN, CLIENT, "max_clients_lowered",
        JOURNAL_NUMBER("max_clients", n->options.max_clients), JOURNAL_NUMBER("in_force", max),
        JOURNAL_NUMBER("open_files_limit", n->descriptors.limit), JOURNAL_TEXT("next", next));
}

void node_on_accept_paused(void *ctx, int error)
{
    struct node *n = ctx;
    uint64_t now_us = node_now(n).boot_us;
    if (now_us < n->paused_logged_us) {
        return;
    }
    n->paused_logged_us = now_us + QUIET_US;
    journal_note(
        n->options.journal, WARN, CLIENT, "accept_paused", JOURNAL_TEXT("reason", strerror(error)),
        JOURNAL_NUMBER("pauses", n->net.accept_pauses),
        JOURNAL_TEXT("next", error == ENFILE
                                 ? "raise fs.file-max, or stop other processes with many open files"
                                 : "raise the hard limit of open files (ulimit -Hn, or "
                                   "LimitNOFILE= of the unit), or lower max-clients"));
}

bool node_open_clients(struct node *n, char problem[NODE_PROBLEM])
{
    n->descriptors.limit = descriptors_limit();
    uint32_t max = allowed(n);
    if (max < DESCRIPTORS_CLIENTS && max < n->options.max_clients) {
        snprintf(problem, NODE_PROBLEM,
                 "this process may open %llu files, and a node needs %llu: raise the hard limit "
                 "(ulimit -Hn, or LimitNOFILE= of the unit)",
                 ull(n->descriptors.limit),
                 ull(descriptors_needed(&n->descriptors, DESCRIPTORS_CLIENTS)));
        return false;
    }
    if (max < n->options.max_clients) {
        log_lowered(n, max);
        n->limits_logged_us = n->started_us + QUIET_US;
    }
    struct client_limits limits = {.max = max,
                                   .per_address = n->options.max_clients_per_address,
                                   .reserved = reserved_of(max)};
    uint64_t hash_key = 0;
    (void)uv_random(NULL, NULL, &hash_key, sizeof(hash_key), 0, NULL);
    n->clients = client_table_new(n->options.memory, &limits, hash_key);
    n->refusals = refusals_new(n->options.memory);
    return true;
}

void node_close_clients(struct node *n)
{
    client_table_free(n->clients);
    refusals_free(n->refusals);
}

uint32_t node_peer_connections(const struct node *n)
{
    struct descriptor_shares shares;
    descriptors_share(&n->descriptors, &shares);
    return shares.peers;
}

static void follow_log(struct node *n, const struct client_table_stats *stats,
                       struct replica_time now)
{
    uint32_t max = allowed(n);
    if (max < DESCRIPTORS_CLIENTS && max < n->options.max_clients) {
        max = DESCRIPTORS_CLIENTS < n->options.max_clients ? DESCRIPTORS_CLIENTS
                                                           : n->options.max_clients;
    }
    if (max == stats->max) {
        return;
    }
    if (max < stats->max && now.boot_us >= n->limits_logged_us) {
        n->limits_logged_us = now.boot_us + QUIET_US;
        log_lowered(n, max);
    }
    client_table_set_max(n->clients, max, client_listener_evict);
}

static void log_refused(struct node *n, const struct client_table_stats *stats,
                        struct replica_time now)
{
    if ((stats->refused == n->refused_logged && stats->evicted == n->evicted_logged) ||
        now.boot_us < n->refused_logged_us) {
        return;
    }
    n->refused_logged_us = now.boot_us + QUIET_US;
    journal_note(n->options.journal, WARN, CLIENT, "clients_over_limit",
                 JOURNAL_NUMBER("refused", stats->refused - n->refused_logged),
                 JOURNAL_NUMBER("idle_closed", stats->evicted - n->evicted_logged),
                 JOURNAL_NUMBER("clients", stats->count), JOURNAL_NUMBER("max", stats->max),
                 JOURNAL_TEXT("next", "raise max-clients, or find the clients that connect "
                                      "(log-level client=debug) and make them share connections"));
    n->refused_logged = stats->refused;
    n->evicted_logged = stats->evicted;
}

void node_step_clients(struct node *n, struct replica_time now)
{
    struct client_table_stats stats;
    client_table_stats(n->clients, &stats);
    follow_log(n, &stats, now);
    log_refused(n, &stats, now);
}
