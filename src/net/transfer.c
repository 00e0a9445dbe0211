/* The bytes of a connection: reading with flow control, writing once per turn. */
#include "net/connection_state.h"

/* ---- lists: connections with output, connections with remaining input ---- */

void connection_mark_dirty(struct connection *c)
{
    if (list_is_empty(&c->dirty) && c->phase != CONNECTION_CLOSING) {
        list_append(c->options.writes_first ? &c->net->dirty_first : &c->net->dirty, &c->dirty);
    }
}

void connection_mark_ready(struct connection *c)
{
    if (list_is_empty(&c->ready) && c->phase == CONNECTION_OPEN && buffer_len(&c->in) > 0) {
        list_append(&c->net->ready, &c->ready);
        net_stay_awake(c->net, true);
    }
}

void connection_unlist(struct connection *c)
{
    list_remove(&c->dirty);
    list_remove(&c->ready);
    list_remove(&c->opening_link);
}

/* ---- input ---- */

/* on_bytes must not be called now. */
static bool is_held(const struct connection *c)
{
    return c->paused || (c->pressed && !c->options.read_under_pressure);
}

static void feed(struct connection *c)
{
    if (c->phase != CONNECTION_OPEN || is_held(c) || buffer_len(&c->in) == 0) {
        return;
    }
    size_t consumed = c->handlers->on_bytes(c->owner, buffer_bytes(&c->in));
    if (c->phase != CONNECTION_OPEN) {
        return;
    }
    hf_assert(consumed <= buffer_len(&c->in));
    buffer_consume(&c->in, consumed);
    buffer_release(&c->in);
    connection_update_reading(c);
}

void connections_feed(struct net *net)
{
    /* Connections that are marked ready during this loop wait for the next round. */
    struct list round;
    list_init(&round);
    list_move_all(&round, &net->ready);
    for (struct list *link = list_take(&round); link != NULL; link = list_take(&round)) {
        feed(LIST_OBJECT(link, struct connection, ready));
    }
}

/* Directly from the receive buffer if no bytes are retained. */
static void deliver(struct connection *c, struct slice bytes)
{
    size_t consumed = 0;
    bool direct = buffer_len(&c->in) == 0 && !is_held(c);
    if (direct) {
        consumed = c->handlers->on_bytes(c->owner, bytes);
        if (c->phase != CONNECTION_OPEN) {
            return;
        }
        hf_assert(consumed <= bytes.len);
    }
    if (consumed < bytes.len) {
        /* It fits: reading stops while in_max bytes or more are retained. */
        bool fits = buffer_append(&c->in, bytes.data + consumed, bytes.len - consumed);
        hf_assert(fits);
    }
    if (direct) {
        connection_update_reading(c);
    } else {
        feed(c);
    }
}

static void on_end(struct connection *c);

/* Output that waited for the handshake is written in this turn. */
static void complete_opening(struct connection *c)
{
    c->opening = false;
    c->open_at = 0;
    connection_end_opening(c);
    connection_mark_dirty(c);
    if (c->handlers->on_open != NULL) {
        c->handlers->on_open(c->owner);
    }
}

void connection_pass_filter(struct connection *c, struct slice bytes)
{
    struct buffer *plain = &c->net->plain;
    enum filter_result result = c->filter.incoming(c->filter.ctx, bytes, plain, &c->wire);
    if (buffer_len(&c->wire) > 0) {
        connection_mark_dirty(c);
    }
    if (c->opening && result != FILTER_FAILED && !c->filter.is_opening(c->filter.ctx)) {
        complete_opening(c);
    }
    if (buffer_len(plain) > 0 && c->phase == CONNECTION_OPEN) {
        deliver(c, buffer_bytes(plain));
    }
    buffer_truncate(plain, 0);
    if (result == FILTER_FAILED && c->phase == CONNECTION_OPEN) {
        c->failed = true;
        c->reason = c->filter.problem != NULL ? c->filter.problem(c->filter.ctx)
                                              : "the connection's encryption failed";
        connection_close(c);
    } else if (result == FILTER_ENDED && c->phase == CONNECTION_OPEN) {
        on_end(c);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    struct connection *c = handle->data;
    *out = uv_buf_init((char *)c->net->scratch, c->opening ? OPENING_READ : NET_SCRATCH);
}

static void on_end(struct connection *c)
{
    c->ended = true;
    connection_update_reading(c);
    if (c->phase == CONNECTION_FINISHING) {
        if (c->end_sent) {
            connection_abort(c, "closed");
        }
    } else if (c->handlers->on_end != NULL) {
        c->handlers->on_end(c->owner);
    } else {
        connection_abort(c, "the other end closed");
    }
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *into)
{
    struct connection *c = stream->data;
    if (len == 0 || c->phase == CONNECTION_CLOSING) {
        return;
    }
    if (len == UV_EOF) {
        on_end(c);
    } else if (len < 0) {
        connection_abort(c, uv_err_name((int)len));
    } else if (c->phase == CONNECTION_OPEN) {
        c->net->bytes_read += (uint64_t)len;
        struct slice bytes = slice_make(into->base, (size_t)len);
        if (c->opening) {
            connection_hold(c, bytes);
        } else if (c->filter.incoming != NULL) {
            connection_pass_filter(c, bytes);
        } else {
            deliver(c, bytes);
        }
    }
}

void connection_update_reading(struct connection *c)
{
    bool full = buffer_len(&c->in) >= c->options.in_max || buffer_len(&c->held) > 0;
    bool wanted = !c->ended && (c->phase == CONNECTION_FINISHING ||
                                (c->phase == CONNECTION_OPEN && !is_held(c) && !full));
    if (wanted == c->reading) {
        return;
    }
    c->reading = wanted;
    if (wanted) {
        if (uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0) {
            connection_abort(c, "cannot read");
        }
    } else {
        uv_read_stop((uv_stream_t *)&c->tcp);
    }
}

void connection_pause(struct connection *c)
{
    c->paused = true;
    if (c->phase == CONNECTION_OPEN) {
        connection_update_reading(c);
    }
}

void connection_resume(struct connection *c)
{
    c->paused = false;
    if (c->phase == CONNECTION_OPEN) {
        connection_update_reading(c);
        connection_mark_ready(c);
    }
}

/* ---- output ---- */

struct buffer *connection_output(struct connection *c)
{
    if (c->phase > CONNECTION_OPEN) {
        buffer_truncate(&c->net->forgotten, 0);
        return &c->net->forgotten;
    }
    connection_mark_dirty(c);
    return &c->out;
}

void connection_touch(struct connection *c)
{
    if (c->phase == CONNECTION_OPEN) {
        connection_mark_dirty(c);
    }
}

size_t connection_pending(const struct connection *c)
{
    return buffer_len(&c->out) + buffer_len(&c->wire) + buffer_len(&c->writing);
}

static void update_pressure(struct connection *c)
{
    size_t pending = connection_pending(c);
    bool pressed = pending > (c->pressed ? c->options.out_low : c->options.out_high);
    if (pressed == c->pressed || c->phase != CONNECTION_OPEN) {
        return;
    }
    c->pressed = pressed;
    connection_update_reading(c);
    if (!pressed) {
        connection_mark_ready(c);
    }
    if (c->handlers->on_pressure != NULL) {
        c->handlers->on_pressure(c->owner, pressed);
    }
}

void connection_expect_drain(struct connection *c)
{
    if (c->phase == CONNECTION_OPEN) {
        c->pressed = true;
        connection_update_reading(c);
        connection_mark_dirty(c);
    }
}

static void report_written(struct connection *c)
{
    size_t len = c->pulled;
    c->pulled = 0;
    if (len > 0 && c->phase == CONNECTION_OPEN) {
        c->handlers->on_written(c->owner, len);
    }
}

static void on_write_done(uv_write_t *request, int status)
{
    struct connection *c = request->handle->data;
    c->in_flight = false;
    c->stall_at = 0;
    if (c->phase == CONNECTION_CLOSING) {
        return;
    }
    if (status < 0) {
        connection_abort(c, uv_err_name(status));
        return;
    }
    c->net->bytes_written += buffer_len(&c->writing);
    buffer_truncate(&c->writing, 0);
    buffer_release(&c->writing);
    report_written(c);
    connection_mark_dirty(c); /* there may be more output, and pressure may fall */
}

/* Lets the loop write what the kernel did not take at once. */
static void write_later(struct connection *c)
{
    struct slice rest = buffer_bytes(&c->writing);
    uv_buf_t piece = uv_buf_init((char *)(uintptr_t)rest.data, (unsigned)rest.len);
    int status = uv_write(&c->write, (uv_stream_t *)&c->tcp, &piece, 1, on_write_done);
    if (status != 0) {
        connection_abort(c, uv_err_name(status));
        return;
    }
    c->in_flight = true;
    c->stalled_at = rest.len;
    c->stall_at = uv_now(c->net->loop) + c->options.stall_ms;
    connection_schedule(c);
}

/* How many bytes the kernel takes at once; aborts on errors. */
static size_t write_now(struct connection *c, struct slice bytes)
{
    uv_buf_t piece = uv_buf_init((char *)(uintptr_t)bytes.data, (unsigned)bytes.len);
    int taken = uv_try_write((uv_stream_t *)&c->tcp, &piece, 1);
    c->net->writes++;
    if (taken < 0) {
        if (taken != UV_EAGAIN) {
            connection_abort(c, uv_err_name(taken));
        }
        return 0;
    }
    c->net->bytes_written += (uint64_t)taken;
    return (size_t)taken;
}

static void write_buffer(struct connection *c, struct buffer *from)
{
    buffer_consume(from, write_now(c, buffer_bytes(from)));
    if (c->phase == CONNECTION_CLOSING) {
        return;
    }
    if (buffer_len(from) == 0) {
        buffer_release(from);
        report_written(c);
        return;
    }
    struct buffer swap = *from;
    size_t max = from->max;
    *from = c->writing;
    c->writing = swap;
    from->max = max;
    write_later(c);
}

/* Without a copy, as far as the kernel takes it. */
static void write_pulled(struct connection *c)
{
    struct slice bytes = c->handlers->output(c->owner);
    if (bytes.len == 0) {
        return;
    }
    size_t taken = write_now(c, bytes);
    if (c->phase == CONNECTION_CLOSING) {
        return;
    }
    if (taken < bytes.len) {
        size_t rest = bytes.len - taken;
        size_t most = 2 * c->options.out_high; /* the owner keeps and counts the rest */
        rest = rest < most ? rest : most;
        bool fits = buffer_append(&c->writing, bytes.data + taken, rest);
        hf_assert(fits);
        c->pulled = rest;
        write_later(c);
    }
    if (taken > 0 && c->phase == CONNECTION_OPEN) {
        c->handlers->on_written(c->owner, taken);
    }
}

static bool filter_output(struct connection *c)
{
    if (c->opening) {
        if (c->phase == CONNECTION_FINISHING) {
            buffer_truncate(&c->out, 0); /* the other end was not verified */
        }
        return true;
    }
    struct slice plain = buffer_bytes(&c->out);
    if (c->phase == CONNECTION_OPEN && c->handlers->output != NULL && c->pulled == 0) {
        plain = c->handlers->output(c->owner);
        size_t most = 2 * c->options.out_high; /* the owner keeps and counts the rest */
        plain.len = plain.len < most ? plain.len : most;
        c->pulled = plain.len;
    }
    bool sound = plain.len == 0 || c->filter.outgoing(c->filter.ctx, plain, &c->wire);
    if (c->phase == CONNECTION_FINISHING && c->filter.finish != NULL && sound) {
        c->filter.finish(c->filter.ctx, &c->wire);
    }
    buffer_truncate(&c->out, 0);
    buffer_release(&c->out);
    return sound;
}

static void flush_out(struct connection *c)
{
    if (c->filter.outgoing != NULL) {
        if (!filter_output(c)) {
            connection_abort(c, "the connection's encryption failed");
        } else if (buffer_len(&c->wire) > 0) {
            write_buffer(c, &c->wire);
        }
    } else if (buffer_len(&c->out) > 0) {
        write_buffer(c, &c->out);
    } else if (c->phase == CONNECTION_OPEN && c->handlers->output != NULL) {
        write_pulled(c);
    }
}

void connection_flush(struct connection *c)
{
    list_remove(&c->dirty);
    if (c->out.overflowed || c->wire.overflowed) {
        connection_abort(c, "more output than a connection may have");
        return;
    }
    if (!c->in_flight) {
        flush_out(c);
    }
    if (c->phase == CONNECTION_CLOSING) {
        return;
    }
    update_pressure(c);
    if (c->phase == CONNECTION_FINISHING && !c->in_flight && connection_pending(c) == 0) {
        connection_finish(c);
    }
}

void net_flush(struct net *net)
{
    /* A write may make another connection dirty. It is flushed too, since the loop may sleep after
     * this. */
    for (;;) {
        struct list *link = list_take(&net->dirty_first);
        link = link != NULL ? link : list_take(&net->dirty);
        if (link == NULL) {
            return;
        }
        connection_flush(LIST_OBJECT(link, struct connection, dirty));
    }
}
