/* The clients of h2_world.h. */
#include "base_testing.h"

#include "h2_world.h"

static struct h2_call *call_at(struct h2_client *h, int32_t id)
{
    for (size_t i = 0; i < h->count; i++) {
        if (h->calls[i].id == id) {
            return &h->calls[i];
        }
    }
    return NULL;
}

/* ---- what the server says ---- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct h2_call *call = call_at(user, frame->hd.stream_id);
    assert_non_null(call);
    size_t len = strlen(call->headers);
    int added = snprintf(call->headers + len, H2_HEADERS - len, "%.*s: %.*s\n", (int)name_len,
                         (const char *)name, (int)value_len, (const char *)value);
    assert_true(added > 0 && (size_t)added < H2_HEADERS - len);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *user)
{
    struct h2_call *call = call_at(user, id);
    assert_non_null(call);
    call->body = realloc(call->body, call->body_len + len + 1);
    assert_non_null(call->body);
    memcpy(call->body + call->body_len, data, len);
    call->body_len += len;
    call->body[call->body_len] = '\0';
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2_client *h = user;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        h->has_goaway = true;
        h->goaway_error = frame->goaway.error_code;
        h->goaway_last = frame->goaway.last_stream_id;
    }
    for (size_t i = 0; frame->hd.type == NGHTTP2_SETTINGS && i < frame->settings.niv; i++) {
        h->settings[frame->settings.iv[i].settings_id & 15] = frame->settings.iv[i].value;
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct h2_call *call = call_at(user, id);
    assert_non_null(call);
    call->is_closed = true;
    call->error = code;
    return 0;
}

static ssize_t on_pull(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length,
                       uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct h2_call *call = call_at(user, id);
    assert_non_null(call);
    size_t left = call->out_len - call->out_sent;
    size_t len = left < length ? left : length;
    if (len == 0 && !call->is_last) {
        return NGHTTP2_ERR_DEFERRED;
    }
    memcpy(buf, call->out + call->out_sent, len);
    call->out_sent += len;
    if (call->is_last && call->out_sent == call->out_len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)len;
}

/* ---- the connection ---- */

static void open_with(struct h2_client *h, struct http_world *w, bool is_operator,
                      const nghttp2_option *option)
{
    nghttp2_session_callbacks *callbacks;
    memset(h, 0, sizeof(*h));
    h->client = world_client(w, is_operator);
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    assert_int_equal(nghttp2_session_client_new2(&h->session, callbacks, h, option), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(h->session, 0, NULL, 0), 0);
    h2_run(h);
}

void h2_open(struct h2_client *h, struct http_world *w, bool is_operator)
{
    open_with(h, w, is_operator, NULL);
}

void h2_open_by_hand(struct h2_client *h, struct http_world *w, bool is_operator)
{
    nghttp2_option *option;
    assert_int_equal(nghttp2_option_new(&option), 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    open_with(h, w, is_operator, option);
    nghttp2_option_del(option);
}

void h2_close(struct h2_client *h)
{
    client_close(h->client);
    nghttp2_session_del(h->session);
    for (size_t i = 0; i < h->count; i++) {
        free(h->calls[i].body);
        free(h->calls[i].out);
    }
}

static bool say(struct h2_client *h)
{
    const uint8_t *data;
    bool any = false;
    for (;;) {
        ssize_t len = nghttp2_session_mem_send(h->session, &data);
        assert_true(len >= 0);
        if (len == 0) {
            return any;
        }
        any = true;
        client_send_only(h->client, data, (size_t)len);
    }
}

static bool hear(struct h2_client *h)
{
    struct http_client *c = h->client;
    if (c->got_len == 0) {
        return false;
    }
    ssize_t used = nghttp2_session_mem_recv(h->session, c->got, c->got_len);
    if (used < 0) {
        fail_msg("the server spoke no HTTP/2: %s", nghttp2_strerror((int)used));
    }
    assert_int_equal(used, c->got_len);
    h->fed += c->got_len;
    c->got_len = 0;
    return true;
}

void h2_run(struct h2_client *h)
{
    bool any = true;
    while (any) {
        any = say(h);
        world_run(h->client->world);
        any = hear(h) || any;
    }
}

void h2_pass(struct h2_client *h, uint64_t ms)
{
    world_pass(h->client->world, ms);
    h2_run(h);
}

/* ---- requests ---- */

struct h2_call *h2_request(struct h2_client *h, const char *method, const char *path,
                           const char *headers, const void *body, size_t len, bool is_last)
{
    assert_true(h->count < H2_CALLS);
    struct h2_call *call = &h->calls[h->count++];
    nghttp2_nv nv[80];
    nghttp2_data_provider provider = {.read_callback = on_pull};
    size_t size = strlen(method) + strlen(path) + strlen(headers) + 100;
    char *text = malloc(size);
    assert_non_null(text);
    snprintf(text, size, ":method: %s\n:path: %s\n:scheme: http\n:authority: t\n%s", method, path,
             headers);
    char *rest = text;
    size_t count = 0;
    for (char *line = strtok_r(rest, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *colon = strstr(line + 1, ": ");
        assert_true(colon != NULL && count < 80);
        nv[count++] = (nghttp2_nv){.name = (uint8_t *)line,
                                   .value = (uint8_t *)colon + 2,
                                   .namelen = (size_t)(colon - line),
                                   .valuelen = strlen(colon + 2)};
    }
    bool has_body = !is_last || len > 0;
    call->is_last = is_last;
    call->id =
        nghttp2_submit_request(h->session, NULL, nv, count, has_body ? &provider : NULL, NULL);
    assert_true(call->id > 0);
    free(text);
    if (has_body) {
        h2_send(h, call, body, len, is_last);
    } else {
        h2_run(h);
    }
    return call;
}

void h2_send(struct h2_client *h, struct h2_call *call, const void *body, size_t len, bool is_last)
{
    call->out = realloc(call->out, call->out_len + len + 1);
    assert_non_null(call->out);
    if (len > 0) {
        memcpy(call->out + call->out_len, body, len);
    }
    call->out_len += len;
    call->is_last = is_last;
    (void)nghttp2_session_resume_data(h->session, call->id);
    h2_run(h);
}

void h2_cancel(struct h2_client *h, struct h2_call *call)
{
    assert_int_equal(nghttp2_submit_rst_stream(h->session, 0, call->id, NGHTTP2_CANCEL), 0);
    h2_run(h);
}

/* ---- gRPC ---- */

struct h2_call *h2_start(struct h2_client *h, const char *path, const char *timeout)
{
    char headers[200];
    snprintf(headers, sizeof(headers), "content-type: application/grpc\nte: trailers\n%s%s",
             timeout == NULL ? "" : "grpc-timeout: ", timeout == NULL ? "" : timeout);
    return h2_request(h, "POST", path, headers, NULL, 0, false);
}

void h2_put(struct h2_client *h, struct h2_call *call, const ProtobufCMessage *message,
            bool is_last)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(GRPC_PREFIX + len);
    assert_non_null(bytes);
    grpc_write_prefix(bytes, (uint32_t)len);
    protobuf_c_message_pack(message, bytes + GRPC_PREFIX);
    h2_send(h, call, bytes, GRPC_PREFIX + len, is_last);
    free(bytes);
}

struct h2_call *h2_unary(struct h2_client *h, const char *path, const ProtobufCMessage *message)
{
    struct h2_call *call = h2_start(h, path, NULL);
    h2_put(h, call, message, true);
    return call;
}

void *h2_message(struct h2_call *call, const ProtobufCMessageDescriptor *type)
{
    size_t left = call->body_len - call->taken;
    if (left < GRPC_PREFIX) {
        return NULL;
    }
    const uint8_t *at = call->body + call->taken;
    size_t len = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
    assert_int_equal(at[0], 0);
    if (left < GRPC_PREFIX + len) {
        return NULL;
    }
    call->taken += GRPC_PREFIX + len;
    void *message = protobuf_c_message_unpack(type, NULL, len, at + GRPC_PREFIX);
    assert_non_null(message);
    return message;
}

const char *h2_header(const struct h2_call *call, const char *name)
{
    static char value[H2_HEADERS];
    size_t len = strlen(name);
    for (const char *line = call->headers; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (strncmp(line, name, len) == 0 && line[len] == ':') {
            const char *text = line + len + 2;
            snprintf(value, sizeof(value), "%.*s", (int)(strchr(line, '\n') - text), text);
            return value;
        }
    }
    return "";
}

void h2_expect(const struct h2_call *call, enum grpc_status status, const char *code)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", (int)status);
    if (!call->is_closed || strcmp(h2_header(call, "grpc-status"), number) != 0 ||
        strcmp(h2_header(call, "holdfast-error-code"), code) != 0) {
        fail_msg("expected %s %s, got%s:\n%s", grpc_status_name(status), code,
                 call->is_closed ? "" : " an open call", call->headers);
    }
}
