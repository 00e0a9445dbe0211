/* The table of members, which `status` and `member` print. */
#ifndef HOLDFAST_CLI_MEMBERS_H
#define HOLDFAST_CLI_MEMBERS_H

#include "cli/api.h"

/* `members` is the array of /api/v1/cluster or /api/v1/members. */
void members_print(const struct json_t *members);
/* /api/v1/cluster, as api_get; where it can be had, as the leader sees it, who alone knows how far
 * the others are behind. */
int members_look(struct api *api, struct api_answer *answer);
/* How a cluster that grants nothing is described, by `status` and by all that cannot go on. */
#define MEMBERS_NO_MAJORITY \
    "no majority of the voters answers, so nothing is granted; start the silent nodes"

enum members_state {
    MEMBERS_UNREACHED, /* no endpoint answered */
    MEMBERS_IDLE,      /* those that answered reach no leader with a majority */
    MEMBERS_SERVING,   /* at least one that answered does */
};

/* Asks each endpoint in turn, until one serves or about `api->timeout_ms` are over. Says nothing:
 * after MEMBERS_UNREACHED api_problem has the words. */
enum members_state members_state(struct api *api);
/* The row of a member, or NULL. */
const struct json_t *members_find(const struct json_t *members, uint64_t id);

#endif
