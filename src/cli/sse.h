/* Follows a stream of server-sent events. If the stream is lost, it resumes at the next endpoint
 * after the last received event (S9.3). */
#ifndef HOLDFAST_CLI_SSE_H
#define HOLDFAST_CLI_SSE_H

#include "cli/api.h"

enum { SSE_WORD = 64, SSE_EVENT_MAX = 1 << 20 };

struct sse {
    struct api *api;
    char target[API_TARGET]; /* with a query, to which &last_event_id= is added */
    char last_id[SSE_WORD];
    struct http http;
    bool is_open;
    struct buffer text; /* received bytes; the last event points into it */
    size_t read;        /* bytes of `text` that the last event used */
    int64_t heard_ms;   /* when bytes were last received, on clock_boot_ms */
};

struct sse_event {
    char id[SSE_WORD];
    char type[SSE_WORD];
    struct slice data; /* valid until the next call */
};

enum sse_state { SSE_EVENT, SSE_TIMEOUT, SSE_FAILED };

/* `last_id` NULL: only new events. Returns 0, or the exit code; then there is nothing to close. */
int sse_open(struct sse *s, struct api *api, const char *target, const char *last_id);
/* Waits for the next event. SSE_TIMEOUT: none until `deadline_ms` (clock_boot_ms). SSE_FAILED: no
 * endpoint was reachable for a minute; it has printed the problem. */
enum sse_state sse_next(struct sse *s, struct sse_event *event, int64_t deadline_ms);
void sse_close(struct sse *s);

#endif
