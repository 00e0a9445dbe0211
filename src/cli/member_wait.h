/* Waits until a change of the members is in effect. */
#ifndef HOLDFAST_CLI_MEMBER_WAIT_H
#define HOLDFAST_CLI_MEMBER_WAIT_H

#include "cli/api.h"

enum member_goal {
    MEMBER_ANY,
    MEMBER_CAUGHT_UP, /* a healthy member with lag 0 */
    MEMBER_GONE,
    MEMBER_VOTES,
    MEMBER_LEARNS,
    MEMBER_LEADS, /* id 0: any but the old leader */
};

struct member_wait {
    struct api *api;
    enum member_goal goal;
    uint64_t id;
    uint64_t old_leader;
};

/* Before the change: stores the leader and adds the members to the endpoints of `api`. Returns the
 * exit code. */
int member_wait_begin(struct member_wait *w);
/* After the change has started: prints progress to stderr, and the result to stdout unless
 * `is_quiet`. Returns the exit code. */
int member_wait_end(struct member_wait *w, uint64_t wait_ms, bool is_quiet);

#endif
