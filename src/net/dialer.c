/* Outgoing connections with back-off and jitter: nodes that lost a peer must not reconnect in
 * step. */
#include "net/dialer.h"

#include "net/internal.h"

enum { ADDRESSES = 8 };

enum dialer_phase { WAITING, RESOLVING, CONNECTING, CONNECTED };

struct dialer {
    struct net *net;
    struct dialer_options options;
    enum dialer_phase phase;
    uint32_t wait_ms; /* before the next attempt */
    uint32_t slow_ms;
    bool closing;

    uv_timer_t timer;
    bool timer_open;
    uv_getaddrinfo_t resolver;
    bool resolving;
    uv_connect_t connect;
    struct connection *connection; /* while connecting */
    bool connecting;               /* a connect is in progress */

    struct sockaddr_storage found[ADDRESSES];
    int found_count;
    int next;
};

static void try_next(struct dialer *d, int status, const char *reason);
static void on_timer(uv_timer_t *timer);

/* When no callback of the loop is outstanding. */
static void free_if_done(struct dialer *d)
{
    if (d->closing && !d->timer_open && !d->resolving && !d->connecting) {
        memory_free(d->net->memory, d, sizeof(*d));
    }
}

static void wait_and_retry(struct dialer *d)
{
    uint32_t wait = d->wait_ms;
    d->wait_ms = wait * 2 < d->options.wait_max_ms ? wait * 2 : d->options.wait_max_ms;
    if (wait < d->slow_ms) {
        wait = d->slow_ms;
    }
    d->slow_ms = 0;
    wait = wait / 2 + net_random(d->net, wait + 1); /* 0.5 to 1.5 times */
    d->phase = WAITING;
    uv_timer_start(&d->timer, on_timer, wait, 0);
}

static void failed(struct dialer *d, int status, const char *reason)
{
    if (d->options.on_failed != NULL) {
        d->options.on_failed(d->options.ctx, status == UV_ECONNREFUSED, reason);
    }
    if (!d->closing) {
        wait_and_retry(d);
    }
}

static void on_connect(uv_connect_t *request, int status)
{
    struct dialer *d = request->data;
    struct connection *c = d->connection;
    d->connecting = false;
    d->connection = NULL;
    if (d->closing) {
        free_if_done(d);
        return;
    }
    if (status != 0) {
        if (c != NULL) {
            connection_abort(c, "cannot connect");
        }
        try_next(d, status, status == UV_ECANCELED ? "timeout" : uv_strerror(status));
        return;
    }
    uv_timer_stop(&d->timer);
    d->phase = CONNECTED;
    connection_opened(c);
    d->options.on_connected(d->options.ctx, c);
}

/* The next address of the name; after the last one the attempt has failed. */
static void try_next(struct dialer *d, int status, const char *reason)
{
    while (d->next < d->found_count) {
        const struct sockaddr_storage *to = &d->found[d->next++];
        struct connection *c = connection_new(d->net, &d->options.connection);
        d->connect.data = d;
        status =
            uv_tcp_connect(&d->connect, connection_tcp(c), (const struct sockaddr *)to, on_connect);
        if (status == 0) {
            d->connection = c;
            d->connecting = true;
            d->phase = CONNECTING;
            return;
        }
        connection_abort(c, "cannot connect");
        reason = uv_strerror(status);
    }
    failed(d, status, reason);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct dialer *d = request->data;
    d->resolving = false;
    if (d->closing) {
        uv_freeaddrinfo(list);
        free_if_done(d);
        return;
    }
    for (const struct addrinfo *at = list; at != NULL && d->found_count < ADDRESSES;
         at = at->ai_next) {
        if (at->ai_family == AF_INET || at->ai_family == AF_INET6) {
            struct sockaddr_storage *out = &d->found[d->found_count++];
            memset(out, 0, sizeof(*out));
            memcpy(out, at->ai_addr, at->ai_addrlen);
            address_set_port(out, d->options.address.port);
        }
    }
    uv_freeaddrinfo(list);
    try_next(d, status, status != 0 ? uv_strerror(status) : "the name has no address");
}

static void attempt(struct dialer *d)
{
    d->found_count = 0;
    d->next = 0;
    uv_timer_start(&d->timer, on_timer, d->options.connect_ms, 0);
    if (address_is_numeric(&d->options.address, &d->found[0])) {
        d->found_count = 1;
        try_next(d, 0, "");
        return;
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    d->phase = RESOLVING;
    d->resolver.data = d;
    int status = uv_getaddrinfo(d->net->loop, &d->resolver, on_resolved, d->options.address.host,
                                NULL, &hints);
    if (status != 0) {
        failed(d, status, uv_strerror(status));
        return;
    }
    d->resolving = true;
}

static void on_timer(uv_timer_t *timer)
{
    struct dialer *d = timer->data;
    if (d->phase == WAITING) {
        attempt(d);
    } else if (d->phase == CONNECTING && d->connection != NULL) {
        /* on_connect gets UV_ECANCELED and continues with the next address. */
        struct connection *c = d->connection;
        d->connection = NULL;
        uv_timer_start(&d->timer, on_timer, d->options.connect_ms, 0);
        connection_abort(c, "timeout");
    }
    /* The resolver has its own time limit. */
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct dialer *d = handle->data;
    d->timer_open = false;
    free_if_done(d);
}

struct dialer *dialer_new(struct net *net, const struct dialer_options *options)
{
    hf_assert(options->on_connected != NULL && options->wait_min_ms > 0);
    struct dialer *d = memory_alloc(net->memory, sizeof(*d));
    memset(d, 0, sizeof(*d));
    d->net = net;
    d->options = *options;
    d->wait_ms = options->wait_min_ms;
    uv_timer_init(net->loop, &d->timer);
    d->timer.data = d;
    d->timer_open = true;
    d->phase = WAITING;
    uv_timer_start(&d->timer, on_timer, 0, 0);
    return d;
}

void dialer_close(struct dialer *d)
{
    if (d == NULL) {
        return;
    }
    d->closing = true;
    if (d->connection != NULL) {
        connection_abort(d->connection, "closed");
        d->connection = NULL;
    }
    if (d->resolving) {
        uv_cancel((uv_req_t *)&d->resolver);
    }
    uv_close((uv_handle_t *)&d->timer, on_timer_closed);
}

void dialer_lost(struct dialer *d)
{
    hf_assert(d->phase == CONNECTED);
    wait_and_retry(d);
}

void dialer_good(struct dialer *d)
{
    d->wait_ms = d->options.wait_min_ms;
}

void dialer_hurry(struct dialer *d)
{
    if (d->phase == WAITING) {
        uv_timer_start(&d->timer, on_timer, 0, 0);
    }
}

void dialer_slow(struct dialer *d, uint32_t ms)
{
    d->slow_ms = ms;
}
