/* The common part of `force-unlock`, `revoke` and `reset-fence`: a name, a reason and an actor,
 * which go to the audit record. */
#ifndef HOLDFAST_CLI_OPERATE_H
#define HOLDFAST_CLI_OPERATE_H

#include "cli/api.h"

struct operate {
    const char *name;
    const char *verb; /* in the path: "force-unlock"; NULL: reset the fence of `name` */
    const char *reason;
    const char *actor; /* NULL: USER@HOST */
    bool now;
    bool has_deadline;
    uint64_t deadline_ms;
    uint64_t slot;  /* of the fence */
    uint64_t token; /* its new mark; 0: above all tokens issued so far */
};

/* As api_call. */
int operate_call(struct api *api, const struct operate *o, struct api_answer *answer);
/* Prints a message and returns false if the reason is missing. */
bool operate_has_reason(const char *command, const char *reason);

#endif
