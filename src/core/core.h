/* The lock state machine: cluster time and commands in, results and events out, nothing else.
 *
 * It uses no clock, random number, file or global state. The same entries give the same state,
 * answers and snapshot bytes on every node. S1, S2, ... are the promises of SEMANTICS.md.
 *
 *     core_begin(core, index, time, wall);      one log entry: first what is due is swept (S1.7)
 *     core_apply(core, &command, &result);      then its commands, in order
 *
 * Memory never runs out: the memory interface ends the process instead. A replica that applied half
 * an entry is worse than one that stopped. */
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
    uint64_t hash_key;      /* of the hash tables; affects no output (S2.2) */
    core_event_fn on_event; /* or NULL; must not call the core */
    void *event_ctx;
    uint32_t version; /* of a new state; 0: version 1, as of every replicated state */
};

/* The caller owns it. core_free takes NULL. */
struct core *core_new(const struct core_options *options);
void core_free(struct core *core);

/* For a core restored from a snapshot. */
void core_set_events(struct core *core, core_event_fn on_event, void *ctx);

/* Begins entry `index` (rising) stamped `time_ms` (S1.1) and sweeps what is due, within S2.1. A
 * stamp older than the newest counts as the newest. `wall_ms` is for display. */
void core_begin(struct core *core, uint64_t index, uint64_t time_ms, uint64_t wall_ms);

/* Applies one command of the entry. A command that breaks a rule gets an error in the result and
 * changes nothing, except: it acknowledges replies (S8.2), and the answer `not_held` is remembered.
 * The slices of the result are borrowed until the next call. */
void core_apply(struct core *core, const struct command *command, struct result *out);

/* Prefetches the objects of the next commands (the first CORE_PREFETCH of them) in parallel: a
 * large state does not fit into the CPU caches. Changes nothing. */
#define CORE_PREFETCH 16
void core_prefetch(const struct core *core, const struct command *commands, uint32_t count);

/* The cluster time at which the next entry is needed: not later than now when a bound left work,
 * UINT64_MAX when nothing is pending. */
uint64_t core_next_due_ms(const struct core *core);

uint64_t core_now_ms(const struct core *core);
/* The wall clock of the last entry. */
uint64_t core_last_wall_ms(const struct core *core);
/* The wall clock when cluster time was `cluster_ms` (S16.1): by the row in force then. A time before
 * the oldest row: by that one. Always the same for a time that is past. */
uint64_t core_wall_ms(const struct core *core, uint64_t cluster_ms);
uint64_t core_index(const struct core *core);
uint32_t core_version(const struct core *core);
/* C, and the C of the last `lead` (S3.1, S10.2). */
uint64_t core_counter(const struct core *core);
uint64_t core_epoch(const struct core *core);

struct core_stats {
    uint64_t names;  /* held, waited for or delayed */
    uint64_t grants; /* counts names of a multi-lock */
    uint64_t waiters;
    uint64_t sessions; /* including private ones */
    uint64_t fence_marks;
    uint64_t fence_rejections;
    uint64_t audit_records;
    uint64_t counters;  /* S13.5 */
    uint64_t long_held; /* marked grants (S16.2); counts names of a multi-lock */
    uint64_t alerts;    /* long-held rules, of all tenants */
    uint64_t bytes;     /* allocated from memory */
    uint64_t bytes_used;
    uint32_t last_steps;  /* S2.1 */
    uint32_t worst_steps; /* of all since core_new */
    uint32_t last_sweep_steps;
};

void core_stats(const struct core *core, struct core_stats *out);
/* Bytes of live objects and the tables that grow with them; they fall on release and expiry.
 * Answers, ends, audit records and fence marks are not included: they have their own limits. Equal
 * on all members, except for what a restart compacts. O(1). */
uint64_t core_bytes(const struct core *core);
/* What a tenant has now, for its quotas. Names: locks that are held, waited for or delayed, and
 * counters. Sessions: including private ones. Bytes: of its live objects, without hash tables. O(1). */
struct tenant_usage {
    uint64_t names;
    uint64_t sessions;
    uint64_t waiters;
    uint64_t bytes;
};
void core_tenant_usage(const struct core *core, uint32_t tenant, struct tenant_usage *out);
/* Whether applying would only repeat an answer: its request id, seq, lease id or transaction id is
 * recorded. Changes nothing. */
bool core_knows(const struct core *core, const struct command *command);
/* `names`, `counters` of core_stats. */
uint64_t core_names(const struct core *core);
uint64_t core_counters(const struct core *core);

/* Ends every session as LOST, delays every held name by the longest TTL in force, raises C by 2^32
 * and writes an audit record (S3.3). Only for recovery and restore: the work is not bounded. Call
 * core_begin first. */
void core_recover(struct core *core, struct slice actor, struct slice reason);

/* For a core without a log next to the replicated one (S10.1; replica/memory_tier.h). Its caller
 * supplies the tokens, its attachment numbers have their own range, and it mirrors sessions of the
 * replicated core. */

/* Grants take the unused tokens from `first` on, below `end`, without multiples of 1024, which
 * belong to the replicated core (S3.1). When none is left, waiters are not granted, and the caller
 * must not apply a command that would grant (core_tokens_left). */
void core_set_tokens(struct core *core, uint64_t first, uint64_t end);
uint64_t core_tokens_left(const struct core *core);
/* For a core without a log: commands and waiters are authorised by the policy of `source`, which
 * must outlive it. */
void core_set_policy_source(struct core *core, const struct core *source);
/* For such a core, after a policy_change with end_sessions: the next core_begin calls end its private
 * sessions of principals that do not exist (S14.4). */
void core_end_removed(struct core *core);
/* For filters of names next to the core (S2.2). */
uint32_t core_name_hash(const struct core *core, uint32_t tenant, struct slice name);
/* Number of the newest audit record of tenant 0, or in a core next to a replicated one of all; 0:
 * none. */
uint64_t core_audited(const struct core *core);
/* The last attachment or stream number given. */
uint64_t core_attachments(const struct core *core);
/* Sets that number, for a core that has given none. */
void core_set_attachments(struct core *core, uint64_t last);
/* Copies the session and its deadline from `from`, or returns why it is not alive there. Call
 * core_begin first, with a time not before `from`'s. */
enum hf_error core_mirror_session(struct core *core, const struct core *from, uint32_t tenant,
                                  struct id id);
/* Undoes the grant of this lease: history and request id forget it. Its events are those of a
 * release. No such grant: does nothing. Call core_begin first. */
void core_take_back(struct core *core, struct id lease);
/* A renewal with any TTL that a grant can have, also one that only keys have. Returns the new deadline;
 * 0: no such grant. Call core_begin first. */
uint64_t core_set_ttl(struct core *core, struct id lease, uint64_t ttl_ms);
/* Expires the grant now; otherwise as core_take_back. */
void core_expire(struct core *core, struct id lease);
/* The session expired or was closed in the replicated core. No such session: does nothing. Waiters
 * are woken by the next command or entry. */
void core_end_session(struct core *core, struct id id, bool expired);

/* NULL, or a text that names the broken invariant (core/invariants.c). Takes time proportional to
 * the state; for tests. */
const char *core_check_invariants(const struct core *core);

#endif
