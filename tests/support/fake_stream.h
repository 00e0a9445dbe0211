/* The streams under fake_service.c: HTTP/2 and gRPC of a server, by memory. */
#ifndef HOLDFAST_TESTS_FAKE_STREAM_H
#define HOLDFAST_TESTS_FAKE_STREAM_H

#include <nghttp2/nghttp2.h>

#include "fake_service.h"
#include "wire/grpc.h"

struct fake_conn {
    struct list link;
    struct fake *fake;
    nghttp2_session *session;
    struct list streams;
    bool is_broken;
};

struct fake_stream {
    struct list link;
    struct fake_conn *conn;
    int32_t id;
    char path[FAKE_TEXT];
    struct grpc_reader reader;
    struct buffer out;
    bool is_begun; /* its headers were sent */
    bool is_deferred;
    bool is_ended;
    bool is_session;
    bool is_cancel;  /* the request has the field `cancel` */
    bool is_waiting; /* for a lock */
    char name[FAKE_TEXT];
    char owner[FAKE_TEXT];
    char trace[FAKE_TEXT];
    char request_id[FAKE_TEXT];
    int64_t ttl_ms;
    int status;
    char code[FAKE_TEXT];
    char message[FAKE_TEXT];
};

/* fake_service.c */
void fake_on_message(struct fake_stream *s, struct slice message);

void fake_stream_send(struct fake_stream *s, struct slice message);
void fake_stream_end(struct fake_stream *s, enum grpc_status status, const char *code,
                     const char *message);
/* All streams of all connections, one after the other; NULL begins and ends. */
struct fake_stream *fake_next_stream(struct fake *f, struct fake_stream *after);
struct fake_stream *fake_first_waiter(struct fake *f, const char *name);

#endif
