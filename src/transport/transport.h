/* The connection of libholdfast, the command line and the bench to one node.
 *
 *                dial                       advance              advance
 *     CLOSED ───────────▶ RESOLVING ───────────────▶ CONNECTING ─────────▶ UP
 *                            └────────── no address is left ────────┘      │
 *     CLOSED ◀──────── with `problem` ─────────────┴──── close ────────────┘
 *
 * Nothing here blocks; wait.h has functions that do. All bytes pass through transport_read and
 * transport_write, and only transport_advance makes a connection UP. With TLS (transport_secure)
 * the handshake is a part of CONNECTING.
 *
 * The caller owns the struct and polls `fd`. Not thread-safe. */
#ifndef HOLDFAST_TRANSPORT_TRANSPORT_H
#define HOLDFAST_TRANSPORT_TRANSPORT_H

#include <errno.h>
#include <sys/socket.h>

#include "base/slice.h"
#include "transport/resolve.h"
#include "transport/security.h"

enum transport_state { TRANSPORT_CLOSED, TRANSPORT_RESOLVING, TRANSPORT_CONNECTING, TRANSPORT_UP };

enum transport_io {
    TRANSPORT_OK,
    TRANSPORT_AGAIN, /* nothing now: poll for it */
    TRANSPORT_END,   /* read only: the node closed it */
    TRANSPORT_FAILED /* see `problem` */
};

struct transport {
    int fd; /* -1: none */
    enum transport_state state;
    bool has_no_socket;  /* the last failure: no socket could be opened */
    const char *problem; /* the last failure: a static text, or see security_keep_problem */
    struct resolve *resolve;
    struct addrinfo *addresses;
    struct addrinfo *next; /* to try when this one fails */
    struct security *security;
    const char *host;          /* that the node's certificate must name */
    struct transport_tls *tls; /* NULL: clear text */
};

void transport_init(struct transport *t);
/* For all later dials, which use TLS if `security` has a context. `host` is that of the node. Both
 * are borrowed; `host` is used until the connection is UP. */
void transport_secure(struct transport *t, struct security *security, const char *host);
/* Connects to the addresses of `to` in turn; t must be CLOSED. `wake_fd` is an eventfd, written
 * when the lookup is done; then call transport_advance. */
void transport_dial(struct transport *t, const struct host_port *to, int wake_fd);
/* The same without a lookup. False: it failed. */
bool transport_dial_address(struct transport *t, const struct sockaddr *address, socklen_t len);
/* Call it when the lookup is done or `fd` has one of transport_events. CLOSED: it failed. */
enum transport_state transport_advance(struct transport *t);
void transport_close(struct transport *t);

/* The meaning of a `result` of recv or send that is not a number of bytes. */
enum transport_io transport_no_bytes(struct transport *t, ssize_t result);

/* See secure.c. */
enum transport_io transport_read_tls(struct transport *t, void *to, size_t size, size_t *done);
enum transport_io transport_write_tls(struct transport *t, struct slice bytes, size_t *done);

/* Only when UP. After AGAIN a write must be repeated with the same bytes, or with more after them.
 * `*done` is the number of bytes; 0 unless the result is OK. Inline: the bench calls
 * them for every request. */
static inline enum transport_io transport_read(struct transport *t, void *to, size_t size,
                                               size_t *done)
{
    ssize_t got;
    if (t->tls != NULL) {
        return transport_read_tls(t, to, size, done);
    }
    do {
        got = recv(t->fd, to, size, 0);
    } while (got < 0 && errno == EINTR);
    *done = got > 0 ? (size_t)got : 0;
    return got > 0 ? TRANSPORT_OK : transport_no_bytes(t, got);
}

static inline enum transport_io transport_write(struct transport *t, struct slice bytes,
                                                size_t *done)
{
    ssize_t sent;
    if (t->tls != NULL) {
        return transport_write_tls(t, bytes, done);
    }
    do {
        sent = send(t->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    *done = sent > 0 ? (size_t)sent : 0;
    return sent >= 0 ? TRANSPORT_OK : transport_no_bytes(t, sent);
}

/* Bytes were received that `fd` does not report any more. */
bool transport_has_input(const struct transport *t);
/* For `fd`. `has_output`: the caller has bytes to write. */
short transport_events(const struct transport *t, bool has_output);
/* Numeric address of the node; "": unknown. */
void transport_peer(const struct transport *t, char *out, size_t size);

#endif
