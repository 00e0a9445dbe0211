/* Waiting until a change of the members is in force, and showing how far it has come. */
#ifndef HOLDFAST_CLI_MEMBER_WAIT_H
#define HOLDFAST_CLI_MEMBER_WAIT_H

#include "cli/api.h"

enum member_goal {
    MEMBER_ANY,
    MEMBER_CAUGHT_UP, /* it is there, answers, and is no entry behind */
    MEMBER_GONE,
    MEMBER_VOTES,
    MEMBER_LEARNS,
    MEMBER_LEADS, /* it, or with id 0 any other one than before */
};

struct member_wait {
    struct api *api;
    enum member_goal goal;
    uint64_t id;
    uint64_t old_leader;
};

/* Before the change: who leads now, and where the other members are, which become endpoints of
 * `api` too. Gives the exit code. */
int member_wait_begin(struct member_wait *w);
/* After it. Progress goes to stderr, the result to stdout unless `is_quiet`. */
int member_wait_end(struct member_wait *w, uint64_t wait_ms, bool is_quiet);

#endif
