/* Clients of parties.h behind TLS: what they send passes a session of a client and one of a server,
 * in pieces, and so does what they are answered. */
#include <stdlib.h>

#include "base/panic.h"
#include "parties.h"
#include "service/http/http_api.h"
#include "tls_pairs.h"

enum { BUFFER_MAX = 64 << 20 };

struct secured_party {
    struct tls_pair tls;
    void *conn;        /* of `inner` */
    struct buffer in;  /* decrypted, not received by `conn` yet */
    struct buffer out; /* decrypted by the client */
    struct buffer to_server, to_client;
};

static const struct parties_transport *inner;
static size_t piece; /* bytes of a record that arrive at a time */
static bool sets_piece;

static bool pass(struct buffer *from, struct tls_session *to, struct buffer *plain,
                 struct buffer *back)
{
    bool any = buffer_len(from) > 0;
    while (buffer_len(from) > 0) {
        struct slice bytes = buffer_bytes(from);
        bytes.len = bytes.len < piece ? bytes.len : piece;
        enum tls_state state = tls_session_receive(to, bytes, plain, back);
        hf_assert(state != TLS_FAILED && !plain->overflowed);
        buffer_consume(from, bytes.len);
    }
    return any;
}

static void exchange(struct secured_party *p)
{
    while (pass(&p->to_server, p->tls.server, &p->in, &p->to_client) ||
           pass(&p->to_client, p->tls.client, &p->out, &p->to_server)) {
    }
}

static void feed(struct secured_party *p)
{
    while (buffer_len(&p->in) > 0 && inner->wants_input(p->conn)) {
        struct slice bytes = buffer_bytes(&p->in);
        bytes.len = bytes.len < HTTP_CONN_READ ? bytes.len : HTTP_CONN_READ;
        inner->receive(p->conn, bytes);
        buffer_consume(&p->in, bytes.len);
    }
}

static void *secured_open(struct party *party, unsigned number)
{
    struct secured_party *p = calloc(1, sizeof(*p));
    hf_assert(p != NULL);
    struct buffer *const buffers[] = {&p->in, &p->out, &p->to_server, &p->to_client};
    for (int i = 0; i < 4; i++) {
        buffer_init(buffers[i], memory_system(), BUFFER_MAX);
    }
    tls_pair_open(&p->tls, number % 2 == 0 ? PAIR_PLAIN : PAIR_CERTIFIED);
    tls_session_receive(p->tls.client, slice_make(NULL, 0), &p->out, &p->to_server);
    exchange(p);
    hf_assert(tls_session_state(p->tls.server) == TLS_OPEN);
    p->conn = inner->open(party, number);
    if (tls_session_identity(p->tls.server) != NULL) {
        inner->set_peer(p->conn, tls_session_identity(p->tls.server));
    }
    return p;
}

static void secured_receive(void *conn, struct slice bytes)
{
    struct secured_party *p = conn;
    if (tls_session_write(p->tls.client, bytes, &p->to_server)) {
        exchange(p);
        feed(p);
    }
}

static bool secured_wants_input(void *conn)
{
    struct secured_party *p = conn;
    feed(p);
    return buffer_len(&p->in) == 0 && inner->wants_input(p->conn) &&
           tls_session_state(p->tls.server) == TLS_OPEN;
}

static void secured_end(void *conn)
{
    struct secured_party *p = conn;
    tls_session_end(p->tls.client, &p->to_server);
    exchange(p);
    if (tls_session_state(p->tls.server) == TLS_ENDED) {
        inner->end(p->conn);
    }
}

static struct slice secured_output(const void *conn)
{
    struct secured_party *p = (struct secured_party *)(uintptr_t)conn;
    struct slice plain = inner->output(p->conn);
    if (plain.len > 0) {
        size_t before = buffer_len(&p->out);
        hf_assert(tls_session_write(p->tls.server, plain, &p->to_client));
        exchange(p);
        hf_assert(buffer_len(&p->out) - before == plain.len);
        inner->written(p->conn, plain.len);
    }
    return buffer_bytes(&p->out);
}

static void secured_written(void *conn, size_t len)
{
    struct secured_party *p = conn;
    buffer_consume(&p->out, len);
}

static bool secured_is_finished(const void *conn)
{
    struct secured_party *p = (struct secured_party *)(uintptr_t)conn;
    feed(p);
    return buffer_len(&p->out) == 0 && inner->is_finished(p->conn);
}

static void secured_close(void *conn)
{
    struct secured_party *p = conn;
    inner->close(p->conn);
    tls_pair_close(&p->tls);
    buffer_close(&p->in);
    buffer_close(&p->out);
    buffer_close(&p->to_server);
    buffer_close(&p->to_client);
    free(p);
}

static bool secured_step(uint8_t letter)
{
    if (sets_piece) {
        piece = letter == 0 ? SIZE_MAX : letter;
        sets_piece = false;
        return true;
    }
    sets_piece = letter == 'k';
    return sets_piece || inner->step(letter);
}

const struct parties_transport *parties_secured(const struct parties_transport *of)
{
    static struct parties_transport secured;
    tls_pairs_begin();
    inner = of;
    piece = SIZE_MAX;
    sets_piece = false;
    secured = *of;
    secured.open = secured_open;
    secured.receive = secured_receive;
    secured.wants_input = secured_wants_input;
    secured.end = secured_end;
    secured.output = secured_output;
    secured.written = secured_written;
    secured.is_finished = secured_is_finished;
    secured.close = secured_close;
    secured.step = secured_step;
    return &secured;
}
