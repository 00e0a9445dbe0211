/* gRPC for the protocols of `holdfast bench`: one HTTP/2 connection in memory buffers. Each slot
 * has one unary call at a time and one stream that stays open. grpc.c defines the messages of
 * Holdfast, bench/peers/ those of other systems. */
#ifndef HOLDFAST_BENCH_CALLS_H
#define HOLDFAST_BENCH_CALLS_H

#include <protobuf-c/protobuf-c.h>

#include "bench/protocol.h"
#include "wire/grpc.h"
#include "wire/http2_client.h"

struct bench_call {
    struct bench_slot *slot;
    struct http2_client_stream *stream; /* NULL: none */
    struct grpc_reader reader;
    int status; /* of gRPC; -1: not received */
    char code[BENCH_CODE];
    char message[BENCH_MESSAGE];
};

/* A client of the connection. The last three members belong to the protocol. */
struct bench_slot {
    struct bench_calls *calls;
    uint32_t number;
    bool is_outstanding; /* a request is outstanding */
    enum bench_verb verb;
    struct bench_call unary;
    struct bench_call stream;
    bool is_done;
    uint64_t token;
    uint64_t counter;
};

struct bench_calls_handler {
    void (*request)(struct bench_slot *slot, const struct bench_request *request);
    void (*on_message)(struct bench_call *call, struct slice message);
    void (*on_end)(struct bench_call *call);
};

struct bench_calls {
    const struct bench_calls_handler *handler;
    struct http2_client *http2;
    const char *host;
    bool is_receiving; /* requests of callbacks are sent when receive ends */
    bool is_ending;    /* the connection is being freed: do not report streams that end */
    bench_answer_fn *on_answer;
    void *on_answer_ctx;
    uint32_t slots;
    struct bench_slot slot[];
};

struct bench_calls *bench_calls_open(const char *host, uint32_t slots,
                                     const struct bench_calls_handler *handler);

/* The functions of struct bench_protocol except `open`. */
void bench_calls_close(void *state);
void bench_calls_begin(void *state, struct buffer *out);
void bench_calls_request(void *state, uint32_t slot, const struct bench_request *request,
                         struct buffer *out);
size_t bench_calls_receive(void *state, struct slice bytes, struct buffer *out,
                           bench_answer_fn *on_answer, void *ctx, const char **problem);

/* For the handler. A call that cannot start is reported as a failure. */
void bench_call_start(struct bench_call *c, const char *path, const ProtobufCMessage *message,
                      bool keep_open);
/* On an open stream. */
void bench_call_send(struct bench_call *c, const ProtobufCMessage *message);
/* Reports the answer, at most once per request. */
void bench_slot_tell(struct bench_slot *s, struct bench_answer *answer);
void bench_call_tell_failure(struct bench_call *c);

/* protobuf-c takes texts without const, but does not write to them. */
static inline char *bench_text(struct slice text)
{
    return (char *)(uintptr_t)text.data;
}

#endif
