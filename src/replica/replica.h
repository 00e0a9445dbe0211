/* One member of the replicated group: gathers commands into batches, has libraft replicate them,
 * and applies what is committed to the core, on every node alike. DESIGN's rules for driving the
 * engine are kept in engine.c, S1's clock in clock.c, the decision when a batch is closed in
 * batch.c.
 *
 *      replica_submit ─▶ gathering ──flush──▶ in flight ──committed──▶ core ──▶ on_result
 *                        (batch.c)           (one at a time)
 *
 * Time comes in with every call: `boot_us` from CLOCK_BOOTTIME, `wall_ms` for people. */
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
    uint64_t hash_key;     /* of the core; one for the whole cluster, so that list cursors travel */
    uint32_t seed;         /* of the engine's election timeouts */
    uint32_t election_ms;  /* S12.8: 300 */
    uint32_t heartbeat_ms; /* 50 */
    uint64_t snapshot_bytes; /* see replica_set_snapshot_bytes */
    uint64_t cache_bytes;    /* of entries kept in memory for followers */
    uint64_t message_bytes;  /* of entries in one message to a peer; 0: 1 MiB */
    uint32_t trailing;       /* entries kept in the log behind a snapshot */
    struct replica_ports ports;
};

/* What the disk held. The snapshot's state comes as a core of its own; the replica owns it then. */
struct replica_start {
    uint64_t term;
    uint64_t vote;
    struct replica_snapshot snapshot; /* index 0: none */
    struct core *core;                /* NULL without a snapshot */
    uint64_t first;                   /* index of the first entry */
    uint32_t count;
    const struct replica_entry *entries; /* all of them; or NULL, and `next` gives them in order */
    /* Called `count` times. The bytes are borrowed until the next call. False: it cannot be read.
     */
    bool (*next)(void *ctx, struct replica_entry *out);
    void *ctx;
};

/* The entry that a new cluster's log begins with on each of its first members: same bytes for all.
 * Returns the length, 0 when the buffer is too small. */
size_t replica_bootstrap_entry(const struct replica_member *members, uint32_t count, void *buffer,
                               size_t size);

/* Reads such bytes again, of an entry or of a snapshot. False when they are none. */
typedef void (*replica_member_fn)(void *ctx, const struct replica_member *member);
bool replica_members_read(struct slice bytes, replica_member_fn visit, void *ctx);

/* NULL, and a reason in `problem`, when the engine refuses what the disk held. */
struct replica *replica_new(const struct replica_options *options,
                            const struct replica_start *start, struct replica_time now,
                            const char **problem);
void replica_free(struct replica *r);

/* Timers: call replica_on_timer at (or after) the time that replica_next_us names. */
uint64_t replica_next_us(const struct replica *r);
void replica_on_timer(struct replica *r, struct replica_time now);

/* From the world. */
/* False: it makes no sense or cannot be true (S12.11), and nothing of it was taken. Then
 * replica_refusal is a sentence about it, until the next message. */
bool replica_receive(struct replica *r, uint64_t peer, struct slice message,
                     struct replica_time now);
const char *replica_refusal(const struct replica *r);
/* The process of that node is known to have ended: if it led, nobody waits for it (E22). */
void replica_peer_ended(struct replica *r, uint64_t peer, struct replica_time now);
void replica_written(struct replica *r, uint64_t last, struct replica_time now);
/* A follower acknowledges first and applies later: when this says so and the acknowledgement has
 * left, or when its timer says so. */
bool replica_may_catch_up(const struct replica *r);
void replica_catch_up(struct replica *r, struct replica_time now);
/* Whether nobody at this node waits for what is applied. Then no timer is set for the case that the
 * disk hangs: the next message applies what is overdue, or the time in which none comes. */
void replica_set_unwatched(struct replica *r, bool unwatched);
void replica_snapshot_taken(struct replica *r, uint64_t index, struct replica_time now);
void replica_snapshot_failed(struct replica *r, struct replica_time now);
/* After so much log since the last snapshot another one is taken. Who writes them knows how large
 * they become, and so says it anew after each (S12.5). */
void replica_set_snapshot_bytes(struct replica *r, uint64_t bytes);
/* Takes one as soon as it may, however short the log is; none if the newest holds everything. */
void replica_want_snapshot(struct replica *r, struct replica_time now);
/* The core restored from the snapshot that was asked for; the replica owns it then. */
void replica_snapshot_installed(struct replica *r, struct core *core, struct replica_time now);
/* The snapshot that was asked for cannot be fetched, and nothing on disk was changed: the replica
 * goes on with its own log (E20). */
void replica_snapshot_abandoned(struct replica *r, struct replica_time now);

/* Commands. Copied. HF_UNAVAILABLE: not the leader, or not serving yet; HF_BUSY: the gathering
 * batch is full, try after the next result; HF_NOT_UPGRADED: a member may not know this command. On
 * HF_OK on_result follows. Ticks are the replica's own: it proposes one when something is due and
 * nothing else opens a batch (S1.4, S4.5). */
enum hf_error replica_submit(struct replica *r, const struct command *command, void *cookie,
                             struct replica_time now);
/* The leader's state will show all that was done before (S9.1). `for_peer`: another node asks, and
 * will wait until it has applied as much; it is told the commit index without delay. */
enum hf_error replica_barrier(struct replica *r, void *cookie, bool for_peer,
                              struct replica_time now);
/* Once per turn of the loop, after everything that arrived was submitted: closes the batch if the
 * rule in batch.c says so. */
void replica_flush(struct replica *r, struct replica_time now);
/* Results were told since replica_answers_left was called; to be called when they have left the
 * house, before the loop sleeps. It only makes batches larger: see batch.h. */
bool replica_is_answering(const struct replica *r);
void replica_answers_left(struct replica *r, struct replica_time now);

/* Membership (S12, DESIGN): the rules are kept here. HF_OK: the change was submitted, on_change
 * tells when it is in force. Otherwise nothing was done and `problem` says why. */
enum replica_change { REPLICA_ADD, REPLICA_PROMOTE, REPLICA_DEMOTE, REPLICA_REMOVE };
enum hf_error replica_change_member(struct replica *r, enum replica_change change, uint64_t id,
                                    const char *address, struct replica_time now,
                                    const char **problem);
enum hf_error replica_transfer(struct replica *r, uint64_t to, struct replica_time now,
                               const char **problem); /* to 0: whoever is best */

/* State. */
struct replica_status {
    uint64_t id;
    uint64_t term;
    uint64_t leader; /* 0: unknown */
    bool is_leader;
    bool serving;        /* leads and has applied its `lead` (S1.3) */
    bool members_change; /* those in force here are not committed yet */
    uint64_t last_index;
    uint64_t stored_index;
    uint64_t commit_index;
    uint64_t applied_index;
    uint64_t snapshot_index;
    uint64_t cluster_ms;
};
void replica_status(const struct replica *r, struct replica_time now, struct replica_status *out);
/* Cluster time alone; and when, in boot time, a leader's clock will show `cluster_ms`. */
uint64_t replica_cluster_ms(const struct replica *r, struct replica_time now);
uint64_t replica_when_us(const struct replica *r, uint64_t cluster_ms);
/* This node leads, and a majority answered it within the last election timeout (S10.1). */
bool replica_has_majority(struct replica *r, struct replica_time now);
uint32_t replica_members(const struct replica *r, struct replica_member *out, uint32_t max);
/* Whether the node is among the members in force, or among those before a change that is not
 * committed: a leader that is being removed leads until then, and if the change is undone, the node
 * that undoes it is one that the change removes. Also after a start, when nothing is applied yet. */
bool replica_is_member(const struct replica *r, uint64_t id);
/* The ids of those that were committed last and are applied; none while nothing is. */
uint32_t replica_committed_ids(const struct replica *r, uint64_t *out, uint32_t max);
/* Of a follower, as the leader knows it; 0 elsewhere. */
uint64_t replica_match_index(const struct replica *r, uint64_t id);
/* This node leads, and what its last batch will do to the state is not there yet. */
bool replica_is_in_flight(const struct replica *r);
const struct core *replica_core(const struct replica *r);
/* The log below this may be dropped. */
uint64_t replica_log_start(const struct replica *r);

#endif
