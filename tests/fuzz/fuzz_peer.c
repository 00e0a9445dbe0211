/* Arbitrary bytes as what another node sends: frames, and in them introductions, requests, results
 * and changes of members. What is understood must say the same when it is written again. */
#include "events/event_codec.h"
#include "node/forward/forward_state.h"
#include "node/peers/peer_protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_introduction(struct slice payload)
{
    struct peer_introduction who;
    struct peer_introduction again;
    uint8_t bytes[PEER_GREETING_MAX];
    if (!peer_introduction_decode(payload, &who)) {
        return;
    }
    size_t len = peer_introduction_encode(&who, bytes, sizeof(bytes));
    /* Each version adds a field at the end: `state`, `peer_address`, `used_ids`, `state_max`,
     * `nonce`. A missing field has its default, which takes one byte. */
    size_t missing = len > payload.len ? len - payload.len : 0;
    bool has_defaults = (missing < 1 || who.nonce.len == 0) &&
                        (missing < 2 || who.state_max == 0) && (missing < 3 || who.used_ids == 0) &&
                        (missing < 4 || who.peer_address.len == 0) &&
                        (missing < 5 || who.state == 1);
    bool is_older = missing > 0 && missing <= 5 && has_defaults;
    hf_assert(who.nonce.len == 0 || who.nonce.len == PEER_NONCE);
    hf_assert(len > 0 && (len <= payload.len || is_older));
    hf_assert(memcmp(bytes, payload.data, is_older ? payload.len : len) == 0);
    hf_assert(peer_introduction_decode(slice_make(bytes, len), &again));
    uint64_t node;
    struct id store;
    for (struct slice left = who.stores; peer_stores_next(&left, &node, &store);) {
        hf_assert(node != 0);
    }
}

static void check_result(struct slice body)
{
    struct result result;
    struct result_scratch scratch;
    struct buffer bytes;
    if (!result_decode(body, &scratch, &result)) {
        return;
    }
    buffer_init(&bytes, memory_system(), RESULT_BYTES_MAX);
    hf_assert(result_encode(&result, record_version(body.data[0]), &bytes));
    hf_assert(slice_equal(buffer_bytes(&bytes), body));
    buffer_close(&bytes);
}

static void check_event(struct slice body)
{
    struct event event;
    uint8_t bytes[EVENT_BYTES_MAX];
    if (event_decode(body, &event)) {
        size_t len = event_encode(&event, record_version(body.data[0]), bytes);
        hf_assert(slice_equal(slice_make(bytes, len), body));
    }
}

static void check_request(struct slice payload)
{
    uint64_t number;
    uint8_t kind;
    struct slice body;
    struct change change;
    uint8_t bytes[CHANGE_BYTES];
    if (!peer_request_parse(payload, &number, &kind, &body)) {
        return;
    }
    check_result(body);
    check_event(body);
    if (change_decode(body, &change)) {
        hf_assert(slice_equal(slice_make(bytes, change_encode(&change, bytes)), body));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice left = slice_make(data, size);
    for (;;) {
        enum peer_frame type;
        struct slice payload;
        int64_t len = peer_frame_parse(left, PEER_GREETING_MAX, &type, &payload);
        if (len <= 0) {
            return 0;
        }
        hf_assert((size_t)len <= left.len && payload.len + PEER_FRAME_HEAD == (size_t)len);
        if (type == PEER_HELLO || type == PEER_WELCOME) {
            check_introduction(payload);
        } else {
            check_request(payload);
        }
        left = slice_make(left.data + len, left.len - (size_t)len);
    }
}
