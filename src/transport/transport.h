/* The connection of every client to one node: of libholdfast, the command line and the bench.
 *
 *                dial                       advance              advance
 *     CLOSED ───────────▶ RESOLVING ───────────────▶ CONNECTING ─────────▶ UP
 *                            └────────── no address is left ────────┘      │
 *     CLOSED ◀──────── with `problem` ─────────────┴──── close ────────────┘
 *
 * The functions here do not block; wait.h has those that block with a deadline. All bytes pass
 * through transport_read and transport_write, and a connection is UP only after transport_advance
 * has said so: encryption is added in these three functions.
 *
 * The caller owns the struct and polls `fd`. Not thread-safe. */
#ifndef HOLDFAST_TRANSPORT_TRANSPORT_H
#define HOLDFAST_TRANSPORT_TRANSPORT_H

#include <errno.h>
#include <sys/socket.h>

#include "base/slice.h"
#include "transport/resolve.h"

enum transport_state { TRANSPORT_CLOSED, TRANSPORT_RESOLVING, TRANSPORT_CONNECTING, TRANSPORT_UP };

enum transport_io {
    TRANSPORT_OK,
    TRANSPORT_AGAIN, /* nothing now: poll for it */
    TRANSPORT_END,   /* read only: the node has closed the connection */
    TRANSPORT_FAILED /* see `problem` */
};

struct transport {
    int fd; /* -1: none */
    enum transport_state state;
    bool has_no_socket;  /* the last failure: this process could not open a socket */
    const char *problem; /* the last failure, a static text */
    struct resolve *resolve;
    struct addrinfo *addresses;
    struct addrinfo *next; /* the address to try when this one fails */
};

void transport_init(struct transport *t);
/* Begins a connection to the addresses of `to` in turn; t must be CLOSED. `wake_fd` is an eventfd
 * that is written when the lookup is done; then call transport_advance. */
void transport_dial(struct transport *t, const struct host_port *to, int wake_fd);
/* As transport_dial, to an address that needs no lookup. False: it failed. */
bool transport_dial_address(struct transport *t, const struct sockaddr *address, socklen_t len);
/* Continues: call it when the lookup is done, or when `fd` is writable. CLOSED: it failed. */
enum transport_state transport_advance(struct transport *t);
void transport_close(struct transport *t);

/* What it means that recv or send returned `result`, which is not a number of bytes. */
enum transport_io transport_no_bytes(struct transport *t, ssize_t result);

/* Only in state UP. `*done` is the number of bytes if the result is OK, else 0. Inline, because the
 * bench calls them for every request. */
static inline enum transport_io transport_read(struct transport *t, void *to, size_t size,
                                               size_t *done)
{
    ssize_t got;
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
    do {
        sent = send(t->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    *done = sent > 0 ? (size_t)sent : 0;
    return sent >= 0 ? TRANSPORT_OK : transport_no_bytes(t, sent);
}

/* The events to poll `fd` for. `has_output`: the caller has bytes to write. */
short transport_events(const struct transport *t, bool has_output);
/* The numeric address of the node; "" if it is not known. */
void transport_peer(const struct transport *t, char *out, size_t size);

#endif
