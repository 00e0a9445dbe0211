/* See transport.h. */
#include "transport/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/panic.h"
#include "transport/secure.h"

void transport_init(struct transport *t)
{
    *t = (struct transport){.fd = -1};
}

void transport_secure(struct transport *t, struct security *security, const char *host)
{
    hf_assert(t->state == TRANSPORT_CLOSED);
    t->security = security;
    t->host = host;
}

static void fail(struct transport *t, const char *problem)
{
    transport_close(t);
    t->problem = problem;
}

static void fail_errno(struct transport *t, int error)
{
    const char *text = strerrordesc_np(error);
    fail(t, text != NULL ? text : "it cannot be reached");
}

/* 0 or the error. */
static int begin_connect(struct transport *t, const struct sockaddr *address, socklen_t len)
{
    int on = 1;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    t->has_no_socket = fd < 0;
    if (fd < 0) {
        return errno;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, address, len) != 0 && errno != EINPROGRESS) {
        int error = errno;
        close(fd);
        return error;
    }
    t->fd = fd;
    t->state = TRANSPORT_CONNECTING;
    return 0;
}

bool transport_dial_address(struct transport *t, const struct sockaddr *address, socklen_t len)
{
    hf_assert(t->state == TRANSPORT_CLOSED);
    int error = begin_connect(t, address, len);
    if (error != 0) {
        fail_errno(t, error);
    }
    return error == 0;
}

/* `error` is that of the address before. */
static void try_next(struct transport *t, int error)
{
    while (t->next != NULL) {
        struct addrinfo *a = t->next;
        t->next = a->ai_next;
        error = begin_connect(t, a->ai_addr, a->ai_addrlen);
        if (error == 0) {
            return;
        }
    }
    fail_errno(t, error);
}

void transport_dial(struct transport *t, const struct host_port *to, int wake_fd)
{
    hf_assert(t->state == TRANSPORT_CLOSED);
    t->resolve = resolve_new(to, wake_fd);
    t->state = TRANSPORT_RESOLVING;
}

static void see_lookup(struct transport *t)
{
    const char *problem;
    if (!resolve_is_done(t->resolve, &t->addresses, &problem)) {
        return;
    }
    if (problem != NULL) {
        fail(t, problem);
        return;
    }
    resolve_free(t->resolve);
    t->resolve = NULL;
    t->next = t->addresses;
    try_next(t, ECONNREFUSED);
}

static void see_handshake(struct transport *t)
{
    enum secure_step step = secure_advance(t);
    if (step == SECURE_FAILED) {
        fail(t, t->problem);
    } else if (step == SECURE_DONE) {
        t->state = TRANSPORT_UP;
    }
}

static void see_connect(struct transport *t)
{
    struct pollfd p = {t->fd, POLLOUT, 0};
    int error = 0;
    socklen_t len = sizeof(error);
    if (poll(&p, 1, 0) <= 0) {
        return;
    }
    (void)getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error != 0) {
        close(t->fd);
        t->fd = -1;
        try_next(t, error);
        return;
    }
    if (t->addresses != NULL) {
        freeaddrinfo(t->addresses);
    }
    t->addresses = t->next = NULL;
    if (t->security == NULL || security_context(t->security) == NULL) {
        t->state = TRANSPORT_UP;
        return;
    }
    t->tls = secure_new(t->security, t->host);
    see_handshake(t);
}

enum transport_state transport_advance(struct transport *t)
{
    if (t->state == TRANSPORT_RESOLVING) {
        see_lookup(t);
    } else if (t->state == TRANSPORT_CONNECTING && t->tls == NULL) {
        see_connect(t);
    } else if (t->state == TRANSPORT_CONNECTING) {
        see_handshake(t);
    }
    return t->state;
}

void transport_close(struct transport *t)
{
    if (t->state == TRANSPORT_UP && t->tls != NULL) {
        secure_end(t);
    }
    if (t->fd >= 0) {
        close(t->fd);
    }
    secure_free(t->tls);
    t->tls = NULL;
    if (t->addresses != NULL) {
        freeaddrinfo(t->addresses);
    }
    resolve_free(t->resolve);
    t->fd = -1;
    t->addresses = t->next = NULL;
    t->resolve = NULL;
    t->state = TRANSPORT_CLOSED;
}

enum transport_io transport_no_bytes(struct transport *t, ssize_t result)
{
    if (result == 0) {
        t->problem = "the connection was closed";
        return TRANSPORT_END;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return TRANSPORT_AGAIN;
    }
    t->problem = strerrordesc_np(errno);
    t->problem = t->problem != NULL ? t->problem : "the connection broke";
    return TRANSPORT_FAILED;
}

bool transport_has_input(const struct transport *t)
{
    return t->tls != NULL && secure_has_input(t->tls);
}

short transport_events(const struct transport *t, bool has_output)
{
    bool writes = t->state != TRANSPORT_CONNECTING ? has_output
                  : t->tls != NULL                 ? secure_has_output(t->tls)
                                                   : true;
    return (short)(writes ? POLLIN | POLLOUT : POLLIN);
}

void transport_peer(const struct transport *t, char *out, size_t size)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    struct host_port peer;
    out[0] = '\0';
    if (getpeername(t->fd, (struct sockaddr *)&address, &len) == 0 &&
        getnameinfo((struct sockaddr *)&address, len, peer.host, sizeof(peer.host), peer.port,
                    sizeof(peer.port), NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        host_port_format(&peer, out, size);
    }
}
