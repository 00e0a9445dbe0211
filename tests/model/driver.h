/* The random driver: what its files share. */
#ifndef HF_TESTS_MODEL_DRIVER_H
#define HF_TESTS_MODEL_DRIVER_H

#include <stdio.h>

#include "core/entry.h"
#include "core/snapshot.h"
#include "model.h"
#include "model_policy.h"
#include "random.h"

/* ---- profiles: what kind of traffic a seed makes ---- */

enum profile_kind {
    PROFILE_MIXED,
    PROFILE_SESSIONS,
    PROFILE_PRIVATE,
    PROFILE_CONTENTION,
    PROFILE_MULTILOCK,
    PROFILE_OPERATORS,
    PROFILE_MANY_WAITERS,
    PROFILE_RINGS,
    PROFILE_COUNT
};

struct profile {
    const char *name;
    uint32_t seeds;    /* in the default run */
    uint32_t commands; /* of each seed */
    uint32_t names;
    uint32_t sessions;
    uint32_t nodes;
    /* Percent. */
    uint32_t in_session;
    uint32_t request_id;
    uint32_t seq;
    uint32_t wait;
    uint32_t multi;
    uint32_t detect;
    uint32_t repeat;
    uint32_t invalid;
    uint32_t delay;
    uint32_t principals; /* of the commands have one, in some seeds */
    bool recovers;       /* now and then a majority is lost */
    uint32_t weight[COMMAND_COUNT];
};

extern const struct profile profiles[PROFILE_COUNT];

/* With limits so small that everyday traffic hits them all the time there is no need for many waiters. */
#ifdef HOLDFAST_TINY_LIMITS
#define TINY_LIMITS 1
#else
#define TINY_LIMITS 0
#endif

/* A seed says everything, its profile too. */
static inline enum profile_kind profile_of(uint64_t seed)
{
    return (enum profile_kind)(seed % PROFILE_COUNT);
}

/* ---- generate.c ---- */

/* The current entry's commands are encoded here. */
#define ENTRY_BYTES (4u << 20)

struct generator;
struct generator *generator_new(uint64_t seed, struct model *model);
void generator_free(struct generator *g);

/* How many commands the next entry has, and its stamp. */
uint32_t generator_entry(struct generator *g, uint64_t *time_ms, uint64_t *wall_ms);
/* The next command; its slices live until the next call. */
void generator_command(struct generator *g, struct command *out);
/* What became of it: later commands refer to it. */
void generator_note(struct generator *g, const struct command *command,
                    const struct result *result);

/* ---- record.c: events are copied and kept until they are compared ---- */

struct recorder {
    struct event *events;
    size_t count;
    size_t size;
    uint8_t **blocks; /* of bytes that the events point to */
    size_t block_count;
    size_t block_at;
    size_t byte_at;
};

void recorder_event(void *recorder, const struct event *event);
void recorder_clear(struct recorder *r);
void recorder_close(struct recorder *r);

/* ---- compare.c ---- */

/* Differences are printed; false when there is any. */
bool compare_results(const struct result *core, const struct result *model, uint32_t ids);
bool compare_events(const struct recorder *core, const struct recorder *model);
bool compare_state(const struct core *core, struct model *model);
/* compare_policy.c */
bool compare_policy(const struct policy *core, const struct model_policy *model);

/* ---- describe.c: readable forms ---- */

void describe_command(FILE *f, const struct command *command);
void describe_result(FILE *f, const struct result *result);
void describe_event(FILE *f, const struct event *event);

/* ---- coverage.c ---- */

void coverage_result(const struct command *command, const struct result *result);
void coverage_event(const struct event *event);
enum coverage_extra {
    EXTRA_BACKLOG,        /* a command met work that a sweep had left */
    EXTRA_WAKE_LEFT,      /* names stayed woken after a command */
    EXTRA_RESTORED,       /* a core made from a snapshot went on */
    EXTRA_DAMAGED,        /* a damaged entry was refused */
    EXTRA_UNCHECKED,      /* a deadlock search gave up */
    EXTRA_LONG_CYCLE,     /* of three owners or more */
    EXTRA_RESERVED,       /* a free name was kept for a multi-lock */
    EXTRA_FAR_POSITION,   /* further back than positions are reported */
    EXTRA_MORE,           /* force-unlock left some */
    EXTRA_GRANT_WAITED,   /* granted after a wait */
    EXTRA_SLOT,           /* a semaphore slot above 0 */
    EXTRA_FLOOR,          /* fence marks were evicted */
    EXTRA_AUDIT_FULL,     /* audit records were dropped */
    EXTRA_SESSIONS_FULL,  /* ends of sessions were forgotten */
    EXTRA_GRANTS_FULL,    /* ends of grants were forgotten */
    EXTRA_REQUESTS_FULL,  /* request ids were forgotten */
    EXTRA_DRAWN_FULL,     /* ... that nodes drew */
    EXTRA_OPERATORS_FULL, /* ... of operators */
    EXTRA_TRANSACTS_FULL, /* transactions were forgotten */
    EXTRA_TRACED,         /* a multi-lock with a trace ended */
    EXTRA_RECOVERED,      /* core_recover ran */
    EXTRA_PURGE_LEFT,     /* a command met sessions of removed principals that were to be ended */
    EXTRA_RESCUED,        /* administrators were replaced */
    EXTRA_COUNT
};
void coverage_extra(enum coverage_extra extra);
void coverage_steps(uint32_t command, uint32_t sweep);
void coverage_print(void);
/* Lists what should have happened and did not; false when there is any. */
bool coverage_complete(void);

#endif
