/* Background work: follows leadership and members, declares nodes gone (S7.3), drops old log. */
#include "node/node_state.h"

#include <string.h>

enum {
    MAINTENANCE_US = 100000,
    GONE_MS = 1000, /* S7.3 */
    RETRY_TRANSFER_US = 5000000,
    CLOSED_NOTE_US = 60000000, /* between two journal lines */
};

static void follow_members(struct node *n)
{
    uint32_t count = replica_members(n->replica, n->member_scratch, LIMIT_NODES);
    for (uint32_t i = 0; i < count; i++) {
        struct address address;
        uint64_t id = n->member_scratch[i].id;
        if (id != n->options.id && address_parse(n->member_scratch[i].address, &address)) {
            peers_set(n->peers, id, &address);
        }
    }
    node_follow_stores(n);
    peers_review(n->peers);
    count = replica_members(n->replica, n->member_scratch, LIMIT_NODES);
    n->absence_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (n->member_scratch[i].id != n->options.id) {
            n->absences[n->absence_count++] = (struct node_absence){n->member_scratch[i].id, false};
        }
    }
}

static void note_leader(struct node *n, const struct replica_status *status)
{
    if (status->leader == n->leader && status->serving == n->serving) {
        return;
    }
    if (status->leader != n->leader) {
        journal_note(n->options.journal, INFO, RAFT,
                     status->leader == 0 ? "leader_lost" : "leader_known",
                     JOURNAL_NUMBER("leader", status->leader),
                     JOURNAL_NUMBER("commit", status->commit_index));
    }
    if (status->leader != 0 && status->leader != n->leader_seen) {
        n->leader_seen = status->leader;
        n->counts->leader_changes++;
    }
    if (status->serving && !n->serving) {
        n->serving_us = node_now(n).boot_us;
        n->counts->leaderships++;
        hot_reset(n->counts->hot, node_now(n).boot_us, node_now(n).wall_ms);
        journal_note(n->options.journal, INFO, RAFT, "serving",
                     JOURNAL_NUMBER("epoch", core_epoch(replica_core(n->replica))));
    }
    n->leader = status->leader;
    n->serving = status->serving;
}

void node_follow_change(struct node *n)
{
    struct replica_status status;
    replica_status(n->replica, node_now(n), &status);
    node_set_term(n, status.term);
    follow_members(n);
    node_tier_members(n);
    node_follow_tier(n);
    note_leader(n, &status);
    node_step_counts(n, node_now(n)); /* the begin of a term in cluster time */
}

/* Detaches the waiters of a node that is gone; once, until it is reachable again. */
static void declare_gone(struct node *n, struct replica_time now)
{
    if (!n->serving || now.boot_us - n->serving_us < GONE_MS * UINT64_C(1000)) {
        return;
    }
    for (uint32_t i = 0; i < n->absence_count; i++) {
        struct node_absence *absence = &n->absences[i];
        struct peer_view view = {.silent_ms = UINT64_MAX};
        (void)peers_view(n->peers, absence->id, &view);
        if (view.silent_ms <= GONE_MS) {
            absence->declared = false;
            continue;
        }
        struct command gone;
        command_init(&gone, COMMAND_NODE_GONE);
        gone.node_gone.node = (uint32_t)absence->id;
        /* Without a majority it cannot commit, and the tier EFFICIENCY is not served (S10.1). */
        if (!absence->declared && replica_has_majority(n->replica, now) &&
            replica_submit(n->replica, &gone, forward_no_cookie(), now) == HF_OK) {
            absence->declared = true;
            node_tier_gone(n, &gone, now);
            journal_note(n->options.journal, WARN, PEER, "peer_gone",
                         JOURNAL_NUMBER("peer", absence->id));
        }
    }
}

static enum storage_status drop_log(void *ctx, struct problem *problem)
{
    struct node *n = ctx;
    return log_drop_before(n->store.log, n->drop_before, problem);
}

static void on_dropped(void *ctx, enum storage_status status, const struct problem *problem)
{
    (void)status; /* the logger reports failures; after a full disk this is tried again */
    (void)problem;
    struct node *n = ctx;
    n->dropping = false;
}

static void drop_old_log(struct node *n)
{
    uint64_t start = replica_log_start(n->replica);
    if (start > n->drop_before && !n->dropping && !snapshot_fetch_is_busy(n->fetch)) {
        n->drop_before = start;
        n->dropping = true;
        logger_run(n->logger, drop_log, on_dropped, n);
    }
}

/* Transfers the leadership to a node that can write. */
static void hand_over_if_full(struct node *n, struct replica_time now)
{
    if (n->disk_full && n->serving && n->absence_count > 0 && now.boot_us >= n->retry_transfer_us) {
        n->retry_transfer_us = now.boot_us + RETRY_TRANSFER_US;
        node_transfer(n, 0);
    }
}

void node_take_snapshot(struct node *n)
{
    if (n->replica != NULL && n->phase <= NODE_RUNNING) {
        replica_want_snapshot(n->replica, node_now(n));
    }
}

static void look_if_ready(struct node *n)
{
    if (!n->ready && n->phase == NODE_RUNNING && node_is_serving(n)) {
        struct replica_status status;
        replica_status(n->replica, node_now(n), &status);
        n->ready = true;
        journal_note(n->options.journal, INFO, NODE, "ready",
                     JOURNAL_NUMBER("leader", status.leader),
                     JOURNAL_NUMBER("ms", (node_now(n).boot_us - n->started_us) / 1000));
        n->options.on_ready(n->options.ctx, status.leader);
    }
}

static void note_closed_connections(struct node *n, struct replica_time now)
{
    struct service_stats stats;
    service_stats(n->service, &stats);
    if (stats.conn_closed == n->closed_noted || now.boot_us < n->closed_note_us) {
        return;
    }
    journal_note(n->options.journal, WARN, CLIENT, "connections_over_memory",
                 JOURNAL_NUMBER("closed", stats.conn_closed - n->closed_noted),
                 JOURNAL_NUMBER("bytes", stats.conn_bytes),
                 JOURNAL_NUMBER("max_bytes", stats.conn_bytes_max),
                 JOURNAL_TEXT("next", "raise connections-max-bytes, or find the clients that do "
                                      "not take their answers (log-level client=debug)"));
    n->closed_noted = stats.conn_closed;
    n->closed_note_us = now.boot_us + CLOSED_NOTE_US;
}

void node_maintain(struct node *n, struct replica_time now)
{
    look_if_ready(n);
    if (now.boot_us < n->maintenance_us) {
        return;
    }
    n->maintenance_us = now.boot_us + MAINTENANCE_US;
    declare_gone(n, now);
    node_step_streams(n, now);
    node_step_alerts(n, now);
    node_step_oldest(n, now);
    node_step_sinks(n, now);
    hand_over_if_full(n, now);
    drop_old_log(n);
    node_step_clients(n, now);
    if (n->admin != NULL) {
        admin_socket_resume(n->admin);
    }
    note_closed_connections(n, now);
    node_step_limit(n, now);
    node_step_disk(n, now);
    node_step_counts(n, now);
    node_step_events(n, now.boot_us);
    node_step_refusals(n);
    node_step_settings(n);
}
