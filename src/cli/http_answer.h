/* Reading an HTTP/1.1 answer out of the bytes that have come, without a socket: inside of http.c,
 * and for its tests. */
#ifndef HOLDFAST_CLI_HTTP_ANSWER_H
#define HOLDFAST_CLI_HTTP_ANSWER_H

#include "cli/http.h"

/* Takes the head from h->in. HTTP_MORE: it is not there yet. */
enum http_state http_take_head(struct http *h);
/* Moves what has come of the body to `out`. HTTP_MORE: there may be more. */
enum http_state http_take_body(struct http *h, struct buffer *out);

#endif
