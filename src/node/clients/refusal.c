/* See refusal.h. */
#include "node/clients/refusal.h"

#include "base/error.h"
#include "node/clients/descriptors.h"
#include "wire/http1_response.h"
#include "wire/json_write.h"

enum {
    REQUEST_MS = 1000, /* for the first bytes of a request */
    RETRY_AFTER_S = 1,
    HTTP2_GOAWAY_CALM = 11, /* ENHANCE_YOUR_CALM of RFC 9113 */
};

struct refusals {
    const struct memory *memory;
    uint32_t count;
    struct buffer body; /* of HTTP/1.1 */
};

struct refused_connection {
    struct refusals *all;
    struct connection *connection;
    enum refusal_protocol protocol;
};

struct refusals *refusals_new(const struct memory *memory)
{
    struct refusals *r = memory_alloc(memory, sizeof(*r));
    *r = (struct refusals){.memory = memory};
    buffer_init(&r->body, memory, 4096);
    return r;
}

void refusals_free(struct refusals *r)
{
    if (r == NULL) {
        return;
    }
    hf_assert(r->count == 0);
    buffer_close(&r->body);
    memory_free(r->memory, r, sizeof(*r));
}

static void append_http1(struct refusals *r, struct buffer *out)
{
    struct json_writer w;
    buffer_truncate(&r->body, 0);
    json_writer_init(&w, &r->body);
    json_write_error(&w, HF_TOO_MANY_CLIENTS, NULL);
    struct http1_response response =
        http1_response_to(hf_error_http_status(HF_TOO_MANY_CLIENTS), NULL);
    response.content_type = "application/json";
    response.retry_after_s = RETRY_AFTER_S;
    (void)http1_response_write(out, &response, buffer_bytes(&r->body));
}

/* Empty SETTINGS, which must be first, and GOAWAY: no stream was served, a client may safely repeat
 * all requests elsewhere. */
static void append_http2(struct buffer *out)
{
    static const char reason[] = "limit_clients";
    enum { REASON = sizeof(reason) - 1 };
    static const uint8_t frames[] = {
        0, 0, 0,          4,
        0, 0, 0,          0,
        0, /* SETTINGS */
        0, 0, 8 + REASON, 7,
        0, 0, 0,          0,
        0,                   /* GOAWAY of stream 0 ... */
        0, 0, 0,          0, /* ... last stream: none */
        0, 0, 0,          HTTP2_GOAWAY_CALM,
    };
    buffer_append(out, frames, sizeof(frames));
    buffer_append(out, reason, REASON);
}

static bool begins_http2(struct slice bytes)
{
    /* No method of HTTP/1.1 begins with this. */
    static const char preface[] = "PRI ";
    size_t len = bytes.len < sizeof(preface) - 1 ? bytes.len : sizeof(preface) - 1;
    return memcmp(bytes.data, preface, len) == 0;
}

static size_t on_bytes(void *owner, struct slice bytes)
{
    struct refused_connection *refusal = owner;
    struct buffer *out = connection_output(refusal->connection);
    if (begins_http2(bytes)) {
        append_http2(out);
    } else {
        append_http1(refusal->all, out);
    }
    connection_close(refusal->connection);
    return bytes.len;
}

static void refuse_resp(struct connection *c)
{
    buffer_append_slice(connection_output(c), slice_of("-ERR max number of clients reached\r\n"));
    connection_close(c);
}

static void on_open(void *owner)
{
    struct refused_connection *refusal = owner;
    if (refusal->protocol == REFUSE_RESP) {
        refuse_resp(refusal->connection);
    }
}

static void on_close(void *owner, const char *reason)
{
    (void)reason;
    struct refused_connection *refusal = owner;
    struct refusals *all = refusal->all;
    all->count--;
    memory_free(all->memory, refusal, sizeof(*refusal));
}

static const struct connection_handlers handlers = {
    .on_bytes = on_bytes, .on_open = on_open, .on_close = on_close};

void refuse(struct refusals *r, struct connection *c, enum refusal_protocol protocol)
{
    if (r->count >= DESCRIPTORS_REFUSALS) {
        connection_abort(c, "refused");
        return;
    }
    struct refused_connection *refusal = memory_alloc(r->memory, sizeof(*refusal));
    *refusal = (struct refused_connection){.all = r, .connection = c, .protocol = protocol};
    r->count++;
    connection_start(c, &handlers, refusal);
    if (protocol == REFUSE_RESP && !connection_is_opening(c)) {
        refuse_resp(c);
        return;
    }
    connection_set_timeout(c, REQUEST_MS);
}
