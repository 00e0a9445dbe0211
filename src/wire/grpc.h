/* gRPC on top of HTTP/2, without sockets, for server and client: messages with their prefix of five
 * bytes, grpc-timeout, grpc-message and status codes.
 *
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
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

/* "DEADLINE_EXCEEDED"; "UNKNOWN" for an unknown number. */
const char *grpc_status_name(enum grpc_status status);

/* ---- messages ---- */

/* Compression flag, and the length in network order. */
enum { GRPC_PREFIX = 5 };

void grpc_write_prefix(uint8_t out[GRPC_PREFIX], uint32_t len);

enum grpc_event {
    GRPC_MORE,    /* all bytes are consumed and no message is complete */
    GRPC_MESSAGE, /* a message is complete: call again with the rest */
    GRPC_ERROR,   /* every later call returns it too */
};

struct grpc_result {
    enum grpc_event event;
    size_t consumed;
    struct slice message;    /* points into the bytes or the reader; valid until the next call */
    enum grpc_status status; /* ERROR */
    const char *problem;     /* ERROR: its text */
};

/* One direction of one call. The caller owns the struct, the reader owns a partial message. It
 * takes no memory between two messages. */
struct grpc_reader {
    struct buffer body; /* of a partial message; its `max` is the longest message */
    uint8_t prefix[GRPC_PREFIX];
    uint8_t prefix_len;
    bool is_given; /* `body` was returned as a message */
    const char *problem;
    enum grpc_status status;
    uint32_t len; /* of the message, when the prefix is complete */
};

void grpc_reader_init(struct grpc_reader *r, const struct memory *memory, size_t max);
void grpc_reader_close(struct grpc_reader *r);
struct grpc_result grpc_reader_feed(struct grpc_reader *r, struct slice bytes);
/* The stream may end here. */
bool grpc_reader_is_between(const struct grpc_reader *r);

/* ---- the header grpc-timeout ---- */

/* Milliseconds, rounded up, at most 1,000 years. False when the text is not valid. */
bool grpc_parse_timeout(struct slice text, uint64_t *timeout_ms);
/* As exact as eight digits allow, rounded down. */
enum { GRPC_TIMEOUT = 10 };
void grpc_format_timeout(uint64_t timeout_ms, char out[GRPC_TIMEOUT]);

/* ---- the trailer grpc-message ---- */

/* Percent-encodes '%' and all bytes but visible ASCII and spaces. Omits what does not fit, without
 * a partial escape. Returns the length. */
size_t grpc_encode_message(struct slice text, char *out, size_t size);
/* A '%' that begins no escape stays. `out` has space for `text.len` bytes. */
size_t grpc_decode_message(struct slice text, char *out);

#endif
