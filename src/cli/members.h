/* The members of the cluster. */
#ifndef HOLDFAST_CLI_MEMBERS_H
#define HOLDFAST_CLI_MEMBERS_H

#include "cli/api.h"

/* The array of /api/v1/cluster or /api/v1/members. */
void members_print(const struct json_t *members);
/* /api/v1/cluster as api_get, from the leader if possible: only it reports the lag of the
 * others. */
int members_look(struct api *api, struct api_answer *answer);
#define MEMBERS_NO_MAJORITY \
    "no majority of the voters is reachable, so no lock is granted; start the unreachable nodes"

enum members_state {
    MEMBERS_UNREACHED, /* no endpoint answered */
    MEMBERS_IDLE,      /* nodes answered, but none reaches a leader with a majority */
    MEMBERS_SERVING,   /* at least one does */
};

/* Queries the endpoints until one serves, for about `api->timeout_ms`. Prints nothing; after
 * MEMBERS_UNREACHED, api_problem has the message. */
enum members_state members_state(struct api *api);
/* NULL: not a member. */
const struct json_t *members_find(const struct json_t *members, uint64_t id);

#endif
