/* Waits until a change of the members is in effect, and shows the progress. */
#ifndef HOLDFAST_CLI_MEMBER_WAIT_H
#define HOLDFAST_CLI_MEMBER_WAIT_H

#include "cli/api.h"

enum member_goal {
    MEMBER_ANY,
    MEMBER_CAUGHT_UP, /* it is a member, healthy, and its lag is 0 */
    MEMBER_GONE,
    MEMBER_VOTES,
    MEMBER_LEARNS,
    MEMBER_LEADS, /* with id 0: any node except the old leader */
};

struct member_wait {
    struct api *api;
    enum member_goal goal;
    uint64_t id;
    uint64_t old_leader;
};

/* Call before the change. Stores the current leader and adds the members to the endpoints of `api`.
 * Returns the exit code. */
int member_wait_begin(struct member_wait *w);
/* Call after the change has started. Prints progress to stderr, and the result to stdout unless
 * `is_quiet`. Returns the exit code. */
int member_wait_end(struct member_wait *w, uint64_t wait_ms, bool is_quiet);

#endif
