/* Gives hiredis the node's loop: one uv_poll_t for one asynchronous context. */
#ifndef HOLDFAST_REDIS_SOCKET_H
#define HOLDFAST_REDIS_SOCKET_H

#include <stdbool.h>
#include <uv.h>

#include "base/memory.h"

struct redisAsyncContext;

/* From now on the context's socket is watched; it ends with the context, whoever frees that. False
 * when the loop refuses the descriptor. */
bool redis_socket_attach(struct redisAsyncContext *context, uv_loop_t *loop,
                         const struct memory *memory);

#endif
