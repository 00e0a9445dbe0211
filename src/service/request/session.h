/* Sessions and their gRPC streams, for the transports. */
#ifndef HOLDFAST_SERVICE_REQUEST_SESSION_H
#define HOLDFAST_SERVICE_REQUEST_SESSION_H

#include "service/http/body.h"

/* api_session.c: makes the command from client_id, ttl_ms, linger_ms, metadata and request_id.
 * False: refused and answered. */
bool session_open_read(struct api_request *x, const struct body *b, struct command *c);

/* grpc/session.c, for service.c. */
void session_calls_open(struct service *s);
void session_calls_close(struct service *s);
void session_on_event(struct service *s, const struct event *event);
/* Events were skipped: ends the streams. Clients resume and check their locks. */
void session_state_replaced(struct service *s);
void session_run(struct service *s);

/* Where the stream's number is stored; NULL: no such call. */
uint64_t *session_call_stream(struct service *s, struct id session, uint64_t stream);

/* session_stream.c: the command that registers a stream. A linger of a working stream is ended: on
 * its event, and by session_stream_check after missed events. */
void session_stream_command(const struct service *s, struct caller_id who, struct id session,
                            struct command *out);
void session_stream_on_event(struct service *s, const struct event *event);
void session_stream_check(struct service *s, struct caller_id who, struct id session,
                          uint64_t stream);
/* `stream` has replaced the number `old`. */
void session_stream_raised(struct service *s, struct caller_id who, struct id session, uint64_t old,
                           uint64_t stream);

/* A leader with a majority is known. */
bool session_is_safe(const struct service *s);

#endif
