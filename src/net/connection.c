/* The lifetime of a connection: opening, time limits, the two ways to end. */
#include <netinet/tcp.h>
#include <stdio.h>

#include "net/connection_state.h"

/* How long received bytes are discarded after our FIN. Closing with unread bytes would reset the
 * connection, and the peer could lose our last output. */
#define LINGER_MS 1000
#define KEEPALIVE_S 30

static void on_timer(uv_timer_t *timer);

struct connection *connection_new(struct net *net, const struct connection_options *options)
{
    const struct memory *memory = net->memory;
    struct connection *c = memory_alloc(memory, sizeof(*c));
    memset(c, 0, sizeof(*c));
    c->net = net;
    c->options = *options;
    c->number = ++net->numbers;
    buffer_init(&c->in, memory, options->in_max + NET_PLAIN);
    buffer_init(&c->held, memory, OPENING_READ);
    buffer_init(&c->out, memory, options->out_max);
    buffer_init(&c->wire, memory, 2 * options->out_max + NET_SCRATCH);
    buffer_init(&c->writing, memory, c->wire.max);
    snprintf(c->remote, sizeof(c->remote), "unknown");
    uv_tcp_init(net->loop, &c->tcp); /* opens no socket, so it cannot fail */
    uv_timer_init(net->loop, &c->timer);
    c->tcp.data = c;
    c->timer.data = c;
    c->handles = 2;
    list_init(&c->all);
    list_init(&c->dirty);
    list_init(&c->ready);
    list_init(&c->opening_link);
    list_append(&net->all, &c->all);
    net->connections++;
    net->client_connections += c->options.writes_first ? 0 : 1;
    return c;
}

uv_tcp_t *connection_tcp(struct connection *c)
{
    return &c->tcp;
}

void connection_opened(struct connection *c)
{
    /* These are optimisations: ignore failures. */
    uv_tcp_nodelay(&c->tcp, 1);
    uv_tcp_keepalive(&c->tcp, 1, KEEPALIVE_S);
    uv_os_fd_t fd;
    if (c->options.user_timeout_ms > 0 && uv_fileno((uv_handle_t *)&c->tcp, &fd) == 0) {
        unsigned ms = c->options.user_timeout_ms;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
    }
    struct sockaddr_storage remote;
    int len = (int)sizeof(remote);
    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&remote, &len) == 0) {
        c->ip = address_ip(&remote);
        address_print(&remote, c->remote, sizeof(c->remote));
    }
}

void connection_on_gone(struct connection *c, void (*gone)(void *ctx), void *ctx)
{
    c->gone = gone;
    c->gone_ctx = ctx;
}

void connection_set_filter(struct connection *c, const struct connection_filter *filter)
{
    hf_assert(c->phase == CONNECTION_NEW && c->filter.incoming == NULL);
    c->filter = *filter;
}

void connection_start(struct connection *c, const struct connection_handlers *handlers, void *owner)
{
    hf_assert(c->phase == CONNECTION_NEW && handlers->on_bytes != NULL &&
              handlers->on_close != NULL);
    hf_assert((handlers->output == NULL) == (handlers->on_written == NULL));
    c->handlers = handlers;
    c->owner = owner;
    c->phase = CONNECTION_OPEN;
    connection_begin_opening(c);
    connection_update_reading(c);
}

bool connection_is_opening(const struct connection *c)
{
    return c->opening;
}

bool connection_has_failed(const struct connection *c)
{
    return c->failed;
}

const struct peer_identity *connection_identity(const struct connection *c)
{
    return c->filter.identity != NULL ? c->filter.identity(c->filter.ctx) : NULL;
}

const char *connection_remote(const struct connection *c)
{
    return c->remote;
}

int connection_local(const struct connection *c, char *text, size_t size)
{
    struct sockaddr_storage local;
    int len = (int)sizeof(local);
    uv_os_fd_t fd = -1;
    snprintf(text, size, "unknown");
    if (uv_tcp_getsockname(&c->tcp, (struct sockaddr *)&local, &len) == 0) {
        address_print(&local, text, size);
    }
    (void)uv_fileno((const uv_handle_t *)&c->tcp, &fd);
    return fd;
}

const struct ip_address *connection_ip(const struct connection *c)
{
    return &c->ip;
}

uint64_t connection_number(const struct connection *c)
{
    return c->number;
}

/* ---- time ---- */

/* The timer may fire too early, never too late: moving a limit further away needs no system
 * call. */
void connection_schedule(struct connection *c)
{
    uint64_t due = c->timeout_at;
    if (c->stall_at != 0 && (due == 0 || c->stall_at < due)) {
        due = c->stall_at;
    }
    if (c->open_at != 0 && (due == 0 || c->open_at < due)) {
        due = c->open_at;
    }
    if (due == 0 || c->phase == CONNECTION_CLOSING) {
        return;
    }
    if (uv_is_active((uv_handle_t *)&c->timer) && c->timer_due <= due) {
        return;
    }
    uint64_t now = uv_now(c->net->loop);
    c->timer_due = due;
    uv_timer_start(&c->timer, on_timer, due > now ? due - now : 0, 0);
}

static void on_stall(struct connection *c, uint64_t now)
{
    size_t left = uv_stream_get_write_queue_size((const uv_stream_t *)&c->tcp);
    if (left >= c->stalled_at) {
        connection_abort(c, "the other end does not read");
        return;
    }
    c->stalled_at = left;
    c->stall_at = now + c->options.stall_ms;
}

static void on_timer(uv_timer_t *timer)
{
    struct connection *c = timer->data;
    uint64_t now = uv_now(c->net->loop);
    if (c->stall_at != 0 && now >= c->stall_at) {
        on_stall(c, now);
    }
    if (c->open_at != 0 && now >= c->open_at) {
        connection_abort(c, "the handshake took too long");
    }
    if (c->phase != CONNECTION_CLOSING && c->timeout_at != 0 && now >= c->timeout_at) {
        c->timeout_at = 0;
        if (c->phase == CONNECTION_OPEN && c->handlers->on_timeout != NULL) {
            c->handlers->on_timeout(c->owner);
        } else {
            connection_abort(c, "timeout");
        }
    }
    connection_schedule(c);
}

void connection_set_timeout(struct connection *c, uint32_t ms)
{
    if (c->phase > CONNECTION_OPEN) {
        return;
    }
    c->timeout_at = ms == 0 ? 0 : uv_now(c->net->loop) + ms;
    connection_schedule(c);
}

/* ---- ending ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    if (--c->handles > 0) {
        return;
    }
    struct net *net = c->net;
    if (c->handlers != NULL) {
        c->handlers->on_close(c->owner, c->reason);
    }
    if (c->filter.close != NULL) {
        c->filter.close(c->filter.ctx);
    }
    if (c->gone != NULL) {
        c->gone(c->gone_ctx);
    }
    buffer_close(&c->in);
    buffer_close(&c->held);
    buffer_close(&c->out);
    buffer_close(&c->wire);
    buffer_close(&c->writing);
    list_remove(&c->all);
    net->connections--;
    net->client_connections -= c->options.writes_first ? 0 : 1;
    memory_free(net->memory, c, sizeof(*c));
}

void net_abort_all(struct net *net, const char *reason)
{
    /* They are removed from the list later, when their handles are closed. */
    for (struct list *link = net->all.next; link != &net->all; link = link->next) {
        connection_abort(LIST_OBJECT(link, struct connection, all), reason);
    }
}

void connection_abort(struct connection *c, const char *reason)
{
    if (c->phase == CONNECTION_CLOSING) {
        return;
    }
    if (c->reason == NULL) {
        c->reason = reason;
    }
    c->phase = CONNECTION_CLOSING;
    connection_end_opening(c);
    connection_unlist(c);
    uv_close((uv_handle_t *)&c->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&c->timer, on_handle_closed);
}

void connection_close(struct connection *c)
{
    if (c->phase == CONNECTION_NEW) {
        connection_abort(c, "closed");
    }
    if (c->phase != CONNECTION_OPEN) {
        return;
    }
    c->phase = CONNECTION_FINISHING;
    connection_end_opening(c);
    c->reason = c->reason != NULL ? c->reason : "closed";
    c->timeout_at = 0;
    c->open_at = 0;
    buffer_truncate(&c->in, 0);
    connection_update_reading(c);
    connection_mark_dirty(c); /* the flush finishes when all output is written */
}

void connection_dismiss(struct connection *c, const char *reason)
{
    if (c->phase == CONNECTION_OPEN) {
        connection_mark_dirty(c);
        connection_flush(c);
    }
    connection_abort(c, reason);
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
    struct connection *c = request->handle->data;
    if (status < 0 || c->ended) {
        connection_abort(c, "closed");
        return;
    }
    c->timeout_at = uv_now(c->net->loop) + LINGER_MS;
    connection_schedule(c);
}

void connection_finish(struct connection *c)
{
    if (c->end_sent) {
        return;
    }
    c->end_sent = true;
    if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shutdown) != 0) {
        connection_abort(c, "closed");
    }
}
