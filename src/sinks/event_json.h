/* A record of the event log as one line of JSON, for consumers of the event stream. docs/events.schema.json
 * describes it. No session id and no lease id is in it (S4.4). */
#ifndef HOLDFAST_SINKS_EVENT_JSON_H
#define HOLDFAST_SINKS_EVENT_JSON_H

#include "base/buffer.h"
#include "events/event_log.h"

/* Rises with a change that a consumer of the earlier version cannot read. */
#define EVENT_JSON_SCHEMA 1
/* Of one line: each byte of a text is at most \u00XX. */
#define EVENT_JSON_MAX                                                                     \
    (1024 + 6 * (2 * LIMIT_NAME + LIMIT_CLIENT + LIMIT_OWNER + LIMIT_ACTOR + LIMIT_TRACE + \
                 EVENT_TEXT_MAX))

struct event_json {
    struct slice cluster; /* its name */
    /* The name of a tenant, empty if it is unknown; any thread. */
    void *ctx;
    struct slice (*tenant_name)(void *ctx, uint32_t tenant);
};

/* `out` must have space for EVENT_JSON_MAX bytes. False: a record that only nodes and sessions need; nothing
 * was written. The line has no newline. */
bool event_json_write(const struct event_json *json, const struct logged_event *record,
                      struct buffer *out);
/* The entries (from, to] are not in the event log. */
void event_json_write_gap(const struct event_json *json, uint64_t from, uint64_t to,
                          uint64_t wall_ms, struct buffer *out);
/* The name of the lock, election or resource; empty: none. */
struct slice event_json_name(const struct logged_event *record);

#endif
