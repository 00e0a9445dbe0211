/* What `force-unlock`, `revoke` and `reset-fence` have in common: a name, a reason and an actor,
 * which are audited. */
#ifndef HOLDFAST_CLI_OPERATE_H
#define HOLDFAST_CLI_OPERATE_H

#include "cli/api.h"

struct operate {
    const char *name;
    const char *verb; /* of the path: "force-unlock"; NULL: the fence of `name` is reset */
    const char *reason;
    const char *actor; /* NULL: USER@HOST */
    bool now;
    bool has_deadline;
    uint64_t deadline_ms;
    uint64_t slot;  /* of the fence */
    uint64_t token; /* its new mark; 0: one that nobody's token reaches */
};

/* As api_call. */
int operate_call(struct api *api, const struct operate *o, struct api_answer *answer);
/* True unless the reason is missing, which it says. */
bool operate_has_reason(const char *command, const char *reason);

#endif
