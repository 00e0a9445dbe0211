/* Listening sockets: one per address of the host name. */
#include "net/listener.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "net/internal.h"

enum {
    SOCKETS = 8,
    BACKLOG = 1024,
    ACCEPTS = 64, /* per socket and turn of the loop */
};

struct listening_socket {
    uv_poll_t poll;
    struct listener *listener;
    int fd;
};

struct listener {
    struct net *net;
    struct listener_options options;
    struct listening_socket sockets[SOCKETS];
    int count;
    int open; /* handles: the sockets and the timer */
    uv_timer_t pause;
    bool is_paused;  /* after a failed accept, until the timer expires */
    bool is_polling; /* the sockets are being polled */
    bool closing;
    uint16_t port;
    uint32_t connections;
};

static void free_if_done(struct listener *l)
{
    if (l->closing && l->open == 0 && l->connections == 0) {
        memory_free(l->net->memory, l, sizeof(*l));
    }
}

/* ---- accepting ---- */

static void on_readable(uv_poll_t *poll, int status, int events);

/* Exactly while a connection can be accepted. */
static void update_polling(struct listener *l)
{
    bool wanted = !l->closing && !l->is_paused && l->connections < l->options.max_connections;
    if (wanted == l->is_polling) {
        return;
    }
    l->is_polling = wanted;
    for (int i = 0; i < l->count; i++) {
        if (wanted) {
            uv_poll_start(&l->sockets[i].poll, UV_READABLE, on_readable);
        } else {
            uv_poll_stop(&l->sockets[i].poll);
        }
    }
}

static void on_connection_gone(void *ctx)
{
    struct listener *l = ctx;
    l->connections--;
    if (!l->closing) {
        update_polling(l);
    }
    free_if_done(l);
}

static void on_pause_over(uv_timer_t *timer)
{
    struct listener *l = timer->data;
    l->is_paused = false;
    update_polling(l);
}

static void pause_accepting(struct listener *l, int error)
{
    struct net *net = l->net;
    net->accept_pauses++;
    l->is_paused = true;
    update_polling(l);
    uv_timer_start(&l->pause, on_pause_over, LISTENER_PAUSE_MS, 0);
    if (net->on_accept_paused != NULL) {
        net->on_accept_paused(net->turn_ctx, error);
    }
}

/* The connection ended before it was accepted; see accept(2) for Linux. */
static bool is_of_one_connection(int error)
{
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

static void take(struct listener *l, int fd)
{
    struct connection *c = connection_new(l->net, &l->options.connection);
    l->connections++;
    connection_on_gone(c, on_connection_gone, l);
    if (uv_tcp_open(connection_tcp(c), fd) != 0) {
        close(fd);
        connection_abort(c, "cannot accept");
        return;
    }
    connection_opened(c);
    l->options.on_accept(l->options.ctx, c);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct listening_socket *socket = poll->data;
    struct listener *l = socket->listener;
    (void)events;
    if (status < 0) { /* libuv has stopped polling it */
        pause_accepting(l, -status);
        return;
    }
    for (int i = 0; i < ACCEPTS && l->is_polling; i++) {
        int fd = accept4(socket->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take(l, fd);
            update_polling(l);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (!is_of_one_connection(errno)) {
            pause_accepting(l, errno);
        }
    }
}

/* ---- opening ---- */

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    return a->ss_family == b->ss_family && memcmp(a, b, address_len(a)) == 0;
}

/* 0, or the errno. `*fd` is the descriptor in both cases, or -1. */
static int open_socket(const struct sockaddr_storage *address, int *fd)
{
    int on = 1;
    *fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0 || setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
        return errno;
    }
    if (address->ss_family == AF_INET6) {
        /* "::" is all interfaces; others leave IPv4 to a separate socket. */
        int only = !IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
        if (setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)) != 0) {
            return errno;
        }
    }
    bool is_open = bind(*fd, (const struct sockaddr *)address, address_len(address)) == 0 &&
                   listen(*fd, BACKLOG) == 0;
    return is_open ? 0 : errno;
}

static int add_socket(struct listener *l, const struct sockaddr_storage *address)
{
    struct listening_socket *socket = &l->sockets[l->count];
    int fd;
    int error = open_socket(address, &fd);
    if (error == 0) {
        error = -uv_poll_init(l->net->loop, &socket->poll, fd);
    }
    if (error != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return error;
    }
    socket->poll.data = socket;
    socket->listener = l;
    socket->fd = fd;
    l->count++;
    l->open++;
    return 0;
}

/* With port 0 the first socket gets a port and the others use the same. */
static void note_port(struct listener *l)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);
    if (getsockname(l->sockets[l->count - 1].fd, (struct sockaddr *)&bound, &len) == 0) {
        l->port = address_port(&bound);
    }
}

static bool open_all(struct listener *l, char *problem)
{
    char text[ADDRESS_TEXT];
    const char *words = "";
    struct sockaddr_storage found[SOCKETS];
    address_format(&l->options.address, text, sizeof(text));
    int count = address_resolve(&l->options.address, found, SOCKETS, &words);
    if (count == 0) {
        snprintf(problem, LISTENER_PROBLEM, "cannot resolve %s: %s", text, words);
        return false;
    }
    for (int i = 0; i < count; i++) {
        bool known = false;
        for (int j = 0; j < i; j++) {
            known = known || same_address(&found[i], &found[j]);
        }
        if (known) {
            continue;
        }
        struct sockaddr_storage address = found[i];
        address_set_port(&address, l->port != 0 ? l->port : l->options.address.port);
        int error = add_socket(l, &address);
        /* A name like localhost may have an address of an unsupported family. */
        if ((error == EADDRNOTAVAIL || error == EAFNOSUPPORT) && count > 1) {
            continue;
        }
        if (error != 0) {
            snprintf(problem, LISTENER_PROBLEM, "cannot listen on %s: %s", text,
                     error == EADDRINUSE ? "the port is taken by another program"
                                         : uv_strerror(-error));
            return false;
        }
        if (l->port == 0) {
            note_port(l);
        }
    }
    if (l->port == 0) {
        snprintf(problem, LISTENER_PROBLEM, "cannot listen on %s: %s", text,
                 uv_strerror(UV_EADDRNOTAVAIL));
    }
    return l->port != 0;
}

struct listener *listener_new(struct net *net, const struct listener_options *options,
                              char problem[LISTENER_PROBLEM])
{
    struct listener *l = memory_alloc(net->memory, sizeof(*l));
    memset(l, 0, sizeof(*l));
    l->net = net;
    l->options = *options;
    uv_timer_init(net->loop, &l->pause);
    l->pause.data = l;
    l->open++;
    if (!open_all(l, problem)) {
        listener_close(l);
        return NULL;
    }
    update_polling(l);
    return l;
}

static void handle_closed(struct listener *l)
{
    l->open--;
    free_if_done(l);
}

static void on_socket_closed(uv_handle_t *handle)
{
    const struct listening_socket *socket = handle->data;
    handle_closed(socket->listener);
}

static void on_timer_closed(uv_handle_t *handle)
{
    handle_closed(handle->data);
}

void listener_close(struct listener *l)
{
    if (l == NULL) {
        return;
    }
    l->closing = true;
    update_polling(l);
    for (int i = 0; i < l->count; i++) {
        uv_close((uv_handle_t *)&l->sockets[i].poll, on_socket_closed);
        close(l->sockets[i].fd); /* libuv has released it */
    }
    uv_close((uv_handle_t *)&l->pause, on_timer_closed);
}

uint16_t listener_port(const struct listener *l)
{
    return l->port;
}

uint32_t listener_connections(const struct listener *l)
{
    return l->connections;
}
