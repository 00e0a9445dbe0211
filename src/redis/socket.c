/* The event hooks of hiredis, with uv_poll_t. */
#include "redis/socket.h"

#include <fcntl.h>
#include <hiredis/async.h>

struct redis_socket {
    uv_poll_t poll;
    const struct memory *memory;
    redisAsyncContext *context; /* NULL after hiredis has freed it */
    int wanted;
};

static void on_event(uv_poll_t *poll, int status, int events);

static void watch(struct redis_socket *s)
{
    if (s->context == NULL) {
        return;
    }
    if (s->wanted == 0) {
        uv_poll_stop(&s->poll);
    } else {
        uv_poll_start(&s->poll, s->wanted, on_event);
    }
}

/* libuv reports a socket error as a status and stops watching; hiredis finds it by reading or
 * writing. */
static void on_event(uv_poll_t *poll, int status, int events)
{
    struct redis_socket *s = poll->data;
    int ready = status < 0 ? UV_READABLE | UV_WRITABLE : events;
    if (s->context != NULL && (ready & UV_READABLE) != 0) {
        redisAsyncHandleRead(s->context);
    }
    if (s->context != NULL && (ready & UV_WRITABLE) != 0) {
        redisAsyncHandleWrite(s->context);
    }
    if (status < 0) {
        watch(s);
    }
}

static void want(void *data, int event, bool wanted)
{
    struct redis_socket *s = data;
    int before = s->wanted;
    s->wanted = wanted ? s->wanted | event : s->wanted & ~event;
    if (s->wanted != before) {
        watch(s);
    }
}

static void add_read(void *data)
{
    want(data, UV_READABLE, true);
}

static void drop_read(void *data)
{
    want(data, UV_READABLE, false);
}

static void add_write(void *data)
{
    want(data, UV_WRITABLE, true);
}

static void drop_write(void *data)
{
    want(data, UV_WRITABLE, false);
}

static void on_closed(uv_handle_t *handle)
{
    struct redis_socket *s = handle->data;
    memory_free(s->memory, s, sizeof(*s));
}

/* hiredis closes the descriptor right after this: stop watching it. */
static void clean_up(void *data)
{
    struct redis_socket *s = data;
    s->context = NULL;
    uv_poll_stop(&s->poll);
    uv_close((uv_handle_t *)&s->poll, on_closed);
}

bool redis_socket_attach(struct redisAsyncContext *context, uv_loop_t *loop,
                         const struct memory *memory)
{
    struct redis_socket *s = memory_alloc(memory, sizeof(*s));
    *s = (struct redis_socket){.memory = memory, .context = context};
    fcntl(context->c.fd, F_SETFD, FD_CLOEXEC);
    if (uv_poll_init(loop, &s->poll, context->c.fd) != 0) {
        memory_free(memory, s, sizeof(*s));
        return false;
    }
    s->poll.data = s;
    context->ev.data = s;
    context->ev.addRead = add_read;
    context->ev.delRead = drop_read;
    context->ev.addWrite = add_write;
    context->ev.delWrite = drop_write;
    context->ev.cleanup = clean_up;
    return true;
}
