/* The lines of a request's head, one by one: what http1.c asks of http1_head.c. Private to both. */
#ifndef HOLDFAST_WIRE_HTTP1_HEAD_H
#define HOLDFAST_WIRE_HTTP1_HEAD_H

#include "wire/http1.h"

/* What a byte may stand for. */
enum {
    CHAR_TOKEN = 1,  /* in a method or a header's name */
    CHAR_TARGET = 2, /* in a request target */
    CHAR_HOST = 4,   /* in a host and port */
    CHAR_DIGIT = 8,
    CHAR_HEX = 16,
};
extern const uint8_t http1_chars[256];

static inline bool char_is(uint8_t byte, unsigned classes)
{
    return (http1_chars[byte] & classes) != 0;
}

/* HTTP_NUL or HTTP_CONTROL if there is such a byte (a tab is fine), else OK. */
enum hf_error head_check_text(struct slice text);

/* A field line of the headers or the trailers, without its CR LF, as name and value. */
enum hf_error head_split_field(struct slice line, struct slice *name, struct slice *value);

/* `at` and `len` say where in `bytes` the line lies, without its CR LF. */
enum hf_error head_request_line(struct http1 *p, const uint8_t *bytes, size_t at, size_t len);
enum hf_error head_field(struct http1 *p, const uint8_t *bytes, size_t at, size_t len);
/* After the empty line: what the headers mean together. Fills in p->request. */
enum hf_error head_finish(struct http1 *p, const uint8_t *bytes);

#endif
