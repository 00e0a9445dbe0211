/* Keeps one outgoing connection up: resolves, connects, and after every end waits a little longer
 * than the last time, by chance more or less, before it tries again.
 *
 *      waiting ──▶ resolving ──▶ connecting ──▶ on_connected ──dialer_lost──▶ waiting
 *         ▲             │             │
 *         └─────────────┴─────────────┘ on_failed
 */
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
    /* The connection is the receiver's: it must start it, or abort it, and call dialer_lost when it
     * has ended. */
    void (*on_connected)(void *ctx, struct connection *c);
    /* `nobody_there`: the machine answered that nobody listens. `reason` is a word for the log. May
     * be NULL. */
    void (*on_failed)(void *ctx, bool nobody_there, const char *reason);
    void *ctx;
};

/* Tries at once, in the next turn of the loop. */
struct dialer *dialer_new(struct net *net, const struct dialer_options *options);
/* Gives up; nothing is called any more. A connection that was handed over lives on. */
void dialer_close(struct dialer *d);

/* The connection has ended: try again, after the wait. */
void dialer_lost(struct dialer *d);
/* The other end is the right one: the next wait is the shortest again. */
void dialer_good(struct dialer *d);
/* There is a reason to try now: a wait ends, anything else goes on. */
void dialer_hurry(struct dialer *d);
/* The next wait is at least so long: the other end refused us and will again. */
void dialer_slow(struct dialer *d, uint32_t ms);

#endif
