/* One attempt of a gRPC call on one link: stream, messages, status. The caller decides about
 * retries. */
#ifndef HOLDFAST_CLIENT_RPC_H
#define HOLDFAST_CLIENT_RPC_H

#include "client/link.h"
#include "wire/grpc.h"
#include "wire/http2_client.h"

enum rpc_end {
    RPC_ANSWERED,  /* with a status */
    RPC_UNTOUCHED, /* refused before processing, or never sent */
    RPC_BROKEN,    /* outcome unknown */
    RPC_STRANGE,   /* peer without gRPC */
};

/* Neither callback may start an rpc; the engine does, after the input. */
struct rpc_handler {
    /* Borrowed for the call. */
    void (*on_message)(void *owner, struct slice message);
    /* Once, unless cancelled; the rpc may then be started again. */
    void (*on_end)(void *owner, enum rpc_end end);
};

enum {
    RPC_CODE = 48,
    RPC_MESSAGE = 256,
    RPC_MAX_MESSAGE = 1 << 20, /* bytes of a request */
    RPC_MAX_ANSWER = 1 << 21,  /* a page of held locks has at most 2,128 names of 512 bytes */
};

struct rpc {
    struct link *link; /* NULL: not active */
    struct http2_client_stream *stream;
    struct grpc_reader reader;
    const struct rpc_handler *handler;
    void *owner;
    bool is_prompt; /* an answer is due soon; owed by the link */
    int http_status;
    int status;                /* of gRPC; -1: none */
    char code[RPC_CODE];       /* holdfast-error-code */
    char message[RPC_MESSAGE]; /* grpc-message, decoded */
};

extern const struct http2_client_handler rpc_http2_handler;

/* False: no more streams. */
bool rpc_start(struct rpc *rpc, struct link *link, const char *path, struct slice message,
               bool keep_open, bool is_prompt, int64_t now_ms);
void rpc_send_message(struct rpc *rpc, struct slice message, bool end);
/* Nothing if not active. */
void rpc_cancel(struct rpc *rpc);

static inline bool rpc_is_under_way(const struct rpc *rpc)
{
    return rpc->link != NULL;
}

#endif
