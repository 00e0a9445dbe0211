/* Clients of bench/hotpath.c: each protocol makes the bytes of requests and reads the bytes of
 * answers. None of this is counted. */
#ifndef HOLDFAST_BENCH_HOTPATH_CLIENT_H
#define HOLDFAST_BENCH_HOTPATH_CLIENT_H

#include "base/slice.h"

enum { HOTPATH_CLIENTS = 64 };

struct hotpath_protocol {
    const char *name;
    bool is_redis; /* the connection is a resp_conn, else an http_conn */
    /* The bytes of a request of client number `client`, valid until its next call. `open`: what a
     * new connection sends first, may be empty. */
    struct slice (*open)(unsigned client);
    struct slice (*acquire)(unsigned client, const char *name);
    struct slice (*release)(unsigned client, const char *name);
    /* Takes the answer to the last request. Ends the program unless it was successful. */
    void (*take)(unsigned client, struct slice answer);
    void (*close)(unsigned client);
};

/* What clients send to say who they are; "": nothing. Set before `open`. */
extern const char *hotpath_secret;

extern const struct hotpath_protocol hotpath_http;
extern const struct hotpath_protocol hotpath_grpc;
extern const struct hotpath_protocol hotpath_resp;

#endif
