/* One connection: bytes in, bytes out, back-pressure, time limits, a clean end.
 *
 *      new ──start──▶ open ──close──▶ finishing: output is written, then the end is sent, and what
 *                      │                 │        still comes is thrown away for a moment
 *                      └──abort───────▶ closing ──▶ on_close, gone
 *
 * on_close comes exactly once, after every other call, and never from inside a call that the owner
 * makes; the connection is gone when it returns. No other handler is called after close or abort.
 */
#ifndef HOLDFAST_NET_CONNECTION_H
#define HOLDFAST_NET_CONNECTION_H

#include "base/buffer.h"
#include "net/address.h"
#include "net/net.h"

struct connection_handlers {
    /* All bytes that were not consumed yet. Returns how many are consumed; the rest comes again,
     * with more behind it, or after connection_resume. An owner that is not ready for more may
     * return 0: reading goes on up to in_max, so that the other end's leaving is still noticed. */
    size_t (*on_bytes)(void *owner, struct slice bytes);
    /* The other end sends no more. NULL: the connection is aborted. */
    void (*on_end)(void *owner);
    /* Output waits above the high mark (true), or has drained below the low one. Nothing is read
     * meanwhile, unless the options say so. May be NULL. */
    void (*on_pressure)(void *owner, bool pressed);
    /* The time of connection_set_timeout has passed. NULL: the connection is aborted. */
    void (*on_timeout)(void *owner);
    /* `reason` is a word for the log. */
    void (*on_close)(void *owner, const char *reason);
    /* For an owner that keeps its output itself, and wants to know how much of it has left the
     * house: the bytes that are to be written, asked for once per turn after connection_touch; and
     * so many of them, from the front, are with the kernel. Both or none; connection_output is not
     * used then. Nothing of it is asked for after connection_close. */
    struct slice (*output)(void *owner);
    void (*on_written)(void *owner, size_t len);
};

struct connection_options {
    size_t in_max;            /* with so many bytes unconsumed, or more, nothing is read */
    size_t out_max;           /* bytes that may be gathered in one turn; more aborts */
    size_t out_high;          /* above this much unwritten output nothing is read ... */
    size_t out_low;           /* ... until it is below this */
    uint32_t stall_ms;        /* output that makes no progress for so long aborts */
    uint32_t user_timeout_ms; /* TCP_USER_TIMEOUT, 0: the system's */
    bool writes_first;        /* before others, when both have something to say */
    bool read_under_pressure; /* where both ends stopping to read would stop them for ever */
};

/* What stands between the socket and the owner: TLS. Both append to `wire` what is to be sent.
 * False ends the connection after that was sent. */
struct connection_filter {
    void *ctx;
    bool (*incoming)(void *ctx, struct slice bytes, struct buffer *plain, struct buffer *wire);
    bool (*outgoing)(void *ctx, struct slice plain, struct buffer *wire);
    void (*close)(void *ctx);
};

/* The owner takes over a connection that a listener or a dialer gave it; reading begins. */
void connection_start(struct connection *c, const struct connection_handlers *handlers,
                      void *owner);
/* Before connection_start. The filter's ctx is the connection's from now on. */
void connection_set_filter(struct connection *c, const struct connection_filter *filter);

/* Append to it what shall go out; it does at the end of this turn. After close or abort it takes
 * bytes and forgets them. */
struct buffer *connection_output(struct connection *c);
/* There is something to be asked for. */
void connection_touch(struct connection *c);
/* Bytes that the other end has not taken yet. */
size_t connection_pending(const struct connection *c);
/* on_pressure(false) comes when they are below the low mark, in this turn or later; for an owner
 * that has more to say than it wants to gather. */
void connection_expect_drain(struct connection *c);

/* Nothing is read, and no bytes are handed over, until connection_resume; then on_bytes comes again
 * for what was left, after the poll phase of this turn or the next. */
void connection_pause(struct connection *c);
void connection_resume(struct connection *c);

/* on_timeout is called once, in `ms` from now, whatever happens meanwhile; 0: never. A later call
 * replaces it. Lazy: calling it for each request costs next to nothing. */
void connection_set_timeout(struct connection *c, uint32_t ms);

void connection_close(struct connection *c);
void connection_abort(struct connection *c, const char *reason);
/* Writes what the kernel takes at once and aborts: the descriptor is free when this returns. For a
 * connection on which nothing was in progress. */
void connection_dismiss(struct connection *c, const char *reason);

/* "127.0.0.1:40312". */
const char *connection_remote(const struct connection *c);
const struct ip_address *connection_ip(const struct connection *c);
/* Rises with every connection of the process: a later one has a higher number. */
uint64_t connection_number(const struct connection *c);

#endif
