/* One attempt of a gRPC call on one link: its stream, the received messages, and the status in the
 * trailers. The caller decides about retries. */
#ifndef HOLDFAST_CLIENT_RPC_H
#define HOLDFAST_CLIENT_RPC_H

#include "client/link.h"
#include "wire/grpc.h"
#include "wire/http2_client.h"

enum rpc_end {
    RPC_ANSWERED,  /* there is a status */
    RPC_UNTOUCHED, /* nothing was done: refused before it was processed, or never sent */
    RPC_BROKEN,    /* the outcome is not known */
    RPC_STRANGE,   /* the peer does not speak gRPC */
};

/* Neither callback may start an rpc; the engine does that after the input has been read. */
struct rpc_handler {
    /* Borrowed for the call. */
    void (*on_message)(void *owner, struct slice message);
    /* Called once, unless the rpc was cancelled; then the rpc may be started again. */
    void (*on_end)(void *owner, enum rpc_end end);
};

enum {
    RPC_CODE = 48,
    RPC_MESSAGE = 256,
    RPC_MAX_MESSAGE = 1 << 20, /* the longest message that is accepted */
};

struct rpc {
    struct link *link; /* NULL: not active */
    struct http2_client_stream *stream;
    struct grpc_reader reader;
    const struct rpc_handler *handler;
    void *owner;
    bool is_prompt; /* an answer is due soon, and the link counts it as owed */
    int http_status;
    int status;                /* of gRPC, -1: none was received */
    char code[RPC_CODE];       /* holdfast-error-code */
    char message[RPC_MESSAGE]; /* grpc-message, decoded */
};

extern const struct http2_client_handler rpc_http2_handler;

/* False when the link accepts no more streams. */
bool rpc_start(struct rpc *rpc, struct link *link, const char *path, struct slice message,
               bool keep_open, bool is_prompt, int64_t now_ms);
void rpc_send_message(struct rpc *rpc, struct slice message, bool end);
/* Does nothing if the rpc is not active. */
void rpc_cancel(struct rpc *rpc);

static inline bool rpc_is_under_way(const struct rpc *rpc)
{
    return rpc->link != NULL;
}

#endif
