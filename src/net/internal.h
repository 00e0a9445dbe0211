/* Private to src/net. */
#ifndef HOLDFAST_NET_INTERNAL_H
#define HOLDFAST_NET_INTERNAL_H

#include "net/connection.h"

/* Writes the collected output of a dirty connection. */
void connection_flush(struct connection *c);
/* Passes remaining bytes to the ready connections. */
void connections_feed(struct net *net);
/* Continues handshakes for at most 2 ms. */
void connections_open(struct net *net);
void connection_open_later(struct connection *c);
/* Whether the loop polls without sleeping. */
void net_stay_awake(struct net *net, bool stay);

/* Its socket is not open yet; `tcp` is accepted into, or connected. connection_abort before
 * connection_start calls no handler. */
struct connection *connection_new(struct net *net, const struct connection_options *options);
uv_tcp_t *connection_tcp(struct connection *c);
/* Sets options of the socket, stores the remote address. */
void connection_opened(struct connection *c);
/* `gone` is called when the connection is freed; for the listener's count. */
void connection_on_gone(struct connection *c, void (*gone)(void *ctx), void *ctx);

#endif
