/* Connections of the load: connecting, reconnecting after a loss, and sending and receiving. */
#include <stdio.h>
#include <sys/epoll.h>

#include "bench/load_state.h"

enum { BUFFER_MAX = 4 << 20, READ_SIZE = 16 << 10 };

bool line_open(struct line *s)
{
    struct load *l = s->load;
    transport_init(&s->transport);
    s->target = l->settings->via != 0 ? s->number % l->targets->count : 0;
    s->protocol = l->settings->protocol->open(l->targets->at[s->target].host, s->clients);
    buffer_init(&s->in, memory_system(), BUFFER_MAX);
    buffer_init(&s->out, memory_system(), BUFFER_MAX);
    return s->protocol != NULL;
}

static void shut(struct line *s)
{
    transport_close(&s->transport); /* also removes it from epoll */
    s->waits_to_write = false;
    buffer_truncate(&s->in, 0);
    buffer_truncate(&s->out, 0);
}

void line_close(struct line *s)
{
    shut(s);
    s->load->settings->protocol->close(s->protocol);
    buffer_close(&s->in);
    buffer_close(&s->out);
}

static void set_events(struct line *s, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = s};
    int status = epoll_ctl(s->load->epoll, operation, s->transport.fd, &event);
    hf_assert(status == 0);
}

/* Connects to the next node after RECONNECT_MS. */
void line_give_up(struct line *s, const char *code, const char *message)
{
    struct load *l = s->load;
    load_error(l, code, message);
    shut(s);
    s->target = (s->target + 1) % l->targets->count;
    l->result->reconnects++;
    for (uint32_t i = 0; i < s->clients; i++) {
        client_on_loss(&l->clients[s->first_client + i]);
    }
    ref who = (ref)l->settings->clients + s->number + 1;
    load_set_timer(l, &s->timer, who, bench_now_ns() + RECONNECT_MS * MS);
}

static void fail(struct line *s, const char *code)
{
    char words[BENCH_PROBLEM];
    (void)snprintf(words, sizeof(words), "%s: %s", s->load->targets->at[s->target].host,
                   s->transport.problem);
    line_give_up(s, code, words);
}

static void start(struct line *s)
{
    struct load *l = s->load;
    set_events(s, EPOLL_CTL_MOD, EPOLLIN | EPOLLET); /* see on_readable */
    l->settings->protocol->begin(s->protocol, &s->out);
    for (uint32_t i = 0; i < s->clients; i++) {
        client_next(&l->clients[s->first_client + i]);
    }
    line_flush(s);
}

void line_connect(struct line *s)
{
    const struct bench_target *target = &s->load->targets->at[s->target];
    transport_secure(&s->transport, s->load->settings->security, target->name);
    if (!transport_dial_address(&s->transport, (const struct sockaddr *)&target->address,
                                target->address_len)) {
        fail(s, s->transport.has_no_socket ? "no_socket" : "not_connected");
        return;
    }
    set_events(s, EPOLL_CTL_ADD, EPOLLOUT);
}

void line_flush(struct line *s)
{
    if (!line_is_up(s) || buffer_len(&s->out) == 0) {
        return;
    }
    size_t sent;
    if (transport_write(&s->transport, buffer_bytes(&s->out), &sent) == TRANSPORT_FAILED) {
        fail(s, "connection_lost");
        return;
    }
    buffer_consume(&s->out, sent);
    bool rest = buffer_len(&s->out) > 0;
    if (rest != s->waits_to_write) {
        s->waits_to_write = rest;
        set_events(s, EPOLL_CTL_MOD, rest ? EPOLLIN | EPOLLOUT | EPOLLET : EPOLLIN | EPOLLET);
    }
}

static void on_answer(void *ctx, const struct bench_answer *answer)
{
    struct line *s = ctx;
    hf_assert(answer->slot < s->clients);
    client_on_answer(&s->load->clients[s->first_client + answer->slot], answer);
}

static void process(struct line *s, struct slice bytes, size_t *used)
{
    const char *problem = NULL;
    *used =
        s->load->settings->protocol->receive(s->protocol, bytes, &s->out, on_answer, s, &problem);
    if (problem != NULL) {
        *used = 0;
        line_give_up(s, "bad_answer", problem);
    }
}

/* A complete answer, the usual case, is processed in the read buffer. */
static void receive(struct line *s, struct slice bytes)
{
    size_t used = 0;
    if (buffer_len(&s->in) == 0) {
        process(s, bytes, &used);
        if (line_is_up(s) && used < bytes.len) {
            (void)buffer_append(&s->in, bytes.data + used, bytes.len - used);
        }
    } else {
        (void)buffer_append_slice(&s->in, bytes);
        process(s, buffer_bytes(&s->in), &used);
        if (line_is_up(s)) {
            buffer_consume(&s->in, used);
        }
    }
    if (s->in.overflowed) {
        line_give_up(s, "bad_answer", "the answer is too long");
    }
}

/* Edge-triggered, which saves epoll work, so all bytes must be read. A read that does not fill the
 * buffer has read all of them. */
static void on_readable(struct line *s)
{
    uint8_t bytes[READ_SIZE];
    size_t got;
    enum transport_io io;
    do {
        io = transport_read(&s->transport, bytes, sizeof(bytes), &got);
        if (io == TRANSPORT_OK) {
            receive(s, slice_make(bytes, got));
        }
    } while (line_is_up(s) && got == sizeof(bytes));
    if (io == TRANSPORT_END || io == TRANSPORT_FAILED) {
        fail(s, "connection_lost");
    }
}

void line_on_event(struct line *s, uint32_t events)
{
    if (s->transport.state == TRANSPORT_CONNECTING) {
        enum transport_state state = transport_advance(&s->transport);
        if (state == TRANSPORT_CLOSED) {
            fail(s, "not_connected");
        } else if (state == TRANSPORT_UP) {
            start(s);
        } else {
            set_events(s, EPOLL_CTL_MOD, (uint32_t)transport_events(&s->transport, false));
        }
        if (!line_is_up(s) || !transport_has_input(&s->transport)) {
            return; /* what came with the end of the handshake is not reported again */
        }
        events = EPOLLIN;
    }
    if (line_is_up(s) && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        on_readable(s);
    }
    line_flush(s);
}
