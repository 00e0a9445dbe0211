/* Listening sockets: one per address that the host name has. */
#include "net/listener.h"

#include <stdio.h>

#include "net/internal.h"

enum { SOCKETS = 8, BACKLOG = 1024 };

struct listener {
    struct net *net;
    struct listener_options options;
    uv_tcp_t sockets[SOCKETS];
    bool waiting[SOCKETS]; /* somebody knocks and was not let in yet */
    int count;
    int open;
    uint16_t port;
    uint32_t connections;
    bool closing;
};

static void free_if_done(struct listener *l)
{
    if (l->closing && l->open == 0 && l->connections == 0) {
        memory_free(l->net->memory, l, sizeof(*l));
    }
}

static void accept_one(struct listener *l, int i);

static void on_connection_gone(void *ctx)
{
    struct listener *l = ctx;
    l->connections--;
    for (int i = 0; i < l->count && !l->closing; i++) {
        if (l->waiting[i] && l->connections < l->options.max_connections) {
            l->waiting[i] = false;
            accept_one(l, i);
        }
    }
    free_if_done(l);
}

static void accept_one(struct listener *l, int i)
{
    struct connection *c = connection_new(l->net, &l->options.connection);
    l->connections++;
    connection_on_gone(c, on_connection_gone, l);
    if (uv_accept((uv_stream_t *)&l->sockets[i], (uv_stream_t *)connection_tcp(c)) != 0) {
        connection_abort(c, "cannot accept");
        return;
    }
    connection_opened(c);
    l->options.on_accept(l->options.ctx, c);
}

static void on_knock(uv_stream_t *socket, int status)
{
    struct listener *l = socket->data;
    int i = (int)((uv_tcp_t *)socket - l->sockets);
    if (status < 0 || l->closing) {
        return;
    }
    if (l->connections >= l->options.max_connections) {
        l->waiting[i] = true; /* the loop does not ask again before it was accepted */
        return;
    }
    accept_one(l, i);
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    return a->ss_family == b->ss_family && memcmp(a, b, address_len(a)) == 0;
}

static int add_socket(struct listener *l, const struct sockaddr_storage *address)
{
    uv_tcp_t *socket = &l->sockets[l->count];
    bool any = address->ss_family == AF_INET6 &&
               IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
    /* "::" means everything; other IPv6 addresses leave IPv4 to a socket of its own. */
    unsigned flags = address->ss_family == AF_INET6 && !any ? UV_TCP_IPV6ONLY : 0;
    uv_tcp_init(l->net->loop, socket);
    socket->data = l;
    l->count++;
    l->open++;
    int status = uv_tcp_bind(socket, (const struct sockaddr *)address, flags);
    if (status == 0) {
        status = uv_listen((uv_stream_t *)socket, BACKLOG, on_knock);
    }
    return status;
}

/* With port 0 the first socket gets one and the others must follow it. */
static void note_port(struct listener *l)
{
    struct sockaddr_storage bound;
    int len = (int)sizeof(bound);
    if (uv_tcp_getsockname(&l->sockets[l->count - 1], (struct sockaddr *)&bound, &len) == 0) {
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
        int status = add_socket(l, &address);
        /* A name like localhost may have an address of a family that this machine does not use. */
        if (status == UV_EADDRNOTAVAIL && count > 1) {
            continue;
        }
        if (status != 0) {
            snprintf(problem, LISTENER_PROBLEM, "cannot listen on %s: %s", text,
                     status == UV_EADDRINUSE ? "the port is taken by another program"
                                             : uv_strerror(status));
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
    if (!open_all(l, problem)) {
        listener_close(l);
        return NULL;
    }
    return l;
}

static void on_socket_closed(uv_handle_t *handle)
{
    struct listener *l = handle->data;
    l->open--;
    free_if_done(l);
}

void listener_close(struct listener *l)
{
    if (l == NULL) {
        return;
    }
    l->closing = true;
    for (int i = 0; i < l->count; i++) {
        uv_close((uv_handle_t *)&l->sockets[i], on_socket_closed);
    }
    free_if_done(l);
}

uint16_t listener_port(const struct listener *l)
{
    return l->port;
}

uint32_t listener_connections(const struct listener *l)
{
    return l->connections;
}
