/* The replica's own state, for the files of replica/ only. */
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

/* The cookies of a batch, in the order of its commands, and those of reads that wait for it. */
struct cookies {
    void **at;
    uint32_t count;
    uint32_t capacity;
};

/* A batch that was submitted and is not known to be applied or replaced. One is enough while we
 * lead; others are left over from earlier terms of ours. */
struct flight {
    uint64_t index;
    uint64_t term;
    struct cookies commands;
    struct cookies barriers;
    bool for_peer; /* another node waits until it has applied it */
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
    uint64_t lazy_us; /* how long the lazy ones may wait */
    uint64_t first_us;
    bool for_peer;

    struct flight flights[MAX_FLIGHTS]; /* oldest first */
    uint32_t flight_count;
    struct predictor predictor;
    uint32_t expected; /* who will probably ask soon: see batch.h */
    uint64_t answered_us;
    uint64_t heard_us;
    bool answering; /* answers were given that have not left yet */

    struct contact contact;
    bool leading;        /* as far as we have acted on it */
    bool serving;        /* has applied its `lead` (S1.3) */
    uint64_t lead_index; /* of that entry, 0 while it is not submitted */
    uint64_t known_leader;
    uint64_t applied;
    uint64_t log_bytes; /* since the last snapshot */
    uint64_t last_tick_us;
    uint64_t upgrade_us; /* not before then is another upgrade proposed */
    uint64_t tell_us;    /* when followers are told the commit index (E11); UINT64_MAX: no need */
    bool peer_waits;     /* ... and one of them waits for it */
    bool taking;         /* a snapshot is being written */
    bool abandons;       /* the install ends as soon as what is committed is on disk */
    bool puts_off;       /* in this call: applying can wait, see replica.c */
    uint64_t apply_us;   /* until then; UINT64_MAX: nothing was put off */
    bool unwatched;      /* ... and nobody here waits for it */
    bool in_call;
    struct plausible plausible;
    const char *refusal;  /* why the last message was refused */
    struct slice members; /* committed, as of members_index; owned */
    uint64_t members_index;
    struct flight *applying; /* the batch whose results are being told */
};

/* ---- apply.c ---- */
void cookies_add(const struct replica *r, struct cookies *c, void *cookie);
void cookies_free(const struct replica *r, struct cookies *c);
/* Tells everybody who waits, and empties both. */
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
/* Ends an install that was abandoned as soon as no write is in flight. */
void snapshot_abandon_if_possible(struct replica *r, struct replica_time now);

/* ---- upgrade.c ---- */
/* All members know a later version of the state machine than is in force: fills in the command. */
bool upgrade_wanted(struct replica *r, struct command *out);

/* ---- replica.c ---- */

/* Brackets around each call from outside: hands the clock to the engine; acts on what became of the
 * engine's state (leadership, commits) and leaves nothing undone. */
void replica_enter(struct replica *r, struct replica_time now);
void replica_leave(struct replica *r, struct replica_time now);
/* What the core reports, on its way out (core_set_events). */
void replica_on_event(void *ctx, const struct event *event);

#endif
