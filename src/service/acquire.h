/* What the three ways to acquire share: locks, elections, and the dialect of seed 001. */
#ifndef HOLDFAST_SERVICE_ACQUIRE_H
#define HOLDFAST_SERVICE_ACQUIRE_H

#include "service/body.h"

/* Everything but the names. False when a rule is broken, and then it has been answered so. */
bool acquire_read(struct exchange *x, const struct body *b, struct command *c, bool *keeps_place);

/* Whether the answer is that the client holds it now. A replayed grant may be over. */
bool acquire_is_held(const struct result *r);
/* Why a grant that is over is not held. */
enum reason acquire_ended_reason(enum ended ended);

/* The members that say what was granted, or why not and who is in the way. */
void acquire_grant(struct exchange *x, const struct result *r, struct json_writer *w);
void acquire_refusal(struct exchange *x, const struct result *r, struct json_writer *w);

#endif
