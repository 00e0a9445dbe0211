/* Drives libraft by raft_step: events in, disk writes and messages out through the ports, and what
 * is committed in order. The rules for it, learned by simulation, are numbered here (E1 to E23);
 * the code cites them where it keeps them, and docs/ENGINE.md names the test of each.
 *
 * E1  Term and vote are on disk before anything else of that step happens.
 *
 * E2  raft_timeout is asked after every step: its update flag is not always set.
 *
 * E3  A write that newer entries overlap is reported only up to the entry before them, and only if
 *     that is above what was reported; what replaces entries that were reported is reported anew;
 *     nothing is reported while a snapshot is being installed.
 *
 * E4  A refused pre-vote is answered with our own term when that is higher than the candidate's;
 *     else a candidate with the longer log never learns of it, and a healed cluster can stay
 *     without a leader.
 *
 * E5  Members change one at a time: no change is uncommitted, the leader has committed an entry of
 *     its term, every voter has the last configuration, nobody is being given the lead, and only
 *     who caught up is promoted.
 *
 * E6  A received membership entry is always the first of what the engine is given (S12.6).
 *
 * E7  A snapshot is taken at an index that was reported as persisted, never while one is installed.
 *
 * E8  Each committed membership entry is answered with a CONFIGURATION event.
 *
 * E9  The lead is given away only with no batch in flight (S12.7); kept by replica.c.
 *
 * E10 Entries travel in messages of about 1 MiB. What libraft orders for a follower that it streams
 *     to is sent whole, in several of them; of what it orders as a probe, only the first goes.
 *
 * E11 A commit index that nothing else carries is told to a follower at once, at an index that it
 *     has acknowledged, and not answered. replica.c decides when; under load the next batch does
 *     it.
 *
 * E12 Before a received membership entry, the one before it is told to the engine as committed: by
 *     E5 it is, also when nobody said so here yet. The engine keeps one uncommitted configuration
 *     and the committed one before; with two uncommitted, the truncation of the second would leave
 *     the one before the first in force, for good.
 *
 * E13 The only voter raises its term, durably, before it leads: libraft makes it leader of the term
 *     that it has, in which another node may have led, or it itself before a power cut. A transfer
 *     is refused while a membership change is uncommitted, and TimeoutNow to an only voter dropped.
 *
 * E14 The answer to an AppendEntries or InstallSnapshot of an older term is a refusal that no
 *     leader can take for an acknowledgement: libraft leaves its index uninitialised. It is sent,
 *     because it carries the newer term. A leader drops an acknowledgement of what it never sent in
 *     its term: a follower of a version without this rule sends it.
 *
 * E15 A server votes also when its own configuration does not make it a voter: a candidate counts
 *     only the voters of its own. A remembered leader that has been silent for an election timeout,
 *     or that is the candidate, is forgotten first. Only a member that answers is promoted.
 *
 * E16 The leader does not demote or remove itself: a server outside its own configuration never
 *     campaigns, so an entry that only it has could block every election.
 *
 * E17 An AppendEntries that begins below our snapshot is changed to begin at it: libraft does not
 *     check prev_log_index 0, and refuses a compacted one for ever.
 *
 * E18 A vote result is dropped unless it can count: libraft reads the fields of a candidate in any
 *     state, so in a follower a byte of a pointer decides whether the term is raised; and it counts
 *     pre-votes that were granted for an earlier term.
 *
 * E19 A candidate returns to pre-vote before each further election, and no longer disrupts a
 * leader. Else one that was cut off would depose the leader when it is back.
 *
 * E20 An install ends when its snapshot cannot be fetched, and libraft is started anew with the log
 *     that is still there: while it installs, a server neither votes nor campaigns.
 *
 * E21 The commit index never falls: libraft lowers it when a leader repeats older entries. An
 *     AppendEntries or InstallSnapshot of the term that this node leads ends the process.
 *
 * E22 A leader whose process is known to have ended is not waited for: the rest of the election
 *     timeout is cut to a part of a third of it, by chance, so that few ask for votes at the same
 *     time. Always safe, since a timeout may come at any time; and in vain while most still hear
 *     the leader, because of pre-votes.
 *
 * E23 A voter that an uncommitted change demotes is sent that change only when it is committed. It
 *     would have the longest log, and neither campaign nor vote for those without the change. */
#ifndef HOLDFAST_REPLICA_ENGINE_H
#define HOLDFAST_REPLICA_ENGINE_H

#include <raft.h>

#include "replica/entries.h"
#include "replica/plausible.h"
#include "replica/ports.h"
#include "replica/replica.h"

/* A write that is on its way to the disk. */
struct engine_write {
    uint64_t first;
    uint64_t last;
    uint64_t reportable; /* up to here, E3 */
};

/* What was sent to a follower while we lead, in this term. */
struct engine_peer {
    uint64_t id;
    uint64_t match;   /* as of the last entries sent */
    uint64_t through; /* the last entry sent */
    uint64_t ordered; /* the highest index that libraft ordered to be sent, also as a snapshot */
    uint64_t told;    /* the commit index, as far as it concerns entries that the follower has */
    bool probed;      /* libraft does not stream to it, E10 */
};

struct engine {
    struct raft raft;
    const struct replica_options *options;
    const struct memory *memory;
    const struct replica_ports *ports;
    struct plausible *plausible; /* NULL: everything is believed */
    struct entries log;
    struct engine_write *writes; /* a queue, oldest first */
    uint32_t write_count;
    uint32_t write_capacity;
    uint64_t write_number; /* of the newest */
    uint64_t write_done;   /* number of the newest that is done */
    uint64_t reported;     /* highest index reported as persisted */
    uint64_t committed;    /* the highest commit index of this life, E21 */
    bool installing;
    bool started;
    uint64_t install_from; /* the peer */
    /* The newest snapshot that is durable here, and the one that is being installed or taken. */
    struct replica_snapshot snapshot;
    struct replica_snapshot coming;
    uint64_t cluster_ms; /* that messages carry; set by replica.c before each step */

    uint64_t message_bytes;    /* E10 */
    struct engine_peer *peers; /* of peers_term */
    uint32_t peer_count;
    uint32_t peer_capacity;
    uint64_t peers_term;
    bool may_tell;   /* the commit index or a match index may have gone up, E11 */
    bool unanswered; /* what is being received */

    bool answers_older_term;  /* what is being received is of an older term, E14 */
    uint64_t leader_heard_ms; /* when a leader of the present term was last heard, E15 */
};

/* Ends the process on what cannot be: an engine that failed must not go on. Of `e` the cluster time
 * is set, for the messages of an only voter, and `log` holds the entries that it starts with; the
 * rest is not looked at. After false `log` is as it was. */
bool engine_start(struct engine *e, const struct replica_options *options,
                  const struct replica_ports *ports, const struct replica_start *start,
                  uint64_t now_ms, const char **problem);
void engine_close(struct engine *e);

/* What a received message says about time. */
struct engine_heard {
    uint64_t term;       /* of the leader that sent it; 0: another message */
    uint64_t ms;         /* that leader's cluster time */
    bool is_answer;      /* to what we sent in our own present term, as the leader */
    uint64_t answer_ms;  /* our cluster time when we sent the newest message that the peer had */
    const char *refusal; /* why it was refused, where engine_receive says false; a sentence */
};
void engine_written(struct engine *e, uint64_t last, uint64_t now_ms);
void engine_timeout(struct engine *e, uint64_t now_ms);
void engine_peer_ended(struct engine *e, uint64_t peer, uint64_t now_ms); /* E22 */
/* HF_UNAVAILABLE when the engine refuses. The index it got is the log's last. */
enum hf_error engine_submit(struct engine *e, uint16_t type, struct slice bytes, uint64_t now_ms);
/* Answers a committed membership entry (E8). */
void engine_configuration(struct engine *e, uint64_t index, struct slice members, uint64_t now_ms);
enum hf_error engine_transfer(struct engine *e, uint64_t to, uint64_t now_ms);
void engine_snapshot_taken(struct engine *e, uint32_t trailing, uint64_t now_ms);
void engine_snapshot_installed(struct engine *e, uint64_t now_ms);

/* Of an install that engine_snapshot_installed does not end; only when it may be. Entries whose
 * write is in flight leave the log. */
bool engine_may_abandon_snapshot(const struct engine *e);
void engine_snapshot_abandoned(struct engine *e, uint64_t now_ms);
bool engine_is_only_voter(const struct engine *e);

/* One step and everything that it asks for; commits are the caller's to look at. Returns libraft's
 * error. engine_must_step is for events that cannot be refused. */
int engine_step(struct engine *e, struct raft_event *event, uint64_t now_ms);
void engine_must_step(struct engine *e, struct raft_event *event, uint64_t now_ms);

/* engine_receive.c */
bool engine_receive(struct engine *e, uint64_t peer, struct slice bytes, uint64_t now_ms,
                    struct engine_heard *heard);

/* engine_send.c */
void engine_send(struct engine *e, const struct raft_message *ordered);
/* Whether a follower can acknowledge this index in our present term (E14). */
bool engine_may_acknowledge(const struct engine *e, uint64_t peer, uint64_t index);
/* Tells the commit index to each follower that has what was committed, and does not know yet. */
void engine_tell_commit(struct engine *e);

/* The entry, from memory or from disk; false when the log does not have it. */
bool engine_entry(struct engine *e, uint64_t index, struct replica_entry *out);

static inline bool engine_is_leader(const struct engine *e)
{
    return raft_state((struct raft *)(uintptr_t)&e->raft) == RAFT_LEADER;
}

/* members_codec.c: members as bytes, of an entry, a snapshot or a message. */
bool members_encode(const struct raft_configuration *conf, struct slice *out,
                    const struct memory *memory);
/* Whether they are whole; an id or address that is there twice is found by decoding only. */
bool members_check(struct slice bytes);
/* Of the snapshot and of each entry that a replica starts with, since libraft trusts them. NULL:
 * they are whole. */
const char *members_problem(const struct replica_start *start);
const char *members_entry_problem(const struct replica_entry *entry);
/* The caller closes `out`, after false too. */
bool members_decode(struct slice bytes, struct raft_configuration *out);

/* members.c */
const char *members_may_change(const struct engine *e);

#endif
