/* hiredis on the node's loop: one uv_poll_t per context. */
#ifndef HOLDFAST_REDIS_SOCKET_H
#define HOLDFAST_REDIS_SOCKET_H

#include <stdbool.h>
#include <uv.h>

#include "base/memory.h"

struct redisAsyncContext;

/* Until the context is freed. False: the loop refuses the descriptor. */
bool redis_socket_attach(struct redisAsyncContext *context, uv_loop_t *loop,
                         const struct memory *memory);

#endif
