/* How the leader of an election is written, for api_election.c and watch*.c. */
#ifndef HOLDFAST_SERVICE_ELECTION_H
#define HOLDFAST_SERVICE_ELECTION_H

#include "service/exchange.h"

/* "leader": who it is and what it says, or null. Never its token (S4.4). */
void election_put_leader(struct json_writer *w, const struct service *s,
                         const struct lock_view *lock);

#endif
