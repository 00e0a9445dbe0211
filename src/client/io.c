/* Connections of the links, and the clock: poll(2), an eventfd for wake-ups, a timerfd on
 * CLOCK_BOOTTIME. No decisions. */
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/client.h"
#include "transport/clock.h"

enum { READ_SIZE = 65536, READ_TIMES = 16 };

int64_t client_now_ms(void)
{
    return clock_boot_ms();
}

bool io_open(struct io *io)
{
    io->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    io->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    io->timer_ms = NEVER_MS;
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        transport_init(&io->links[i].transport);
    }
    if (io->wake_fd < 0 || io->timer_fd < 0) {
        int error = errno;
        io_close(io);
        errno = error;
        return false;
    }
    return true;
}

void io_close(struct io *io)
{
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        transport_close(&io->links[i].transport);
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
        /* The counter is at its maximum: a wake-up is pending. */
    }
}

/* Whether it had fired. */
static bool drain(int fd)
{
    uint64_t count;
    return read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count);
}

static void fail(struct hf_client *c, unsigned i)
{
    struct transport *t = &c->io.links[i].transport;
    transport_close(t);
    client_engine_broken(&c->client_engine, i, t->problem, client_now_ms());
}

static void receive(struct hf_client *c, unsigned i);

static void connect_link(struct hf_client *c, unsigned i)
{
    struct transport *t = &c->io.links[i].transport;
    enum transport_state state = transport_advance(t);
    if (state == TRANSPORT_CLOSED) {
        fail(c, i);
    } else if (state == TRANSPORT_UP) {
        char peer[ENDPOINT_TEXT];
        transport_peer(t, peer, sizeof(peer));
        client_engine_connected(&c->client_engine, i, peer, client_now_ms());
        if (transport_has_input(t)) {
            receive(c, i); /* received with the end of the handshake */
        }
    }
}

static void receive(struct hf_client *c, unsigned i)
{
    struct io_link *l = &c->io.links[i];
    uint8_t bytes[READ_SIZE];
    for (unsigned times = 0; times < READ_TIMES; times++) {
        if (c->client_engine.links[i].generation != l->generation) {
            return; /* closed by the engine */
        }
        size_t len;
        enum transport_io io = transport_read(&l->transport, bytes, sizeof(bytes), &len);
        if (io == TRANSPORT_AGAIN) {
            return;
        }
        if (io != TRANSPORT_OK) {
            fail(c, i);
            return;
        }
        client_engine_input(&c->client_engine, i, slice_make(bytes, len), client_now_ms());
        if (len < sizeof(bytes)) {
            return; /* poll reports further bytes */
        }
    }
    io_wake(&c->io);
}

void io_read(struct hf_client *c)
{
    (void)drain(c->io.wake_fd);
    if (drain(c->io.timer_fd)) {
        c->io.timer_ms = -1; /* to be set again */
    }
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        struct io_link *l = &c->io.links[i];
        if (c->client_engine.links[i].generation != l->generation) {
            continue;
        }
        if (l->transport.state == TRANSPORT_UP) {
            receive(c, i);
        } else if (l->transport.state != TRANSPORT_CLOSED) {
            connect_link(c, i);
        }
    }
}

static void transmit(struct hf_client *c, unsigned i)
{
    struct transport *t = &c->io.links[i].transport;
    struct link *link = &c->client_engine.links[i];
    while (t->state == TRANSPORT_UP && buffer_len(&link->out) > 0) {
        size_t len;
        if (transport_write(t, buffer_bytes(&link->out), &len) != TRANSPORT_OK) {
            return; /* AGAIN: poll reports it; the next read returns other errors */
        }
        buffer_consume(&link->out, len);
        link_flush(link);
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
        next_ms = next_ms > 1 ? next_ms : 1; /* zero would disarm it */
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
            transport_close(&l->transport);
            l->generation = link->generation;
            if (link->state == LINK_DIALING) {
                const struct endpoint *p = &c->client_engine.endpoints.at[link->endpoint];
                transport_secure(&l->transport, c->client_engine.options.security, p->address.host);
                transport_dial(&l->transport, &p->address, c->io.wake_fd);
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
        const struct transport *t = &c->io.links[i].transport;
        if (t->fd >= 0) {
            bool has_output = buffer_len(&c->client_engine.links[i].out) > 0;
            all[count++] = (struct pollfd){t->fd, transport_events(t, has_output), 0};
        }
    }
    for (unsigned i = 0; i < count && i < max; i++) {
        fds[i] = all[i];
    }
    return (int)count;
}
