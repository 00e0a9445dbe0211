/* Redis-protocol connection: turns the bytes of one client into requests and replies, without a
 * socket.
 *
 * Pipelined requests are answered in order. Published messages appear in the output at any time;
 * `ready` is called for them.
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

/* Maximum number of bytes in one call of resp_conn_receive. */
#define RESP_CONN_READ (64u << 10)
#define RESP_ADDRESS_MAX 80

struct resp_conn_options {
    void *owner; /* the caller's */
    /* Called when there is output to write, the connection is finished, or input is accepted again.
     * Called from service_run only. The callback may write, and may close the connection. */
    void (*ready)(void *owner);
    uint32_t tenant;
    const char *address; /* of the client, "127.0.0.1:40312"; copied */
};

struct resp_conn *resp_conn_new(struct service *s, const struct resp_conn_options *options);

/* Passes at most RESP_CONN_READ bytes from the client; call only while resp_conn_wants_input.
 * Replies that need neither a commit nor a barrier are in the output when it returns. */
void resp_conn_receive(struct resp_conn *conn, struct slice bytes);
bool resp_conn_wants_input(const struct resp_conn *conn);

/* The client sends no more bytes. Requests received so far are still answered. */
void resp_conn_end(struct resp_conn *conn);

/* The bytes to write; resp_conn_written removes the first `len` of them after they were written. */
struct slice resp_conn_output(const struct resp_conn *conn);
void resp_conn_written(struct resp_conn *conn, size_t len);

/* No more output follows, and all output was written. */
bool resp_conn_is_finished(const struct resp_conn *conn);

/* No request, no transaction (MULTI) and no subscription is in progress, and everything was
 * written: nothing is lost when the connection is closed now. */
bool resp_conn_is_idle(const struct resp_conn *conn);
/* An idle connection is about to be closed. The Redis protocol has no message for this. */
void resp_conn_retire(struct resp_conn *conn);

/* The socket is closed and unwritten output is lost: a lock whose grant was not sent is released
 * (S7.2). Frees the connection. */
void resp_conn_close(struct resp_conn *conn);

#endif
