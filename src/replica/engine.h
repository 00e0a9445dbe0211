/* Drives libraft through raft_step: events go in; disk writes, messages and committed entries come
 * out, in order, through the ports. The code cites the rules below. docs/ENGINE.md has what happens
 * without each rule, the proofs and the tests.
 *
 * E1  Term and vote are on disk before anything else of that step happens.
 *
 * E2  raft_timeout is called after every step, because its update flag is not always set.
 *
 * E3  A write that newer entries overlap is reported only up to the entry before the overlap, and
 *     only if that is above the highest reported index. Entries that replace reported entries are
 *     reported again. Nothing is reported during the install of a snapshot.
 *
 * E4  A refused pre-vote carries our own term if that is higher. Otherwise a candidate with the
 *     longer log never receives that term.
 *
 * E5  Members change one at a time. Conditions: no change is uncommitted, the leader has committed
 *     an entry of its term, every voter has the last configuration, and no transfer is in progress.
 *     A promoted member has acknowledged everything that is committed.
 *
 * E6  A received membership entry is always the first entry of what libraft is given (S12.6).
 *
 * E7  A snapshot is taken at an index that was reported as persisted, and never during an install.
 *
 * E8  Each committed membership entry is answered with a CONFIGURATION event.
 *
 * E9  Leadership is transferred only while no batch is in flight (S12.7).
 *
 * E10 Entries are sent in messages of about 1 MiB. What libraft requests in pipeline mode is sent
 *     completely, in several messages. A probe is cut to the first message.
 *
 * E11 A commit index that no other message carries is sent to a follower at once, at an index that
 *     the follower has acknowledged, and is not answered. Under load the next batch carries it.
 *
 * E12 Before a received membership entry, the one before it is passed to libraft as committed. By
 *     E5 it is, even if this node has not received that commit index. libraft keeps only one
 *     uncommitted configuration: truncating a second would restore the one before the first.
 *
 * E13 The only voter raises its term, durably, before it leads: another node may have led the
 *     present one, or this node before a power cut. A transfer is refused while a membership change
 *     is uncommitted. An only voter drops a TimeoutNow.
 *
 * E14 The result of an AppendEntries or InstallSnapshot of an older term is a refusal that no
 *     leader can take for an acknowledgement: libraft leaves its index uninitialised. It is sent
 *     because it carries the newer term. A leader drops an acknowledgement of an index that it
 *     never sent in its term: a follower without this rule can send one.
 *
 * E15 A server votes even if its own configuration does not make it a voter: only the candidate's
 *     configuration counts. Before that it clears a remembered leader that was silent for an
 *     election timeout or is the candidate. Only a member that answers is promoted.
 *
 * E16 The leader does not demote or remove itself: outside its own configuration it never
 *     campaigns, and an entry that only it has could block every election.
 *
 * E17 An AppendEntries that begins below our snapshot is changed to begin at it. libraft does not
 *     check prev_log_index 0, and always refuses a compacted one.
 *
 * E18 A vote result is dropped unless it can count. libraft reads the candidate fields of a union
 *     in any state, and counts pre-votes granted for an earlier term.
 *
 * E19 A candidate returns to pre-vote before each further election, and stops disrupting a leader.
 *
 * E20 An install ends if its snapshot cannot be fetched; libraft is then restarted with the log
 *     that is still there. During an install a server neither votes nor campaigns.
 *
 * E21 The commit index never falls, although libraft lowers it when a leader repeats older entries.
 *     An AppendEntries or InstallSnapshot of the term that this node leads ends the process.
 *
 * E22 If the leader's process has ended, a follower cuts the rest of its election timeout to a
 *     random part of a third: few nodes then campaign at once. A timeout may fire at any time, so
 *     this is safe. Pre-votes keep a leader that a majority still receives.
 *
 * E23 A voter that an uncommitted change demotes receives it only when it is committed. Otherwise
 *     it would have the longest log, and neither campaign nor vote for nodes without it. */
#ifndef HOLDFAST_REPLICA_ENGINE_H
#define HOLDFAST_REPLICA_ENGINE_H

#include <raft.h>

#include "replica/entries.h"
#include "replica/plausible.h"
#include "replica/ports.h"
#include "replica/replica.h"

/* A write in flight. */
struct engine_write {
    uint64_t first;
    uint64_t last;
    uint64_t reportable; /* up to this index, E3 */
};

/* What was sent to a follower in this term. */
struct engine_peer {
    uint64_t id;
    uint64_t match;   /* as of the last entries sent */
    uint64_t through; /* index of the last entry sent */
    uint64_t ordered; /* highest index that libraft requested to send, also as a snapshot */
    uint64_t
        sent_commit; /* the commit index that was sent, limited to entries that the follower has */
    bool probed;     /* probed, not pipelined, E10 */
};

struct engine {
    struct raft raft;
    const struct replica_options *options;
    const struct memory *memory;
    const struct replica_ports *ports;
    struct plausible *plausible; /* NULL: no plausibility checks */
    struct entries log;
    struct engine_write *writes; /* oldest first */
    uint32_t write_count;
    uint32_t write_capacity;
    uint64_t write_number; /* of the newest write */
    uint64_t write_done;   /* of the newest write that is done */
    uint64_t reported;     /* highest index reported as persisted */
    uint64_t committed;    /* highest since the process started, E21 */
    bool installing;
    bool started;
    uint64_t install_from; /* the sender of the snapshot */
    /* The newest durable snapshot, and the one that is being installed or taken. */
    struct replica_snapshot snapshot;
    struct replica_snapshot coming;
    uint64_t cluster_ms; /* that messages carry; replica.c sets it before each step */

    uint64_t message_bytes;    /* E10 */
    struct engine_peer *peers; /* valid in peers_term */
    uint32_t peer_count;
    uint32_t peer_capacity;
    uint64_t peers_term;
    bool may_tell;   /* the commit index or a match index may have risen, E11 */
    bool unanswered; /* do not answer the received message */

    bool answers_older_term;  /* the received message is of an older term, E14 */
    uint64_t leader_heard_ms; /* receive time of the last leader's message of the present term,
                                 E15 */
};

/* Ends the process on an impossible state. The caller sets the cluster time of `e` and fills `log`
 * with the entries to start with; other fields are not read. After false, `log` is unchanged. */
bool engine_start(struct engine *e, const struct replica_options *options,
                  const struct replica_ports *ports, const struct replica_start *start,
                  uint64_t now_ms, const char **problem);
void engine_close(struct engine *e);

struct engine_heard {
    uint64_t term; /* of the sending leader; 0: not a message of a leader */
    uint64_t ms;
    bool is_answer;      /* it answers a message of this node as leader in its present term */
    uint64_t answer_ms;  /* our cluster time in the newest message that the peer had received */
    const char *refusal; /* if engine_receive returns false */
};
void engine_written(struct engine *e, uint64_t last, uint64_t now_ms);
void engine_timeout(struct engine *e, uint64_t now_ms);
void engine_peer_ended(struct engine *e, uint64_t peer, uint64_t now_ms); /* E22 */
/* HF_UNAVAILABLE: libraft refuses. On HF_OK the entry is the last one of the log. */
enum hf_error engine_submit(struct engine *e, uint16_t type, struct slice bytes, uint64_t now_ms);
/* E8. */
void engine_configuration(struct engine *e, uint64_t index, struct slice members, uint64_t now_ms);
enum hf_error engine_transfer(struct engine *e, uint64_t to, uint64_t now_ms);
void engine_snapshot_taken(struct engine *e, uint32_t trailing, uint64_t now_ms);
void engine_snapshot_installed(struct engine *e, uint64_t now_ms);

/* Ends an install without a snapshot, if engine_may_abandon_snapshot. Entries whose write is in
 * flight leave the log. */
bool engine_may_abandon_snapshot(const struct engine *e);
void engine_snapshot_abandoned(struct engine *e, uint64_t now_ms);
bool engine_is_only_voter(const struct engine *e);

/* One step and everything that it requests; the caller handles commits. Returns libraft's error.
 * engine_must_step: libraft cannot refuse the event. */
int engine_step(struct engine *e, struct raft_event *event, uint64_t now_ms);
void engine_must_step(struct engine *e, struct raft_event *event, uint64_t now_ms);

/* engine_receive.c */
bool engine_receive(struct engine *e, uint64_t peer, struct slice bytes, uint64_t now_ms,
                    struct engine_heard *heard);

/* engine_send.c */
void engine_send(struct engine *e, const struct raft_message *ordered);
/* Whether a follower can acknowledge this index in our term (E14). */
bool engine_may_acknowledge(const struct engine *e, uint64_t peer, uint64_t index);
/* To each follower that has the entries and was not sent it yet. */
void engine_tell_commit(struct engine *e);

/* From memory or disk; false: the log does not have it. */
bool engine_entry(struct engine *e, uint64_t index, struct replica_entry *out);

static inline bool engine_is_leader(const struct engine *e)
{
    return raft_state((struct raft *)(uintptr_t)&e->raft) == RAFT_LEADER;
}

/* members_codec.c: for an entry, a snapshot or a message. */
bool members_encode(const struct raft_configuration *conf, struct slice *out,
                    const struct memory *memory);
/* Whether the encoding is complete. Only decoding detects a duplicate id or address. */
bool members_check(struct slice bytes);
/* The snapshot and each entry of a start, since libraft trusts them. NULL: valid. */
const char *members_problem(const struct replica_start *start);
const char *members_entry_problem(const struct replica_entry *entry);
/* The caller closes `out`, also after false. */
bool members_decode(struct slice bytes, struct raft_configuration *out);

/* members.c */
const char *members_may_change(const struct engine *e);

#endif
