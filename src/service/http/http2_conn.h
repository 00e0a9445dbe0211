/* HTTP/2 connections and their streams, for http2_*.c and grpc/.
 *
 * A stream carries one api_request. Its content type selects JSON or gRPC.
 *
 *       head               request complete          answer              all sent
 *   ───────────▶ RECEIVING ──────────────────▶ BUSY ──────────▶ SENDING ──────────▶ CLOSED
 *                                               │                  ▲
 *                                               └─stream─▶ OPEN ───┘ end
 */
#ifndef HOLDFAST_SERVICE_HTTP_HTTP2_CONN_H
#define HOLDFAST_SERVICE_HTTP_HTTP2_CONN_H

#include "service/http/http_conn.h"
#include "wire/grpc.h"
#include "wire/http2.h"

enum stream_state { STREAM_RECEIVING, STREAM_BUSY, STREAM_OPEN, STREAM_SENDING, STREAM_CLOSED };

struct rpc_method;

struct stream {
    struct http2_stream http2;
    struct http_conn *conn; /* NULL when CLOSED */
    struct service *service;
    ref self;
    enum stream_state state;
    bool is_complete;  /* the request has been received */
    bool has_message;  /* gRPC: the one message is in `body` */
    uint64_t since_ms; /* boot time: when added to the list of `clock` */
    uint32_t deadline; /* position in the heap, 0: none */
    struct list link;  /* in conn.streams; in service.http2_gone */
    struct list clock; /* in service.http2_requests or http2_answers, ordered by since_ms */
    struct pending_request *pending; /* a grant, until its answer is sent (S7.2) */
    uint64_t owed;                   /* answer of known length: bytes to be written */
    struct api_request x;
    struct buffer head; /* strings that x points to */
    struct buffer body; /* of the request; gRPC: a message, until its end */
    struct grpc_reader reader;
    const struct rpc_method *method;
    struct session_call *session; /* of LockService.Session */
    struct list health;           /* of Health.Watch: in service.health_watches */
};

static inline struct stream *stream_of(const struct api_request *x)
{
    return (struct stream *)(uintptr_t)((const char *)x - offsetof(struct stream, x));
}

/* http2_conn.c */
void http2_conn_begin(struct http_conn *conn);
/* Processes conn.in, then `bytes`. Input beyond this turn's budget stays in conn.in. */
void http2_conn_receive(struct http_conn *conn, struct slice bytes);
void http2_conn_end(struct http_conn *conn);
void http2_conn_flush(struct http_conn *conn);
void http2_conn_written(struct http_conn *conn);
void http2_conn_drain(struct http_conn *conn);
void http2_conn_close(struct http_conn *conn);
/* See http_conn_review. `is_over`: no new stream may begin. */
void http2_conn_review(struct http_conn *conn, bool is_over);
/* Ends all streams. `says_why`: appends a GOAWAY with ENHANCE_YOUR_CALM. */
void http2_conn_break_off(struct http_conn *conn, bool says_why);
/* The stream sent a grant that the client cannot request again. */
void http2_remember_grant(struct http_conn *conn, int32_t stream,
                          const struct pending_request *pending);
void http2_open_all(struct service *s);
void http2_close_all(struct service *s);
void http2_run_all(struct service *s);
uint64_t http2_next_ms(const struct service *s);

/* http2_stream.c. The connection owns it; stream_over closes it, http2_run_all frees it. */
struct stream *stream_new(struct http_conn *conn, int32_t id,
                          const struct api_transport *transport);
/* Closed, or the connection is gone. */
void stream_over(struct stream *stream, bool is_clean);
void stream_free(struct stream *stream);
void stream_set_state(struct stream *stream, enum stream_state state);
/* The answer is written; `pending` is settled when it is sent. */
void stream_answered(struct stream *stream, struct pending_request *pending);
void stream_set_deadline(struct stream *stream, uint64_t at_ms);
/* A stream of events has output; output was sent. Both maintain service.http2_answers, where
 * http2_run_all resets streams whose client does not read. */
void stream_wrote(struct stream *stream);
void stream_moved(struct stream *stream);
/* False: above the limit; answered. */
bool stream_keep_body(struct stream *stream, struct slice bytes, size_t max);
void stream_drop_body(struct stream *stream);
/* JSON, and gRPC in grpc/rpc.c. */
extern const struct api_transport http2_transport;
extern const struct api_transport rpc_transport;

/* http2_request.c */
void http2_request_begin(struct stream *stream, const struct http2_request *request);
void http2_request_data(struct stream *stream, struct slice bytes);
void http2_request_end(struct stream *stream);

/* grpc/rpc.c */
bool rpc_is_call(const struct http2_request *request);
void rpc_begin(struct stream *stream, const struct http2_request *request);
void rpc_data(struct stream *stream, struct slice bytes, bool is_last);
void rpc_end(struct stream *stream);
/* The client is gone, or its call has been answered. */
void rpc_over(struct stream *stream);
/* The node stops. */
void rpc_drain(struct stream *stream);
/* grpc/health.c */
void rpc_health_run(struct service *s);
/* The deadline of the call has passed. */
void rpc_late(struct stream *stream);

#endif
