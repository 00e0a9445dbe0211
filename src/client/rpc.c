/* See rpc.h. */
#include "client/rpc.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>

#include "client/engine.h"
#include "tls/digest.h"

/* Writes a message with its prefix. */
static void frame(struct buffer *out, struct slice message)
{
    uint8_t prefix[GRPC_PREFIX];
    hf_assert(message.len <= RPC_MAX_MESSAGE);
    grpc_write_prefix(prefix, (uint32_t)message.len);
    buffer_init(out, memory_system(), RPC_MAX_MESSAGE + GRPC_PREFIX);
    hf_assert(buffer_append(out, prefix, sizeof(prefix)) && buffer_append_slice(out, message));
}

enum { AUTH_HEADERS = 2, AUTH_TEXT = SECURITY_TOKEN_MAX + 8 };

/* Returns how many. They refer to `text`. */
static size_t auth_headers(const struct link *link, struct http2_client_header *out,
                           char text[AUTH_TEXT])
{
    const struct security *security = link->client_engine->options.security;
    size_t count = 0;
    if (security != NULL && security_token(security)[0] != '\0') {
        snprintf(text, AUTH_TEXT, "Bearer %s", security_token(security));
        out[count++] = (struct http2_client_header){"authorization", slice_of(text)};
    }
    if (security != NULL && security_tenant(security)[0] != '\0') {
        out[count++] =
            (struct http2_client_header){"holdfast-tenant", slice_of(security_tenant(security))};
    }
    return count;
}

bool rpc_start(struct rpc *rpc, struct link *link, const char *path, struct slice message,
               bool keep_open, bool is_prompt, int64_t now_ms)
{
    hf_assert(rpc->link == NULL && link->state == LINK_UP);
    struct buffer body;
    struct http2_client_header headers[AUTH_HEADERS];
    char text[AUTH_TEXT];
    size_t count = auth_headers(link, headers, text);
    frame(&body, message);
    rpc->stream = http2_client_request(link->http2, path, headers, count, buffer_bytes(&body),
                                       keep_open, rpc);
    buffer_close(&body);
    digest_wipe(text, sizeof(text));
    if (rpc->stream == NULL) {
        return false;
    }
    rpc->link = link;
    rpc->is_prompt = is_prompt;
    rpc->http_status = 0;
    rpc->status = -1;
    rpc->code[0] = '\0';
    rpc->message[0] = '\0';
    grpc_reader_init(&rpc->reader, memory_system(), RPC_MAX_ANSWER);
    if (is_prompt) {
        link_owe(link, now_ms);
    }
    return true;
}

void rpc_send_message(struct rpc *rpc, struct slice message, bool end)
{
    struct buffer body;
    frame(&body, message);
    http2_client_send(rpc->stream, buffer_bytes(&body), end);
    buffer_close(&body);
}

static void over(struct rpc *rpc)
{
    if (rpc->is_prompt) {
        link_paid(rpc->link);
    }
    grpc_reader_close(&rpc->reader);
    rpc->link = NULL;
    rpc->stream = NULL;
}

void rpc_cancel(struct rpc *rpc)
{
    if (rpc->link != NULL) {
        http2_client_cancel(rpc->stream);
        over(rpc);
    }
}

static bool number(struct slice text, int *out)
{
    int value = 0;
    if (text.len == 0 || text.len > 3) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        value = value * 10 + (text.data[i] - '0');
    }
    *out = value;
    return true;
}

static void copy_text(char *out, size_t size, struct slice text)
{
    snprintf(out, size, "%.*s", (int)text.len, (const char *)text.data);
}

static void on_header(void *call, struct slice name, struct slice value)
{
    struct rpc *rpc = call;
    if (slice_equal(name, slice_of(":status"))) {
        (void)number(value, &rpc->http_status);
    } else if (slice_equal(name, slice_of("grpc-status"))) {
        (void)number(value, &rpc->status);
    } else if (slice_equal(name, slice_of("grpc-message"))) {
        char text[RPC_MESSAGE];
        if (value.len < sizeof(text)) {
            size_t len = grpc_decode_message(value, text);
            copy_text(rpc->message, sizeof(rpc->message), slice_make(text, len));
        }
    } else if (slice_equal(name, slice_of("holdfast-error-code"))) {
        copy_text(rpc->code, sizeof(rpc->code), value);
    } else if (slice_equal(name, slice_of("holdfast-leader"))) {
        char leader[ENDPOINT_TEXT];
        copy_text(leader, sizeof(leader), value);
        client_engine_heard_leader(rpc->link->client_engine, rpc->link, leader);
    }
}

static void on_data(void *call, struct slice data)
{
    struct rpc *rpc = call;
    while (data.len > 0) {
        struct grpc_result r = grpc_reader_feed(&rpc->reader, data);
        if (r.event == GRPC_ERROR) {
            return; /* ends as RPC_STRANGE */
        }
        data = slice_make(data.data + r.consumed, data.len - r.consumed);
        if (r.event == GRPC_MESSAGE) {
            rpc->handler->on_message(rpc->owner, r.message);
            if (rpc->link == NULL) {
                return; /* cancelled by the owner */
            }
        }
    }
}

static enum rpc_end end_of(const struct rpc *rpc, uint32_t error, bool untouched)
{
    if (rpc->reader.problem != NULL) {
        return RPC_STRANGE;
    }
    if (rpc->status >= 0) {
        return RPC_ANSWERED;
    }
    if (untouched) {
        return RPC_UNTOUCHED;
    }
    return error == NGHTTP2_NO_ERROR && rpc->http_status != 0 ? RPC_STRANGE : RPC_BROKEN;
}

static void on_end(void *call, uint32_t error, bool untouched)
{
    struct rpc *rpc = call;
    enum rpc_end end = end_of(rpc, error, untouched);
    over(rpc);
    rpc->handler->on_end(rpc->owner, end);
}

const struct http2_client_handler rpc_http2_handler = {on_header, on_data, on_end};
