/* A small HTTP/1.1 client: one connection, one request, blocking with a deadline on clock_boot_ms.
 * Reads bodies with a length, in chunks, or up to the end; also streams.
 *
 *     http_open(&h, "10.0.0.1:4653", deadline);
 *     http_send(&h, "GET", "/api/v1/locks", body, deadline);
 *     http_read_head(&h, deadline);                          sets h.status
 *     while (http_read_body(&h, &out, deadline) == HTTP_MORE) ...
 *     http_close(&h);
 *
 * After a failure, `h.problem` describes it. */
#ifndef HOLDFAST_CLI_HTTP_H
#define HOLDFAST_CLI_HTTP_H

#include "base/buffer.h"
#include "transport/transport.h"

enum { HTTP_ENDPOINT = HOST_PORT_TEXT, HTTP_PROBLEM = 160, HTTP_HEAD_MAX = 32 << 10 };

enum http_state { HTTP_MORE, HTTP_DONE, HTTP_BROKEN };

struct http {
    struct transport transport;
    char authority[HTTP_ENDPOINT]; /* for the header Host */
    struct buffer in;
    int status;
    unsigned retry_after_s; /* 0: not given */
    bool is_chunked;
    bool has_length;
    bool chunk_open; /* its rest follows, then CR LF */
    uint64_t left;   /* of body or chunk */
    bool is_over;
    char problem[HTTP_PROBLEM];
};

/* For all connections of this process, which has one set of flags. False: the problem is printed;
 * the exit code is EXIT_USAGE. */
bool http_secure(const struct security_files *files);
/* False: h->problem is set. Call http_close in any case. */
bool http_open(struct http *h, const char *endpoint, int64_t deadline_ms);
bool http_send(struct http *h, const char *method, const char *target, struct slice body,
               int64_t deadline_ms);
bool http_read_head(struct http *h, int64_t deadline_ms);
/* Appends available bytes, at least one unless the body has ended. */
enum http_state http_read_body(struct http *h, struct buffer *out, int64_t deadline_ms);
void http_close(struct http *h);

/* Escapes all but letters, digits, -._~ and, if `is_path`, '/'. */
void http_escape(struct buffer *out, struct slice text, bool is_path);

#endif
