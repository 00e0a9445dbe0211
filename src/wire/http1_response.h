/* HTTP/1.1 answers into a buffer: whole ones, and heads of streams with their chunks.
 *
 * All of these append everything or nothing, and say which. Text that the caller supplies for a
 * header must be free of control characters; that is asserted, since a line break in it would
 * begin a header, or an answer, of its own. */
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
    struct slice date;        /* as in RFC 9110, from http1_date; empty: none is sent */
    struct slice leader;      /* Holdfast-Leader; empty: none is sent */
    uint32_t retry_after_s;   /* Retry-After; 0: none is sent */
    const struct http1_extra *extra;
    size_t extra_count;
    /* From the request: see http1_response_to. */
    bool head_only; /* the request was HEAD: the same headers, no body */
    bool http10;
    bool close; /* the connection closes behind this answer */
};

/* The part of an answer that the request decides; the rest is zero. With NULL, which stands for a
 * request that could not be read, the connection closes. */
struct http1_response http1_response_to(int status, const struct http1_request *request);

bool http1_response_write(struct buffer *out, const struct http1_response *response,
                          struct slice body);

/* The head alone, of an answer of so many bytes; the caller appends them as they come. */
bool http1_response_head(struct buffer *out, const struct http1_response *response,
                         uint64_t length);

/* "100 Continue", for a request with expect_continue before its body is read. */
bool http1_response_continue(struct buffer *out);

/* The head of an answer whose end is not known yet. HTTP/1.1 gets chunks; HTTP/1.0 gets the bytes
 * as they are and knows the end by the close, so `response->close` must be set for it. An event
 * stream is also kept out of caches and of the buffers of proxies. */
bool http1_response_stream(struct buffer *out, const struct http1_response *response);
/* A piece of the stream, and its end. An empty piece is nothing. */
bool http1_response_piece(struct buffer *out, const struct http1_response *response,
                          struct slice piece);
bool http1_response_end(struct buffer *out, const struct http1_response *response);

enum { HTTP1_DATE_LEN = 29 };
/* "Fri, 15 Nov 2024 08:49:37 GMT" for a wall clock in seconds, and a NUL. Callers keep it for the
 * second that it holds. */
void http1_date(uint64_t wall_s, char out[HTTP1_DATE_LEN + 1]);

#endif
