/* Principals (S14): clients that each belong to one, an administrator who narrows, removes and makes them
 * anew while they hold and wait, and the policy that follows from the log. Every other world has them. */
#ifndef HOLDFAST_TESTS_SIM_PRINCIPALS_H
#define HOLDFAST_TESTS_SIM_PRINCIPALS_H

#include "calls.h"

void principals_begin(void);
void principals_hear(const struct sim_answer *answer);
bool principals_is_client(int client);

/* What was written to a log; which of it is committed shows when somebody applies it. */
void principals_written(uint64_t first, const struct replica_entry *entries, uint32_t count);
/* On the first sight of each event. */
void principals_event(const struct sim_node *n, const struct event *e);
/* On the node that submitted the command. */
void principals_result(const struct sim_node *n, const struct command *command,
                       const struct result *result);
void principals_applied(const struct sim_node *n);

void principals_end(void);

#endif
