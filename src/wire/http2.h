/* The server's side of one HTTP/2 connection, by nghttp2, without a socket: bytes in, requests out;
 * answers in, bytes out.
 *
 *     bytes ─▶ http2_receive ─▶ on_request, on_data..., on_end ─▶ the owner
 *     http2_respond, http2_write..., http2_finish ─▶ the output buffer
 *     whichever end comes first ─▶ on_close, the last word about a stream
 *
 * HPACK keeps no dynamic table in either direction: thousands of connections that do nothing must
 * cost little. What a client may do is bounded: streams, headers, resets, control frames. Bytes of
 * a body count against the stream's window until http2_consume; the owner holds a sender back by
 * not calling it. */
#ifndef HOLDFAST_WIRE_HTTP2_H
#define HOLDFAST_WIRE_HTTP2_H

#include "base/buffer.h"
#include "base/error.h"
#include "wire/http1.h"

struct http2;
struct http2_stream;

struct http2_header {
    struct slice name; /* in small letters */
    struct slice value;
};

/* The headers that matter here. Lasts for the call. */
struct http2_request {
    enum hf_error error; /* HF_OK, or why it cannot be served: its headers are too large, ... */
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
};

/* May respond, write, finish and reset; http2_receive and http2_flush are not called from them. */
struct http2_handlers {
    /* A request begins. NULL: there is no room for it, and the client may ask again. The stream is
     * the owner's, and initialized by http2_stream_init. */
    struct http2_stream *(*on_request)(void *owner, int32_t id,
                                       const struct http2_request *request);
    /* `is_last`: the frame ends the request, although more of the frame may follow. */
    void (*on_data)(void *owner, struct http2_stream *stream, struct slice bytes, bool is_last);
    void (*on_end)(void *owner, struct http2_stream *stream);
    /* The stream is over, and gone when this returns. `is_clean`: the whole answer is in the
     * output. */
    void (*on_close)(void *owner, struct http2_stream *stream, bool is_clean);
    /* The client cancels a call whose whole answer is in the output: it did not take it. */
    void (*on_late_cancel)(void *owner, int32_t id);
    /* Some bytes of the answer are in the output now, and it has not ended. */
    void (*on_moved)(void *owner, struct http2_stream *stream);
};

/* One request and its answer; embedded in an object of the owner. The fields are private to
 * http2.c. */
struct http2_stream {
    int32_t id;
    bool is_begun;    /* the head of the answer was given */
    bool is_finished; /* no more is written */
    bool is_stalled;  /* nghttp2 waits for more */
    bool is_reset;
    struct slice lent;  /* the rest of the answer, before it is known that it has to be kept */
    struct buffer out;  /* what could not leave yet */
    struct buffer tail; /* copies of trailers */
    const struct http2_header *trailers;
    size_t trailer_count;
};

/* What all connections share; must outlive them. */
struct http2_shared;
struct http2_shared *http2_shared_new(const struct memory *memory);
void http2_shared_free(struct http2_shared *shared);

/* Output is appended to `out`, no further than `out_soft` and one frame. */
struct http2 *http2_new(struct http2_shared *shared, const struct http2_handlers *handlers,
                        void *owner, struct buffer *out, size_t out_soft);
/* Nobody is told: the owner closes its streams itself. */
void http2_free(struct http2 *h);

/* All bytes are taken. False: the connection is broken; its last words are in the output. */
bool http2_receive(struct http2 *h, struct slice bytes);
/* Moves what may leave into the output, and tells of the streams that end with it. To be called
 * once per turn after the calls below, and when the output has room again. http2_receive does it,
 * and so does http2_answer when no handler is running. */
void http2_flush(struct http2 *h);

void http2_stream_init(struct http2_stream *stream, int32_t id, const struct memory *memory,
                       size_t out_max);
/* Only for those that were open when the connection was freed; others were closed by on_close. */
void http2_stream_close(struct http2_stream *stream);

/* The head of the answer. `is_whole`: there is nothing behind it. `:status` is the first header. */
void http2_respond(struct http2 *h, struct http2_stream *stream, const struct http2_header *headers,
                   size_t count, bool is_whole);
/* Bytes of the body. More than the stream's `out_max` that the client does not take resets it. */
void http2_write(struct http2 *h, struct http2_stream *stream, struct slice bytes);
/* The body is complete. Trailers whose texts do not last are copied. */
void http2_finish(struct http2 *h, struct http2_stream *stream, const struct http2_header *trailers,
                  size_t count, bool texts_last);
/* The three in one, without a copy of the body when it may leave at once. */
void http2_answer(struct http2 *h, struct http2_stream *stream, const struct http2_header *headers,
                  size_t count, struct slice body, const struct http2_header *trailers,
                  size_t trailer_count);
/* The same without trailers, for a body that lasts longer than the connection: never copied. */
void http2_answer_constant(struct http2 *h, struct http2_stream *stream,
                           const struct http2_header *headers, size_t count, struct slice body);
/* Breaks it off. `is_calm` false: the client asks for too much. */
void http2_reset(struct http2 *h, struct http2_stream *stream, bool is_calm);
/* So many bytes from on_data are dealt with. */
void http2_consume(struct http2 *h, struct http2_stream *stream, size_t len);
/* Bytes of the stream's answer that have not left. */
size_t http2_stream_backlog(const struct http2_stream *stream);

/* No new streams; those that there are may end. */
void http2_goaway(struct http2 *h);
/* How many streams the client has broken off since the last call. */
uint32_t http2_take_resets(struct http2 *h);
/* The client asks for too much: says so, and that is the end. */
void http2_turn_away(struct http2 *h);
/* The end, at once: nothing that waits is sent. `says_why`: a GOAWAY with ENHANCE_YOUR_CALM is,
 * behind the output that there is. The owner has closed its streams. */
void http2_break_off(struct http2 *h, bool says_why);
/* Is the other end still there? */
void http2_ping(struct http2 *h);
/* Nothing more will come or go. */
bool http2_is_over(const struct http2 *h);
uint32_t http2_stream_count(const struct http2 *h);
/* Bytes of all answers that wait for the client to take them. */
size_t http2_backlog(const struct http2 *h);

#endif
