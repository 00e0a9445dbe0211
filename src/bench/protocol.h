/* What `holdfast bench` needs of a protocol: bytes that ask, and bytes that answer. One file each;
 * none of them knows sockets, clocks or the load.
 *
 * The clients of a connection are its slots, from 0; each has one request outstanding at most. */
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

/* Its texts have a NUL behind them. */
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
    bool fine;            /* it was done */
    uint64_t token;       /* of ACQUIRE */
    struct slice session; /* of OPEN; lasts as long as the call */
    /* When it was not done: a word to count by, and a sentence. */
    char code[BENCH_CODE];
    char message[BENCH_MESSAGE];
};

typedef void bench_answer_fn(void *ctx, const struct bench_answer *answer);

struct bench_protocol {
    const char *name;
    bool multiplexes;     /* whether a connection may have more than one slot */
    bool waits;           /* whether an acquire may wait */
    bool sessions_follow; /* with the connection the session is gone for its client */

    /* The state of one connection. `host` is the server's HOST:PORT, and outlives it. */
    void *(*open)(const char *host, uint32_t slots);
    void (*close)(void *state);
    /* A new connection to the server begins; what it must say first is appended to `out`. */
    void (*begin)(void *state, struct buffer *out);
    void (*ask)(void *state, uint32_t slot, const struct bench_request *ask, struct buffer *out);
    /* Works off `bytes`, calls `on_answer` (which may ask anew at once) for each whole answer in
     * them, and returns how many it consumed; those after them come again with more behind them.
     * What the protocol itself has to say is appended to `out`. On bytes that are no answers it
     * sets `*problem`, and the connection is given up. */
    size_t (*receive)(void *state, struct slice bytes, struct buffer *out,
                      bench_answer_fn *on_answer, void *ctx, const char **problem);
};

extern const struct bench_protocol bench_grpc;
extern const struct bench_protocol bench_http;
extern const struct bench_protocol bench_resp;

#endif
