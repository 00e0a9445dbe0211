/* Following a stream of server-sent events, over the death of nodes: when it breaks, the next
 * endpoint is asked to go on behind the last event that was seen (S9.3). */
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
    struct buffer text; /* what came and was not read */
    size_t read;        /* bytes of `text` that the last event took */
    int64_t heard_ms;   /* when anything came, on clock_boot_ms */
};

struct sse_event {
    char id[SSE_WORD];
    char type[SSE_WORD];
    struct slice data; /* lasts until the next call */
};

enum sse_state { SSE_EVENT, SSE_TIMEOUT, SSE_FAILED };

/* `last_id` may be NULL: from now on. Gives the exit code; then there is nothing to close. */
int sse_open(struct sse *s, struct api *api, const char *target, const char *last_id);
/* The next event. SSE_TIMEOUT: none until `deadline_ms` (clock_boot_ms). SSE_FAILED: nobody could
 * be reached for a minute, which it has said. */
enum sse_state sse_next(struct sse *s, struct sse_event *event, int64_t deadline_ms);
void sse_close(struct sse *s);

#endif
