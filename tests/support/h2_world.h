/* Clients of HTTP/2 for tests: nghttp2's own client, by memory, on a client of http_world.h. To be
 * included after base_testing.h. */
#ifndef HOLDFAST_TESTS_H2_WORLD_H
#define HOLDFAST_TESTS_H2_WORLD_H

#include <nghttp2/nghttp2.h>
#include <protobuf-c/protobuf-c.h>

#include "http_world.h"
#include "wire/grpc.h"

enum { H2_CALLS = 64, H2_HEADERS = 2048 };

struct h2_call {
    int32_t id;
    char headers[H2_HEADERS]; /* "name: value\n" of the answer's head and trailers */
    uint8_t *body;            /* of the answer */
    size_t body_len;
    size_t taken;   /* of it by h2_message */
    bool is_closed; /* the stream is over ... */
    uint32_t error; /* ... with this code */
    uint8_t *out;   /* what is to be sent, and how much was */
    size_t out_len;
    size_t out_sent;
    bool is_last; /* the request ends with it */
};

struct h2_client {
    struct http_client *client;
    nghttp2_session *session;
    struct h2_call calls[H2_CALLS];
    size_t count;
    bool has_goaway;
    uint32_t goaway_error;
    int32_t goaway_last;
    uint32_t settings[16];
    size_t fed; /* bytes that came in all */
};

void h2_open(struct h2_client *h, struct http_world *w, bool is_operator);
/* The same, with windows that only the test moves. */
void h2_open_by_hand(struct h2_client *h, struct http_world *w, bool is_operator);
void h2_close(struct h2_client *h);
/* What the session wants to say, and what follows from that; until nothing moves. */
void h2_run(struct h2_client *h);
/* Time passes. */
void h2_pass(struct h2_client *h, uint64_t ms);

/* A request with these headers ("name: value\n" each), whose body comes later unless it is NULL and
 * `is_last`. */
struct h2_call *h2_request(struct h2_client *h, const char *method, const char *path,
                           const char *headers, const void *body, size_t len, bool is_last);
/* More of the body. */
void h2_send(struct h2_client *h, struct h2_call *call, const void *body, size_t len, bool is_last);
void h2_cancel(struct h2_client *h, struct h2_call *call);

/* A call of gRPC. `timeout` may be NULL. */
struct h2_call *h2_start(struct h2_client *h, const char *path, const char *timeout);
void h2_put(struct h2_client *h, struct h2_call *call, const ProtobufCMessage *message,
            bool is_last);
struct h2_call *h2_unary(struct h2_client *h, const char *path, const ProtobufCMessage *message);
/* The next message of the answer, to be freed by protobuf_c_message_free_unpacked; NULL: none. */
void *h2_message(struct h2_call *call, const ProtobufCMessageDescriptor *type);

/* A header of the answer, "" when it is not there; lasts until the next call. */
const char *h2_header(const struct h2_call *call, const char *name);
/* Fails the test unless the call ended so. `code` is holdfast-error-code. */
void h2_expect(const struct h2_call *call, enum grpc_status status, const char *code);

#endif
