/* One member of the replicated group: collects commands into batches, replicates them with libraft,
 * and applies committed entries to the core in the same order on every node.
 *
 *      replica_submit ─▶ open batch ──flush──▶ in flight ──committed──▶ core ──▶ on_result
 *                        (batch.c)            (one at a time)
 *
 * Every call takes the time: `boot_us` from CLOCK_BOOTTIME, `wall_ms` for display. */
#ifndef HOLDFAST_REPLICA_REPLICA_H
#define HOLDFAST_REPLICA_REPLICA_H

#include "replica/ports.h"

struct replica;

struct replica_time {
    uint64_t boot_us;
    uint64_t wall_ms;
};

struct replica_member {
    uint64_t id;
    const char *address; /* of the peer port; borrowed until the next call */
    bool voter;
};

struct replica_options {
    const struct memory *memory;
    uint64_t id;
    const char *address;
    uint64_t hash_key; /* of the core; cluster-wide, for list cursors */
    uint32_t seed;
    uint32_t election_ms;    /* S12.8: 300 */
    uint32_t heartbeat_ms;   /* 50 */
    uint64_t snapshot_bytes; /* see replica_set_snapshot_bytes */
    uint64_t cache_bytes;    /* bytes of entries kept in memory for followers */
    uint64_t message_bytes;  /* of entries in one message to a peer; 0: 1 MiB */
    uint32_t trailing;       /* entries kept in the log behind a snapshot */
    struct replica_ports ports;
};

/* What the disk contains. The replica owns `core`. */
struct replica_start {
    uint64_t term;
    uint64_t vote;
    struct replica_snapshot snapshot; /* index 0: none */
    struct core *core;                /* NULL without a snapshot */
    uint64_t first;
    uint32_t count;
    const struct replica_entry *entries; /* all of them; or NULL, and `next` returns them in
                                            order */
    /* Called `count` times. The bytes are borrowed until the next call. False: unreadable. */
    bool (*next)(void *ctx, struct replica_entry *out);
    void *ctx;
};

/* The first entry of a new cluster's log, the same on each first member. Returns the length; 0: the
 * buffer is too small. */
size_t replica_bootstrap_entry(const struct replica_member *members, uint32_t count, void *buffer,
                               size_t size);

/* Decodes the members of an entry or a snapshot. False: malformed. */
typedef void (*replica_member_fn)(void *ctx, const struct replica_member *member);
bool replica_members_read(struct slice bytes, replica_member_fn visit, void *ctx);

/* NULL, and a reason in `problem`: the engine refuses the contents of the disk. */
struct replica *replica_new(const struct replica_options *options,
                            const struct replica_start *start, struct replica_time now,
                            const char **problem);
void replica_free(struct replica *r);

/* Call replica_on_timer at or after the time of replica_next_us. */
uint64_t replica_next_us(const struct replica *r);
void replica_on_timer(struct replica *r, struct replica_time now);

/* False: the message is malformed or cannot be true (S12.11), and has no effect. replica_refusal is
 * then the reason, valid until the next message. */
bool replica_receive(struct replica *r, uint64_t peer, struct slice message,
                     struct replica_time now);
const char *replica_refusal(const struct replica *r);
/* The process of that node has ended. If it led, the election timeout is cut (E22). */
void replica_peer_ended(struct replica *r, uint64_t peer, struct replica_time now);
void replica_written(struct replica *r, uint64_t last, struct replica_time now);
/* A follower acknowledges first and applies later. If true, call replica_catch_up when the
 * acknowledgement has left; else the timer applies. */
bool replica_may_catch_up(const struct replica *r);
void replica_catch_up(struct replica *r, struct replica_time now);
/* `unwatched`: no request at this node waits for what is applied. Then the next message, or the
 * election timer, applies what a slow disk deferred. */
void replica_set_unwatched(struct replica *r, bool unwatched);
void replica_snapshot_taken(struct replica *r, uint64_t index, struct replica_time now);
void replica_snapshot_failed(struct replica *r, struct replica_time now);
/* Bytes of log between two snapshots. Called after each snapshot, whose size is then known
 * (S12.5). */
void replica_set_snapshot_bytes(struct replica *r, uint64_t bytes);
/* As soon as possible, unless the newest one is current. */
void replica_want_snapshot(struct replica *r, struct replica_time now);
/* The replica owns `core`, restored from the requested snapshot. */
void replica_snapshot_installed(struct replica *r, struct core *core, struct replica_time now);
/* The snapshot cannot be fetched; the disk is unchanged. The replica continues with its log
 * (E20). */
void replica_snapshot_abandoned(struct replica *r, struct replica_time now);

/* Copies the command. HF_UNAVAILABLE: not the leader, or not serving yet. HF_BUSY: the open batch
 * is full, try after the next result. HF_NOT_UPGRADED: a member may not support it. After HF_OK
 * on_result follows. The replica itself proposes ticks (S1.4, S4.5). */
enum hf_error replica_submit(struct replica *r, const struct command *command, void *cookie,
                             struct replica_time now);
/* The command is refused and not submitted: the open batch does not wait for its client. */
void replica_note_refused(struct replica *r, const struct command *command);
/* The encoding of the last command with HF_OK; valid until the next call that changes the
 * replica. */
struct slice replica_submitted(const struct replica *r);
/* True: replica_submit does not return HF_UNAVAILABLE. */
bool replica_is_serving(const struct replica *r);
/* At on_barrier the leader's state includes all that was done before this call (S9.1). `for_peer`:
 * another node waits until it has applied as much; it gets the commit index without delay. */
enum hf_error replica_barrier(struct replica *r, void *cookie, bool for_peer,
                              struct replica_time now);
/* Closes the batch if batch.c allows it. Once per event-loop iteration, after everything that
 * arrived was submitted. */
void replica_flush(struct replica *r, struct replica_time now);
/* Results were reported since the last replica_answers_left. Call that when the answers are
 * written, before the loop sleeps. It only makes batches larger, see batch.h. */
bool replica_is_answering(const struct replica *r);
void replica_answers_left(struct replica *r, struct replica_time now);

/* HF_OK: submitted; on_change reports when it is in force (S12). Otherwise nothing was done, and
 * `problem` is the reason. */
enum replica_change { REPLICA_ADD, REPLICA_PROMOTE, REPLICA_DEMOTE, REPLICA_REMOVE };
enum hf_error replica_change_member(struct replica *r, enum replica_change change, uint64_t id,
                                    const char *address, struct replica_time now,
                                    const char **problem);
enum hf_error replica_transfer(struct replica *r, uint64_t to, struct replica_time now,
                               const char **problem); /* to 0: the replica selects the target */

struct replica_status {
    uint64_t id;
    uint64_t term;
    uint64_t leader; /* 0: unknown */
    bool is_leader;
    bool serving;        /* leads and has applied its `lead` (S1.3) */
    bool members_change; /* the members in force are not committed yet */
    uint64_t last_index;
    uint64_t stored_index;
    uint64_t commit_index;
    uint64_t applied_index;
    uint64_t snapshot_index;
    uint64_t cluster_ms;
    uint64_t clock_from_ms; /* as leader: where its clock began; else 0 */
};
void replica_status(const struct replica *r, struct replica_time now, struct replica_status *out);
/* replica_when_us: the boot time at which a leader's clock will show `cluster_ms`. */
uint64_t replica_cluster_ms(const struct replica *r, struct replica_time now);
uint64_t replica_when_us(const struct replica *r, uint64_t cluster_ms);
/* This node leads, and a majority answered within the last election timeout (S10.1). */
bool replica_has_majority(struct replica *r, struct replica_time now);
uint32_t replica_members(const struct replica *r, struct replica_member *out, uint32_t max);
/* Whether the node is among the members in force, or those before an uncommitted change: a leader
 * that is being removed leads until the commit, and a removed node may undo the change. Also valid
 * before anything is applied. */
bool replica_is_member(const struct replica *r, uint64_t id);
/* The newest members that are committed and applied; none before the first. */
uint32_t replica_committed_ids(const struct replica *r, uint64_t *out, uint32_t max);
/* On the leader; 0 on other nodes. */
uint64_t replica_match_index(const struct replica *r, uint64_t id);
/* On the leader: whether the member acknowledged the membership that is committed (E5). */
bool replica_has_members(const struct replica *r, uint64_t id);
/* This node leads, and its last batch is not applied. */
bool replica_is_in_flight(const struct replica *r);
const struct core *replica_core(const struct replica *r);
/* The log below this index may be dropped. */
uint64_t replica_log_start(const struct replica *r);

#endif
