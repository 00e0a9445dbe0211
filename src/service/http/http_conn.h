/* One connection in memory: what http_conn.c, http_request.c and http2_*.c share.
 *
 *           head            body complete            answer
 *   IDLE ─────────▶ BODY ────────────────▶ BUSY ─────────────▶ IDLE, or CLOSING
 *     │                                      ├──stream──▶ STREAM ──end──▶ CLOSING
 *     │                                      └──long answer──▶ STREAM ──end──▶ IDLE, or CLOSING
 *     └──preface──▶ HTTP2 ──▶ CLOSING
 */
#ifndef HOLDFAST_SERVICE_HTTP_HTTP_CONN_H
#define HOLDFAST_SERVICE_HTTP_HTTP_CONN_H

#include "service/http/http_api.h"
#include "service/request/api_request.h"
#include "wire/http1.h"
#include "wire/http1_response.h"

enum {
    INPUT_SOFT = 64 << 10,   /* more than this is not asked for while a request is worked on */
    OUTPUT_SOFT = 256 << 10, /* no further request is begun while so much waits to be written */
    OUTPUT_MAX = 20 << 20,
    INPUT_MAX = INPUT_SOFT + (int)HTTP_CONN_READ,
};

/* Which of its times is running: see service_options. */
enum conn_clock { CLOCK_NONE, CLOCK_IDLE, CLOCK_TRANSFER, CLOCK_QUIET };

/* The newest grants of a connection of HTTP/2 that nobody can ask for again, by stream: if the
 * client cancels such a call it has not taken the answer, and the lock is given back (S7.2). */
struct recent_grants {
    uint32_t next;
    struct {
        int32_t stream;
        uint32_t tenant;
        struct id lease;
        enum tier tier;
    } at[16];
};

enum conn_state { CONN_IDLE, CONN_BODY, CONN_BUSY, CONN_STREAM, CONN_HTTP2, CONN_CLOSING };

struct http_conn {
    struct api_request x;
    struct http_conn_options options;
    uint64_t source;             /* see gateway_call */
    struct conn_account account; /* that its buffers and streams are allocated from */
    enum conn_state state;
    enum conn_clock clock;
    bool is_ended;      /* no more input comes */
    bool is_broken_off; /* by conn_budget_enforce */
    bool is_kept;       /* what x names was copied into `head` */
    struct http1 parser;
    struct buffer in;
    struct buffer out;
    struct buffer head;             /* of a request whose body is still coming */
    struct buffer body;             /* what has come of it in earlier calls */
    struct slice piece;             /* the part of the body that lies in `in` */
    uint64_t written;               /* bytes, ever */
    uint64_t since_ms;              /* boot time: when the clock started */
    struct http1_response response; /* as the request decides */
    bool is_long;                   /* in CONN_STREAM: the length was told, ... */
    uint64_t owed;                  /* ... and so much of it has not been given */
    struct list unwritten;          /* asks */
    struct http2 *http2;            /* NULL: it speaks HTTP/1.1 */
    struct list streams;            /* of HTTP/2 */
    uint32_t resets;                /* that are left to the client ... */
    uint64_t resets_ms;             /* ... as of then, boot time */
    struct recent_grants *recent;   /* NULL: there was none yet */
    bool is_pinged;                 /* since it was heard last */
    size_t body_bytes;              /* of requests that are still coming, on all streams */
    struct list link;               /* in service.conns */
    struct list ready;              /* in service.ready */
    struct list held_back;          /* in service.budget.held_back */
    struct list deadline;           /* in service.idle, transfers or quiet */
};

/* http_conn.c */
void conn_set_state(struct http_conn *conn, enum conn_state state);
void conn_update_clock(struct http_conn *conn);
void conn_mark_ready(struct http_conn *conn);
/* Another request may be begun, or its body read. */
bool conn_may_go_on(const struct http_conn *conn);

/* http_request.c: works off the input as far as it goes. */
void conn_advance(struct http_conn *conn);
/* The headers Date and Holdfast-Leader of an answer; either may be empty. */
struct slice conn_date(struct service *s);
struct slice conn_leader(const struct service *s);

/* A request that cannot be read: one answer, and the connection is over. */
void conn_refuse(struct http_conn *conn, enum hf_error error);

#endif
