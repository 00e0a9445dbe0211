/* The sockets of one loop, and the rhythm in which they are served.
 *
 *     poll ──▶ bytes come in, owners append answers ──▶ on_turn ──▶ timers ──▶ each connection that
 *                                                                              has output writes
 * once
 *
 * Output is gathered per connection and written once per turn, just before the loop sleeps again: a
 * system call costs more than the parsing of a request. on_turn is where the node closes its batch
 * (DESIGN): everything that arrived has been handed over, nothing has been written yet.
 *
 * The caller owns the struct net and the loop. One thread only. */
#ifndef HOLDFAST_NET_NET_H
#define HOLDFAST_NET_NET_H

#include <uv.h>

#include "base/buffer.h"

struct connection;

typedef void (*net_turn_fn)(void *ctx);

struct net {
    uv_loop_t *loop;
    const struct memory *memory;
    net_turn_fn on_turn;  /* once per turn, after the poll phase; may be NULL, both */
    net_turn_fn on_sleep; /* ... just before the next one, after all was written */
    void *turn_ctx;
    /* A listener accepts nothing for a while, by this errno of accept(); with turn_ctx. May be
     * NULL. */
    void (*on_accept_paused)(void *ctx, int error);

    /* How much went through, for metrics and for those who wait until the sockets are drained. */
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t writes; /* system calls */
    uint64_t accept_pauses;
    uint32_t connections;
    uint32_t guests; /* those of them that do not write first: clients, not peers */

    /* Private to src/net. */
    uv_prepare_t before_poll;
    uv_check_t after_poll;
    uv_idle_t awake; /* runs while `ready` is not empty, so that the poll does not sleep */
    struct connection *all;
    struct connection *dirty; /* have output */
    struct connection *dirty_first;
    struct connection *ready; /* want the bytes again that they left */
    uint8_t *scratch;         /* what is read lands here first */
    struct buffer forgotten;  /* what is said on connections that are closed */
    uint64_t numbers;         /* of connections, given out so far */
    uint64_t random;
};

#define NET_SCRATCH 65536
#define NET_PLAIN (2 * NET_SCRATCH) /* what a filter may make of it */

void net_init(struct net *net, uv_loop_t *loop, const struct memory *memory);
/* Every connection, listener and dialer must have been closed; the loop runs once more after it. */
void net_close(struct net *net);

/* Ends every connection, whoever owns it: for the stop. */
void net_abort_all(struct net *net, const char *reason);

/* Writes what is gathered, now: for the last words before a process ends. */
void net_flush(struct net *net);

/* For back-off: evenly spread over [0, below). */
uint32_t net_random(struct net *net, uint32_t below);

#endif
