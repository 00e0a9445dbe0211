/* The tier EFFICIENCY without a node around it, for tests: a replicated core that the test feeds,
 * the tier next to it, and time as an argument. One world a program; each test opens and closes it.
 * To be included after base_testing.h. */
#ifndef HOLDFAST_TESTS_TIER_WORLD_H
#define HOLDFAST_TESTS_TIER_WORLD_H

#include "core/core.h"
#include "replica/memory_tier.h"

enum { TIER_WORLD_EVENTS = 4096 };

struct tier_world {
    struct counted counted;
    struct core *core; /* the replicated one */
    struct memory_tier *tier;
    uint64_t index;
    uint64_t now_ms;
    uint64_t drawn;
    bool majority;
    bool refuses; /* to propose */
    uint32_t advances;
    struct result last;
    char last_holder[64]; /* the name that came with it */
    uint32_t results;
    uint32_t unknown;
    uint32_t agains;
    struct event events[TIER_WORLD_EVENTS];
    uint32_t event_count;
};

extern struct tier_world world;

/* A leader with an empty tier; its state is of the newest version, or of this one. */
void tier_world_open(void);
void tier_world_open_version(uint32_t version);
/* Checks what must hold in every state, too. */
void tier_world_close(void);

/* Now. */
struct tier_time tier_at(void);
/* One entry of the log with one command, as the replica would apply it. */
struct result tier_replicate(const struct command *command);
/* The same with one that says nothing but its type. */
void tier_replicate_plain(enum command_type type);

/* An acquire of one name by "client", with a lease of its own. */
void tier_make_acquire(struct command *c, const char *name, uint64_t wait_ms);
/* Offers it to the tier. */
enum tier_taken tier_submit(enum tier tier, const struct command *c);
/* A grant in the tier, and in the log; what they return is the token. */
uint64_t tier_take(const char *name);
uint64_t tier_take_replicated(const char *name);
/* A release in the tier. */
void tier_give(uint64_t token, const char *name);

#endif
