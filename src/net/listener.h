/* Accepts connections on an address, of which a host name may have several. At its limit it leaves
 * new ones in the kernel's queue until an old one is gone.
 *
 * When accept() fails because there are no descriptors or no memory left (EMFILE, ENFILE, ENOBUFS,
 * ENOMEM), the listener accepts nothing for LISTENER_PAUSE_MS and then tries again: new connections
 * wait in the kernel's queue, and the loop does not spin. libuv's own accept loop closes them
 * instead, and spins where it has no descriptor of its own to give up; so the sockets here are
 * polled and accepted from directly. */
#ifndef HOLDFAST_NET_LISTENER_H
#define HOLDFAST_NET_LISTENER_H

#include "net/address.h"
#include "net/connection.h"

struct listener;

enum { LISTENER_PAUSE_MS = 200 };

/* The connection is the receiver's: it must start it, or abort it. */
typedef void (*listener_accept_fn)(void *ctx, struct connection *c);

struct listener_options {
    struct address address; /* port 0: any free one */
    struct connection_options connection;
    uint32_t max_connections; /* UINT32_MAX: the receiver counts them */
    listener_accept_fn on_accept;
    void *ctx;
};

/* NULL, and a sentence in `problem`, when the address cannot be listened on. Freed by
 * listener_close. */
#define LISTENER_PROBLEM 512
struct listener *listener_new(struct net *net, const struct listener_options *options,
                              char problem[LISTENER_PROBLEM]);
/* Takes no more. Connections that were accepted live on. The rest happens in the loop. */
void listener_close(struct listener *l);

/* The port in use, also when 0 was asked for. */
uint16_t listener_port(const struct listener *l);
uint32_t listener_connections(const struct listener *l);

#endif
