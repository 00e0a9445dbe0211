/* The client's end of one HTTP/2 connection, for gRPC: nghttp2 by memory, without a socket.
 *
 * Bytes that were read go into http2_client_input, which tells the handler what they mean;
 * http2_client_output gives the bytes to write. A request is a stream: it has a body of messages
 * that may be added to until it is ended, and its owner hears of headers (trailers too), of data
 * and, exactly once, of its end. Clear text with prior knowledge.
 *
 * The client owns the streams. A `struct http2_stream` lasts until on_end returns; within a handler
 * everything may be called but http2_client_free and http2_client_input. */
#ifndef HOLDFAST_WIRE_HTTP2_CLIENT_H
#define HOLDFAST_WIRE_HTTP2_CLIENT_H

#include "base/buffer.h"

struct http2_client;
struct http2_stream;

struct http2_client_handler {
    /* Of the answer or of its trailers; names are in small letters, ":status" is one of them. */
    void (*on_header)(void *call, struct slice name, struct slice value);
    void (*on_data)(void *call, struct slice data);
    /* `error` is 0 for a clean end, else one of HTTP/2's codes. `untouched`: the other end promises
     * that it did nothing, or the request never left. */
    void (*on_end)(void *call, uint32_t error, bool untouched);
};

/* A header of a request, beyond what gRPC always wants. */
struct http2_header {
    const char *name;
    struct slice value;
};

/* `authority` is copied; `user_agent` and `handler` must outlive the client. Never NULL. */
struct http2_client *http2_client_new(const struct memory *memory,
                                      const struct http2_client_handler *handler,
                                      const char *authority, const char *user_agent);
/* Tells every stream that is still there its end, untouched if it never left. Takes NULL. */
void http2_client_free(struct http2_client *client);

/* False when it cannot be gone on with. */
bool http2_client_input(struct http2_client *client, struct slice bytes);
/* Appends what is to be sent, until all is there or `out` holds `enough` bytes; it has to have room
 * for HTTP2_CLIENT_PIECE more than that. */
enum { HTTP2_CLIENT_PIECE = 32768 };
void http2_client_output(struct http2_client *client, struct buffer *out, size_t enough);

/* Begins a request: POST `path` with the message `body` (already with its gRPC prefix; it is
 * copied). With `keep_open` more may be sent. NULL when this connection takes no more requests:
 * the other end said so, or the numbers have run out. `call` is for the handler. */
struct http2_stream *http2_client_request(struct http2_client *client, const char *path,
                                          const struct http2_header *extra, size_t extra_count,
                                          struct slice body, bool keep_open, void *call);
/* More for a stream that was kept open; with `end` nothing follows. What comes after that end, or
 * after the other end has finished its answer, is dropped. */
void http2_client_send(struct http2_stream *stream, struct slice bytes, bool end);
/* Withdraws it. on_end is not called any more: the stream is gone for the caller. */
void http2_client_cancel(struct http2_stream *stream);

/* Asks for a sign of life. The answer is counted by http2_client_pongs. */
void http2_client_ping(struct http2_client *client);
uint64_t http2_client_pongs(const struct http2_client *client);

/* The other end has said what it takes: it is there, and it speaks HTTP/2. */
bool http2_client_is_ready(const struct http2_client *client);
/* Neither end has anything to say any more, or the other one does not speak HTTP/2 or broke its
 * rules: close. Ask after http2_client_output, which then has told the other end why. */
bool http2_client_is_over(const struct http2_client *client);
/* The other end wants no more requests here: it is about to close. */
bool http2_client_is_going(const struct http2_client *client);
/* How many requests it takes at a time, and how many there are. What is too much waits. */
uint32_t http2_client_max_streams(const struct http2_client *client);
uint32_t http2_client_streams(const struct http2_client *client);

#endif
