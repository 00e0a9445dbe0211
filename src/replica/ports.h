/* The I/O of a replica, which does none itself, reads no clock and starts no thread. No function
 * here may call the replica before it returns. */
#ifndef HOLDFAST_REPLICA_PORTS_H
#define HOLDFAST_REPLICA_PORTS_H

#include "core/core.h"

/* As it is stored. The types have libraft's values. */
enum replica_entry_type { REPLICA_COMMAND = 1, REPLICA_BARRIER, REPLICA_MEMBERS };
struct replica_entry {
    uint64_t term;
    uint16_t type;
    struct slice bytes;
};

/* What a snapshot contains besides the state. */
struct replica_snapshot {
    uint64_t index;
    uint64_t term;
    uint64_t members_index;
    struct slice members; /* encoded, as of members_index */
};

enum replica_outcome {
    REPLICA_DONE,     /* applied: there is a result */
    REPLICA_NOT_DONE, /* not applied, and will not be (S8.4) */
    REPLICA_UNKNOWN   /* a snapshot replaced its entry: this node cannot determine it */
};

/* A committed entry of commands, for statistics. */
struct replica_applying {
    bool is_own; /* this node proposed it as leader: true on one node at most */
    /* Of its batches; 0 for other entries, and for its `lead`. */
    uint32_t commands;
    uint64_t bytes;
    uint64_t proposed_us; /* boot time */
    uint64_t committed_us;
    const struct core *core; /* that applies it; until the call with NULL */
};

struct replica_ports {
    void *ctx;

    /* Disk. save_vote is durable when it returns. write replaces the entries from `first` on. When
     * it is durable, and not before, the node calls replica_written. Writes complete in the order
     * of the calls. The bytes stay valid until then. */
    void (*save_vote)(void *ctx, uint64_t term, uint64_t vote);
    void (*write)(void *ctx, uint64_t first, const struct replica_entry *entries, uint32_t count);
    /* Of a written entry that is not in memory; the bytes are borrowed until the next read. False:
     * the log does not have it. */
    bool (*read)(void *ctx, uint64_t index, struct replica_entry *out);

    /* Messages arrive in order, each at most once. */
    void (*send)(void *ctx, uint64_t peer, struct slice message);

    /* Take a snapshot of `core` as it is now. Call replica_snapshot_taken when it is durable, or
     * replica_snapshot_failed. Then the log below replica_log_start may be dropped. */
    void (*take_snapshot)(void *ctx, const struct core *core, const struct replica_snapshot *about);
    /* Fetch exactly this snapshot: the engine has taken over its index. Make it durable, drop the
     * whole log, then call replica_snapshot_installed. When the sender is gone:
     * replica_snapshot_abandoned, with the log unchanged. A failure after the log was dropped ends
     * the node (S12.4). */
    void (*fetch_snapshot)(void *ctx, uint64_t peer, const struct replica_snapshot *about);

    /* on_result: the outcome of a command submitted with `cookie`; `command` and `result` are NULL
     * when it was not done. on_event is called on every node, in order. on_barrier: `reached` means
     * that the state includes everything done before replica_barrier. */
    void (*on_result)(void *ctx, void *cookie, enum replica_outcome outcome,
                      const struct command *command, const struct result *result);
    void (*on_event)(void *ctx, const struct event *event);
    void (*on_barrier)(void *ctx, void *cookie, bool reached);
    /* Leadership, the known leader or the members changed. */
    void (*on_change)(void *ctx);

    /* The newest supported version of the state machine; 0: no report yet. NULL: peers never report
     * one. */
    uint32_t (*peer_version)(void *ctx, uint64_t peer);

    /* Around the events and results of each entry: first with the entry, then with NULL. May be
     * NULL. */
    void (*on_entry)(void *ctx, const struct replica_applying *entry);
};

#endif
