/* RESP, the protocol of Redis, for the server: requests in, values out. No socket, no memory beyond
 * the parser struct; an incomplete request is continued, wherever it was split.
 *
 * A request is an array of bulk strings, or one line of words with Redis's quoting ("inline").
 * Everything else is a protocol error: Redis's own message, and then the connection closes. */
#ifndef HOLDFAST_WIRE_RESP_H
#define HOLDFAST_WIRE_RESP_H

#include "base/buffer.h"
#include "base/limits.h"

enum resp_status {
    RESP_REQUEST,    /* a whole request; one without arguments is ignored */
    RESP_INCOMPLETE, /* more bytes are needed */
    RESP_ERROR       /* with the text for "-ERR Protocol error: ..." */
};

struct resp_result {
    enum resp_status status;
    size_t consumed; /* REQUEST: its size in bytes */
    const char *error;
};

struct resp_parser {
    uint32_t expected; /* arguments of the array; 0: its head was not read yet */
    uint32_t count;
    bool has_length; /* the head of the next argument was read, its bytes were not */
    uint32_t length;
    size_t at;      /* bytes read so far, from the start of the request */
    size_t scanned; /* no line ends before this offset */
    uint32_t offset[LIMIT_RESP_ARGUMENTS];
    uint32_t size[LIMIT_RESP_ARGUMENTS];
};

void resp_parser_init(struct resp_parser *p);

/* `bytes` begins with the start of the request at each call, and holds everything received of it.
 * An inline request is unquoted in place. After REQUEST the parser starts again after the consumed
 * bytes; the arguments are valid until then. After ERROR it must not be used. */
struct resp_result resp_feed(struct resp_parser *p, uint8_t *bytes, size_t len);

static inline uint32_t resp_count(const struct resp_parser *p)
{
    return p->count;
}

struct slice resp_argument(const struct resp_parser *p, const uint8_t *bytes, uint32_t i);

/* `protocol` is 2 or 3, as set by HELLO: 3 has its own types for null, maps, booleans and push
 * messages, which 2 maps to other types. */
struct resp_writer {
    struct buffer *out;
    int protocol;
};

void resp_simple(struct resp_writer *w, const char *text);
/* Line breaks in the message become spaces. */
void resp_error(struct resp_writer *w, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void resp_integer(struct resp_writer *w, int64_t value);
void resp_bulk(struct resp_writer *w, struct slice bytes);
void resp_text(struct resp_writer *w, const char *text);
void resp_null(struct resp_writer *w);
void resp_null_array(struct resp_writer *w);
void resp_array(struct resp_writer *w, uint32_t count);
void resp_map(struct resp_writer *w, uint32_t pairs);
void resp_set(struct resp_writer *w, uint32_t count);
void resp_push(struct resp_writer *w, uint32_t count);
/* As Redis 7.0 writes it: 17 digits. 2 has it as a text. */
void resp_double(struct resp_writer *w, double value);
void resp_bool(struct resp_writer *w, bool value);

#endif
