/* gRPC for the protocols of a bench: one connection of HTTP/2 by memory, and on it for each slot a
 * call at a time, beside a stream that stays open. What is in their messages is the protocol's
 * business: `holdfast bench` has one (bench_grpc.c), the comparison with others has more
 * (bench/peers/). */
#ifndef HOLDFAST_BENCH_CALLS_H
#define HOLDFAST_BENCH_CALLS_H

#include <protobuf-c/protobuf-c.h>

#include "bench/protocol.h"
#include "wire/grpc.h"
#include "wire/http2_client.h"

struct bench_call {
    struct bench_slot *slot;
    struct http2_stream *stream; /* NULL: none */
    struct grpc_reader reader;
    int status; /* gRPC's, -1: none came */
    char code[BENCH_CODE];
    char message[BENCH_MESSAGE];
};

/* A client of the connection. The last three are the protocol's own. */
struct bench_slot {
    struct bench_calls *calls;
    uint32_t number;
    bool is_asked; /* an answer is owed */
    enum bench_verb verb;
    struct bench_call unary;
    struct bench_call stream;
    bool is_done;
    uint64_t token;
    uint64_t counter;
};

struct bench_calls_handler {
    void (*ask)(struct bench_slot *slot, const struct bench_request *ask);
    void (*on_message)(struct bench_call *call, struct slice message);
    void (*on_end)(struct bench_call *call);
};

struct bench_calls {
    const struct bench_calls_handler *handler;
    struct http2_client *http2;
    const char *host;
    bool is_receiving; /* what is asked meanwhile leaves at the end */
    bool is_ending;    /* streams that end now have nobody to tell */
    bench_answer_fn *on_answer;
    void *on_answer_ctx;
    uint32_t slots;
    struct bench_slot slot[];
};

struct bench_calls *bench_calls_open(const char *host, uint32_t slots,
                                     const struct bench_calls_handler *handler);

/* These are a protocol's own functions (bench_protocol.h), all but `open`. */
void bench_calls_close(void *state);
void bench_calls_begin(void *state, struct buffer *out);
void bench_calls_request(void *state, uint32_t slot, const struct bench_request *ask,
                         struct buffer *out);
size_t bench_calls_receive(void *state, struct slice bytes, struct buffer *out,
                           bench_answer_fn *on_answer, void *ctx, const char **problem);

/* For the handler. Begins a call; one that cannot begin is told as a failure. */
void bench_call_start(struct bench_call *c, const char *path, const ProtobufCMessage *message,
                      bool keep_open);
/* One more message on a stream that was kept open. */
void bench_call_send(struct bench_call *c, const ProtobufCMessage *message);
/* The answer that the slot owes, once. */
void bench_slot_tell(struct bench_slot *s, struct bench_answer *answer);
void bench_call_tell_failure(struct bench_call *c);

/* Texts as protobuf-c wants them; it does not write to what it packs. */
static inline char *bench_text(struct slice text)
{
    return (char *)(uintptr_t)text.data;
}

#endif
