/* Events as text, and which stream receives which. */
#ifndef HOLDFAST_SERVICE_REQUEST_WATCH_EVENT_H
#define HOLDFAST_SERVICE_REQUEST_WATCH_EVENT_H

#include "service/request/api_request.h"

/* "INDEX-ORDINAL". */
bool watch_parse_id(struct slice text, struct event_id *out);

bool watch_is_for(const struct api_request *x, const struct event *e);

/* Server-sent events. */
extern const struct watch_format watch_sse;

#endif
