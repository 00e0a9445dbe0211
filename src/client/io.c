/* The sockets of the engine's links, and its clock: poll(2), an eventfd for wake-ups, a timerfd on
 * CLOCK_BOOTTIME. This file makes no decisions. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"

enum { READ_SIZE = 65536, READ_TIMES = 16 };

int64_t client_now_ms(void)
{
    struct timespec now;
    hf_assert(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool io_open(struct io *io)
{
    io->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    io->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    io->timer_ms = NEVER_MS;
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        io->links[i].fd = -1;
    }
    if (io->wake_fd < 0 || io->timer_fd < 0) {
        int error = errno;
        io_close(io);
        errno = error;
        return false;
    }
    return true;
}

static void drop(struct io_link *l)
{
    if (l->fd >= 0) {
        close(l->fd);
        l->fd = -1;
    }
    if (l->addresses != NULL) {
        freeaddrinfo(l->addresses);
        l->addresses = NULL;
    }
    resolve_free(l->resolve);
    l->resolve = NULL;
    l->is_connecting = false;
}

void io_close(struct io *io)
{
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        drop(&io->links[i]);
    }
    if (io->wake_fd >= 0) {
        close(io->wake_fd);
    }
    if (io->timer_fd >= 0) {
        close(io->timer_fd);
    }
}

void io_wake(struct io *io)
{
    uint64_t one = 1;
    if (write(io->wake_fd, &one, sizeof(one)) < 0) {
        /* The counter is at its maximum: the thread is being woken already. */
    }
}

/* Whether it had fired. */
static bool drain(int fd)
{
    uint64_t count;
    return read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count);
}

/* ---- connecting ---- */

static void fail(struct hf_client *c, unsigned i, const char *why)
{
    drop(&c->io.links[i]);
    client_engine_broken(&c->client_engine, i, why, client_now_ms());
}

/* Begins a connection to the next address. False: none is left. */
static bool try_next(struct io_link *l, int *error)
{
    for (; l->next != NULL; l->next = l->next->ai_next) {
        struct addrinfo *a = l->next;
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            *error = errno;
            continue;
        }
        int on = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (connect(fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS) {
            l->fd = fd;
            l->is_connecting = true;
            l->next = a->ai_next;
            return true;
        }
        *error = errno;
        close(fd);
    }
    return false;
}

static void go_on(struct hf_client *c, unsigned i, int error)
{
    struct io_link *l = &c->io.links[i];
    if (!try_next(l, &error)) {
        char why[LINK_WHY];
        const char *text = strerrordesc_np(error);
        snprintf(why, sizeof(why), "%s", text == NULL ? "it cannot be reached" : text);
        fail(c, i, why);
    }
}

static void see_resolve(struct hf_client *c, unsigned i)
{
    struct io_link *l = &c->io.links[i];
    const char *problem;
    if (!resolve_is_done(l->resolve, &l->addresses, &problem)) {
        return;
    }
    resolve_free(l->resolve);
    l->resolve = NULL;
    if (problem != NULL) {
        fail(c, i, problem);
        return;
    }
    l->next = l->addresses;
    go_on(c, i, ECONNREFUSED);
}

static void peer_of(int fd, char *out, size_t size)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    char host[64];
    char port[8];
    out[0] = '\0';
    if (getpeername(fd, (struct sockaddr *)&address, &len) == 0 &&
        getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        snprintf(out, size, strchr(host, ':') == NULL ? "%s:%s" : "[%s]:%s", host, port);
    }
}

static void see_connect(struct hf_client *c, unsigned i)
{
    struct io_link *l = &c->io.links[i];
    struct pollfd fd = {l->fd, POLLOUT, 0};
    if (poll(&fd, 1, 0) <= 0) {
        return;
    }
    int error = 0;
    socklen_t len = sizeof(error);
    (void)getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error != 0) {
        close(l->fd);
        l->fd = -1;
        go_on(c, i, error);
        return;
    }
    char peer[ENDPOINT_TEXT];
    l->is_connecting = false;
    freeaddrinfo(l->addresses);
    l->addresses = NULL;
    peer_of(l->fd, peer, sizeof(peer));
    client_engine_connected(&c->client_engine, i, peer, client_now_ms());
}

/* ---- bytes ---- */

static void receive(struct hf_client *c, unsigned i)
{
    struct io_link *l = &c->io.links[i];
    uint8_t bytes[READ_SIZE];
    for (unsigned times = 0; times < READ_TIMES; times++) {
        if (c->client_engine.links[i].generation != l->generation) {
            return; /* the engine has closed this connection */
        }
        ssize_t len = recv(l->fd, bytes, sizeof(bytes), 0);
        if (len > 0) {
            client_engine_input(&c->client_engine, i, slice_make(bytes, (size_t)len),
                                client_now_ms());
        } else if (len == 0) {
            fail(c, i, "the connection was closed");
            return;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno != EINTR) {
            const char *text = strerrordesc_np(errno);
            fail(c, i, text == NULL ? "the connection broke" : text);
            return;
        }
        if (len > 0 && (size_t)len < sizeof(bytes)) {
            return; /* no more bytes; poll reports further ones */
        }
    }
    io_wake(&c->io);
}

void io_read(struct hf_client *c)
{
    (void)drain(c->io.wake_fd);
    if (drain(c->io.timer_fd)) {
        c->io.timer_ms = -1; /* it must be set again */
    }
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        struct io_link *l = &c->io.links[i];
        if (c->client_engine.links[i].generation != l->generation) {
            continue;
        }
        if (l->resolve != NULL) {
            see_resolve(c, i);
        } else if (l->is_connecting) {
            see_connect(c, i);
        } else if (l->fd >= 0) {
            receive(c, i);
        }
    }
}

static void transmit(struct hf_client *c, unsigned i)
{
    struct io_link *l = &c->io.links[i];
    struct link *link = &c->client_engine.links[i];
    while (l->fd >= 0 && !l->is_connecting && buffer_len(&link->out) > 0) {
        struct slice out = buffer_bytes(&link->out);
        ssize_t len = send(l->fd, out.data, out.len, MSG_NOSIGNAL);
        if (len > 0) {
            buffer_consume(&link->out, (size_t)len);
            link_flush(link);
        } else if (errno != EINTR) {
            return; /* EAGAIN: poll reports when to continue; recv returns other errors */
        }
    }
}

static void set_timer(struct hf_client *c)
{
    int64_t next_ms = client_engine_next_ms(&c->client_engine);
    if (next_ms == c->io.timer_ms) {
        return;
    }
    c->io.timer_ms = next_ms;
    struct itimerspec at = {.it_value = {0, 0}};
    if (next_ms != NEVER_MS) {
        next_ms = next_ms > 1 ? next_ms : 1; /* a time of zero would disarm the timer */
        at.it_value.tv_sec = (time_t)(next_ms / 1000);
        at.it_value.tv_nsec = (long)(next_ms % 1000) * 1000000;
    }
    hf_assert(timerfd_settime(c->io.timer_fd, TFD_TIMER_ABSTIME, &at, NULL) == 0);
}

void io_write(struct hf_client *c)
{
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        struct io_link *l = &c->io.links[i];
        const struct link *link = &c->client_engine.links[i];
        if (l->generation != link->generation) {
            drop(l);
            l->generation = link->generation;
            if (link->state == LINK_DIALING) {
                const struct endpoint *p = &c->client_engine.endpoints.at[link->endpoint];
                l->resolve = resolve_new(p->host, p->port, c->io.wake_fd);
                io_wake(&c->io);
            }
        }
        transmit(c, i);
    }
    set_timer(c);
}

int io_pollfds(const struct hf_client *c, struct pollfd *fds, unsigned max)
{
    struct pollfd all[2 + ENGINE_LINKS] = {{c->io.wake_fd, POLLIN, 0}, {c->io.timer_fd, POLLIN, 0}};
    unsigned count = 2;
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        const struct io_link *l = &c->io.links[i];
        if (l->fd >= 0) {
            bool writes = l->is_connecting || buffer_len(&c->client_engine.links[i].out) > 0;
            all[count++] = (struct pollfd){l->fd, (short)(writes ? POLLIN | POLLOUT : POLLIN), 0};
        }
    }
    for (unsigned i = 0; i < count && i < max; i++) {
        fds[i] = all[i];
    }
    return (int)count;
}
