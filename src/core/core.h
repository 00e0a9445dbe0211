/* The lock state machine: cluster time and commands in, results and events out, nothing else.
 *
 * It reads no clock, draws no random number, touches no file and keeps no global state. The same
 * entries give the same state, the same answers and the same snapshot bytes on every node. The
 * promises are numbered in SEMANTICS.md and cited here as S1, S2, ...
 *
 *     core_begin(core, index, time, wall);      one log entry: first what is due is swept (S1.7)
 *     core_apply(core, &command, &result);      then its commands, in order
 *
 * Memory comes from the memory interface and never runs out: its implementation ends the process
 * instead, because a replica that applied half an entry is worse than one that stopped. */
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
    uint64_t hash_key;      /* keys the hash tables; affects no output (S2.2) */
    core_event_fn on_event; /* may be NULL; must not call back into the core */
    void *event_ctx;
    uint32_t version; /* of a new state; 0: version 1, the first of every replicated state */
};

/* The caller owns the result and frees it with core_free, which takes NULL. */
struct core *core_new(const struct core_options *options);
void core_free(struct core *core);

/* Sets the receiver of events; for a core that was restored from a snapshot. */
void core_set_events(struct core *core, core_event_fn on_event, void *ctx);

/* Begins the entry `index` (rising) stamped `time_ms` (S1.1). A stamp older than the newest one
 * seen counts as the newest. `wall_ms` is for display only. Sweeps what is due, within S2.1. */
void core_begin(struct core *core, uint64_t index, uint64_t time_ms, uint64_t wall_ms);

/* Applies one command of the entry. Never fails: a command that breaks a rule gets an error in the
 * result and changes nothing, with two exceptions: the replies that it acknowledges (S8.2), and the
 * answer `not_held`, which is remembered. The result's slices are borrowed until the next call. */
void core_apply(struct core *core, const struct command *command, struct result *out);

/* A hint that these commands are applied next; uses the first CORE_PREFETCH of them. Prefetches the
 * objects that they look up, in parallel, because a large state does not fit into the CPU caches.
 * Changes nothing. */
#define CORE_PREFETCH 16
void core_prefetch(const struct core *core, const struct command *commands, uint32_t count);

/* The cluster time at which the next entry is needed. Not later than now when a bound left work
 * over; UINT64_MAX when nothing is pending. */
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
    uint64_t grants; /* each name of a multi-lock counts */
    uint64_t waiters;
    uint64_t sessions; /* including private ones */
    uint64_t fence_marks;
    uint64_t fence_rejections;
    uint64_t audit_records;
    uint64_t counters; /* S13.5 */
    uint64_t bytes;    /* allocated from memory */
    uint64_t bytes_used;
    uint32_t last_steps;  /* of the last command (S2.1) */
    uint32_t worst_steps; /* of any command since core_new */
    uint32_t last_sweep_steps;
};

void core_stats(const struct core *core, struct core_stats *out);
/* Bytes of live objects: sessions, grants, waiters, values, counters and the tables that grow with
 * them. They fall when something is released or expires. Remembered answers, ends, audit records
 * and fence marks are not included: they have limits of their own and do not shrink. The same on
 * every member, except for what a restart compacts. O(1). */
uint64_t core_bytes(const struct core *core);
/* Whether applying the command would only repeat an earlier answer: its request id, seq, lease id
 * or transaction id is already recorded. Changes nothing. */
bool core_knows(const struct core *core, const struct command *command);
/* `names` and `counters` of core_stats. */
uint64_t core_names(const struct core *core);
uint64_t core_counters(const struct core *core);

/* Ends every session as LOST, sets the longest TTL in force as lock-delay on every held name,
 * raises C by 2^32 and writes an audit record (S3.3). For recovery and restore only: its work is
 * not bounded. Call core_begin first. */
void core_recover(struct core *core, struct slice actor, struct slice reason);

/* The functions below are for a core without a log that runs next to the replicated one (S10.1;
 * replica/memory_tier.h). Its caller supplies the tokens. Its attachment numbers begin in a range
 * of their own. It mirrors sessions of the replicated core. */

/* Grants take `first`, or the first unused token after it, then the following ones, below `end`.
 * When none is left, waiters are not granted, and the caller must not apply a command that would
 * grant (core_tokens_left). Multiples of 1024 are left out: they are tokens of the replicated core
 * (S3.1). */
void core_set_tokens(struct core *core, uint64_t first, uint64_t end);
uint64_t core_tokens_left(const struct core *core);
/* The hash of a name in the tables; for filters of names next to the core (S2.2). */
uint32_t core_name_hash(const struct core *core, uint32_t tenant, struct slice name);
/* The number of the newest audit record; 0: none. */
uint64_t core_audited(const struct core *core);
/* The last attachment or stream number that was given. */
uint64_t core_attachments(const struct core *core);
/* Sets the last attachment number that counts as given. For a core that has given none. */
void core_set_attachments(struct core *core, uint64_t last);
/* Copies the session and its deadline from `from`; creates it if it is not here yet. Returns
 * the reason when it is not alive there. Call core_begin first, with a time not before `from`'s. */
enum hf_error core_mirror_session(struct core *core, const struct core *from, uint32_t tenant,
                                  struct id id);
/* Undoes the grant of this lease: it ends, and neither the history nor its request id remembers it.
 * Its events are those of a release. Does nothing when there is none. Call core_begin first. */
void core_take_back(struct core *core, struct id lease);
/* Expires the grant of this lease now, whatever its deadline. Otherwise as core_take_back. */
void core_expire(struct core *core, struct id lease);
/* The session has ended in the replicated core: by expiry, or closed. Does nothing when it is not
 * here. Wakes no waiter: the next command or entry does. */
void core_end_session(struct core *core, struct id id, bool expired);

/* Checks every numbered invariant of core/invariants.c. Returns NULL, or a text that names the
 * broken one. Takes time proportional to the state; for tests. */
const char *core_check_invariants(const struct core *core);

#endif
