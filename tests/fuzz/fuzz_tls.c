/* What arrives at a TLS session from the network: the messages of a real other end, which the input
 * delivers in pieces, changes, drops, repeats, or replaces by its own. Nothing crashes, the states
 * follow the diagram of tls/session.h, what an end may send and take is bounded, and:
 *   - the plain bytes of an end are always the first bytes that the other end wrote;
 *   - ENDED is only reached when all of them have arrived;
 *   - an end that must refuse the other is never OPEN;
 *   - if nothing was changed, the handshake succeeds and everything arrives.
 *
 * The first byte selects the pair (tls_pairs.h). Steps follow, a letter and what it needs; END is 0
 * for what travels to the server, 1 for what travels to the client:
 *   p END LENGTH          that many bytes arrive (0: all)
 *   c END OFFSET BYTE     a byte on its way is changed       d END LENGTH  the next bytes are dropped
 *   r END LENGTH          the next bytes are sent twice      t END         the rest never arrives
 *   i END LENGTH bytes    other bytes come before those on their way
 *   w END LENGTH          plain bytes are written to that end, LENGTH squared
 *   e END                 the sender to that end sends close_notify */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "tls_pairs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    STEPS_MAX = 300,
    WIRE_MAX = 32 << 20,   /* of the test */
    ANSWER_MAX = 48 << 10, /* that a handshake or an alert may send for one piece of input */
};

struct end {
    struct tls_session *session;
    struct buffer plain;  /* of the current call */
    struct buffer to;     /* on the way to this end */
    uint64_t sent, taken; /* plain bytes to this end: written, received */
    bool has_ended;       /* the sender to it has sent close_notify */
    bool must_refuse;
};

static struct end ends[2]; /* server, client */
static bool is_changed;

static struct end *other(struct end *e)
{
    return e == &ends[0] ? &ends[1] : &ends[0];
}

/* The byte at a position of everything that is written to an end. */
static uint8_t byte_at(const struct end *e, uint64_t at)
{
    return (uint8_t)(at * 31 + (e == &ends[0] ? 7 : 100) + (at >> 8));
}

static void check_state(enum tls_state before, enum tls_state after, const struct end *e)
{
    static const bool follows[4][4] = {
        [TLS_HANDSHAKE] =
            {[TLS_HANDSHAKE] = true, [TLS_OPEN] = true, [TLS_ENDED] = true, [TLS_FAILED] = true},
        [TLS_OPEN] = {[TLS_OPEN] = true, [TLS_ENDED] = true, [TLS_FAILED] = true},
        [TLS_ENDED] = {[TLS_ENDED] = true},
        [TLS_FAILED] = {[TLS_FAILED] = true},
    };
    hf_assert(follows[before][after] && after == tls_session_state(e->session));
    hf_assert((after == TLS_FAILED) == (tls_session_problem(e->session)[0] != '\0'));
    hf_assert(strstr(tls_session_problem(e->session), "than fit") == NULL);
    hf_assert(!e->must_refuse || (after != TLS_OPEN && after != TLS_ENDED));
    hf_assert(after != TLS_ENDED || (e->has_ended && e->taken == e->sent));
}

static void take_plain(struct end *e)
{
    struct slice got = buffer_bytes(&e->plain);
    for (size_t i = 0; i < got.len; i++) {
        hf_assert(got.data[i] == byte_at(e, e->taken + i));
    }
    e->taken += got.len;
    hf_assert(e->taken <= e->sent);
    buffer_truncate(&e->plain, 0);
}

static void receive(struct end *e, struct slice bytes)
{
    enum tls_state before = tls_session_state(e->session);
    size_t answered = buffer_len(&other(e)->to);
    buffer_init(&e->plain, memory_system(), bytes.len + TLS_PLAIN_SPARE);
    enum tls_state after = tls_session_receive(e->session, bytes, &e->plain, &other(e)->to);
    hf_assert(!other(e)->to.overflowed && buffer_len(&other(e)->to) - answered <= ANSWER_MAX);
    hf_assert(before != TLS_ENDED || buffer_len(&e->plain) == 0);
    take_plain(e);
    check_state(before, after, e);
    buffer_close(&e->plain);
}

static void arrive(struct end *e, size_t len)
{
    struct slice bytes = buffer_bytes(&e->to);
    bytes.len = len == 0 || len > bytes.len ? bytes.len : len;
    if (bytes.len > 0) {
        receive(e, bytes);
        buffer_consume(&e->to, bytes.len);
    }
}

/* Puts `bytes` before those on their way. */
static void insert(struct end *e, struct slice bytes)
{
    struct buffer now;
    buffer_init(&now, memory_system(), WIRE_MAX);
    if (buffer_append_slice(&now, bytes) && buffer_append_slice(&now, buffer_bytes(&e->to))) {
        buffer_truncate(&e->to, 0);
        hf_assert(buffer_append_slice(&e->to, buffer_bytes(&now)));
        is_changed = is_changed || bytes.len > 0;
    }
    buffer_close(&now);
}

static void drop(struct end *e, size_t len)
{
    len = len < buffer_len(&e->to) ? len : buffer_len(&e->to);
    buffer_consume(&e->to, len);
    is_changed = is_changed || len > 0;
}

static void change(struct end *e, size_t offset, uint8_t byte)
{
    struct slice bytes = buffer_bytes(&e->to);
    if (bytes.len > 0) {
        uint8_t *at = (uint8_t *)(uintptr_t)bytes.data + offset % bytes.len;
        is_changed = is_changed || *at != byte;
        *at = byte;
    }
}

static void repeat(struct end *e, size_t len)
{
    uint8_t copy[256];
    struct slice bytes = buffer_bytes(&e->to);
    bytes.len = len < bytes.len ? len : bytes.len;
    if (bytes.len > 0) {
        memcpy(copy, bytes.data, bytes.len);
        insert(e, slice_make(copy, bytes.len));
    }
}

static void write_to(struct end *e, size_t len)
{
    static uint8_t plain[255 * 255];
    enum tls_state state = tls_session_state(other(e)->session);
    for (size_t i = 0; i < len; i++) {
        plain[i] = byte_at(e, e->sent + i);
    }
    bool may = (state == TLS_OPEN || state == TLS_ENDED) && !e->has_ended;
    if (may && buffer_space(&e->to) > 2 * sizeof(plain)) {
        hf_assert(tls_session_write(other(e)->session, slice_make(plain, len), &e->to));
        e->sent += len;
    } else if (!may && state != TLS_OPEN && state != TLS_ENDED && len > 0) {
        hf_assert(!tls_session_write(other(e)->session, slice_make(plain, len), &e->to));
    }
}

static void end_to(struct end *e)
{
    enum tls_state state = tls_session_state(other(e)->session);
    tls_session_end(other(e)->session, &e->to);
    e->has_ended = e->has_ended || state == TLS_OPEN || state == TLS_ENDED;
}

/* Returns how many bytes the step took. */
static size_t step(const uint8_t *data, size_t size)
{
    struct end *e = &ends[size > 1 ? data[1] % 2 : 0];
    size_t number = size > 2 ? data[2] : 0;
    switch (data[0]) {
    case 'c':
        change(e, size > 4 ? number * 256 + data[3] : 0, size > 4 ? data[4] : 0);
        return 5;
    case 'd':
        drop(e, number);
        return 3;
    case 'r':
        repeat(e, number);
        return 3;
    case 't':
        drop(e, SIZE_MAX);
        return 2;
    case 'i':
        number = size > 3 && number < size - 3 ? number : (size > 3 ? size - 3 : 0);
        insert(e, slice_make(data + (number > 0 ? 3 : 0), number));
        return 3 + number;
    case 'w':
        write_to(e, number * number);
        return 3;
    case 'e':
        end_to(e);
        return 2;
    default:
        arrive(e, number);
        return 3;
    }
}

static void let_all_arrive(void)
{
    while (buffer_len(&ends[0].to) + buffer_len(&ends[1].to) > 0) {
        arrive(&ends[0], 0);
        arrive(&ends[1], 0);
    }
}

static void check_both_open(void)
{
    for (int i = 0; i < 2; i++) {
        struct end *e = &ends[i];
        enum tls_state state = tls_session_state(e->session);
        hf_assert(state == (e->has_ended ? TLS_ENDED : TLS_OPEN) && e->taken == e->sent);
        write_to(e, 1000);
    }
    let_all_arrive();
    hf_assert(ends[0].taken == ends[0].sent && ends[1].taken == ends[1].sent);
}

static void run(const uint8_t *data, size_t size, enum tls_pair_kind kind)
{
    receive(&ends[1], slice_make(NULL, 0)); /* the client begins */
    for (int steps = 0; size > 0 && steps < STEPS_MAX; steps++) {
        size_t used = step(data, size);
        used = used < size ? used : size;
        data += used;
        size -= used;
    }
    let_all_arrive();
    if (is_changed) {
        return;
    }
    if (!tls_pair_must_fail(kind)) {
        check_both_open();
    } else {
        hf_assert(tls_session_state(ends[0].session) == TLS_FAILED ||
                  tls_session_state(ends[1].session) == TLS_FAILED);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tls_pair pair;
    enum tls_pair_kind kind = size > 0 ? data[0] % PAIR_KINDS : PAIR_PLAIN;
    tls_pairs_begin();
    tls_pair_open(&pair, kind);
    is_changed = false;
    for (int i = 0; i < 2; i++) {
        ends[i] = (struct end){.session = i == 0 ? pair.server : pair.client};
        buffer_init(&ends[i].to, memory_system(), WIRE_MAX);
    }
    ends[0].must_refuse = kind == PAIR_FOREIGN_CLIENT || kind == PAIR_FOREIGN_PEER;
    ends[1].must_refuse = kind == PAIR_WRONG_NAME;
    run(data + (size > 0 ? 1 : 0), size > 0 ? size - 1 : 0, kind);
    tls_pair_close(&pair);
    for (int i = 0; i < 2; i++) {
        buffer_close(&ends[i].to);
    }
    return 0;
}
