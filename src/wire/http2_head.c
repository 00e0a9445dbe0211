/* Selects the headers of a request that are kept, and limits their number and size. nghttp2 has
 * checked their form. */
#include "wire/http2_head.h"

#include "base/limits.h"

enum {
    OVERHEAD = 32, /* per header, as RFC 9113 counts them (6.5.2) */
    BOMB_FACTOR = 4,
    KEPT = 512, /* bytes of texts that a connection keeps for its next request */
};

#define NAME(text)                                \
    {                                             \
        (const uint8_t *)(text), sizeof(text) - 1 \
    }

static const struct slice names[FIELD_COUNT] = {
    [FIELD_METHOD] = NAME(":method"),
    [FIELD_PATH] = NAME(":path"),
    [FIELD_AUTHORITY] = NAME(":authority"),
    [FIELD_HOST] = NAME("host"),
    [FIELD_CONTENT_TYPE] = NAME("content-type"),
    [FIELD_ORIGIN] = NAME("origin"),
    [FIELD_IDEMPOTENCY_KEY] = NAME("idempotency-key"),
    [FIELD_LAST_EVENT_ID] = NAME("last-event-id"),
    [FIELD_GRPC_TIMEOUT] = NAME("grpc-timeout"),
    [FIELD_GRPC_ENCODING] = NAME("grpc-encoding"),
    [FIELD_AUTHORIZATION] = NAME("authorization"),
    [FIELD_TENANT] = NAME("holdfast-tenant"),
    [FIELD_TRACEPARENT] = NAME("traceparent"),
};

/* Candidate fields by the length of the name; the same again: no more. */
enum { NAME_MAX_LEN = 15, CANDIDATES = 3 };
static const uint8_t by_length[NAME_MAX_LEN + 1][CANDIDATES] = {
    [4] = {FIELD_HOST, FIELD_HOST, FIELD_HOST},
    [5] = {FIELD_PATH, FIELD_PATH, FIELD_PATH},
    [6] = {FIELD_ORIGIN, FIELD_ORIGIN, FIELD_ORIGIN},
    [7] = {FIELD_METHOD, FIELD_METHOD, FIELD_METHOD},
    [10] = {FIELD_AUTHORITY, FIELD_AUTHORITY, FIELD_AUTHORITY},
    [11] = {FIELD_TRACEPARENT, FIELD_TRACEPARENT, FIELD_TRACEPARENT},
    [12] = {FIELD_CONTENT_TYPE, FIELD_GRPC_TIMEOUT, FIELD_GRPC_TIMEOUT},
    [13] = {FIELD_AUTHORIZATION, FIELD_LAST_EVENT_ID, FIELD_GRPC_ENCODING},
    [15] = {FIELD_IDEMPOTENCY_KEY, FIELD_TENANT, FIELD_TENANT},
};

void http2_head_init(struct http2_head *head, const struct memory *memory)
{
    *head = (struct http2_head){.error = HF_OK};
    buffer_init(&head->texts, memory, LIMIT_HTTP_HEADER_BYTES);
}

void http2_head_close(struct http2_head *head)
{
    buffer_close(&head->texts);
}

void http2_head_begin(struct http2_head *head)
{
    buffer_truncate(&head->texts, 0);
    head->has = 0;
    head->count = 0;
    head->bytes = 0;
    head->received = 0;
    head->error = HF_OK;
}

void http2_head_end(struct http2_head *head)
{
    buffer_truncate(&head->texts, 0);
    buffer_release_above(&head->texts, KEPT);
}

static void keep(struct http2_head *head, enum http2_field field, struct slice value)
{
    if ((head->has & 1u << field) != 0) {
        return; /* the first one counts, as in HTTP/1.1 */
    }
    if (field == FIELD_PATH && value.len > LIMIT_HTTP_LINE) {
        head->error = HF_LINE_TOO_LONG;
        return;
    }
    size_t at = buffer_len(&head->texts);
    bool is_kept = buffer_append_slice(&head->texts, value);
    hf_assert(is_kept); /* the bytes were counted */
    head->at[field] = (uint16_t)at;
    head->len[field] = (uint16_t)value.len;
    head->has = (uint16_t)(head->has | 1u << field);
}

bool http2_head_is_bomb(const struct http2_head *head)
{
    return head->received > (uint64_t)BOMB_FACTOR * LIMIT_HTTP_HEADER_BYTES;
}

void http2_head_add(struct http2_head *head, struct slice name, struct slice value)
{
    size_t bytes = name.len + value.len + OVERHEAD;
    head->received += bytes;
    if (head->error != HF_OK) {
        return;
    }
    head->count++;
    if (head->count > LIMIT_HTTP_HEADERS) {
        head->error = HF_TOO_MANY_HEADERS;
        return;
    }
    if (bytes > LIMIT_HTTP_HEADER_BYTES - head->bytes) {
        head->error = HF_HEADERS_TOO_LARGE;
        return;
    }
    head->bytes += (uint32_t)bytes;
    if (name.len > NAME_MAX_LEN) {
        return;
    }
    const uint8_t *candidates = by_length[name.len];
    for (size_t i = 0; i < CANDIDATES && (i == 0 || candidates[i] != candidates[i - 1]); i++) {
        if (slice_equal(name, names[candidates[i]])) {
            keep(head, candidates[i], value);
            return;
        }
    }
}

static struct slice value_of(const struct http2_head *head, enum http2_field field)
{
    if ((head->has & 1u << field) == 0 || head->len[field] == 0) {
        return slice_make(NULL, 0);
    }
    return slice_make(buffer_bytes(&head->texts).data + head->at[field], head->len[field]);
}

void http2_head_read(struct http2_head *head, struct http2_request *out)
{
    *out = (struct http2_request){.error = head->error, .method = HTTP_GET};
    struct slice target = value_of(head, FIELD_PATH);
    const uint8_t *mark = target.len == 0 ? NULL : memchr(target.data, '?', target.len);
    size_t len = mark == NULL ? target.len : (size_t)(mark - target.data);
    out->path = slice_make(target.data, len);
    out->query = mark == NULL ? slice_make(NULL, 0) : slice_make(mark + 1, target.len - len - 1);
    bool is_path = target.len > 0 && target.data[0] == '/';
    if (out->error == HF_OK && !http_method_read(value_of(head, FIELD_METHOD), &out->method)) {
        out->error = HF_HTTP_METHOD;
    } else if (out->error == HF_OK && !is_path && out->method != HTTP_OPTIONS) {
        out->error = HF_HTTP_TARGET;
    }
    struct slice authority = value_of(head, FIELD_AUTHORITY), host = value_of(head, FIELD_HOST);
    out->host = authority.len > 0 ? authority : host;
    if (out->error == HF_OK && host.len > 0 && !slice_equal(out->host, host)) {
        out->error = HF_HTTP_HOST; /* a proxy may have read the other one */
    }
    out->content_type = value_of(head, FIELD_CONTENT_TYPE);
    out->origin = value_of(head, FIELD_ORIGIN);
    out->idempotency_key = value_of(head, FIELD_IDEMPOTENCY_KEY);
    out->last_event_id = value_of(head, FIELD_LAST_EVENT_ID);
    out->grpc_timeout = value_of(head, FIELD_GRPC_TIMEOUT);
    out->grpc_encoding = value_of(head, FIELD_GRPC_ENCODING);
    out->authorization = value_of(head, FIELD_AUTHORIZATION);
    out->tenant = value_of(head, FIELD_TENANT);
    out->traceparent = value_of(head, FIELD_TRACEPARENT);
}
