/* See wait.h. */
#include "transport/wait.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/clock.h"

static int interrupt_fd = -1;

void transport_interrupt_by(int fd)
{
    interrupt_fd = fd;
}

static bool wait_for(struct transport *t, int fd, short events, int64_t deadline_ms)
{
    struct pollfd p[] = {{fd, events, 0}, {interrupt_fd, POLLIN, 0}};
    for (;;) {
        int left_ms = clock_left_ms(deadline_ms);
        int ready = poll(p, 2, left_ms);
        if (ready > 0 && p[1].revents != 0) {
            t->problem = "interrupted";
            return false;
        }
        if (ready > 0) {
            return true;
        }
        if (ready < 0 && errno != EINTR) {
            t->problem = strerrordesc_np(errno);
            return false;
        }
        if (ready == 0 && left_ms == 0) {
            t->problem = "no answer in time";
            return false;
        }
    }
}

static bool advance(struct transport *t, int wake_fd, int64_t deadline_ms)
{
    for (;;) {
        enum transport_state state = transport_advance(t);
        bool is_lookup = state == TRANSPORT_RESOLVING;
        if (state == TRANSPORT_UP || state == TRANSPORT_CLOSED) {
            return state == TRANSPORT_UP;
        }
        if (!wait_for(t, is_lookup ? wake_fd : t->fd,
                      is_lookup ? POLLIN : transport_events(t, false), deadline_ms)) {
            return false;
        }
    }
}

bool transport_open(struct transport *t, const struct host_port *to, int64_t deadline_ms)
{
    int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd < 0) {
        t->problem = strerrordesc_np(errno);
        return false;
    }
    transport_dial(t, to, wake_fd);
    bool is_open = advance(t, wake_fd, deadline_ms);
    close(wake_fd);
    return is_open;
}

bool transport_put(struct transport *t, struct slice bytes, int64_t deadline_ms)
{
    while (bytes.len > 0) {
        size_t sent;
        enum transport_io io = transport_write(t, bytes, &sent);
        if (io == TRANSPORT_FAILED ||
            (io == TRANSPORT_AGAIN && !wait_for(t, t->fd, POLLOUT, deadline_ms))) {
            return false;
        }
        bytes = slice_make(bytes.data + sent, bytes.len - sent);
    }
    return true;
}

enum transport_io transport_get(struct transport *t, void *to, size_t size, size_t *done,
                                int64_t deadline_ms)
{
    for (;;) {
        enum transport_io io = transport_read(t, to, size, done);
        if (io != TRANSPORT_AGAIN) {
            return io;
        }
        if (!wait_for(t, t->fd, POLLIN, deadline_ms)) {
            return TRANSPORT_FAILED;
        }
    }
}
