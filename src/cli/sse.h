/* Follows server-sent events. A lost stream resumes at the next endpoint after the last event
 * (S9.3). */
#ifndef HOLDFAST_CLI_SSE_H
#define HOLDFAST_CLI_SSE_H

#include "cli/api.h"

enum { SSE_WORD = 64, SSE_EVENT_MAX = 1 << 20 };

struct sse {
    struct api *api;
    char target[API_TARGET]; /* with a query; &last_event_id= is added */
    char last_id[SSE_WORD];
    struct http http;
    bool is_open;
    bool
        is_once; /* the caller reconnects: a lost stream is SSE_FAILED at once, and nothing is printed */
    struct buffer text; /* received; the last event points into it */
    size_t read;        /* bytes of `text` used by the last event */
    int64_t heard_ms;   /* last bytes received, on clock_boot_ms */
};

struct sse_event {
    char id[SSE_WORD];
    char type[SSE_WORD];
    struct slice data; /* valid until the next call */
};

enum sse_state { SSE_EVENT, SSE_TIMEOUT, SSE_FAILED };

/* `last_id` NULL: new events. 0, or the exit code; then there is nothing to close. */
int sse_open(struct sse *s, struct api *api, const char *target, const char *last_id);
/* SSE_TIMEOUT: no event until `deadline_ms` (clock_boot_ms). SSE_FAILED: no endpoint was reachable
 * for a minute; the problem is printed. */
enum sse_state sse_next(struct sse *s, struct sse_event *event, int64_t deadline_ms);
void sse_close(struct sse *s);

#endif
