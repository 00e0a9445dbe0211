/* RESP, the protocol of Redis, from the server's side: requests in, values out. No socket, no
 * memory of its own but the parser's, and a request that was cut anywhere is taken up where it was.
 *
 * A request is an array of bulk strings, or one line of words with Redis's quoting ("inline", which
 * people type into nc). Whatever else comes is a protocol error: it is answered with Redis's own
 * words, and the connection ends behind that. */
#ifndef HOLDFAST_WIRE_RESP_H
#define HOLDFAST_WIRE_RESP_H

#include "base/buffer.h"
#include "base/limits.h"

enum resp_status {
    RESP_REQUEST,    /* a whole request; it may have no arguments, and then asks for nothing */
    RESP_INCOMPLETE, /* more bytes are needed */
    RESP_ERROR       /* `error` says why, for a line "-ERR Protocol error: ..." */
};

struct resp_result {
    enum resp_status status;
    size_t consumed; /* REQUEST: the bytes that it took */
    const char *error;
};

struct resp_parser {
    uint32_t expected; /* arguments that the array has; 0: its head has not come yet */
    uint32_t count;
    bool has_length; /* the head of the next argument was read, its bytes were not */
    uint32_t length;
    size_t at;      /* up to here the bytes were read; from the start of the request */
    size_t scanned; /* up to here there is no end of line */
    uint32_t offset[LIMIT_RESP_ARGUMENTS];
    uint32_t size[LIMIT_RESP_ARGUMENTS];
};

void resp_parser_init(struct resp_parser *p);

/* `bytes` begins where the request begins, each time, and holds all that came of it so far; an
 * inline request is unquoted in place. After REQUEST the parser begins anew with the bytes behind
 * `consumed`; its arguments last until then. At ERROR it is done for. */
struct resp_result resp_feed(struct resp_parser *p, uint8_t *bytes, size_t len);

static inline uint32_t resp_count(const struct resp_parser *p)
{
    return p->count;
}

struct slice resp_argument(const struct resp_parser *p, const uint8_t *bytes, uint32_t i);

/* Answers. `protocol` is 2 or 3, as HELLO set it: 3 has types of its own for null, maps, truth and
 * pushed messages, for which 2 has to do with the others. */
struct resp_writer {
    struct buffer *out;
    int protocol;
};

void resp_simple(struct resp_writer *w, const char *text);
/* "-CODE message"; line breaks in it become spaces. */
void resp_error(struct resp_writer *w, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void resp_integer(struct resp_writer *w, int64_t value);
void resp_bulk(struct resp_writer *w, struct slice bytes);
void resp_text(struct resp_writer *w, const char *text);
void resp_null(struct resp_writer *w);
void resp_null_array(struct resp_writer *w);
void resp_array(struct resp_writer *w, uint32_t count);
void resp_map(struct resp_writer *w, uint32_t pairs);
void resp_push(struct resp_writer *w, uint32_t count);
void resp_bool(struct resp_writer *w, bool value);

#endif
