/* A protocol of `holdfast bench`: it encodes requests and decodes answers, without sockets, clocks
 * and state of the load.
 *
 * The clients of a connection are its slots, from 0. A slot has at most one outstanding request. */
#ifndef HOLDFAST_BENCH_PROTOCOL_H
#define HOLDFAST_BENCH_PROTOCOL_H

#include "base/buffer.h"

enum bench_verb {
    BENCH_OPEN, /* a session of `ttl_ms` */
    BENCH_KEEPALIVE,
    BENCH_CLOSE,
    BENCH_ACQUIRE, /* `name`, waiting for `wait_ms` at most */
    BENCH_RELEASE, /* `name` by `token` */
};

enum { BENCH_SESSION = 64, BENCH_CODE = 48, BENCH_MESSAGE = 200 };

/* The texts are NUL-terminated. */
struct bench_request {
    enum bench_verb verb;
    struct slice session; /* its id; for all but OPEN */
    struct slice client;  /* for OPEN */
    struct slice name;
    struct slice tier; /* empty: the server's choice */
    uint64_t token;
    uint64_t ttl_ms;
    uint64_t wait_ms;
};

struct bench_answer {
    uint32_t slot;
    bool fine;            /* the request succeeded */
    uint64_t token;       /* of ACQUIRE */
    struct slice session; /* of OPEN; valid during the callback */
    /* If it failed: for the statistics, and a sentence. */
    char code[BENCH_CODE];
    char message[BENCH_MESSAGE];
};

typedef void bench_answer_fn(void *ctx, const struct bench_answer *answer);

struct bench_protocol {
    const char *name;
    bool multiplexes;     /* whether a connection may have more than one slot */
    bool waits;           /* whether an acquire may wait */
    bool sessions_follow; /* the loss of the connection ends the session */

    /* The state of one connection. `host` is HOST:PORT of the server and must outlive it. */
    void *(*open)(const char *host, uint32_t slots);
    void (*close)(void *state);
    /* A new connection: appends the first bytes to send. */
    void (*begin)(void *state, struct buffer *out);
    void (*request)(void *state, uint32_t slot, const struct bench_request *request,
                    struct buffer *out);
    /* Decodes `bytes`, calls `on_answer` for each complete answer and returns the bytes consumed.
     * `on_answer` may send the next request. The rest is passed again with further bytes. Bytes
     * that the protocol itself must send are appended to `out`. If `bytes` are invalid, sets
     * `*problem`; the caller closes the connection. */
    size_t (*receive)(void *state, struct slice bytes, struct buffer *out,
                      bench_answer_fn *on_answer, void *ctx, const char **problem);
};

extern const struct bench_protocol bench_grpc;
extern const struct bench_protocol bench_http;
extern const struct bench_protocol bench_resp;

#endif
