/* The door of the Redis protocol: bytes of one client connection in, bytes out, no socket.
 *
 * Requests that a client has sent behind each other are answered in their order. What others
 * publish appears in the output at any time, and `ready` is called.
 *
 *     read bytes ─▶ resp_conn_receive          output ─▶ write ─▶ resp_conn_written
 *     end of input ─▶ resp_conn_end            resp_conn_is_finished ─▶ close the socket
 *     the socket is gone ─▶ resp_conn_close (always, once, and last)
 *
 * The caller owns the socket; the connection is freed by resp_conn_close. */
#ifndef HOLDFAST_SERVICE_RESP_API_H
#define HOLDFAST_SERVICE_RESP_API_H

#include "base/buffer.h"
#include "service/service.h"

struct resp_conn;

/* The most that may be given to resp_conn_receive at once. */
#define RESP_CONN_READ (64u << 10)
#define RESP_ADDRESS_MAX 80

struct resp_conn_options {
    void *owner; /* the caller's */
    /* There is something to write, the connection is finished, or input is wanted again. Comes from
     * service_run only. May write, and may close the connection. */
    void (*ready)(void *owner);
    uint32_t tenant;
    const char *address; /* of the client, "127.0.0.1:40312"; copied */
};

struct resp_conn *resp_conn_new(struct service *s, const struct resp_conn_options *options);

/* Bytes from the client, at most RESP_CONN_READ, and only while resp_conn_wants_input. Answers that
 * need nobody else are in the output when it returns. */
void resp_conn_receive(struct resp_conn *conn, struct slice bytes);
bool resp_conn_wants_input(const struct resp_conn *conn);

/* The client sends no more. What it has asked for is still answered. */
void resp_conn_end(struct resp_conn *conn);

/* What is to be written, from its front; and so many bytes of it have been. */
struct slice resp_conn_output(const struct resp_conn *conn);
void resp_conn_written(struct resp_conn *conn, size_t len);

/* Nothing more will come, and everything was written. */
bool resp_conn_is_finished(const struct resp_conn *conn);

/* No request, no transaction (MULTI) and no subscription is in progress, and everything was
 * written: nothing is lost when the connection is closed now. */
bool resp_conn_is_idle(const struct resp_conn *conn);
/* An idle connection is about to be closed. This protocol has nothing to say about it. */
void resp_conn_retire(struct resp_conn *conn);

/* The connection is gone, with everything that was not written: a lock whose grant was not told is
 * given back (S7.2). Frees it. */
void resp_conn_close(struct resp_conn *conn);

#endif
