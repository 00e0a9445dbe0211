/* The callbacks of the replica (replica/ports.h). */
#include "node/node_state.h"

#include <stdio.h>

static void save_vote(void *ctx, uint64_t term, uint64_t vote)
{
    struct node *n = ctx;
    struct problem problem;
    if (meta_save_vote(&n->store.meta, term, vote, &problem) != STORAGE_OK) {
        node_fail(n, problem.text);
    }
    node_set_term(n, term);
}

static void write_entries(void *ctx, uint64_t first, const struct replica_entry *entries,
                          uint32_t count)
{
    struct node *n = ctx;
    logger_write(n->logger, first, entries, count);
}

static bool read_entry(void *ctx, uint64_t index, struct replica_entry *out)
{
    struct node *n = ctx;
    return logger_read(n->logger, index, out);
}

static void send_message(void *ctx, uint64_t peer, struct slice message)
{
    struct node *n = ctx;
    if (!peers_send(n->peers, peer, message) && message.len >= PEER_FRAME_MAX) {
        journal_note(n->options.journal, ERROR, PEER, "message_too_large",
                     JOURNAL_NUMBER("peer", peer), JOURNAL_NUMBER("bytes", message.len));
    }
}

static void take_snapshot(void *ctx, const struct core *core, const struct replica_snapshot *about)
{
    struct node *n = ctx;
    snapshot_child_take(n->child, n->self.cluster, core, about);
}

static void fetch_snapshot(void *ctx, uint64_t peer, const struct replica_snapshot *about)
{
    struct node *n = ctx;
    n->cancel_child = true; /* in the next turn: do not call the replica from here */
    snapshot_fetch_start(n->fetch, peer, about);
}

static void on_result(void *ctx, void *cookie, enum replica_outcome outcome,
                      const struct command *command, const struct result *result)
{
    struct node *n = ctx;
    if (outcome == REPLICA_DONE) {
        memory_tier_on_replicated(n->tier, command, result);
        if (command->type == COMMAND_NODE_GONE) {
            node_streams_gone(n, command->node_gone.node);
        }
    }
    n->slow.command = command;
    forward_on_result(n->forward, cookie, outcome, result);
    n->slow.command = NULL;
}

static void on_barrier(void *ctx, void *cookie, bool reached)
{
    struct node *n = ctx;
    forward_on_barrier(n->forward, cookie, reached);
}

void node_note_event(struct node *n, const struct event *e)
{
    lock_lines_note(n->lock_lines, e, n->serving);
}

static void on_entry(void *ctx, const struct replica_applying *entry)
{
    struct node *n = ctx;
    node_slow_entry(n, entry);
    node_events_entry(n, entry);
    if (entry != NULL) {
        counts_begin_entry(n->counts, entry, node_boot_us());
    } else {
        counts_end_entry(n->counts, node_boot_us());
        node_sinks_policy(n);
    }
}

static void on_event(void *ctx, const struct event *event)
{
    struct node *n = ctx;
    counts_event(n->counts, event);
    node_events_add(n, event);
    node_note_event(n, event);
    if (event->type == EVENT_UPGRADED && n->replica != NULL) {
        journal_note(n->options.journal, INFO, RAFT, "state_upgraded",
                     JOURNAL_NUMBER("version", core_version(replica_core(n->replica))));
    }
    memory_tier_on_event(n->tier, event);
    if (n->service != NULL) {
        service_on_event(n->service, event);
    }
}

static void on_change(void *ctx)
{
    struct node *n = ctx;
    n->changed = true;
    node_follow_tier(n);
    if (n->forward != NULL) {
        forward_on_change(n->forward);
    }
}

static uint32_t peer_version(void *ctx, uint64_t peer)
{
    const struct node *n = ctx;
    struct peer_view view;
    return n->peers != NULL && peers_view(n->peers, peer, &view) ? view.state : 0;
}

struct replica_ports node_ports(struct node *n)
{
    return (struct replica_ports){
        .ctx = n,
        .save_vote = save_vote,
        .write = write_entries,
        .read = read_entry,
        .send = send_message,
        .take_snapshot = take_snapshot,
        .fetch_snapshot = fetch_snapshot,
        .on_result = on_result,
        .on_event = on_event,
        .on_barrier = on_barrier,
        .on_entry = on_entry,
        .on_change = on_change,
        .peer_version = peer_version,
    };
}
