/* Redis-protocol connection: bytes of one client in, replies out, no socket.
 *
 * Pipelined requests are answered in order. `ready` is called for published messages.
 *
 *     read bytes ─▶ resp_conn_receive          output ─▶ write ─▶ resp_conn_written
 *     end of input ─▶ resp_conn_end            resp_conn_is_finished ─▶ close the socket
 *     the socket is closed ─▶ resp_conn_close (always, once, and last)
 *
 * The caller owns the socket. resp_conn_close frees the connection. */
#ifndef HOLDFAST_SERVICE_RESP_API_H
#define HOLDFAST_SERVICE_RESP_API_H

#include "base/buffer.h"
#include "service/service.h"

struct resp_conn;

/* Maximum for one resp_conn_receive. */
#define RESP_CONN_READ (64u << 10)

struct resp_conn_options {
    void *owner; /* the caller's */
    /* There is output, the connection is finished, or takes input again. Called by service_run
     * only. May write, and may close the connection. */
    void (*ready)(void *owner);
    const char *address; /* of the client; copied */
    const char *local;   /* the address that it connected to; copied */
    int descriptor;      /* of the socket, to show it */
};

struct resp_conn *resp_conn_new(struct service *s, const struct resp_conn_options *options);

/* After the handshake, before the first resp_conn_receive. */
void resp_conn_set_peer(struct resp_conn *conn, const struct peer_identity *peer);

/* At most RESP_CONN_READ bytes, only while resp_conn_wants_input. Replies that need no commit and
 * no barrier are in the output on return. */
void resp_conn_receive(struct resp_conn *conn, struct slice bytes);
/* If only the memory limit prevents it, `ready` is called in the next turn. */
bool resp_conn_wants_input(struct resp_conn *conn);

/* Requests received so far are still answered. */
void resp_conn_end(struct resp_conn *conn);

/* resp_conn_written: the first `len` bytes were written. */
struct slice resp_conn_output(const struct resp_conn *conn);
void resp_conn_written(struct resp_conn *conn, size_t len);

/* No more output follows; all was written. */
bool resp_conn_is_finished(const struct resp_conn *conn);

/* No request, transaction (MULTI) or subscription, all output written: closing now loses
 * nothing. */
bool resp_conn_is_idle(const struct resp_conn *conn);
/* An idle connection is about to be closed; the protocol has no message for it. */
void resp_conn_retire(struct resp_conn *conn);

/* The socket is closed; a lock whose grant was not sent is released (S7.2). Frees the
 * connection. */
void resp_conn_close(struct resp_conn *conn);

#endif
