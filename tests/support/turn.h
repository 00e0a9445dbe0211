/* What the worlds around a service do alike, whichever protocol their clients speak: begin it on a
 * fake gateway, turn until nothing moves, let time pass. */
#ifndef HOLDFAST_TESTS_TURN_H
#define HOLDFAST_TESTS_TURN_H

#include "fake_gateway.h"

struct turn {
    struct fake_gateway *gateway;
    struct service *service;
    void (*visit)(void *world); /* takes what the service has for the clients */
    void *world;
};

/* Opens the gateway and makes the service; `more` may be NULL. */
struct service *turn_begin(struct fake_gateway *gateway, const struct memory *memory,
                           const struct service_options *more);
/* Until nothing moves any more; time stands still. */
void turn_run(const struct turn *t);
/* Time passes, and all run whenever they want to. */
void turn_pass(const struct turn *t, uint64_t ms);

#endif
