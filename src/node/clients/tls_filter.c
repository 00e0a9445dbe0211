/* See tls_filter.h. A session keeps no buffers while it is idle, and neither does this. */
#include "node/clients/tls_filter.h"

struct tls_filter {
    const struct memory *memory;
    struct tls_session *session;
    const char *clear_text;
};

static enum filter_result incoming(void *ctx, struct slice bytes, struct buffer *plain,
                                   struct buffer *wire)
{
    struct tls_filter *f = ctx;
    switch (tls_session_receive(f->session, bytes, plain, wire)) {
    case TLS_FAILED:
        if (tls_session_is_clear_text(f->session) && f->clear_text != NULL) {
            buffer_append_text(wire, f->clear_text);
        }
        return FILTER_FAILED;
    case TLS_ENDED:
        return FILTER_ENDED;
    default:
        return FILTER_GOES_ON;
    }
}

static bool outgoing(void *ctx, struct slice plain, struct buffer *wire)
{
    struct tls_filter *f = ctx;
    return tls_session_write(f->session, plain, wire);
}

static bool is_opening(void *ctx)
{
    const struct tls_filter *f = ctx;
    return tls_session_state(f->session) == TLS_HANDSHAKE;
}

static void finish(void *ctx, struct buffer *wire)
{
    struct tls_filter *f = ctx;
    tls_session_end(f->session, wire);
}

static const struct peer_identity *identity(void *ctx)
{
    const struct tls_filter *f = ctx;
    return tls_session_identity(f->session);
}

static const char *problem(void *ctx)
{
    const struct tls_filter *f = ctx;
    return tls_session_problem(f->session);
}

static void close_filter(void *ctx)
{
    struct tls_filter *f = ctx;
    tls_session_free(f->session);
    memory_free(f->memory, f, sizeof(*f));
}

void tls_filter_set(struct connection *c, const struct memory *memory, struct tls_context *context,
                    bool begins, const char *clear_text)
{
    struct tls_filter *f = memory_alloc(memory, sizeof(*f));
    *f = (struct tls_filter){
        .memory = memory, .session = tls_session_new(context, NULL), .clear_text = clear_text};
    struct connection_filter filter = {.ctx = f,
                                       .incoming = incoming,
                                       .outgoing = outgoing,
                                       .close = close_filter,
                                       .is_opening = is_opening,
                                       .begins = begins,
                                       .finish = finish,
                                       .identity = identity,
                                       .problem = problem};
    connection_set_filter(c, &filter);
}
