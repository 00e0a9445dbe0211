/* A search in the event log for a request (events/event_scan.h). */
#ifndef HOLDFAST_SERVICE_REQUEST_EVENT_SEARCH_H
#define HOLDFAST_SERVICE_REQUEST_EVENT_SEARCH_H

#include "service/request/api_request.h"

/* Once, after event_search_begin returned, unless the client is gone before. `page` is valid during the
 * call; NULL: `error`, and `why` is a sentence, as api_request_fail takes them. May begin the next
 * search. */
typedef void (*event_search_fn)(struct api_request *x, const struct event_page *page,
                                enum hf_error error, const char *why);

/* At most one at a time for a request. `scan` is copied. The records include what was applied here
 * before the call: submit a barrier first for what other nodes answered. */
void event_search_begin(struct api_request *x, const struct event_scan *scan,
                        event_search_fn on_page);

/* The client is gone, or the answer is no longer needed. No search: does nothing. */
void event_search_abandon(struct api_request *x);

#endif
