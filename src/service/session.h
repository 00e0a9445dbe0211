/* Sessions, for the doors: the rules of opening one, and the streams of gRPC that keep them. */
#ifndef HOLDFAST_SERVICE_SESSION_H
#define HOLDFAST_SERVICE_SESSION_H

#include "service/body.h"

/* api_session.c: client_id, ttl_ms, linger_ms, metadata and request_id make the command. False when
 * a rule is broken, and then it has been answered so. */
bool session_open_read(struct exchange *x, const struct body *b, struct command *c);

/* rpc_session.c, for service.c. */
void session_calls_open(struct service *s);
void session_calls_close(struct service *s);
void session_on_event(struct service *s, const struct event *event);
/* Events were skipped: the streams end, and their clients resume and look at what they hold. */
void session_state_replaced(struct service *s);
void session_run(struct service *s);

/* The cluster can confirm sessions: a leader with a majority is known. */
bool session_is_safe(const struct service *s);

#endif
