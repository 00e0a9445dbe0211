/* HTTP/1.1, HTTP/2 and gRPC: bytes of one client connection in, bytes out, no socket.
 *
 * HTTP/1.1 handles one request at a time; pipelined requests stay in the input. The HTTP/2 preface
 * selects HTTP/2; the content type identifies gRPC calls. `ready` is called for later answers and
 * events.
 *
 *     read bytes ─▶ http_conn_receive          output ─▶ write ─▶ http_conn_written
 *     end of input ─▶ http_conn_end            http_conn_is_finished ─▶ close the socket
 *     the socket is gone ─▶ http_conn_close (always, once, and last)
 *
 * The caller owns the socket; http_conn_close frees the connection. */
#ifndef HOLDFAST_SERVICE_HTTP_HTTP_API_H
#define HOLDFAST_SERVICE_HTTP_HTTP_API_H

#include "base/buffer.h"
#include "service/service.h"

struct http_conn;

/* Maximum for one http_conn_receive. */
#define HTTP_CONN_READ (64u << 10)

struct http_conn_options {
    void *owner; /* the caller's */
    /* There is output, the connection is finished, or takes input again. Called by service_run
     * only. May write, and may close the connection. */
    void (*ready)(void *owner);
    const char *address; /* of the client, "IP:PORT"; copied; NULL: unknown */
    bool is_operator;    /* sees tokens and ids of others, forces locks open, reads the audit */
};

struct http_conn *http_conn_new(struct service *s, const struct http_conn_options *options);

/* After the handshake, before the first http_conn_receive. */
void http_conn_set_peer(struct http_conn *conn, const struct peer_identity *peer);

/* At most HTTP_CONN_READ bytes, only while http_conn_wants_input. Answers that need no other node
 * are in the output on return. */
void http_conn_receive(struct http_conn *conn, struct slice bytes);
/* If only this turn's budget prevents it, `ready` is called in the next turn. */
bool http_conn_wants_input(struct http_conn *conn);

/* A waiting request is abandoned (S7.2); others are still answered. */
void http_conn_end(struct http_conn *conn);

/* http_conn_written: the first `len` bytes were written. */
struct slice http_conn_output(const struct http_conn *conn);
void http_conn_written(struct http_conn *conn, size_t len);

/* No more output follows; all was written. */
bool http_conn_is_finished(const struct http_conn *conn);

/* No request, no open stream, all output written: closing now loses nothing. */
bool http_conn_is_idle(const struct http_conn *conn);
/* Before closing an idle connection: HTTP/2 adds a GOAWAY. */
void http_conn_retire(struct http_conn *conn);

/* The socket is gone; unwritten answers are lost (S7.2, S7.3). Frees the connection. */
void http_conn_close(struct http_conn *conn);

#endif
