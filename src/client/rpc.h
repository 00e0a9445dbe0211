/* One gRPC call on one link, once: its stream, the messages that come back, and the status in the
 * trailers. Whether it is tried again is decided elsewhere. */
#ifndef HOLDFAST_CLIENT_RPC_H
#define HOLDFAST_CLIENT_RPC_H

#include "client/link.h"
#include "wire/grpc.h"
#include "wire/http2_client.h"

enum rpc_end {
    RPC_ANSWERED,  /* there is a status */
    RPC_UNTOUCHED, /* nothing was done: refused before it was looked at, or never sent */
    RPC_BROKEN,    /* what became of it is not known */
    RPC_STRANGE,   /* the other end does not speak gRPC */
};

/* Neither may start an rpc; the engine does, when the input has been read. */
struct rpc_handler {
    /* Borrowed for the call. */
    void (*on_message)(void *owner, struct slice message);
    /* Once, unless it was cancelled; then the rpc may be started again. */
    void (*on_end)(void *owner, enum rpc_end end);
};

enum {
    RPC_CODE = 48,
    RPC_MESSAGE = 256,
    RPC_MAX_MESSAGE = 1 << 20, /* the longest that is read */
};

struct rpc {
    struct link *link; /* NULL: not under way */
    struct http2_stream *stream;
    struct grpc_reader reader;
    const struct rpc_handler *handler;
    void *owner;
    bool is_prompt; /* an answer is due soon: the link owes it */
    int http_status;
    int status;                /* gRPC's, -1: none came */
    char code[RPC_CODE];       /* holdfast-error-code */
    char message[RPC_MESSAGE]; /* grpc-message, decoded */
};

extern const struct http2_client_handler rpc_http2_handler;

/* False when the link takes no more. */
bool rpc_start(struct rpc *rpc, struct link *link, const char *path, struct slice message,
               bool keep_open, bool is_prompt, int64_t now_ms);
void rpc_send(struct rpc *rpc, struct slice message, bool end);
/* Takes one that is not under way, too. */
void rpc_cancel(struct rpc *rpc);

static inline bool rpc_is_under_way(const struct rpc *rpc)
{
    return rpc->link != NULL;
}

#endif
