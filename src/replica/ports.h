/* What a replica asks of the world. The node gives it disks and sockets, the simulator fakes them;
 * the replica itself does no I/O, reads no clock and starts no thread. Nothing here may call back
 * into the replica before it returns. */
#ifndef HOLDFAST_REPLICA_PORTS_H
#define HOLDFAST_REPLICA_PORTS_H

#include "core/core.h"

/* One log entry as it is stored. The types are libraft's. */
enum replica_entry_type { REPLICA_COMMAND = 1, REPLICA_BARRIER, REPLICA_MEMBERS };
struct replica_entry {
    uint64_t term;
    uint16_t type;
    struct slice bytes;
};

/* What a snapshot holds besides the state itself. */
struct replica_snapshot {
    uint64_t index;
    uint64_t term;
    uint64_t members_index;
    struct slice members; /* encoded, as of members_index */
};

/* How a command that was submitted here ended. */
enum replica_outcome {
    REPLICA_DONE,     /* applied: there is a result */
    REPLICA_NOT_DONE, /* it was not and will not be applied (S8.4) */
    REPLICA_UNKNOWN   /* it cannot be known here: a snapshot went over it */
};

struct replica_ports {
    void *ctx;

    /* Disk. save_vote is durable when it returns. write starts at `first` and replaces what stands
     * there and behind; when it is durable, and not before, replica_written is called; writes are
     * done in the order they were asked for. The bytes stay valid until then. */
    void (*save_vote)(void *ctx, uint64_t term, uint64_t vote);
    void (*write)(void *ctx, uint64_t first, const struct replica_entry *entries, uint32_t count);
    /* An entry that was written and is no longer in the replica's memory; the bytes are borrowed
     * until the next read. False when it is not there. */
    bool (*read)(void *ctx, uint64_t index, struct replica_entry *out);

    /* Peers: in order, each at most once, or not at all. */
    void (*send)(void *ctx, uint64_t peer, struct slice message);

    /* Take a snapshot of `core` as it is now; call replica_snapshot_taken when it is durable, or
     * replica_snapshot_failed. The log below replica_log_start may be dropped after that. */
    void (*take_snapshot)(void *ctx, const struct core *core, const struct replica_snapshot *about);
    /* Fetch this snapshot from the peer, this one and no other: the engine has taken over its
     * index. Make it durable, and only then drop the whole log, which goes on behind it; then
     * replica_snapshot_installed. When the sender is gone: replica_snapshot_abandoned, with the log
     * as it was. A failure after the log was dropped ends the node (S12.4). */
    void (*fetch_snapshot)(void *ctx, uint64_t peer, const struct replica_snapshot *about);

    /* What happened. on_result is for a command that was submitted here, told by its cookie; the
     * command and the result are NULL when it was not done. on_event comes on every node, in order.
     * on_barrier: the state now shows everything that was done before it was asked for, or not. */
    void (*on_result)(void *ctx, void *cookie, enum replica_outcome outcome,
                      const struct command *command, const struct result *result);
    void (*on_event)(void *ctx, const struct event *event);
    void (*on_barrier)(void *ctx, void *cookie, bool reached);
    /* Leadership, the leader we know, or the members changed: ask. */
    void (*on_change)(void *ctx);

    /* The newest version of the state machine that the peer said it knows; 0: it said nothing yet.
     * NULL: nobody ever says. */
    uint32_t (*peer_version)(void *ctx, uint64_t peer);
};

#endif
