/* Arbitrary bytes into connections of HTTP/2, with a cluster behind them that fails, holds back and
 * forgets as the input says. Nothing crashes, what comes back is frames, and when all clients are
 * gone nobody is left waiting on their behalf.
 *
 * The input is a script. Each step is a letter and what it needs; connections are numbered 0 to 2:
 *   f CONNECTION TYPE FLAGS STREAM LENGTH bytes   a frame
 *   c CONNECTION METHOD STREAM LENGTH bytes       a whole call of gRPC, its message as given
 *   r CONNECTION REQUEST STREAM                   one of the calls below
 *   b CONNECTION LENGTH bytes                     bytes as they are
 *   x CONNECTION   the client is gone       n CONNECTION   it comes again
 *   p TIME         time passes              h, u, d, F ERROR: the gateway holds, ..., fails
 *   D              the node drains */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/view.h"
#include "fake_gateway.h"
#include "service/grpc/rpc.h"
#include "service/http/http_api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNECTIONS = 3, STEPS_MAX = 400, FRAME_HEAD = 9 };

struct party {
    struct http_conn *conn;
    uint8_t *got; /* a frame that is not complete yet */
    size_t len;
};

struct script {
    const uint8_t *at;
    size_t left;
};

static struct fake_gateway gateway;
static struct service *service;
static struct party parties[CONNECTIONS];

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

/* Messages that a script would take long to find: method, and bytes. */
static const struct {
    const char *path;
    const char *bytes;
    size_t len;
} calls[] = {
#define M(path, bytes)                 \
    {                                  \
        path, bytes, sizeof(bytes) - 1 \
    }
    M("/holdfast.v1.LockService/Lock", "\22\1n\62\1a"),
    M("/holdfast.v1.LockService/Lock",
      "\22\1n\62\1b\42\13\10\377\377\377\377\377\377\377\377\377\1"),
    M("/holdfast.v1.LockService/Lock", "\22\1n\62\1c\42\2\10\5\172\1r"),
    M("/holdfast.v1.LockService/Unlock", "\22\1n\30\200\20\42\1a"),
    M("/holdfast.v1.LockService/MultiLock", "\12\1m\12\1n\62\1e\42\2\10\2"),
    M("/holdfast.v1.LockService/Renew", "\22\1n\30\200\20\42\1a"),
    M("/holdfast.v1.LockService/Session", "\12\7\12\1s\22\2\10\2"),
    M("/holdfast.v1.LockService/Session", "\12\13\12\1s\22\2\10\2\42\2\10\1"),
    M("/holdfast.v1.LockService/Watch", ""),
    M("/holdfast.v1.ElectionService/Campaign", "\12\1n\22\1v\42\1f"),
    M("/holdfast.v1.ElectionService/Observe", "\12\1n"),
    M("/holdfast.v1.AdminService/List", ""),
    M("/holdfast.v1.AdminService/Show", "\12\1n"),
    M("/holdfast.v1.AdminService/Sessions", "\30\1"),
    M("/holdfast.v1.AdminService/ForceUnlock", "\12\1n\22\1o\32\1r\40\1"),
    M("/holdfast.v1.AdminService/Revoke", "\12\1n\22\1o\32\1r\42\2\10\1"),
    M("/holdfast.v1.AdminService/Audit", ""),
    M("/holdfast.v1.AdminService/Cluster", ""),
    M("/grpc.health.v1.Health/Watch", ""),
    M("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "\72\0"),
#undef M
};

static void broken(const char *what)
{
    fprintf(stderr, "fuzz_http2: %s\n", what);
    abort();
}

/* ---- what comes back ---- */

/* Only frames do, of the types that a server sends, or the one answer to a bad HTTP/1.1 request. */
static void take_output(struct party *p)
{
    struct slice out = http_conn_output(p->conn);
    if (out.len == 0) {
        return;
    }
    p->got = realloc(p->got, p->len + out.len);
    if (p->got == NULL) {
        abort();
    }
    memcpy(p->got + p->len, out.data, out.len);
    p->len += out.len;
    http_conn_written(p->conn, out.len);
    size_t at = 0;
    if (p->len >= 5 && memcmp(p->got, "HTTP/", 5) == 0) {
        p->len = 0;
        return;
    }
    while (p->len - at >= FRAME_HEAD) {
        const uint8_t *f = p->got + at;
        size_t len = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2];
        if (len > 16384 || f[3] > 9 || f[3] == 2 || f[3] == 5) {
            broken("this is no frame of a server");
        }
        if (p->len - at < FRAME_HEAD + len) {
            break;
        }
        at += FRAME_HEAD + len;
    }
    memmove(p->got, p->got + at, p->len - at);
    p->len -= at;
}

static void on_ready(void *owner)
{
    (void)owner;
}

static void close_party(struct party *p)
{
    if (p->conn != NULL) {
        http_conn_close(p->conn);
    }
    free(p->got);
    *p = (struct party){.conn = NULL};
}

static void send_bytes(struct party *p, const void *data, size_t len)
{
    if (p->conn != NULL && http_conn_wants_input(p->conn)) {
        http_conn_receive(p->conn, slice_make(data, len));
    }
}

static void open_party(struct party *p)
{
    struct http_conn_options options = {.owner = p, .ready = on_ready, .is_operator = true};
    close_party(p);
    p->conn = http_conn_new(service, &options);
    send_bytes(p, preface, sizeof(preface) - 1);
}

static void settle(void)
{
    for (int i = 0; i < 50; i++) {
        bool any = fake_gateway_deliver(&gateway);
        service_run(service);
        for (size_t k = 0; k < CONNECTIONS; k++) {
            struct party *p = &parties[k];
            if (p->conn != NULL) {
                take_output(p);
                if (http_conn_is_finished(p->conn)) {
                    close_party(p);
                }
            }
        }
        if (!any && service_next_ms(service) > gateway.boot_ms) {
            return;
        }
    }
}

/* ---- steps ---- */

static uint8_t next(struct script *s)
{
    if (s->left == 0) {
        return 0;
    }
    s->left--;
    return *s->at++;
}

static struct slice next_bytes(struct script *s)
{
    size_t len = next(s);
    len = len < s->left ? len : s->left;
    struct slice bytes = slice_make(s->at, len);
    s->at += len;
    s->left -= len;
    return bytes;
}

static void send_frame(struct party *p, uint8_t type, uint8_t flags, uint8_t stream,
                       struct slice payload)
{
    uint8_t frame[FRAME_HEAD + 1024];
    size_t len = payload.len < 1024 ? payload.len : 1024;
    memset(frame, 0, FRAME_HEAD);
    frame[1] = (uint8_t)(len >> 8);
    frame[2] = (uint8_t)len;
    frame[3] = type;
    frame[4] = flags;
    frame[8] = stream;
    if (len > 0) {
        memcpy(frame + FRAME_HEAD, payload.data, len);
    }
    send_bytes(p, frame, FRAME_HEAD + len);
}

static size_t put_header(uint8_t *out, const char *name, const char *value)
{
    size_t name_len = strlen(name), value_len = strlen(value);
    out[0] = 0;
    out[1] = (uint8_t)name_len;
    memcpy(out + 2, name, name_len);
    out[2 + name_len] = (uint8_t)value_len;
    memcpy(out + 3 + name_len, value, value_len);
    return 3 + name_len + value_len;
}

static void send_call(struct party *p, const char *path, uint8_t stream, struct slice message,
                      bool is_last)
{
    uint8_t head[400];
    uint8_t body[GRPC_PREFIX + 256];
    size_t len = 0;
    len += put_header(head + len, ":method", "POST");
    len += put_header(head + len, ":scheme", "http");
    len += put_header(head + len, ":authority", "t");
    len += put_header(head + len, ":path", path);
    len += put_header(head + len, "content-type", "application/grpc");
    send_frame(p, 1, 4, stream, slice_make(head, len));
    grpc_write_prefix(body, (uint32_t)message.len);
    if (message.len > 0) {
        memcpy(body + GRPC_PREFIX, message.data, message.len);
    }
    send_frame(p, 0, is_last, stream, slice_make(body, GRPC_PREFIX + message.len));
}

static void run_call(struct script *s, struct party *p, bool is_ready)
{
    uint8_t which = next(s);
    uint8_t stream = next(s);
    if (is_ready) {
        size_t i = which % (sizeof(calls) / sizeof(calls[0]));
        send_call(p, calls[i].path, stream, slice_make(calls[i].bytes, calls[i].len),
                  strstr(calls[i].path, "/Session") == NULL);
        return;
    }
    size_t count;
    const struct rpc_method *methods = rpc_methods(&count);
    send_call(p, methods[which % count].path, stream, next_bytes(s), which % 3 != 0);
}

static void run_gateway(struct script *s, uint8_t letter)
{
    static const enum hf_error errors[] = {HF_OK, HF_UNAVAILABLE, HF_OUTCOME_UNKNOWN, HF_BUSY};
    switch (letter) {
    case 'h':
        gateway.is_held = !gateway.is_held;
        break;
    case 'u':
        gateway.status.serving = !gateway.status.serving;
        break;
    case 'd':
        gateway.does_before = !gateway.does_before;
        break;
    default:
        gateway.fails = errors[next(s) % 4];
        break;
    }
}

static void step(struct script *s)
{
    uint8_t letter = next(s);
    if (letter == 'p') {
        fake_gateway_pass(&gateway, (uint64_t)next(s) * 200);
        return;
    }
    if (letter == 'D') {
        service_drain(service);
        return;
    }
    if (letter != '\0' && strchr("hudF", letter) != NULL) {
        run_gateway(s, letter);
        return;
    }
    struct party *p = &parties[next(s) % CONNECTIONS];
    struct slice bytes;
    uint8_t type, flags, stream;
    switch (letter) {
    case 'f':
        type = next(s);
        flags = next(s);
        stream = next(s);
        bytes = next_bytes(s);
        send_frame(p, type, flags, stream, bytes);
        break;
    case 'c':
    case 'r':
        run_call(s, p, letter == 'r');
        break;
    case 'b':
        bytes = next_bytes(s);
        send_bytes(p, bytes.data, bytes.len);
        break;
    case 'x':
        close_party(p);
        break;
    default:
        open_party(p);
        break;
    }
}

/* ---- the end ---- */

static void check_nobody_waits(void)
{
    gateway.is_held = false;
    gateway.fails = HF_OK;
    for (int i = 0; i < 60; i++) { /* S7.3: places are kept for ten seconds */
        settle();
        fake_gateway_pass(&gateway, 500);
    }
    settle();
    struct service_stats stats;
    service_stats(service, &stats);
    if (stats.waiting != 0 || stats.streams != 0 || stats.connections != 0) {
        broken("somebody is left");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {data, size};
    fake_gateway_open(&gateway);
    struct service_options options = {.server_names = "*",
                                      .memory = memory_system(),
                                      .gateway = gateway.gateway,
                                      .event_bytes = 64 << 10};
    service = service_new(&options);
    gateway.service = service;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        open_party(&parties[i]);
    }
    for (int i = 0; i < STEPS_MAX && script.left > 0; i++) {
        step(&script);
        settle();
    }
    for (size_t i = 0; i < CONNECTIONS; i++) {
        close_party(&parties[i]);
    }
    check_nobody_waits();
    service_free(service);
    fake_gateway_close(&gateway);
    return 0;
}
