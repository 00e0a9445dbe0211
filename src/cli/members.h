/* The table of members, which `status` and `member` print. */
#ifndef HOLDFAST_CLI_MEMBERS_H
#define HOLDFAST_CLI_MEMBERS_H

#include "cli/api.h"

/* `members` is the array of /api/v1/cluster or /api/v1/members. */
void members_print(const struct json_t *members);
/* Reads /api/v1/cluster as api_get does, from the leader if possible: only the leader reports the
 * lag of the others. */
int members_look(struct api *api, struct api_answer *answer);
/* The message about a cluster without a majority. */
#define MEMBERS_NO_MAJORITY \
    "no majority of the voters is reachable, so no lock is granted; start the unreachable nodes"

enum members_state {
    MEMBERS_UNREACHED, /* no endpoint answered */
    MEMBERS_IDLE,      /* nodes answered, but none reaches a leader with a majority */
    MEMBERS_SERVING,   /* at least one node does */
};

/* Queries the endpoints in turn until one serves or about `api->timeout_ms` have passed. Prints
 * nothing; after MEMBERS_UNREACHED, api_problem has the message. */
enum members_state members_state(struct api *api);
/* The row of a member, or NULL. */
const struct json_t *members_find(const struct json_t *members, uint64_t id);

#endif
