/* The server side of one HTTP/2 connection, with nghttp2, without a socket: bytes in, requests out;
 * responses in, bytes out.
 *
 *     bytes ─▶ http2_receive ─▶ on_request, on_data..., on_end ─▶ the owner
 *     http2_respond, http2_write..., http2_finish ─▶ the output buffer
 *     end of the stream, from either side ─▶ on_close, always the last callback of a stream
 *
 * The HPACK dynamic table has at most 512 bytes in each direction: enough for the headers that one
 * client repeats, and little memory for thousands of idle connections. Streams, headers, resets and
 * control frames of a client are bounded. Bytes of a body count against the stream's window until
 * http2_consume; the owner slows a sender down by not calling it. */
#ifndef HOLDFAST_WIRE_HTTP2_H
#define HOLDFAST_WIRE_HTTP2_H

#include "base/buffer.h"
#include "base/error.h"
#include "wire/http1.h"

struct http2;
struct http2_stream;

struct http2_header {
    struct slice name; /* in lower case; must stay valid while the stream is open */
    struct slice value;
    bool is_constant; /* the value too; otherwise it is copied */
};

/* Valid during the call. */
struct http2_request {
    enum hf_error error; /* HF_OK, or why it cannot be served, e.g. its headers are too large */
    enum http_method method;
    struct slice path; /* as sent, without the query */
    struct slice query;
    struct slice host;
    struct slice content_type;
    struct slice origin;
    struct slice idempotency_key;
    struct slice last_event_id;
    struct slice grpc_timeout;
    struct slice grpc_encoding;
    struct slice authorization;
    struct slice tenant; /* holdfast-tenant */
    struct slice traceparent;
};

/* They may respond, write, finish and reset, but must not call http2_receive or http2_flush. */
struct http2_handlers {
    /* NULL: no capacity, the client may retry. The owner owns the stream and initializes it with
     * http2_stream_init. */
    struct http2_stream *(*on_request)(void *owner, int32_t id,
                                       const struct http2_request *request);
    /* `is_last`: the frame ends the request, although more of the frame may follow. */
    void (*on_data)(void *owner, struct http2_stream *stream, struct slice bytes, bool is_last);
    void (*on_end)(void *owner, struct http2_stream *stream);
    /* The stream is invalid after the return. `is_clean`: the whole response is in the output. */
    void (*on_close)(void *owner, struct http2_stream *stream, bool is_clean);
    /* Although the whole response is in the output. */
    void (*on_late_cancel)(void *owner, int32_t id);
    /* Some bytes of the response were moved to the output, and it has not ended. */
    void (*on_moved)(void *owner, struct http2_stream *stream);
};

/* One request and its response; embedded in an object of the owner. Private to http2.c. */
struct http2_stream {
    int32_t id;
    bool is_begun;    /* the head of the response was submitted */
    bool is_finished; /* no more is written */
    bool is_stalled;  /* nghttp2 waits for more */
    bool is_reset;
    struct slice lent;  /* the rest of the response, not copied yet */
    struct buffer out;  /* copied, not sent yet */
    struct buffer tail; /* copies of trailers */
    const struct http2_header *trailers;
    size_t trailer_count;
};

/* Shared by all connections; must outlive them. */
struct http2_shared;
struct http2_shared *http2_shared_new(const struct memory *memory);
void http2_shared_free(struct http2_shared *shared);

/* Output is appended to `out`, up to `out_soft` plus one frame. */
struct http2 *http2_new(struct http2_shared *shared, const struct http2_handlers *handlers,
                        void *owner, struct buffer *out, size_t out_soft);
/* Calls no handler: the owner closes its streams itself. */
void http2_free(struct http2 *h);

/* Consumes all bytes. False: the connection is broken; send the output, then close. */
bool http2_receive(struct http2 *h, struct slice bytes);
/* Moves sendable bytes into the output, and calls on_close for the streams that end with it. Once
 * per turn after the calls below, and when the output has space again. http2_receive includes it,
 * and so does http2_answer outside of handlers. */
void http2_flush(struct http2 *h);

void http2_stream_init(struct http2_stream *stream, int32_t id, const struct memory *memory,
                       size_t out_max);
/* For streams that were open when the connection was freed; on_close closes the others. */
void http2_stream_close(struct http2_stream *stream);

/* `is_whole`: no body follows. `:status` is the first header. */
void http2_respond(struct http2 *h, struct http2_stream *stream, const struct http2_header *headers,
                   size_t count, bool is_whole);
/* If more than the stream's `out_max` bytes are unsent, resets the stream. */
void http2_write(struct http2 *h, struct http2_stream *stream, struct slice bytes);
/* Trailers whose texts are not constant are copied. */
void http2_finish(struct http2 *h, struct http2_stream *stream, const struct http2_header *trailers,
                  size_t count, bool texts_last);
/* The three in one, without a copy of the body when it can be sent at once. */
void http2_answer(struct http2 *h, struct http2_stream *stream, const struct http2_header *headers,
                  size_t count, struct slice body, const struct http2_header *trailers,
                  size_t trailer_count);
/* Without trailers, for a body that outlives the connection: never copied. */
void http2_answer_constant(struct http2 *h, struct http2_stream *stream,
                           const struct http2_header *headers, size_t count, struct slice body);
/* `is_calm` false: with ENHANCE_YOUR_CALM. */
void http2_reset(struct http2 *h, struct http2_stream *stream, bool is_calm);
/* Releases `len` bytes from on_data to the stream's window. */
void http2_consume(struct http2 *h, struct http2_stream *stream, size_t len);
/* Unsent bytes of the response. */
size_t http2_stream_backlog(const struct http2_stream *stream);

/* Accepts no new streams; existing ones may end. */
void http2_goaway(struct http2 *h);
/* Caused by the client, since the last call: by RST_STREAM, or by breaking the protocol. */
uint32_t http2_take_resets(struct http2 *h);
/* Terminates the connection with ENHANCE_YOUR_CALM. */
void http2_turn_away(struct http2 *h);
/* Queued frames are not sent. `send_goaway`: appends a GOAWAY with ENHANCE_YOUR_CALM. The owner
 * must have closed its streams. */
void http2_break_off(struct http2 *h, bool send_goaway);
/* To detect a dead client. */
void http2_ping(struct http2 *h);
/* No more bytes will be received or sent. */
bool http2_is_over(const struct http2 *h);
uint32_t http2_stream_count(const struct http2 *h);
/* Unsent bytes of all responses. */
size_t http2_backlog(const struct http2 *h);

#endif
