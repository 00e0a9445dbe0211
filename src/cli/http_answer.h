/* Parses an HTTP/1.1 answer without a socket. */
#ifndef HOLDFAST_CLI_HTTP_ANSWER_H
#define HOLDFAST_CLI_HTTP_ANSWER_H

#include "cli/http.h"

/* Takes the head from h->in. HTTP_MORE: incomplete. */
enum http_state http_take_head(struct http *h);
/* Moves received bytes to `out`. HTTP_MORE: there may be more. */
enum http_state http_take_body(struct http *h, struct buffer *out);

#endif
