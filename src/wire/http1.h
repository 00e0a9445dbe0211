/* Parses HTTP/1.1 requests: strict, bounded, and without a socket.
 *
 * The caller keeps the bytes that are not consumed, and passes all of them at each call. The parser
 * copies and allocates nothing. It stores how far it has scanned, so a head that arrives byte by
 * byte is read once. A request is reported as
 *
 *     HTTP1_HEAD, then any number of HTTP1_BODY, then HTTP1_DONE
 *
 * and the next one may follow in the same bytes. How the input is split into calls changes only how
 * a body is split.
 *
 * A request that two parsers could read differently is refused (RFC 9112, section 11.2). The parser
 * then stays broken; the caller responds with the error's status and closes. */
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
    HTTP_LOCK, /* this and the next: WebDAV's, for Terraform */
    HTTP_UNLOCK,
};

enum http1_event {
    HTTP1_MORE,    /* pass the rest again, with more bytes */
    HTTP1_HEAD,    /* http1_request() and http1_header() describe a new request */
    HTTP1_BODY,    /* `body` is the next piece, at least one byte */
    HTTP1_DONE,    /* the request is complete */
    HTTP1_PREFACE, /* the connection begins with HTTP/2: pass all bytes to that parser */
    HTTP1_CLOSED,  /* the last request had "Connection: close": no further bytes are read */
    HTTP1_ERROR,   /* see `error`; every later call returns it too */
};

struct http1_result {
    enum http1_event event;
    enum hf_error error; /* HF_OK but for HTTP1_ERROR */
    size_t consumed;     /* of the bytes passed; may be more than 0 with any of the first four */
    struct slice body;   /* among the consumed bytes */
};

/* The slices point into the bytes that were passed when HTTP1_HEAD was returned. */
struct http1_request {
    enum http_method method;
    unsigned minor;          /* HTTP/1.1 or HTTP/1.0 */
    bool keep_alive;         /* another request may follow on the connection */
    bool expect_continue;    /* the client waits for "100 Continue" before it sends the body */
    bool chunked;            /* the body has chunks; otherwise it has content_length bytes */
    uint64_t content_length; /* 0 when chunked or absent */
    struct slice host;       /* from the target or else from Host; may be empty */
    struct slice path;       /* as sent, with escapes: begins with '/', or is "*" */
    struct slice query;      /* as sent, without its '?'; may be empty */
};

/* A range of the head. */
struct http1_span {
    uint16_t at;
    uint16_t len;
};

struct http1_field {
    struct http1_span name;
    struct http1_span value;
};

/* Owned by the caller, needs no close. Private to http1*.c. */
struct http1 {
    uint8_t state;
    bool fresh;      /* no bytes were read, so the HTTP/2 preface may follow */
    bool blank_seen; /* the empty line that may precede a request has been skipped */
    bool has_host;   /* this and the next: headers found in this head */
    bool has_length;
    bool wants_close;
    bool wants_keep_alive;
    uint8_t field_count;
    enum hf_error error;
    uint32_t line;        /* offset of the current line, in the bytes passed */
    uint32_t seen;        /* the line does not end before this offset */
    uint32_t headers_end; /* offset where the headers must have ended */
    uint32_t body_left;   /* of the body, or of the current chunk */
    uint32_t body_read;
    uint32_t extra_read; /* bytes of chunk extensions, then of trailers */
    struct http1_span host, path, query;
    const uint8_t *head; /* the bytes of the last complete head */
    struct http1_request request;
    struct http1_field fields[LIMIT_HTTP_HEADERS];
};

void http1_init(struct http1 *p);

/* `bytes` begins with the first unconsumed byte. Loop until HTTP1_MORE, or until one of the last
 * three, which consume nothing. */
struct http1_result http1_feed(struct http1 *p, struct slice bytes);

/* The input may end here, and no request time-out applies. The caller must also check that it has
 * no unconsumed bytes. */
bool http1_is_idle(const struct http1 *p);

static inline const struct http1_request *http1_request(const struct http1 *p)
{
    return &p->request;
}

/* How often the header was sent. `*value` is the first one's, trimmed, untouched when there is
 * none. `name` is in lower case. */
unsigned http1_header(const struct http1 *p, const char *name, struct slice *value);

/* For i below http1_header_count. */
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
/* False: there is no such method. */
bool http_method_read(struct slice text, enum http_method *out);

#endif
