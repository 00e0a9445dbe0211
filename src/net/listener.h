/* Accepts connections on an address; a host name may have several. At its limit it leaves new
 * connections in the kernel's queue until an old one is gone.
 *
 * When accept() fails for want of descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM), the
 * listener pauses for LISTENER_PAUSE_MS. libuv's own accept loop would close the connections, and
 * spin without a spare descriptor. So the sockets are polled here. */
#ifndef HOLDFAST_NET_LISTENER_H
#define HOLDFAST_NET_LISTENER_H

#include "net/address.h"
#include "net/connection.h"

struct listener;

enum { LISTENER_PAUSE_MS = 200 };

/* The callee must start or abort the connection. */
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
/* Accepted connections stay open. The handles are closed in the loop. */
void listener_close(struct listener *l);

/* Also when port 0 was requested. */
uint16_t listener_port(const struct listener *l);
uint32_t listener_connections(const struct listener *l);

#endif
