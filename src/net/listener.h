/* Accepts connections on an address; a host name may have several. At its limit it leaves new
 * connections in the kernel's queue until an old one is gone.
 *
 * When accept() fails because of missing descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM),
 * the listener pauses for LISTENER_PAUSE_MS and then tries again. New connections wait in the
 * kernel's queue, and the loop does not spin. libuv's own accept loop closes them instead, and
 * spins if it has no spare descriptor. So the sockets are polled and accepted from directly
 * here. */
#ifndef HOLDFAST_NET_LISTENER_H
#define HOLDFAST_NET_LISTENER_H

#include "net/address.h"
#include "net/connection.h"

struct listener;

enum { LISTENER_PAUSE_MS = 200 };

/* The callee owns the connection: it must start or abort it. */
typedef void (*listener_accept_fn)(void *ctx, struct connection *c);

struct listener_options {
    struct address address; /* port 0: any free one */
    struct connection_options connection;
    uint32_t max_connections; /* UINT32_MAX: the owner limits them */
    listener_accept_fn on_accept;
    void *ctx;
};

/* NULL, and a text in `problem`, when the address cannot be listened on. Freed by
 * listener_close. */
#define LISTENER_PROBLEM 512
struct listener *listener_new(struct net *net, const struct listener_options *options,
                              char problem[LISTENER_PROBLEM]);
/* Stops accepting. Accepted connections stay open. The handles are closed in the loop. */
void listener_close(struct listener *l);

/* The port in use, also when port 0 was requested. */
uint16_t listener_port(const struct listener *l);
uint32_t listener_connections(const struct listener *l);

#endif
