/* The lock state machine: cluster time and commands in, results and events out, nothing else.
 *
 * It reads no clock, draws no random number, touches no file and keeps no global: the same entries
 * give the same state, the same answers and the same snapshot bytes on every node. The promises are
 * numbered in SEMANTICS.md and cited here as S1, S2, ...
 *
 *     core_begin(core, index, time, wall);      one log entry: first what is due is swept (S1.7)
 *     core_apply(core, &command, &result);      then its commands, in order
 *
 * Memory comes from the memory interface and never runs out: its implementation ends the process
 * instead, since a replica that applied half an entry is worse than one that stopped. */
#ifndef HOLDFAST_CORE_CORE_H
#define HOLDFAST_CORE_CORE_H

#include "base/memory.h"
#include "core/command.h"
#include "core/event.h"
#include "core/result.h"

struct core;

typedef void (*core_event_fn)(void *ctx, const struct event *event);

struct core_options {
    const struct memory *memory;
    uint64_t hash_key;      /* keys the hash tables; never shows in an output (S2.2) */
    core_event_fn on_event; /* may be NULL; must not call back into the core */
    void *event_ctx;
    uint32_t version; /* of a new state; 0: the first, as every replicated one begins */
};

/* Versions of the state machine. Each has commands that the one before does not know
 * (command_since), and perhaps another layout of the snapshot. `upgrade` raises the version of a
 * state, when all members can follow; commands of a later one are refused until then.
 *   1  locks, sessions, elections, fence marks
 *   2  keys, counters and transactions (S13); notes of the tier without a log (S10)
 *   3  `advance` raises C by 64, not by one (S3.1, decision 22); the trail says which records are
 *      notes; that nobody held a name is remembered (S8)
 *   4  a fence check refuses tokens that were never issued; `fence_reset` (S11); requests that are
 *      done are remembered in three memories (S8.3); counters may have a TTL (S13.5) */
#define CORE_VERSION 4

/* The caller owns the result and frees it with core_free, which takes NULL. */
struct core *core_new(const struct core_options *options);
void core_free(struct core *core);

/* Who hears of events from now on; a core that was restored from a snapshot changes hands. */
void core_set_events(struct core *core, core_event_fn on_event, void *ctx);

/* Begins the entry `index` (rising) stamped `time_ms` (S1.1). An older stamp counts as the newest
 * seen. `wall_ms` is shown to people and decides nothing. Sweeps what is due, within S2.1. */
void core_begin(struct core *core, uint64_t index, uint64_t time_ms, uint64_t wall_ms);

/* Applies one command of the entry. Never fails: a command that breaks a rule gets an error in the
 * result and changes nothing (but for the replies that it acknowledges, S8.2, and that `not_held`
 * is remembered). The result's slices are borrowed until the next call. */
void core_apply(struct core *core, const struct command *command, struct result *out);

/* A hint that these commands come next (the first CORE_PREFETCH of them count): fetches what they
 * will look up, all at the same time, since a large state is in no cache. Changes nothing. */
#define CORE_PREFETCH 16
void core_prefetch(const struct core *core, const struct command *commands, uint32_t count);

/* When the next entry is needed for something to happen: a cluster time, not later than now when
 * work was left over by a bound, UINT64_MAX when nothing is pending. */
uint64_t core_next_due_ms(const struct core *core);

uint64_t core_now_ms(const struct core *core);
uint64_t core_wall_ms(const struct core *core);
uint64_t core_index(const struct core *core);
uint32_t core_version(const struct core *core);
/* The token counter C and the C of the last `lead` (S3.1, S10.2). */
uint64_t core_counter(const struct core *core);
uint64_t core_epoch(const struct core *core);

struct core_stats {
    uint64_t names;  /* held, waited for or delayed */
    uint64_t grants; /* names in multi-locks counted each */
    uint64_t waiters;
    uint64_t sessions; /* private ones included */
    uint64_t fence_marks;
    uint64_t fence_rejections;
    uint64_t audit_records;
    uint64_t counters; /* S13.5 */
    uint64_t bytes;    /* taken from memory, everything counted */
    uint64_t bytes_used;
    uint32_t last_steps;  /* of the last command (S2.1) */
    uint32_t worst_steps; /* of any command since core_new */
    uint32_t last_sweep_steps;
};

void core_stats(const struct core *core, struct core_stats *out);
/* Bytes that live objects take: sessions, grants, waiters, values, counters and the tables that grow
 * with them. They fall when something is released or expires. What is only remembered (answers,
 * ends, audit records, fence marks) is not in it: it has limits of its own and does not shrink. The
 * same on every member, but for what a restart compacts. O(1). */
uint64_t core_bytes(const struct core *core);
/* Whether applying the command would only repeat an earlier answer: its request id, seq, lease id or
 * transaction id is known. Changes nothing. */
bool core_knows(const struct core *core, const struct command *command);
/* Its `names` alone; and how many counters there are (S13.5). */
uint64_t core_names(const struct core *core);
uint64_t core_counters(const struct core *core);

/* Ends every session as LOST, puts the longest TTL in force as lock-delay on every name that was
 * held, raises C by 2^32 and audits it (S3.3). For recovery and restore only: its work is not
 * bounded. Call core_begin first. */
void core_recover(struct core *core, struct slice actor, struct slice reason);

/* A core without a log, next to the replicated one (S10.1; replica/memory_tier.h): its tokens are
 * told, its attachment numbers begin where nobody takes them for those of the other, and it takes
 * over sessions that live in the other. */

/* Grants take `first`, or the first after it that was not taken yet, then the next, as long as they
 * are below `end`; then whoever waits is not granted, and no command may come that would
 * (core_tokens_left). Multiples of 1024 are left out: they are tokens of the other (S3.1). */
void core_set_tokens(struct core *core, uint64_t first, uint64_t end);
uint64_t core_tokens_left(const struct core *core);
/* Where a name lies in the hash tables; for filters of names next to the core (S2.2). */
uint32_t core_name_hash(const struct core *core, uint32_t tenant, struct slice name);
/* The number of the newest audit record; 0: none. */
uint64_t core_audited(const struct core *core);
/* The last attachment or stream number that was given. */
uint64_t core_attachments(const struct core *core);
/* The last attachment number that counts as given. For a core that has given none. */
void core_set_attachments(struct core *core, uint64_t last);
/* The session as it lives in `from`, with its deadline there; made if it is not here yet. Else says
 * why it does not live there. Call core_begin first, with no earlier time than `from` has seen. */
enum hf_error core_mirror_session(struct core *core, const struct core *from, uint32_t tenant,
                                  struct id id);
/* The grant of this lease never was: it ends, and neither history nor its request's id remember it.
 * Its events come as of a release. Nothing when there is none. Call core_begin first. */
void core_take_back(struct core *core, struct id lease);
/* It expires now, whatever its deadline. Likewise. */
void core_expire(struct core *core, struct id lease);
/* It has ended there: by expiry, or closed. Nothing when it is not here. Wakes nobody: the next
 * command or entry does. */
void core_end_session(struct core *core, struct id id, bool expired);

/* Checks every numbered invariant of core/invariants.c and returns NULL, or a text that names the
 * broken one. Takes time in proportion to the state; for tests. */
const char *core_check_invariants(const struct core *core);

#endif
