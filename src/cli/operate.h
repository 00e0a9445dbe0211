/* What `force-unlock` and `revoke` have in common: a name, a reason and an actor, which are
 * audited. */
#ifndef HOLDFAST_CLI_OPERATE_H
#define HOLDFAST_CLI_OPERATE_H

#include "cli/api.h"

struct operate {
    const char *name;
    const char *verb; /* of the path: "force-unlock" */
    const char *reason;
    const char *actor; /* NULL: USER@HOST */
    bool now;
    bool has_deadline;
    uint64_t deadline_ms;
};

/* As api_call. */
int operate_call(struct api *api, const struct operate *o, struct api_answer *answer);
/* True unless the reason is missing, which it says. */
bool operate_has_reason(const char *command, const char *reason);

#endif
