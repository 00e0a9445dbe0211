/* Clients of gRPC, with the client side of wire/; see hotpath_client.h. */
#include <holdfast/v1/lock.pb-c.h>
#include <stdio.h>

#include "base/panic.h"
#include "hotpath_client.h"
#include "wire/grpc.h"
#include "wire/http2_client.h"

enum { BYTES = 64 << 10, ANSWER_BYTES = 1024 };

struct grpc_client {
    struct http2_client *http2;
    struct buffer out;
    size_t sent; /* bytes of `out` that the last request has returned */
    uint8_t answer[ANSWER_BYTES];
    size_t answer_len;
    bool is_ended;
    uint64_t token; /* of the last grant; 0: an acquire is next */
};

static struct grpc_client clients[HOTPATH_CLIENTS];

static void on_header(void *call, struct slice name, struct slice value)
{
    (void)call;
    if (slice_equal(name, slice_of("grpc-status"))) {
        hf_assert(slice_equal(value, slice_of("0")));
    }
}

static void on_data(void *call, struct slice data)
{
    struct grpc_client *c = call;
    hf_assert(c->answer_len + data.len <= ANSWER_BYTES);
    memcpy(c->answer + c->answer_len, data.data, data.len);
    c->answer_len += data.len;
}

static void on_end(void *call, uint32_t error, bool untouched)
{
    struct grpc_client *c = call;
    hf_assert(error == 0 && !untouched);
    c->is_ended = true;
}

static const struct http2_client_handler handler = {on_header, on_data, on_end};

static struct slice output(struct grpc_client *c)
{
    buffer_consume(&c->out, c->sent);
    http2_client_output(c->http2, &c->out, BYTES - HTTP2_CLIENT_PIECE);
    struct slice bytes = buffer_bytes(&c->out);
    c->sent = bytes.len;
    return bytes;
}

static struct slice grpc_open(unsigned client)
{
    struct grpc_client *c = &clients[client];
    c->http2 = http2_client_new(memory_system(), &handler, "localhost:4653", "hotpath");
    buffer_init(&c->out, memory_system(), BYTES);
    return output(c);
}

static struct slice request(struct grpc_client *c, const char *path,
                            const ProtobufCMessage *message)
{
    uint8_t body[512];
    size_t len = protobuf_c_message_get_packed_size(message);
    hf_assert(GRPC_PREFIX + len <= sizeof(body));
    grpc_write_prefix(body, (uint32_t)len);
    protobuf_c_message_pack(message, body + GRPC_PREFIX);
    c->answer_len = 0;
    c->is_ended = false;
    char text[100];
    snprintf(text, sizeof(text), "Bearer %s", hotpath_secret);
    struct http2_client_header authorization = {"authorization", slice_of(text)};
    void *stream =
        http2_client_request(c->http2, path, &authorization, hotpath_secret[0] == '\0' ? 0 : 1,
                             slice_make(body, GRPC_PREFIX + len), false, c);
    hf_assert(stream != NULL);
    return output(c);
}

/* protobuf-c's strings are not const. It does not write to those of a message that is packed. */
static char *text_of(const char *text)
{
    return (char *)(uintptr_t)text;
}

static struct slice grpc_acquire(unsigned client, const char *name)
{
    char id[32];
    snprintf(id, sizeof(id), "worker-%u", client);
    Google__Protobuf__Duration ttl = GOOGLE__PROTOBUF__DURATION__INIT;
    Holdfast__V1__LockRequest m = HOLDFAST__V1__LOCK_REQUEST__INIT;
    ttl.seconds = 30;
    m.ttl = &ttl;
    m.resource_id = text_of(name);
    m.client_id = id;
    return request(&clients[client], "/holdfast.v1.LockService/Lock", &m.base);
}

static struct slice grpc_release(unsigned client, const char *name)
{
    char id[32];
    snprintf(id, sizeof(id), "worker-%u", client);
    Holdfast__V1__UnlockRequest m = HOLDFAST__V1__UNLOCK_REQUEST__INIT;
    m.resource_id = text_of(name);
    m.client_id = id;
    m.fence_token = clients[client].token;
    return request(&clients[client], "/holdfast.v1.LockService/Unlock", &m.base);
}

static void grpc_take(unsigned client, struct slice answer)
{
    struct grpc_client *c = &clients[client];
    bool is_well = http2_client_input(c->http2, answer);
    hf_assert(is_well);
    if (!c->is_ended) {
        return; /* the server's SETTINGS: the answer is not there yet */
    }
    size_t len = c->answer_len - GRPC_PREFIX;
    const uint8_t *bytes = c->answer + GRPC_PREFIX;
    if (c->token == 0) {
        Holdfast__V1__LockResponse *lock = holdfast__v1__lock_response__unpack(NULL, len, bytes);
        hf_assert(lock != NULL && lock->acquired);
        c->token = lock->lock_handle->fence_token;
        holdfast__v1__lock_response__free_unpacked(lock, NULL);
    } else {
        Holdfast__V1__UnlockResponse *unlock =
            holdfast__v1__unlock_response__unpack(NULL, len, bytes);
        hf_assert(unlock != NULL && unlock->released);
        c->token = 0;
        holdfast__v1__unlock_response__free_unpacked(unlock, NULL);
    }
}

static void grpc_close(unsigned client)
{
    http2_client_free(clients[client].http2);
    buffer_close(&clients[client].out);
}

const struct hotpath_protocol hotpath_grpc = {
    .name = "grpc",
    .open = grpc_open,
    .acquire = grpc_acquire,
    .release = grpc_release,
    .take = grpc_take,
    .close = grpc_close,
};
