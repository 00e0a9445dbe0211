/* One connection: bytes in, bytes out, back-pressure, time limits, a clean end.
 *
 *      new ──start──▶ open ──close──▶ finishing: writes the output, sends the FIN, then
 *                      │                 │        discards input for a short time
 *                      └──abort───────▶ closing ──▶ on_close, freed
 *
 * on_close is called exactly once, after every other handler, and never from inside a call of the
 * owner; the connection is freed when it returns. No other handler is called after close or
 * abort. */
#ifndef HOLDFAST_NET_CONNECTION_H
#define HOLDFAST_NET_CONNECTION_H

#include "base/buffer.h"
#include "base/peer_identity.h"
#include "net/address.h"
#include "net/net.h"

struct connection_handlers {
    /* All unconsumed bytes. Returns how many are consumed; the rest is passed again, with more
     * after it, or after connection_resume. An owner that is not ready may return 0: reading
     * continues up to in_max, so that a close by the peer is detected. */
    size_t (*on_bytes)(void *owner, struct slice bytes);
    /* The handshake of the filter is complete; connection_identity is valid. Before on_bytes; not
     * called without a handshake. May be NULL. */
    void (*on_open)(void *owner);
    /* The peer has closed its sending side. NULL: abort. */
    void (*on_end)(void *owner);
    /* Pending output is above the high mark (true), or has drained below the low one. Reading is
     * stopped in between, unless the options allow it. May be NULL. */
    void (*on_pressure)(void *owner, bool pressed);
    /* The time of connection_set_timeout is over. NULL: abort. */
    void (*on_timeout)(void *owner);
    /* `reason` is for the log. */
    void (*on_close)(void *owner, const char *reason);
    /* For an owner that keeps its output itself. `output` returns the bytes to write, once per turn
     * after connection_touch. `on_written` reports how many of them, from the front, the kernel has
     * taken. Both or none; connection_output is not used then. Neither is called after
     * connection_close. */
    struct slice (*output)(void *owner);
    void (*on_written)(void *owner, size_t len);
};

struct connection_options {
    size_t in_max;            /* reading stops while this many bytes are unconsumed */
    size_t out_max;           /* bytes that may be collected in one turn; more aborts */
    size_t out_high;          /* above this much pending output reading stops ... */
    size_t out_low;           /* ... until it is below this */
    uint32_t stall_ms;        /* output without progress for this time aborts */
    uint32_t user_timeout_ms; /* TCP_USER_TIMEOUT, 0: the system's */
    bool writes_first;        /* writes before other connections of the same turn */
    bool read_under_pressure; /* avoids a deadlock when both ends stop reading */
};

enum filter_result {
    FILTER_GOES_ON,
    FILTER_ENDED,  /* the other end has ended its direction: on_end follows */
    FILTER_FAILED, /* the connection ends when `wire` is sent */
};

/* A layer between socket and owner: TLS. The functions append to `wire` what must be sent.
 *
 * While is_opening is true nothing passes from or to the owner: output is kept, and received bytes
 * wait for their share of the turn (opening.c). The handshake has OPENING_MS. */
struct connection_filter {
    void *ctx;
    enum filter_result (*incoming)(void *ctx, struct slice bytes, struct buffer *plain,
                                   struct buffer *wire);
    bool (*outgoing)(void *ctx, struct slice plain, struct buffer *wire);
    void (*close)(void *ctx);
    /* The rest may be NULL. */
    bool (*is_opening)(void *ctx);
    bool begins; /* this end speaks first: `incoming` is called with no bytes */
    void (*finish)(void *ctx, struct buffer *wire); /* after the last output; may be repeated */
    const struct peer_identity *(*identity)(void *ctx);
    const char *(*problem)(void *ctx); /* after FILTER_FAILED; valid until `close` */
};

enum { OPENING_MS = 5000 };

/* The owner takes over a connection from a listener or dialer; reading begins. */
void connection_start(struct connection *c, const struct connection_handlers *handlers,
                      void *owner);
/* Before connection_start. The connection owns the filter's ctx from now on. */
void connection_set_filter(struct connection *c, const struct connection_filter *filter);

/* Output appended to it is written at the end of this turn; after close or abort it is
 * discarded. */
struct buffer *connection_output(struct connection *c);
/* `output` has bytes to write. */
void connection_touch(struct connection *c);
/* Bytes that the kernel has not taken yet. */
size_t connection_pending(const struct connection *c);
/* on_pressure(false) is called when pending output is below the low mark, in this turn or later. */
void connection_expect_drain(struct connection *c);

/* Stops reading and on_bytes until connection_resume; then on_bytes is called with the rest, after
 * the poll phase of this turn or the next. */
void connection_pause(struct connection *c);
void connection_resume(struct connection *c);

/* Calls on_timeout once, `ms` from now; 0: never. A later call replaces it. Cheap enough for each
 * request. */
void connection_set_timeout(struct connection *c, uint32_t ms);

void connection_close(struct connection *c);
void connection_abort(struct connection *c, const char *reason);
/* Writes what the kernel takes at once and aborts: the descriptor is free when this returns. For an
 * idle connection. */
void connection_dismiss(struct connection *c, const char *reason);

/* The handshake of the filter is not complete: on_open follows, or the connection ends. */
bool connection_is_opening(const struct connection *c);
/* The filter has failed: the connection ends for a reason that an operator should know. */
bool connection_has_failed(const struct connection *c);
/* Of the verified other end, valid after on_open; NULL: it has none. */
const struct peer_identity *connection_identity(const struct connection *c);
/* "127.0.0.1:40312". */
const char *connection_remote(const struct connection *c);
/* The address of this end, into `text`; returns the descriptor of the socket. To show them. */
int connection_local(const struct connection *c, char *text, size_t size);
const struct ip_address *connection_ip(const struct connection *c);
/* Increases with every connection of the process. */
uint64_t connection_number(const struct connection *c);

#endif
