/* HTTP/1.1 requests from bytes: strict, bounded, and without a socket.
 *
 * The caller keeps what it has read and has not seen consumed, and offers all of it at each call.
 * The parser copies nothing and allocates nothing: it remembers how far it has looked, so a head
 * that arrives byte by byte is still read once. A request is reported as
 *
 *     HTTP1_HEAD, then any number of HTTP1_BODY, then HTTP1_DONE
 *
 * and the next one may follow in the same bytes. How the bytes were cut into calls never shows in
 * what is reported, other than in where the pieces of a body are cut.
 *
 * Whatever two readers could take for two different requests is refused (RFC 9112, section 11.2):
 * the parser then stays broken, and the caller answers with the error's status and closes. */
#ifndef HOLDFAST_WIRE_HTTP1_H
#define HOLDFAST_WIRE_HTTP1_H

#include "base/error.h"
#include "base/limits.h"
#include "base/slice.h"

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
};

enum http1_event {
    HTTP1_MORE,    /* offer again what is left, with more behind it */
    HTTP1_HEAD,    /* http1_request() and http1_header() speak of a new request */
    HTTP1_BODY,    /* `body` is the next piece, at least one byte */
    HTTP1_DONE,    /* the request is complete */
    HTTP1_PREFACE, /* the connection begins as HTTP/2: give all bytes to that, and no more here */
    HTTP1_CLOSED,  /* the last request asked to close: what follows it is not read */
    HTTP1_ERROR,   /* see `error`; the same again at each later call */
};

struct http1_result {
    enum http1_event event;
    enum hf_error error; /* HF_OK but for HTTP1_ERROR */
    size_t consumed;     /* of the bytes offered; may be more than 0 with any of the first four */
    struct slice body;   /* among the consumed bytes */
};

/* The slices lie in the bytes that were offered when HTTP1_HEAD came, and last as long as those. */
struct http1_request {
    enum http_method method;
    unsigned minor;          /* HTTP/1.1 or HTTP/1.0 */
    bool keep_alive;         /* another request may follow on the connection */
    bool expect_continue;    /* the client waits for "100 Continue" before it sends the body */
    bool chunked;            /* the body comes in chunks; if not, it has content_length bytes */
    uint64_t content_length; /* 0 when chunked or absent */
    struct slice host;       /* from the target or else from Host; may be empty */
    struct slice path;       /* as sent, escapes and all: begins with '/', or is "*" */
    struct slice query;      /* as sent, without its '?'; may be empty */
};

/* Where something lies in the head. */
struct http1_span {
    uint16_t at;
    uint16_t len;
};

struct http1_field {
    struct http1_span name;
    struct http1_span value;
};

/* The caller owns it, and needs not close it. The fields are private to http1*.c. */
struct http1 {
    uint8_t state;
    bool fresh;      /* nothing was read yet, so the HTTP/2 preface may come */
    bool blank_seen; /* the empty line that may precede a request has been skipped */
    bool has_host;   /* this and the next: headers met in this head */
    bool has_length;
    bool asked_close;
    bool asked_keep_alive;
    uint8_t field_count;
    enum hf_error error;
    uint32_t line;        /* where the line that is being read begins, in the bytes offered */
    uint32_t seen;        /* it does not end before here */
    uint32_t headers_end; /* where its headers must have ended */
    uint32_t body_left;   /* of the body, or of the current chunk */
    uint32_t body_read;
    uint32_t extra_read; /* bytes of chunk extensions, then of trailers */
    struct http1_span host, path, query;
    const uint8_t *head; /* the bytes of the last complete head */
    struct http1_request request;
    struct http1_field fields[LIMIT_HTTP_HEADERS];
};

void http1_init(struct http1 *p);

/* `bytes` begins with the first byte that was not consumed yet. Loop until HTTP1_MORE, or until one
 * of the last three, which consume nothing. */
struct http1_result http1_feed(struct http1 *p, struct slice bytes);

/* No request has begun: at the end of input this is a clean end, and no time-out of a request
 * applies. The caller's own bytes that were not consumed must be none, too. */
bool http1_is_idle(const struct http1 *p);

/* The request that the last HTTP1_HEAD was about. */
static inline const struct http1_request *http1_request(const struct http1 *p)
{
    return &p->request;
}

/* How often a header was given; `*value` is the first one's, without spaces around it, and is left
 * alone when there is none. `name` is in small letters. */
unsigned http1_header(const struct http1 *p, const char *name, struct slice *value);

/* All headers, for i below http1_header_count. */
static inline unsigned http1_header_count(const struct http1 *p)
{
    return p->field_count;
}

static inline struct slice http1_header_name(const struct http1 *p, unsigned i)
{
    return slice_make(p->head + p->fields[i].name.at, p->fields[i].name.len);
}

static inline struct slice http1_header_value(const struct http1 *p, unsigned i)
{
    return slice_make(p->head + p->fields[i].value.at, p->fields[i].value.len);
}

const char *http_method_text(enum http_method method);

#endif
