/* Maintains one outgoing connection: resolves, connects, and after each failure or end waits longer
 * than the last time, with jitter, before it tries again.
 *
 *      waiting ──▶ resolving ──▶ connecting ──▶ on_connected ──dialer_lost──▶ waiting
 *         ▲             │             │
 *         └─────────────┴─────────────┘ on_failed */
#ifndef HOLDFAST_NET_DIALER_H
#define HOLDFAST_NET_DIALER_H

#include "net/address.h"
#include "net/connection.h"

struct dialer;

struct dialer_options {
    struct address address;
    struct connection_options connection;
    uint32_t connect_ms; /* for one attempt, the resolver included */
    uint32_t wait_min_ms;
    uint32_t wait_max_ms;
    /* The callee must start or abort the connection, and call dialer_lost when it has ended. */
    void (*on_connected)(void *ctx, struct connection *c);
    /* `refused`: no process listens there. `reason` is for the log. May be NULL. */
    void (*on_failed)(void *ctx, bool refused, const char *reason);
    void *ctx;
};

/* The first attempt is made in the next turn. */
struct dialer *dialer_new(struct net *net, const struct dialer_options *options);
/* No handler is called any more. A connection that was passed on stays open. */
void dialer_close(struct dialer *d);

/* The connection has ended: try again, after the wait. */
void dialer_lost(struct dialer *d);
/* The peer is verified: reset the back-off. */
void dialer_good(struct dialer *d);
/* Try now: ends a wait, and has no effect otherwise. */
void dialer_hurry(struct dialer *d);
/* The next wait is at least `ms`: the peer refused us and will again. */
void dialer_slow(struct dialer *d, uint32_t ms);

#endif
