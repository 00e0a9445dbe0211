/* One HTTP connection.
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
    INPUT_SOFT = 64 << 10,   /* input bytes at which reading stops */
    OUTPUT_SOFT = 256 << 10, /* output bytes at which no further request starts */
    OUTPUT_KEPT = 512,       /* output buffer bytes that an idle connection keeps */
    OUTPUT_MAX = 20 << 20,
    INPUT_MAX = INPUT_SOFT + (int)HTTP_CONN_READ,
};

/* See service_options. */
enum conn_clock { CLOCK_NONE, CLOCK_IDLE, CLOCK_TRANSFER, CLOCK_QUIET };

/* The newest grants of an HTTP/2 connection that the client cannot request again. The answer of a
 * cancelled call was not received: the lock is released (S7.2). */
struct recent_grants {
    uint32_t next;
    struct {
        int32_t stream;
        struct caller_id who;
        struct id lease;
        enum tier tier;
    } at[16];
};

/* The header WWW-Authenticate. */
#define CONN_CHALLENGE "Bearer realm=\"holdfast\""

enum conn_state { CONN_IDLE, CONN_BODY, CONN_BUSY, CONN_STREAM, CONN_HTTP2, CONN_CLOSING };

struct http_conn {
    struct api_request x;
    struct http_conn_options options;
    struct auth_conn auth;
    uint64_t source;             /* see gateway_call */
    struct conn_account account; /* of its buffers and streams */
    enum conn_state state;
    enum conn_clock clock;
    bool is_ended;      /* no more input */
    bool is_broken_off; /* by conn_budget_enforce */
    bool is_kept;       /* the strings of x were copied into `head` */
    struct http1 parser;
    struct buffer in;
    struct buffer out;
    struct buffer head;             /* of a request with an incomplete body */
    struct buffer body;             /* part received in earlier calls */
    struct slice piece;             /* part that is in `in` */
    uint64_t written;               /* bytes, since opened */
    uint64_t since_ms;              /* boot time: when the clock started */
    struct http1_response response; /* version and options of the request */
    bool is_long;                   /* in CONN_STREAM: answer of known length */
    uint64_t owed;                  /* if is_long: bytes to be written */
    struct list unwritten;          /* with a grant that is not written */
    struct http2 *http2;            /* NULL: HTTP/1.1 */
    struct list streams;
    uint32_t resets;              /* resets that the client may still send, */
    uint64_t resets_ms;           /* as of this boot time */
    struct recent_grants *recent; /* NULL: none yet */
    bool is_pinged;               /* ping sent since the last received bytes */
    size_t body_bytes;            /* of incomplete requests, on all streams */
    struct list link;             /* in service.conns */
    struct list ready;            /* in service.ready */
    struct list held_back;        /* in service.budget.held_back */
    struct list deadline;         /* in service.idle, transfers or quiet */
};

/* http_conn.c */
/* The policy has changed, or credentials have expired. */
void http_conn_review(struct http_conn *conn);
void conn_set_state(struct http_conn *conn, enum conn_state state);
void conn_update_clock(struct http_conn *conn);
void conn_mark_ready(struct http_conn *conn);
/* Whether a request may start, or its body be read. */
bool conn_may_go_on(const struct http_conn *conn);

/* http_request.c */
void conn_advance(struct http_conn *conn);
/* Headers Date and Holdfast-Leader; may be empty. */
struct slice conn_date(struct service *s);
struct slice conn_leader(const struct service *s);

/* Answers an unreadable request and closes the connection. */
void conn_refuse(struct http_conn *conn, enum hf_error error);

#endif
