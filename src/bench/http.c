/* HTTP/1.1 for `holdfast bench`: one request at a time on a connection, JSON in and out.
 *
 * The bench shares the CPU with the servers that it measures, so it searches an answer for the one
 * field it needs. A quote inside a JSON string has a backslash before it, so `"fencing_token":` can
 * only be a key. */
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "bench/identity.h"
#include "bench/protocol.h"

enum { HEAD_MAX = 16 << 10, BODY_MAX = 1 << 20 };

struct bench_http {
    const char *host;
    enum bench_verb verb; /* of the request that is outstanding */
};

static void *http_open(const char *host, uint32_t slots)
{
    hf_assert(slots == 1);
    struct bench_http *h = memory_alloc(memory_system(), sizeof(*h));
    *h = (struct bench_http){.host = host};
    return h;
}

static void http_close(void *state)
{
    memory_free(memory_system(), state, sizeof(struct bench_http));
}

static void http_begin(void *state, struct buffer *out)
{
    (void)state;
    (void)out;
}

/* ---- requests ---- */

static int text_len(struct slice text)
{
    return (int)text.len;
}

static const char *text_of(struct slice text)
{
    return text.len == 0 ? "" : (const char *)text.data;
}

static int write_body(char *body, size_t size, const struct bench_request *call)
{
    switch (call->verb) {
    case BENCH_OPEN:
        return snprintf(body, size, "{\"client_id\":\"%.*s\",\"ttl_ms\":%" PRIu64 "}",
                        text_len(call->client), text_of(call->client), call->ttl_ms);
    case BENCH_ACQUIRE:
        return snprintf(body, size,
                        "{\"session_id\":\"%.*s\"%s%.*s%s,\"wait_timeout_ms\":%" PRIu64 "}",
                        text_len(call->session), text_of(call->session),
                        call->tier.len > 0 ? ",\"tier\":\"" : "", text_len(call->tier),
                        text_of(call->tier), call->tier.len > 0 ? "\"" : "", call->wait_ms);
    case BENCH_RELEASE:
        return snprintf(body, size, "{\"session_id\":\"%.*s\",\"fencing_token\":%" PRIu64 "}",
                        text_len(call->session), text_of(call->session), call->token);
    case BENCH_KEEPALIVE:
    case BENCH_CLOSE:
        break;
    }
    body[0] = '\0';
    return 0;
}

static void write_line(struct buffer *out, const struct bench_request *call)
{
    struct slice session = call->session;
    switch (call->verb) {
    case BENCH_OPEN:
        buffer_append_text(out, "POST /api/v1/sessions");
        break;
    case BENCH_KEEPALIVE:
    case BENCH_CLOSE:
        buffer_append_text(out, call->verb == BENCH_CLOSE ? "DELETE /api/v1/sessions/"
                                                          : "POST /api/v1/sessions/");
        buffer_append_slice(out, session);
        buffer_append_text(out, call->verb == BENCH_CLOSE ? "" : "/keepalive");
        break;
    case BENCH_ACQUIRE:
    case BENCH_RELEASE:
        buffer_append_text(out, "POST /api/v1/locks/");
        buffer_append_slice(out, call->name);
        buffer_append_text(out, call->verb == BENCH_ACQUIRE ? "/acquire" : "/release");
        break;
    }
}

static void http_request(void *state, uint32_t slot, const struct bench_request *call,
                         struct buffer *out)
{
    struct bench_http *h = state;
    char body[512];
    char head[160];
    hf_assert(slot == 0);
    h->verb = call->verb;
    int body_len = write_body(body, sizeof(body), call);
    hf_assert(body_len >= 0 && (size_t)body_len < sizeof(body));
    write_line(out, call);
    int head_len =
        snprintf(head, sizeof(head), " HTTP/1.1\r\nHost: %.100s\r\nContent-Length: %d\r\n", h->host,
                 body_len);
    buffer_append(out, head, (size_t)head_len);
    buffer_append_slice(out, bench_identity_lines());
    buffer_append(out, "\r\n", 2);
    buffer_append(out, body, (size_t)body_len);
    hf_assert(!out->overflowed);
}

/* ---- answers ---- */

static const char *find(struct slice in, const char *text)
{
    return in.len == 0 ? NULL : memmem(in.data, in.len, text, strlen(text));
}

/* Up to the end of the answer. */
static bool after_key(struct slice body, const char *key, struct slice *rest)
{
    const char *at = find(body, key);
    if (at == NULL) {
        return false;
    }
    const uint8_t *from = (const uint8_t *)at + strlen(key);
    *rest = slice_make(from, body.len - (size_t)(from - body.data));
    return true;
}

static bool read_number(struct slice body, const char *key, uint64_t *out)
{
    struct slice rest;
    uint64_t value = 0;
    size_t i = 0;
    if (!after_key(body, key, &rest)) {
        return false;
    }
    for (; i < rest.len && i < 17 && rest.data[i] >= '0' && rest.data[i] <= '9'; i++) {
        value = value * 10 + (uint64_t)(rest.data[i] - '0');
    }
    *out = value;
    return i > 0;
}

/* Up to its closing quote. */
static bool read_text(struct slice body, const char *key, struct slice *out)
{
    struct slice rest;
    if (!after_key(body, key, &rest)) {
        return false;
    }
    const uint8_t *end = rest.len == 0 ? NULL : memchr(rest.data, '"', rest.len);
    if (end == NULL) {
        return false;
    }
    *out = slice_make(rest.data, (size_t)(end - rest.data));
    return true;
}

static void copy_text(struct slice text, char *to, size_t size)
{
    (void)snprintf(to, size, "%.*s", text_len(text), text_of(text));
}

static void set_failure(int status, struct slice body, struct bench_answer *a)
{
    struct slice code;
    struct slice message;
    if (read_text(body, "\"code\":\"", &code) || read_text(body, "\"reason\":\"", &code)) {
        copy_text(code, a->code, sizeof(a->code));
    } else {
        (void)snprintf(a->code, sizeof(a->code), "http_%d", status);
    }
    if (read_text(body, "\"message\":\"", &message)) {
        copy_text(message, a->message, sizeof(a->message));
    } else {
        (void)snprintf(a->message, sizeof(a->message), "%s", a->code);
    }
}

static void report_answer(const struct bench_http *h, int status, struct slice body,
                          bench_answer_fn *on_answer, void *ctx)
{
    struct bench_answer a = {.fine = status == 200 || status == 201};
    if (a.fine) {
        switch (h->verb) {
        case BENCH_OPEN:
            a.fine = read_text(body, "\"session_id\":\"", &a.session);
            break;
        case BENCH_ACQUIRE:
            a.fine = find(body, "\"acquired\":true") != NULL &&
                     read_number(body, "\"fencing_token\":", &a.token);
            break;
        case BENCH_RELEASE:
            a.fine = find(body, "\"released\":true") != NULL;
            break;
        case BENCH_KEEPALIVE:
        case BENCH_CLOSE:
            break;
        }
    }
    if (!a.fine) {
        set_failure(status, body, &a);
    }
    on_answer(ctx, &a);
}

/* Header names are case-insensitive. */
static bool body_length(struct slice head, size_t *out)
{
    static const char name[] = "\ncontent-length:";
    const size_t len = sizeof(name) - 1;
    for (size_t i = 0; i + len < head.len; i++) {
        if (head.data[i] == '\n' && strncasecmp((const char *)head.data + i, name, len) == 0) {
            size_t at = i + len;
            size_t value = 0;
            size_t digits = 0;
            for (; at < head.len && head.data[at] == ' '; at++) {
            }
            for (; at < head.len && head.data[at] >= '0' && head.data[at] <= '9'; at++, digits++) {
                value = digits < 9 ? value * 10 + (size_t)(head.data[at] - '0') : BODY_MAX + 1;
            }
            *out = value;
            return digits > 0;
        }
    }
    return false;
}

static size_t http_receive(void *state, struct slice bytes, struct buffer *out,
                           bench_answer_fn *on_answer, void *ctx, const char **problem)
{
    static const char version[] = "HTTP/1.1 ";
    (void)out;
    struct bench_http *h = state;
    const char *end = find(bytes, "\r\n\r\n");
    if (end == NULL) {
        *problem = bytes.len > HEAD_MAX ? "the head of the answer has no end" : NULL;
        return 0;
    }
    struct slice head = slice_make(bytes.data, (size_t)((const uint8_t *)end - bytes.data) + 4);
    size_t body_len = 0;
    if (!slice_starts_with(head, slice_of(version)) || head.len < sizeof(version) + 3) {
        *problem = "the answer is not HTTP/1.1";
        return 0;
    }
    if (!body_length(head, &body_len) || body_len > BODY_MAX) {
        *problem = "the answer has no length, or is too large";
        return 0;
    }
    if (bytes.len < head.len + body_len) {
        return 0;
    }
    const uint8_t *digits = head.data + sizeof(version) - 1;
    int status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
    report_answer(h, status, slice_make(bytes.data + head.len, body_len), on_answer, ctx);
    return head.len + body_len;
}

const struct bench_protocol bench_http = {
    .name = "http",
    .multiplexes = false,
    .waits = true,
    .open = http_open,
    .close = http_close,
    .begin = http_begin,
    .request = http_request,
    .receive = http_receive,
};
