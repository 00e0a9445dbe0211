/* Parses an HTTP/1.1 answer from received bytes, without a socket: for http.c and its tests. */
#ifndef HOLDFAST_CLI_HTTP_ANSWER_H
#define HOLDFAST_CLI_HTTP_ANSWER_H

#include "cli/http.h"

/* Takes the head from h->in. HTTP_MORE: it is incomplete. */
enum http_state http_take_head(struct http *h);
/* Moves the received bytes of the body to `out`. HTTP_MORE: there may be more. */
enum http_state http_take_body(struct http *h, struct buffer *out);

#endif
