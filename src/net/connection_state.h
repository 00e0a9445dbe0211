/* Shared by connection.c (lifetime) and transfer.c (bytes). */
#ifndef HOLDFAST_NET_CONNECTION_STATE_H
#define HOLDFAST_NET_CONNECTION_STATE_H

#include "base/list.h"
#include "net/address.h"
#include "net/internal.h"

enum connection_phase {
    CONNECTION_NEW,
    CONNECTION_OPEN,
    CONNECTION_FINISHING, /* closed by its owner, output is still being written */
    CONNECTION_CLOSING    /* the handles are being closed */
};

struct connection {
    struct net *net;
    struct connection_options options;
    const struct connection_handlers *handlers;
    void *owner;
    struct connection_filter filter;

    enum connection_phase phase;
    bool reading;
    bool paused;          /* by the owner */
    bool pressed;         /* too much output is pending */
    bool ended;           /* the peer has sent its FIN */
    bool end_sent;        /* we have sent ours */
    bool opening;         /* the filter has not completed its handshake */
    bool opening_due;     /* ... and has bytes to process */
    bool opening_counted; /* in net.openings */
    bool failed;          /* FILTER_FAILED */
    bool in_flight;       /* a libuv write of `writing` is in progress */
    uint8_t handles;      /* still open: the socket and the timer */
    const char *reason;

    struct buffer in;      /* received, not consumed */
    struct buffer held;    /* received, waits for its share of the handshakes */
    struct buffer out;     /* collected in this turn */
    struct buffer wire;    /* `out` after the filter, if there is one */
    struct buffer writing; /* what the kernel did not take at once */
    size_t stalled_at;     /* how much of it was left at the last check */
    size_t pulled;         /* of the owner's output in flight, not reported as written yet */

    uint64_t timeout_at; /* loop time; 0: none */
    uint64_t stall_at;
    uint64_t open_at; /* the handshake must be complete; 0: it is */
    uint64_t timer_due;

    struct list all;          /* in net.all */
    struct list dirty;        /* in net.dirty or net.dirty_first */
    struct list ready;        /* in net.ready */
    struct list opening_link; /* in net.opening, net.opening_first or net.opening_waits */

    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_write_t write;
    uv_shutdown_t shutdown;

    void (*gone)(void *ctx);
    void *gone_ctx;
    uint64_t number;
    struct ip_address ip;
    char remote[ADDRESS_TEXT];
};

/* opening.c */
enum { OPENING_READ = 4096 }; /* bytes held during a handshake */
void connection_begin_opening(struct connection *c);
void connection_hold(struct connection *c, struct slice bytes);
/* It is complete, or the connection ends. May be repeated. */
void connection_end_opening(struct connection *c);

/* transfer.c */
/* Received bytes; and the end of the handshake. */
void connection_pass_filter(struct connection *c, struct slice bytes);
void connection_mark_dirty(struct connection *c);
void connection_mark_ready(struct connection *c);
void connection_unlist(struct connection *c);
void connection_update_reading(struct connection *c);

/* connection.c */
void connection_schedule(struct connection *c);
/* All output is written: sends the FIN, and closes when the peer has sent its own or after
 * LINGER_MS. */
void connection_finish(struct connection *c);

#endif
