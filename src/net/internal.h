/* What the files of src/net share and nobody else may use. */
#ifndef HOLDFAST_NET_INTERNAL_H
#define HOLDFAST_NET_INTERNAL_H

#include "net/connection.h"

/* Writes what a dirty connection has gathered and takes it off the list. */
void connection_flush(struct connection *c);
/* Hands bytes that were left over to those who asked for them again. */
void connections_feed(struct net *net);
/* Whether the loop polls without sleeping. */
void net_stay_awake(struct net *net, bool stay);

/* A connection whose socket is not yet open; `tcp` is to be accepted into, or connected. Given up
 * with connection_abort before connection_start, nobody is told. */
struct connection *connection_new(struct net *net, const struct connection_options *options);
uv_tcp_t *connection_tcp(struct connection *c);
/* The socket is open: sets its options, remembers who is at the other end. */
void connection_opened(struct connection *c);
/* Called when the connection is gone for good; for the listener's count. */
void connection_on_gone(struct connection *c, void (*gone)(void *ctx), void *ctx);

#endif
