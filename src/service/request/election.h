/* Elections, for the doors and for watch*.c: the rules, and how a leader is written. */
#ifndef HOLDFAST_SERVICE_REQUEST_ELECTION_H
#define HOLDFAST_SERVICE_REQUEST_ELECTION_H

#include "service/http/body.h"

/* Answered by `render`, or at once where a rule is broken. Resigning is a release. */
void election_campaign(struct api_request *x, const struct body *b, render_fn render);
void election_proclaim(struct api_request *x, const struct body *b, render_fn render);

/* "leader": who it is and what it says, or null. Never its token (S4.4). */
void election_put_leader(struct json_writer *w, const struct service *s,
                         const struct lock_view *lock);

#endif
