/* Private to http1.c and http1_head.c. */
#ifndef HOLDFAST_WIRE_HTTP1_HEAD_H
#define HOLDFAST_WIRE_HTTP1_HEAD_H

#include "wire/http1.h"

/* Character classes. */
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

/* HTTP_NUL or HTTP_CONTROL if the text contains such a byte (a tab is allowed). */
enum hf_error head_check_text(struct slice text);

/* A header or trailer line, without its CR LF. */
enum hf_error head_split_field(struct slice line, struct slice *name, struct slice *value);

/* At bytes[at], `len` bytes without its CR LF. */
enum hf_error head_request_line(struct http1 *p, const uint8_t *bytes, size_t at, size_t len);
enum hf_error head_field(struct http1 *p, const uint8_t *bytes, size_t at, size_t len);
/* After the empty line: evaluates the headers together and fills in p->request. */
enum hf_error head_finish(struct http1 *p, const uint8_t *bytes);

#endif
