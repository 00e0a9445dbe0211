/* Inside the generator of random commands. */
#ifndef HF_TESTS_MODEL_GENERATOR_H
#define HF_TESTS_MODEL_GENERATOR_H

#include "base/panic.h"
#include "driver.h"

enum {
    MAX_SLOTS = 64,
    RECENT = 64,      /* grants and leases that are remembered */
    HISTORY = 256,    /* commands that may be sent again soon */
    OLD = 64,         /* and some of long ago */
    BURST_IDS = 4096, /* sessions of a burst */
    ARENA = 1 << 20
};

/* A session that this generator uses. */
struct slot {
    struct id id;
    uint32_t client;
    uint64_t next_seq;
    uint64_t stream;
};

struct old_command {
    uint8_t *bytes;
    size_t len;
};

struct recent_grant {
    uint32_t tenant;
    uint64_t token;
    struct id lease;
    struct id session;
    uint32_t name; /* number */
    uint32_t client;
};

/* A burst goes through its stages; each sends `left` commands, then the next begins. */
enum burst_kind {
    BURST_NONE,
    BURST_SESSIONS, /* more sessions than one sweep ends */
    BURST_QUEUE,    /* a long queue that is served at once */
    BURST_DELAY,    /* shared waiters behind a lock-delay */
    BURST_GROUP,    /* a node with many waiters goes */
    BURST_DETACHED, /* one long queue of such waiters */
    BURST_LOCKS,    /* sessions with thousands of locks */
    /* More than is remembered, one after the other in the profile of rings: */
    BURST_DEPTH,         /* one lock, taken again and again */
    BURST_RING_SESSIONS, /* sessions that expire */
    BURST_RING_GRANTS,   /* private locks that expire */
    BURST_RING_FENCES,
    BURST_RING_AUDIT,
    BURST_COUNT
};

struct burst {
    enum burst_kind kind;
    uint32_t stage;
    uint32_t left;
    uint32_t total;
    uint32_t jump_ms; /* before the next entry */
    uint32_t ttl_ms;
    uint32_t number; /* makes names unique */
    struct id ids[BURST_IDS];
    uint32_t id_count;
};

struct generator {
    struct random random;
    enum profile_kind kind;
    const struct profile *profile;
    struct model *model;
    uint64_t time_ms;
    uint64_t clock_ms; /* by which the wall clock is ahead */
    struct slot slots[MAX_SLOTS];
    struct recent_grant grants[RECENT];
    uint64_t grant_count;
    struct id leases[RECENT];
    uint64_t lease_count;
    struct old_command history[HISTORY];
    uint64_t history_count;
    struct old_command old[OLD];
    uint64_t request_count;
    struct burst burst;
    bool has_principals;
    uint32_t owner; /* of what the command is about; 0: unknown */
    uint8_t *arena;
    size_t arena_at;
};

void *arena_take(struct generator *g, size_t len);
struct slice arena_text(struct generator *g, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct id new_id(struct generator *g);
struct slice name_number(struct generator *g, uint32_t number);
struct slice client_number(struct generator *g, uint32_t number);
struct slice any_name(struct generator *g);
struct slot *any_slot(struct generator *g);
uint32_t any_ttl(struct generator *g);
/* Sometimes one that only a key may have, or none. */
uint64_t any_key_ttl(struct generator *g);
struct slice any_trace(struct generator *g);
void keep_lease(struct generator *g, struct id lease);

/* generate_transact.c */
struct slice any_counter(struct generator *g);
void generate_transact(struct generator *g, struct command *c);
void invalid_transact(struct generator *g, struct command *c);

/* generate_policy.c */
void generate_policy_change(struct generator *g, struct command *c);
/* Says who sends it: often the one who may. */
void give_principal(struct generator *g, struct command *c);
void invalid_policy_change(struct generator *g, struct command *c);

/* generate_commands.c */
void generate_body(struct generator *g, enum command_type type, struct command *c);

/* generate_invalid.c */
/* Breaks one rule of command_check, or nearly. */
void generate_invalid(struct generator *g, struct command *c);

/* burst.c */
void burst_begin(struct generator *g);
/* False when there is nothing to send: normal traffic goes on. */
bool burst_command(struct generator *g, struct command *c);
uint32_t burst_entry(struct generator *g, uint64_t *step_ms);

#endif
