/* Writes HTTP/1.1 responses into a buffer: whole ones, and heads of streams with their chunks.
 *
 * Each function appends everything or nothing, and returns which. Header texts of the caller
 * contain no control characters; asserted, since a line break could inject a response. */
#ifndef HOLDFAST_WIRE_HTTP1_RESPONSE_H
#define HOLDFAST_WIRE_HTTP1_RESPONSE_H

#include "base/buffer.h"
#include "wire/http1.h"

struct http1_extra {
    const char *name;
    struct slice value;
};

struct http1_response {
    int status;
    const char *content_type; /* NULL when there is no body */
    struct slice date;        /* as in RFC 9110, from http1_date; empty: not sent */
    struct slice leader;      /* Holdfast-Leader; empty: not sent */
    uint32_t retry_after_s;   /* Retry-After; 0: not sent */
    const struct http1_extra *extra;
    size_t extra_count;
    /* From the request: see http1_response_to. */
    bool head_only; /* the request was HEAD: the same headers, no body */
    bool http10;
    bool close; /* the connection closes after this response */
};

/* The part of a response that depends on the request; the rest is zero. NULL: the request could not
 * be parsed, so the connection closes. */
struct http1_response http1_response_to(int status, const struct http1_request *request);

bool http1_response_write(struct buffer *out, const struct http1_response *response,
                          struct slice body);

/* For a body of that length, which the caller appends. */
bool http1_response_head(struct buffer *out, const struct http1_response *response,
                         uint64_t length);

/* For a request with expect_continue, before its body is read. */
bool http1_response_continue(struct buffer *out);

/* The head of a response of unknown length. HTTP/1.1 uses chunks. HTTP/1.0 gets the raw bytes until
 * the close, so `response->close` must be set. An event stream also disables caches and proxy
 * buffering. */
bool http1_response_stream(struct buffer *out, const struct http1_response *response);
/* An empty piece writes nothing. */
bool http1_response_piece(struct buffer *out, const struct http1_response *response,
                          struct slice piece);
bool http1_response_end(struct buffer *out, const struct http1_response *response);

enum { HTTP1_DATE_LEN = 29 };
/* "Fri, 15 Nov 2024 08:49:37 GMT" and a NUL. Callers cache it for a second. */
void http1_date(uint64_t wall_s, char out[HTTP1_DATE_LEN + 1]);

#endif
