/* The client side of one HTTP/2 connection, for gRPC, with nghttp2 in memory. Clear text with prior
 * knowledge.
 *
 * http2_client_input takes the received bytes and calls the handler; http2_client_output returns
 * the bytes to write. A request is a stream: its body of messages may be extended until it is
 * ended. Its handler is called for headers (trailers too), for data and, exactly once, for its end.
 *
 * The client owns the streams. A `struct http2_client_stream` is valid until on_end returns.
 * Handlers may call everything but http2_client_free and http2_client_input. */
#ifndef HOLDFAST_WIRE_HTTP2_CLIENT_H
#define HOLDFAST_WIRE_HTTP2_CLIENT_H

#include "base/buffer.h"

struct http2_client;
struct http2_client_stream;

struct http2_client_handler {
    /* Of the response or its trailers, ":status" too; names are in lower case. */
    void (*on_header)(void *call, struct slice name, struct slice value);
    void (*on_data)(void *call, struct slice data);
    /* `error`: 0 for a clean end, else an HTTP/2 error code. `untouched`: the server guarantees
     * that it did not process the request, or it was never sent. */
    void (*on_end)(void *call, uint32_t error, bool untouched);
};

/* In addition to those that gRPC requires. */
struct http2_client_header {
    const char *name;
    struct slice value;
};

/* `authority` is copied; `user_agent` and `handler` must outlive the client. */
struct http2_client *http2_client_new(const struct memory *memory,
                                      const struct http2_client_handler *handler,
                                      const char *authority, const char *user_agent);
/* Calls on_end for every open stream, untouched if it was never sent. Takes NULL. */
void http2_client_free(struct http2_client *client);

/* False: the connection must be closed. */
bool http2_client_input(struct http2_client *client, struct slice bytes);
/* Appends bytes to send, until there are no more or `out` holds `enough` bytes. `out` must have
 * space for HTTP2_CLIENT_PIECE more. */
enum { HTTP2_CLIENT_PIECE = 32768 };
void http2_client_output(struct http2_client *client, struct buffer *out, size_t enough);

/* POST `path` with the message `body` (with its gRPC prefix; copied). With `keep_open` more may be
 * sent. NULL: the server sent GOAWAY, or the stream ids are used up. `call` is passed to the
 * handler. */
struct http2_client_stream *http2_client_request(struct http2_client *client, const char *path,
                                                 const struct http2_client_header *extra,
                                                 size_t extra_count, struct slice body,
                                                 bool keep_open, void *call);
/* For a stream that was kept open; `end`: nothing follows. Bytes after that end, or after the end
 * of the response, are dropped. */
void http2_client_send(struct http2_client_stream *stream, struct slice bytes, bool end);
/* on_end is not called; the stream is invalid. */
void http2_client_cancel(struct http2_client_stream *stream);

/* http2_client_pongs counts the answers. */
void http2_client_ping(struct http2_client *client);
uint64_t http2_client_pongs(const struct http2_client *client);

/* The server's SETTINGS were received. */
bool http2_client_is_ready(const struct http2_client *client);
/* Neither side has more to send, or the server violated HTTP/2: close. Call it after
 * http2_client_output, which appends the GOAWAY with the reason. */
bool http2_client_is_over(const struct http2_client *client);
/* The server accepts no more requests here. */
bool http2_client_is_going(const struct http2_client *client);
/* The server's limit of concurrent requests, and the current number. Further requests wait. */
uint32_t http2_client_max_streams(const struct http2_client *client);
uint32_t http2_client_streams(const struct http2_client *client);

#endif
