/* Events as text, and who may see which: private to watch.c. */
#ifndef HOLDFAST_SERVICE_WATCH_EVENT_H
#define HOLDFAST_SERVICE_WATCH_EVENT_H

#include "service/exchange.h"

/* "INDEX-ORDINAL". */
bool watch_parse_id(struct slice text, struct event_id *out);

/* Whether this stream shows the event. */
bool watch_is_for(const struct exchange *x, const struct event *e);

/* "id: ...", "event: ..." and "data: ", for one's own JSON and an empty line. */
void watch_write_head(struct buffer *out, const char *type, struct event_id id);
void watch_write_event(struct buffer *out, const struct exchange *x, const struct event *e);
/* An event that says nothing but how far the stream is. */
void watch_write_position(struct buffer *out, const char *type, struct event_id id);
void watch_write_reset(struct buffer *out);
void watch_write_dropped(struct buffer *out, struct event_id id, const char *why);

#endif
