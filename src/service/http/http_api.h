/* The door of HTTP/1.1, HTTP/2 and gRPC: bytes of one client connection in, bytes out, no socket.
 *
 * Of HTTP/1.1 one request at a time is worked on; others that a client has sent behind it wait in
 * the input, and are answered in their order. A connection that begins with the preface of HTTP/2
 * speaks that, with many requests at a time; those of gRPC are told by their content type. What the
 * service has to say at a time of its own choosing (a lock that was waited for, an event) appears
 * in the output, and `ready` is called.
 *
 *     read bytes ─▶ http_conn_receive          output ─▶ write ─▶ http_conn_written
 *     end of input ─▶ http_conn_end            http_conn_is_finished ─▶ close the socket
 *     the socket is gone ─▶ http_conn_close (always, once, and last)
 *
 * The caller owns the socket; the connection is freed by http_conn_close. */
#ifndef HOLDFAST_SERVICE_HTTP_HTTP_API_H
#define HOLDFAST_SERVICE_HTTP_HTTP_API_H

#include "base/buffer.h"
#include "service/service.h"

struct http_conn;

/* The most that may be given to http_conn_receive at once. */
#define HTTP_CONN_READ (64u << 10)

struct http_conn_options {
    void *owner; /* the caller's */
    /* There is something to write, the connection is finished, or input is wanted again. Comes from
     * service_run only. May write, and may close the connection. */
    void (*ready)(void *owner);
    uint32_t tenant;
    bool is_operator; /* may see tokens and ids of others, force locks open and read the audit */
};

struct http_conn *http_conn_new(struct service *s, const struct http_conn_options *options);

/* Bytes from the client, at most HTTP_CONN_READ, and only while http_conn_wants_input. Answers that
 * need nobody else are in the output when it returns. */
void http_conn_receive(struct http_conn *conn, struct slice bytes);
/* A connection that has to wait for the next turn is noted, and `ready` is called then. */
bool http_conn_wants_input(struct http_conn *conn);

/* The client sends no more. A wait counts as given up (S7.2); other requests are still answered. */
void http_conn_end(struct http_conn *conn);

/* What is to be written, from its front; and so many bytes of it have been. */
struct slice http_conn_output(const struct http_conn *conn);
void http_conn_written(struct http_conn *conn, size_t len);

/* Nothing more will come, and everything was written. */
bool http_conn_is_finished(const struct http_conn *conn);

/* No request is in progress, no stream is open and everything was written: nothing is lost when
 * the connection is closed now. */
bool http_conn_is_idle(const struct http_conn *conn);
/* An idle connection is about to be closed: of HTTP/2, GOAWAY is in the output. */
void http_conn_retire(struct http_conn *conn);

/* The connection is gone, with everything that was not written (S7.2, S7.3). Frees it. */
void http_conn_close(struct http_conn *conn);

#endif
