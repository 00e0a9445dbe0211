/* A connection from inside: shared by connection.c (its life) and transfer.c (its bytes). */
#ifndef HOLDFAST_NET_CONNECTION_STATE_H
#define HOLDFAST_NET_CONNECTION_STATE_H

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
    bool paused;    /* by the owner */
    bool pressed;   /* too much output waits */
    bool ended;     /* the other end sends no more */
    bool end_sent;  /* and so do we */
    bool in_flight; /* `writing` is with the loop */
    bool is_dirty;
    bool is_ready;
    uint8_t handles; /* still open: the socket and the timer */
    const char *reason;

    struct buffer in;      /* came, not consumed */
    struct buffer out;     /* gathered in this turn */
    struct buffer wire;    /* the same after the filter, when there is one */
    struct buffer writing; /* what the kernel did not take at once */
    size_t stalled_at;     /* how much of it was left when we last looked */
    size_t pulled;         /* of the owner's output: on its way, not yet told as written */

    uint64_t timeout_at; /* loop time; 0: none */
    uint64_t stall_at;
    uint64_t timer_due;

    struct connection *all_next;
    struct connection **all_link;
    struct connection *dirty_next;
    struct connection **dirty_link; /* what points at us in the list */
    struct connection *ready_next;
    struct connection **ready_link;

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

/* transfer.c */
void connection_mark_dirty(struct connection *c);
void connection_mark_ready(struct connection *c);
void connection_unlist(struct connection *c);
void connection_update_reading(struct connection *c);

/* connection.c */
void connection_schedule(struct connection *c);
/* All output is written: says so to the other end, and closes when that is heard. */
void connection_finish(struct connection *c);

#endif
