/* See fake_listener.h. */
#include "fake_listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_SIZE = 65536, OUT_MAX = 4 << 20 };

static void hang_up(struct fake_socket *s)
{
    fake_conn_free(s->conn);
    buffer_close(&s->out);
    close(s->fd);
    s->fd = -1;
}

static void welcome(struct fake_listener *l)
{
    int fd = accept4(l->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    for (unsigned i = 0; fd >= 0 && i < FAKE_SOCKETS; i++) {
        struct fake_socket *s = &l->sockets[i];
        if (s->fd < 0) {
            s->fd = fd;
            s->conn = fake_conn_new(&l->fake);
            buffer_init(&s->out, memory_system(), OUT_MAX);
            return;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void receive(struct fake_socket *s)
{
    uint8_t bytes[READ_SIZE];
    ssize_t len = recv(s->fd, bytes, sizeof(bytes), 0);
    if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR)) {
        hang_up(s);
    } else if (len > 0 && !fake_conn_input(s->conn, slice_make(bytes, (size_t)len))) {
        hang_up(s);
    }
}

static void transmit(struct fake_socket *s)
{
    fake_conn_output(s->conn, &s->out);
    struct slice out = buffer_bytes(&s->out);
    if (out.len > 0) {
        ssize_t len = send(s->fd, out.data, out.len, MSG_NOSIGNAL);
        buffer_consume(&s->out, len > 0 ? (size_t)len : 0);
    }
    if (fake_conn_is_broken(s->conn)) {
        hang_up(s);
    }
}

static void *serve(void *arg)
{
    struct fake_listener *l = arg;
    pthread_mutex_lock(&l->mutex);
    while (!l->is_over) {
        struct pollfd fds[FAKE_SOCKETS + 2] = {{l->listen_fd, POLLIN, 0}, {l->wake_fd, POLLIN, 0}};
        for (unsigned i = 0; i < FAKE_SOCKETS; i++) {
            struct fake_socket *s = &l->sockets[i];
            if (s->fd >= 0) {
                transmit(s);
            }
            bool waits = s->fd >= 0 && buffer_len(&s->out) > 0;
            /* A node that is stopped reads nothing. */
            short events = (short)(l->fake.is_stopped ? 0 : waits ? POLLIN | POLLOUT : POLLIN);
            fds[i + 2] = (struct pollfd){s->fd, events, 0};
        }
        pthread_mutex_unlock(&l->mutex);
        (void)poll(fds, FAKE_SOCKETS + 2, -1);
        pthread_mutex_lock(&l->mutex);
        uint64_t count;
        if (fds[1].revents != 0 && read(l->wake_fd, &count, sizeof(count)) < 0) {
            break;
        }
        if (fds[0].revents != 0) {
            welcome(l);
        }
        for (unsigned i = 0; i < FAKE_SOCKETS; i++) {
            if (l->sockets[i].fd >= 0 && fds[i + 2].fd == l->sockets[i].fd &&
                fds[i + 2].revents != 0) {
                receive(&l->sockets[i]);
            }
        }
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

void fake_listener_start(struct fake_listener *l)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    memset(l, 0, sizeof(*l));
    fake_init(&l->fake);
    for (unsigned i = 0; i < FAKE_SOCKETS; i++) {
        l->sockets[i].fd = -1;
    }
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->wake_fd = eventfd(0, EFD_CLOEXEC);
    l->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    hf_assert(l->wake_fd >= 0 && l->listen_fd >= 0);
    hf_assert(bind(l->listen_fd, (struct sockaddr *)&address, len) == 0);
    hf_assert(getsockname(l->listen_fd, (struct sockaddr *)&address, &len) == 0);
    hf_assert(listen(l->listen_fd, 16) == 0);
    snprintf(l->address, sizeof(l->address), "127.0.0.1:%u", ntohs(address.sin_port));
    hf_assert(pthread_create(&l->thread, NULL, serve, l) == 0);
}

struct fake *fake_listener_lock(struct fake_listener *l)
{
    pthread_mutex_lock(&l->mutex);
    return &l->fake;
}

void fake_listener_unlock(struct fake_listener *l)
{
    uint64_t one = 1;
    hf_assert(write(l->wake_fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
    pthread_mutex_unlock(&l->mutex);
}

void fake_listener_await(struct fake_listener *l, const char *path, unsigned count)
{
    pthread_mutex_lock(&l->mutex);
    while (fake_count(&l->fake, path) < count) {
        pthread_cond_wait(&l->changed, &l->mutex);
    }
    pthread_mutex_unlock(&l->mutex);
}

void fake_listener_stop(struct fake_listener *l)
{
    (void)fake_listener_lock(l);
    l->is_over = true;
    fake_listener_unlock(l);
    pthread_join(l->thread, NULL);
    for (unsigned i = 0; i < FAKE_SOCKETS; i++) {
        if (l->sockets[i].fd >= 0) {
            hang_up(&l->sockets[i]);
        }
    }
    close(l->listen_fd);
    close(l->wake_fd);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
}
