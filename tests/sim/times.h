/* What S16 promises, checked at each event in log order, and at what nodes show in between. See times.c. */
#ifndef HOLDFAST_TESTS_SIM_TIMES_H
#define HOLDFAST_TESTS_SIM_TIMES_H

#include "world.h"

/* Whether the state has been of the newest version for a while: all leaders know it. */
bool times_are_on(void);

/* A lease id says whether its acquire has a max_hold; 0: none. */
uint64_t times_lease_bits(uint64_t random);
uint32_t times_max_hold_ms(struct id lease);

/* The reason of an operator's command says its if_token. */
enum { TIMES_REASON = 32 };
void times_reason(uint64_t if_token, char out[TIMES_REASON]);

void times_begin(void);
void times_written(const struct sim_node *n, uint64_t first, const struct replica_entry *entries,
                   uint32_t count);
void times_event(const struct sim_node *n, const struct event *e);
void times_look(const struct sim_node *n); /* at what it shows of a name */
void times_end(void);

#endif
