/* Sessions, for the doors: the rules of opening one, and the streams of gRPC that keep them. */
#ifndef HOLDFAST_SERVICE_REQUEST_SESSION_H
#define HOLDFAST_SERVICE_REQUEST_SESSION_H

#include "service/http/body.h"

/* api_session.c: client_id, ttl_ms, linger_ms, metadata and request_id make the command. False when
 * a rule is broken, and then it has been answered so. */
bool session_open_read(struct api_request *x, const struct body *b, struct command *c);

/* rpc_session.c, for service.c. */
void session_calls_open(struct service *s);
void session_calls_close(struct service *s);
void session_on_event(struct service *s, const struct event *event);
/* Events were skipped: the streams end, and their clients resume and look at what they hold. */
void session_state_replaced(struct service *s);
void session_run(struct service *s);

/* The number of the stream as its call keeps it; NULL: there is no such call. */
uint64_t *session_call_stream(struct service *s, struct id session, uint64_t stream);

/* session_stream.c: the command that raises a stream; a linger that began although the stream is up
 * is ended: when the event comes, and by a look at the state when events may have been missed. */
void session_stream_command(const struct service *s, uint32_t tenant, struct id session,
                            struct command *out);
void session_stream_on_event(struct service *s, const struct event *event);
void session_stream_check(struct service *s, uint32_t tenant, struct id session, uint64_t stream);
/* The stream `old` has the number `stream` now. */
void session_stream_raised(struct service *s, uint32_t tenant, struct id session, uint64_t old,
                           uint64_t stream);

/* The cluster can confirm sessions: a leader with a majority is known. */
bool session_is_safe(const struct service *s);

#endif
