/* The sockets of one loop, and the phases of a turn:
 *
 *     poll ──────▶ on_turn ──▶ timers ──▶ write ──────────▶ on_sleep ──▶ poll
 *     on_bytes:                           each connection
 *     owners append                       with output
 *     output                              writes once
 *
 * Output is collected per connection and written once per turn, just before the loop sleeps, since
 * a system call costs more than parsing a request. In on_turn the node closes its batch (DESIGN):
 * all received bytes have been passed on, nothing has been written yet.
 *
 * The caller owns the struct net and the loop. Not thread-safe. */
#ifndef HOLDFAST_NET_NET_H
#define HOLDFAST_NET_NET_H

#include <uv.h>

#include "base/buffer.h"
#include "base/list.h"

struct connection;

typedef void (*net_turn_fn)(void *ctx);

struct net {
    uv_loop_t *loop;
    const struct memory *memory;
    net_turn_fn on_turn;  /* once per turn, after the poll phase; both may be NULL */
    net_turn_fn on_sleep; /* once per turn, after all output was written */
    void *turn_ctx;
    /* accept() failed with this errno, and a listener pauses; called with turn_ctx. May be NULL. */
    void (*on_accept_paused)(void *ctx, int error);

    /* For metrics and for waiting until the sockets are drained. */
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t writes; /* system calls */
    uint64_t accept_pauses;
    uint64_t opening_ns; /* spent on handshakes */
    uint32_t openings;   /* clients whose handshake is not complete */
    uint32_t openings_max;
    uint32_t connections;
    uint32_t client_connections; /* connections without `writes_first`: clients, not peers */

    /* Private to src/net. */
    uv_prepare_t before_poll;
    uv_check_t after_poll;
    uv_idle_t awake;   /* active while one of the last three lists is not empty: do not sleep */
    struct list all;   /* connections */
    struct list dirty; /* ... with output */
    struct list dirty_first;   /* ... with output that is written first */
    struct list ready;         /* ... to be passed their remaining bytes */
    struct list opening;       /* ... with a handshake to continue */
    struct list opening_first; /* ... of peers */
    struct list opening_waits; /* ... of clients, that wait for the other end; the longest first */
    struct buffer plain;       /* output of a filter */
    uint8_t *scratch;          /* receive buffer */
    struct buffer forgotten;   /* output on closed connections, discarded */
    uint64_t numbers;          /* connection numbers assigned so far */
    uint64_t random;
};

/* `openings_max` of net_init. A handshake takes 50 KiB of OpenSSL's memory, 200 KiB at most. */
#define NET_OPENINGS 1024
#define NET_SCRATCH 65536
#define NET_PLAIN (2 * NET_SCRATCH) /* for the output of a filter */

void net_init(struct net *net, uv_loop_t *loop, const struct memory *memory);
/* Every connection, listener and dialer must be closed; the loop must run once more. */
void net_close(struct net *net);

void net_abort_all(struct net *net, const char *reason);

/* For the last messages before the process ends. */
void net_flush(struct net *net);

/* For back-off: uniform in [0, below). */
uint32_t net_random(struct net *net, uint32_t below);

#endif
