/* The state of the replica, private to replica/. */
#ifndef HOLDFAST_REPLICA_INTERNAL_H
#define HOLDFAST_REPLICA_INTERNAL_H

#include "core/entry.h"
#include "replica/batch.h"
#include "replica/clock.h"
#include "replica/contact.h"
#include "replica/engine.h"
#include "replica/replica.h"
#include "replica/return_predictor.h"

#define BATCH_BYTES (1u << 20)
#define BATCH_COMMANDS 16384u

/* In the order of the commands of a batch, or of the reads that wait for it. */
struct cookies {
    void **at;
    uint32_t count;
    uint32_t capacity;
};

/* Submitted and not yet applied or replaced. At most one is of the present term; those of earlier
 * terms are reported before this node serves again. */
struct flight {
    uint64_t index;
    uint64_t term;
    struct cookies commands;
    struct cookies barriers;
    uint64_t proposed_us;
    bool for_peer; /* another node waits until it has applied the batch */
};

#define MAX_FLIGHTS 16

struct replica {
    struct replica_options options;
    struct engine engine;
    struct core *core;
    struct cluster_clock clock;

    /* The open batch. */
    struct entry_writer writer;
    uint8_t *buffer;
    struct cookies commands;
    struct cookies barriers;
    uint32_t lazy;
    uint64_t lazy_us; /* the longest wait of the lazy commands */
    uint64_t first_us;
    bool for_peer;

    struct flight flights[MAX_FLIGHTS]; /* oldest first */
    uint32_t flight_count;
    struct return_predictor predictor;
    uint32_t expected; /* see batch.h */
    uint64_t answered_us;
    uint64_t heard_us;
    bool answering; /* reported answers are not written to their sockets yet */

    struct contact contact;
    bool leading;        /* has acted on becoming leader */
    bool serving;        /* has applied its `lead` (S1.3) */
    uint64_t lead_index; /* of that entry; 0: not submitted */
    uint64_t lead_term;  /* of the last one submitted */
    /* No batch before: cluster time is then later than that of `lead`, so its grants are shown by
     * this leader's wall clock (S16.1). */
    uint64_t first_batch_us;
    uint64_t known_leader;
    uint64_t applied;
    uint64_t log_bytes; /* since the last snapshot */
    uint64_t last_tick_us;
    uint64_t upgrade_us; /* no upgrade is proposed before this time */
    uint64_t
        send_commit_us; /* when the commit index is sent to followers (E11); UINT64_MAX: no need */
    bool peer_waits;    /* ... and a follower waits for it */
    bool taking;
    bool abandons;        /* the install ends when all committed entries are on disk */
    bool may_defer_apply; /* in this call: applying may be deferred */
    uint64_t apply_us;    /* deferred until then; UINT64_MAX: nothing is */
    bool unwatched;       /* ... and no request at this node waits for it */
    bool in_call;
    struct plausible plausible;
    const char *refusal;
    struct slice members; /* committed, as of members_index; owned */
    uint64_t members_index;
    struct flight *applying; /* its results are being reported */
};

/* ---- apply.c ---- */
void cookies_add(const struct replica *r, struct cookies *c, void *cookie);
void cookies_free(const struct replica *r, struct cookies *c);
/* Reports `outcome` for all cookies; empties both lists. */
void fail_all(struct replica *r, struct cookies *commands, struct cookies *barriers,
              enum replica_outcome outcome);
bool flight_in_this_term(const struct replica *r);
void flight_drop(struct replica *r, uint32_t i);
void flight_fail(struct replica *r, uint32_t i, enum replica_outcome outcome);
void flights_lost_up_to(struct replica *r, uint64_t index);
void remember_members(struct replica *r, uint64_t index, struct slice members);
void apply_committed(struct replica *r, struct replica_time now);

/* ---- snapshots.c ---- */
void snapshot_if_due(struct replica *r);
/* Ends an abandoned install as soon as no write is in flight. */
void snapshot_abandon_if_possible(struct replica *r, struct replica_time now);

/* ---- upgrade.c ---- */
/* True: all members support a later version, and `out` raises it. */
bool upgrade_wanted(struct replica *r, struct command *out);

/* ---- replica.c ---- */

/* Does not report its cookies. */
void batch_reset(struct replica *r);

/* At the start and end of each public function. replica_enter sets the engine's clock.
 * replica_leave acts on changes of leadership and commits. */
void replica_enter(struct replica *r, struct replica_time now);
void replica_leave(struct replica *r, struct replica_time now);
void replica_on_event(void *ctx, const struct event *event);

#endif
