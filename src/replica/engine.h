/* Drives libraft through raft_step: events go in; disk writes, messages and committed entries come
 * out, in order, through the ports. Rules E1 to E23 for this were found by simulation. The code
 * cites a rule where it implements it, and docs/ENGINE.md names the test of each rule.
 *
 * E1  Term and vote are on disk before anything else of that step happens.
 *
 * E2  raft_timeout is called after every step, because its update flag is not always set.
 *
 * E3  A write that newer entries overlap is reported only up to the entry before the overlap, and
 *     only if that entry is above the highest reported index. Entries that replace reported entries
 *     are reported again. Nothing is reported while a snapshot is being installed.
 *
 * E4  A refused pre-vote is answered with our own term if that is higher than the candidate's.
 *     Otherwise a candidate with the longer log never receives that term, and a healed cluster can
 *     stay without a leader.
 *
 * E5  Members change one at a time. Conditions: no change is uncommitted, the leader has committed
 *     an entry of its term, every voter has the last configuration, and no transfer is in progress.
 *     A member is promoted only if it has acknowledged everything that is committed: with less, the
 *     simulator found clusters that elect no leader any more.
 *
 * E6  A received membership entry is always the first entry of what libraft is given (S12.6).
 *
 * E7  A snapshot is taken at an index that was reported as persisted, and never during an install.
 *
 * E8  Each committed membership entry is answered with a CONFIGURATION event.
 *
 * E9  Leadership is transferred only while no batch is in flight (S12.7). replica.c checks this.
 *
 * E10 Entries are sent in messages of about 1 MiB. What libraft requests for a follower in pipeline
 *     mode is sent completely, in several messages. What it requests as a probe is cut to the first
 *     message.
 *
 * E11 A commit index that no other message carries is sent to a follower at once, at an index that
 *     the follower has acknowledged. The follower does not answer it. replica.c decides when; under
 *     load the next batch carries the commit index.
 *
 * E12 Before a received membership entry, the membership entry before it is passed to libraft as
 *     committed. By E5 it is committed, even if this node has not received that commit index yet.
 *     libraft keeps one uncommitted configuration and the committed one before it. With two
 *     uncommitted ones, truncating the second would restore the one before the first, permanently.
 *
 * E13 The only voter raises its term, durably, before it leads. libraft would make it leader of its
 *     present term, in which another node may have led, or this node before a power cut. A transfer
 *     is refused while a membership change is uncommitted. A TimeoutNow to an only voter is
 *     dropped.
 *
 * E14 The result of an AppendEntries or InstallSnapshot of an older term is a refusal that no
 *     leader can take for an acknowledgement, because libraft leaves its index uninitialised. It is
 *     sent, because it carries the newer term. A leader drops an acknowledgement of an index that
 *     it never sent in its term: a follower of a version without this rule can send one.
 *
 * E15 A server votes even if its own configuration does not make it a voter, because a candidate
 *     counts only the voters of its own configuration. Before that, the server clears a remembered
 *     leader that has been silent for an election timeout or that is the candidate. Only a member
 *     that answers is promoted.
 *
 * E16 The leader does not demote or remove itself. A server outside its own configuration never
 *     campaigns, so an entry that only this server has could block every election.
 *
 * E17 An AppendEntries that begins below our snapshot is changed to begin at it. libraft does not
 *     check prev_log_index 0, and always refuses a compacted one.
 *
 * E18 A vote result is dropped unless it can count. libraft reads the candidate fields of a union
 *     in any state, so in a follower a byte of a pointer decides whether the term is raised. It
 *     also counts pre-votes that were granted for an earlier term.
 *
 * E19 A candidate returns to pre-vote before each further election, and stops disrupting a leader.
 *     Otherwise a candidate that was partitioned would depose the leader when it reconnects.
 *
 * E20 An install ends if its snapshot cannot be fetched; libraft is then restarted with the log
 *     that is still there. During an install a server neither votes nor campaigns.
 *
 * E21 The commit index never falls, although libraft lowers it when a leader repeats older entries.
 *     An AppendEntries or InstallSnapshot of the term that this node leads ends the process.
 *
 * E22 If the leader's process is known to have ended, a follower does not wait for the full
 *     election timeout. It cuts the rest to a random part of a third of the timeout, so that few
 *     nodes campaign at the same time. This is always safe, since a timeout may fire at any time.
 *     Because of pre-votes it has no effect while a majority still receives messages of the leader.
 *
 * E23 A voter that an uncommitted change demotes receives that change only when it is committed.
 *     Otherwise it would have the longest log, and would neither campaign nor vote for nodes
 *     without the change. */
#ifndef HOLDFAST_REPLICA_ENGINE_H
#define HOLDFAST_REPLICA_ENGINE_H

#include <raft.h>

#include "replica/entries.h"
#include "replica/plausible.h"
#include "replica/ports.h"
#include "replica/replica.h"

/* A write that the disk has not completed. */
struct engine_write {
    uint64_t first;
    uint64_t last;
    uint64_t reportable; /* up to this index, E3 */
};

/* What was sent to a follower in this term while this node leads. */
struct engine_peer {
    uint64_t id;
    uint64_t match;   /* as of the last entries sent */
    uint64_t through; /* index of the last entry sent */
    uint64_t ordered; /* the highest index that libraft requested to send, also as a snapshot */
    uint64_t
        sent_commit; /* the commit index that was sent, limited to entries that the follower has */
    bool probed;     /* libraft probes it and does not pipeline, E10 */
};

struct engine {
    struct raft raft;
    const struct replica_options *options;
    const struct memory *memory;
    const struct replica_ports *ports;
    struct plausible *plausible; /* NULL: no plausibility checks */
    struct entries log;
    struct engine_write *writes; /* a queue, oldest first */
    uint32_t write_count;
    uint32_t write_capacity;
    uint64_t write_number; /* number of the newest write */
    uint64_t write_done;   /* number of the newest write that is done */
    uint64_t reported;     /* highest index reported as persisted */
    uint64_t committed;    /* the highest commit index since the start of the process, E21 */
    bool installing;
    bool started;
    uint64_t install_from; /* the peer that sends the snapshot */
    /* The newest snapshot that is durable here, and the one that is being installed or taken. */
    struct replica_snapshot snapshot;
    struct replica_snapshot coming;
    uint64_t cluster_ms; /* the time that messages carry; replica.c sets it before each step */

    uint64_t message_bytes;    /* E10 */
    struct engine_peer *peers; /* valid in peers_term */
    uint32_t peer_count;
    uint32_t peer_capacity;
    uint64_t peers_term;
    bool may_tell;   /* the commit index or a match index may have risen, E11 */
    bool unanswered; /* the message being received is not to be answered */

    bool answers_older_term;  /* the message being received is of an older term, E14 */
    uint64_t leader_heard_ms; /* when the last message of a leader of the present term was
                                 received, E15 */
};

/* The engine ends the process on an impossible state. Before the call the caller sets the cluster
 * time of `e` (for the messages of an only voter) and fills `log` with the entries to start with;
 * other fields are not read. After false, `log` is unchanged. */
bool engine_start(struct engine *e, const struct replica_options *options,
                  const struct replica_ports *ports, const struct replica_start *start,
                  uint64_t now_ms, const char **problem);
void engine_close(struct engine *e);

/* What a received message contains about time. */
struct engine_heard {
    uint64_t term;       /* of the leader that sent it; 0: not a message of a leader */
    uint64_t ms;         /* that leader's cluster time */
    bool is_answer;      /* it answers a message that this node sent as leader in its present
                            term */
    uint64_t answer_ms;  /* our cluster time when we sent the newest message that the peer had
                            received */
    const char *refusal; /* why it was refused, if engine_receive returns false; a sentence */
};
void engine_written(struct engine *e, uint64_t last, uint64_t now_ms);
void engine_timeout(struct engine *e, uint64_t now_ms);
void engine_peer_ended(struct engine *e, uint64_t peer, uint64_t now_ms); /* E22 */
/* HF_UNAVAILABLE: libraft refuses. On HF_OK the index of the entry is the last one of the log. */
enum hf_error engine_submit(struct engine *e, uint16_t type, struct slice bytes, uint64_t now_ms);
/* Answers a committed membership entry (E8). */
void engine_configuration(struct engine *e, uint64_t index, struct slice members, uint64_t now_ms);
enum hf_error engine_transfer(struct engine *e, uint64_t to, uint64_t now_ms);
void engine_snapshot_taken(struct engine *e, uint32_t trailing, uint64_t now_ms);
void engine_snapshot_installed(struct engine *e, uint64_t now_ms);

/* Ends an install without a snapshot; allowed only if engine_may_abandon_snapshot is true. Entries
 * whose write is in flight leave the log. */
bool engine_may_abandon_snapshot(const struct engine *e);
void engine_snapshot_abandoned(struct engine *e, uint64_t now_ms);
bool engine_is_only_voter(const struct engine *e);

/* Runs one step and everything that it requests; the caller handles commits. Returns libraft's
 * error. engine_must_step is for events that libraft cannot refuse. */
int engine_step(struct engine *e, struct raft_event *event, uint64_t now_ms);
void engine_must_step(struct engine *e, struct raft_event *event, uint64_t now_ms);

/* engine_receive.c */
bool engine_receive(struct engine *e, uint64_t peer, struct slice bytes, uint64_t now_ms,
                    struct engine_heard *heard);

/* engine_send.c */
void engine_send(struct engine *e, const struct raft_message *ordered);
/* Whether a follower can acknowledge this index in our present term (E14). */
bool engine_may_acknowledge(const struct engine *e, uint64_t peer, uint64_t index);
/* Sends the commit index to each follower that has the committed entries and was not sent it
 * yet. */
void engine_tell_commit(struct engine *e);

/* The entry, from memory or from disk; false when the log does not have it. */
bool engine_entry(struct engine *e, uint64_t index, struct replica_entry *out);

static inline bool engine_is_leader(const struct engine *e)
{
    return raft_state((struct raft *)(uintptr_t)&e->raft) == RAFT_LEADER;
}

/* members_codec.c: encodes members for an entry, a snapshot or a message. */
bool members_encode(const struct raft_configuration *conf, struct slice *out,
                    const struct memory *memory);
/* Whether the encoding is complete. Only decoding detects a duplicate id or address. */
bool members_check(struct slice bytes);
/* Checks the snapshot and each entry that a replica starts with, since libraft trusts them. NULL:
 * they are valid. */
const char *members_problem(const struct replica_start *start);
const char *members_entry_problem(const struct replica_entry *entry);
/* The caller closes `out`, also after false. */
bool members_decode(struct slice bytes, struct raft_configuration *out);

/* members.c */
const char *members_may_change(const struct engine *e);

#endif
