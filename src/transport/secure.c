/* TLS on the socket of a transport.
 *
 * A write is encrypted once and reported as done when the socket has taken all of it. Until then
 * the caller repeats it with the same bytes, as for a socket that is full. So no output is hidden
 * here from a caller that polls by what it has left to write. */
#include "transport/secure.h"

#include "base/buffer.h"
#include "base/memory.h"
#include "base/panic.h"
#include "tls/session.h"

enum { RECEIVE_SIZE = 16 << 10, WRITE_MAX = 64 << 10, BUFFER_MAX = 1 << 20 };

struct transport_tls {
    struct tls_session *session;
    struct buffer plain; /* received, not read by the caller yet */
    struct buffer wire;  /* encrypted, not sent yet */
    size_t accepted;     /* plain bytes of the caller's current write that are in `wire` */
    bool is_cut;         /* the node closed the socket */
};

struct transport_tls *secure_new(struct security *security, const char *host)
{
    struct transport_tls *tls = memory_alloc(memory_system(), sizeof(*tls));
    const char *name = security_server_name(security);
    *tls = (struct transport_tls){.accepted = 0};
    tls->session = tls_session_new(security_context(security), name != NULL ? name : host);
    buffer_init(&tls->plain, memory_system(), BUFFER_MAX);
    buffer_init(&tls->wire, memory_system(), BUFFER_MAX);
    return tls;
}

void secure_free(struct transport_tls *tls)
{
    if (tls != NULL) {
        tls_session_free(tls->session);
        buffer_close(&tls->plain);
        buffer_close(&tls->wire);
        memory_free(memory_system(), tls, sizeof(*tls));
    }
}

bool secure_has_output(const struct transport_tls *tls)
{
    return buffer_len(&tls->wire) > 0;
}

bool secure_has_input(const struct transport_tls *tls)
{
    return buffer_len(&tls->plain) > 0;
}

/* OK: all of `wire` is sent. */
static enum transport_io send_wire(struct transport *t)
{
    struct buffer *wire = &t->tls->wire;
    while (buffer_len(wire) > 0) {
        struct slice bytes = buffer_bytes(wire);
        ssize_t sent = send(t->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            return transport_no_bytes(t, sent);
        }
        buffer_consume(wire, (size_t)sent);
    }
    return TRANSPORT_OK;
}

static enum transport_io fail(struct transport *t)
{
    t->problem = security_keep_problem(t->security, tls_session_problem(t->tls->session));
    return TRANSPORT_FAILED;
}

/* Receives once. OK: the socket may have more. AGAIN: it has been read to the end, and `plain` may
 * have grown. */
static enum transport_io receive(struct transport *t)
{
    struct transport_tls *tls = t->tls;
    uint8_t bytes[RECEIVE_SIZE];
    ssize_t got;
    do {
        got = recv(t->fd, bytes, sizeof(bytes), 0);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        tls->is_cut = got == 0;
        return transport_no_bytes(t, got);
    }
    (void)tls_session_receive(tls->session, slice_make(bytes, (size_t)got), &tls->plain,
                              &tls->wire);
    enum tls_state state = tls_session_state(tls->session);
    if (tls->accepted == 0 || state == TLS_FAILED) {
        (void)send_wire(t); /* an alert, or the answer to a change of keys */
    }
    return state == TLS_FAILED           ? fail(t)
           : state == TLS_ENDED          ? TRANSPORT_END
           : (size_t)got < sizeof(bytes) ? TRANSPORT_AGAIN
                                         : TRANSPORT_OK;
}

enum secure_step secure_advance(struct transport *t)
{
    struct transport_tls *tls = t->tls;
    if (tls_session_state(tls->session) == TLS_HANDSHAKE && !secure_has_output(tls)) {
        (void)tls_session_receive(tls->session, slice_make(NULL, 0), &tls->plain, &tls->wire);
    }
    for (;;) {
        enum transport_io sent = send_wire(t);
        if (sent == TRANSPORT_FAILED) {
            return SECURE_FAILED;
        }
        if (tls_session_state(tls->session) == TLS_OPEN) {
            return sent == TRANSPORT_OK ? SECURE_DONE : SECURE_MORE;
        }
        enum transport_io io = receive(t);
        if (io == TRANSPORT_END || io == TRANSPORT_FAILED) {
            return SECURE_FAILED;
        }
        if (io == TRANSPORT_AGAIN && tls_session_state(tls->session) != TLS_OPEN) {
            return SECURE_MORE;
        }
    }
}

void secure_end(struct transport *t)
{
    if (t->tls->accepted == 0 && buffer_len(&t->tls->wire) == 0) {
        tls_session_end(t->tls->session, &t->tls->wire);
        (void)send_wire(t);
    }
}

/* After everything that was received was read. An end without close_notify may be the work of
 * somebody on the path, so it is a failure. */
static enum transport_io ended(struct transport *t)
{
    switch (tls_session_state(t->tls->session)) {
    case TLS_FAILED:
        return fail(t);
    case TLS_ENDED:
        t->problem = "the connection was closed";
        return TRANSPORT_END;
    default:
        t->problem = "the connection was cut";
        return t->tls->is_cut ? TRANSPORT_FAILED : TRANSPORT_AGAIN;
    }
}

/* Fewer bytes than `size` mean that the socket has no more, as for recv. */
enum transport_io transport_read_tls(struct transport *t, void *to, size_t size, size_t *done)
{
    struct transport_tls *tls = t->tls;
    enum transport_io io = TRANSPORT_OK;
    while (io == TRANSPORT_OK && buffer_len(&tls->plain) < size) {
        io = tls->is_cut ? TRANSPORT_END : receive(t);
    }
    size_t len = buffer_len(&tls->plain) < size ? buffer_len(&tls->plain) : size;
    *done = len;
    if (len == 0) {
        return io == TRANSPORT_FAILED ? io : ended(t);
    }
    memcpy(to, buffer_bytes(&tls->plain).data, len);
    buffer_consume(&tls->plain, len);
    if (buffer_len(&tls->plain) == 0) {
        buffer_release(&tls->plain);
    }
    return TRANSPORT_OK;
}

enum transport_io transport_write_tls(struct transport *t, struct slice bytes, size_t *done)
{
    struct transport_tls *tls = t->tls;
    *done = 0;
    if (tls->accepted == 0 && bytes.len > 0) {
        size_t len = bytes.len < WRITE_MAX ? bytes.len : WRITE_MAX;
        if (!tls_session_write(tls->session, slice_make(bytes.data, len), &tls->wire)) {
            return fail(t);
        }
        tls->accepted = len;
    }
    hf_assert(bytes.len >= tls->accepted);
    enum transport_io io = send_wire(t);
    if (io == TRANSPORT_OK) {
        *done = tls->accepted;
        tls->accepted = 0;
        buffer_release(&tls->wire);
    }
    return io;
}
