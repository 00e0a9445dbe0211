/* GET /api/v1/sessions/{id}/events: what the client of a session must act on (C2.5). It is the stream of
 * WATCH_SESSION with fewer events, and ends with its session. */
#ifndef HOLDFAST_SERVICE_REQUEST_SESSION_EVENTS_H
#define HOLDFAST_SERVICE_REQUEST_SESSION_EVENTS_H

#include "core/event.h"

struct api_request;

/* LOST, REVOKE_REQUESTED and EPOCH, and the end of the session. */
bool session_event_is_brief(const struct event *e);
bool session_event_is_end(const struct event *e);

/* The stream began anew, without events (watch_start_over): its session may have ended among them. */
bool session_events_is_gone(const struct api_request *x);

#endif
