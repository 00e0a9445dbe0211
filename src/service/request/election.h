/* Elections, for the transports and watch*.c. */
#ifndef HOLDFAST_SERVICE_REQUEST_ELECTION_H
#define HOLDFAST_SERVICE_REQUEST_ELECTION_H

#include "service/http/body.h"

/* `render` makes the answer; a broken rule is answered at once. Resigning is a release. */
void election_campaign(struct api_request *x, const struct body *b, render_fn render);
void election_proclaim(struct api_request *x, const struct body *b, render_fn render);

/* "leader": the holder and its value, or null. Never its token (S4.4). */
void election_put_leader(struct json_writer *w, const struct service *s,
                         const struct lock_view *lock);

#endif
