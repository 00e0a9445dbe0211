/* gRPC on top of HTTP/2, without sockets: what server and client say in the same way. Messages with
 * their prefix of five bytes, grpc-timeout, grpc-message and the status codes.
 *
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md is the rule. */
#ifndef HOLDFAST_WIRE_GRPC_H
#define HOLDFAST_WIRE_GRPC_H

#include "base/buffer.h"

#define GRPC_STATUS_LIST(X) \
    X(OK)                   \
    X(CANCELLED)            \
    X(UNKNOWN)              \
    X(INVALID_ARGUMENT)     \
    X(DEADLINE_EXCEEDED)    \
    X(NOT_FOUND)            \
    X(ALREADY_EXISTS)       \
    X(PERMISSION_DENIED)    \
    X(RESOURCE_EXHAUSTED)   \
    X(FAILED_PRECONDITION)  \
    X(ABORTED)              \
    X(OUT_OF_RANGE)         \
    X(UNIMPLEMENTED)        \
    X(INTERNAL)             \
    X(UNAVAILABLE)          \
    X(DATA_LOSS)            \
    X(UNAUTHENTICATED)

enum grpc_status {
#define X(symbol) GRPC_##symbol,
    GRPC_STATUS_LIST(X)
#undef X
        GRPC_STATUS_COUNT
};

/* "DEADLINE_EXCEEDED"; "UNKNOWN" for a number that is none. */
const char *grpc_status_name(enum grpc_status status);

/* ---- messages ---- */

/* Whether it is compressed, and its length in network order. */
enum { GRPC_PREFIX = 5 };

void grpc_write_prefix(uint8_t out[GRPC_PREFIX], uint32_t len);

enum grpc_event {
    GRPC_MORE,    /* everything is consumed and no message is complete */
    GRPC_MESSAGE, /* one is: call again with what was not consumed */
    GRPC_ERROR,   /* and so is every later call */
};

struct grpc_result {
    enum grpc_event event;
    size_t consumed;
    struct slice message;    /* lies in the bytes or in the reader; lasts until the next call */
    enum grpc_status status; /* ERROR */
    const char *problem;     /* ERROR: the sentence for it */
};

/* The bytes of one direction of one call. The caller owns the struct, the reader a message that
 * comes in pieces; between two messages it takes no memory. */
struct grpc_reader {
    struct buffer body; /* of a message that came in pieces; its `max` is the longest message */
    uint8_t prefix[GRPC_PREFIX];
    uint8_t prefix_len;
    bool is_given; /* `body` was handed out as a message */
    const char *problem;
    enum grpc_status status;
    uint32_t len; /* of the message, when the prefix is complete */
};

void grpc_reader_init(struct grpc_reader *r, const struct memory *memory, size_t max);
void grpc_reader_close(struct grpc_reader *r);
struct grpc_result grpc_reader_feed(struct grpc_reader *r, struct slice bytes);
/* No message has begun: the stream may end here. */
bool grpc_reader_is_between(const struct grpc_reader *r);

/* ---- the header grpc-timeout ---- */

/* In milliseconds, rounded up; what is longer than 1,000 years is that. False when it is none. */
bool grpc_parse_timeout(struct slice text, uint64_t *timeout_ms);
/* As exact as eight digits allow, rounded down. */
enum { GRPC_TIMEOUT = 10 };
void grpc_format_timeout(uint64_t timeout_ms, char out[GRPC_TIMEOUT]);

/* ---- the trailer grpc-message ---- */

/* Percent-encodes what is not visible ASCII or a space, and the '%'. What does not fit is left out,
 * never half an escape. Returns the length. */
size_t grpc_encode_message(struct slice text, char *out, size_t size);
/* The other way; a '%' that begins no escape stays. `out` has room for `text.len` bytes. */
size_t grpc_decode_message(struct slice text, char *out);

#endif
