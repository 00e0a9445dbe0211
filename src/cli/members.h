/* The table of members, which `status` and `member` print. */
#ifndef HOLDFAST_CLI_MEMBERS_H
#define HOLDFAST_CLI_MEMBERS_H

#include "cli/api.h"

/* `members` is the array of /api/v1/cluster or /api/v1/members. */
void members_print(const struct json_t *members);
/* /api/v1/cluster, as api_get; where it can be had, as the leader sees it, who alone knows how far
 * the others are behind. */
int members_look(struct api *api, struct api_answer *answer);
/* The row of a member, or NULL. */
const struct json_t *members_find(const struct json_t *members, uint64_t id);

#endif
