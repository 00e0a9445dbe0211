/* See peer_protocol.h. */
#include "node/peers/peer_protocol.h"

/* Detects other protocols. */
static const uint8_t magic[8] = {'H', 'O', 'L', 'D', 'P', 'E', 'E', 'R'};

static void put_length(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> 8 * i);
    }
}

static uint32_t get_length(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint8_t *peer_frame_begin(struct buffer *out, enum peer_frame type, size_t len)
{
    hf_assert(len < PEER_FRAME_MAX);
    if (peer_frame_size(len) > buffer_space(out)) {
        return NULL;
    }
    uint8_t *at = buffer_reserve(out, peer_frame_size(len));
    put_length(at, (uint32_t)len + 1);
    at[4] = (uint8_t)type;
    return at + PEER_FRAME_HEAD;
}

bool peer_frame_append(struct buffer *out, enum peer_frame type, struct slice payload)
{
    uint8_t *at = peer_frame_begin(out, type, payload.len);
    if (at == NULL) {
        return false;
    }
    if (payload.len > 0) {
        memcpy(at, payload.data, payload.len);
    }
    buffer_commit(out, peer_frame_size(payload.len));
    return true;
}

int64_t peer_frame_parse(struct slice bytes, size_t max, enum peer_frame *type,
                         struct slice *payload)
{
    if (bytes.len < PEER_FRAME_HEAD) {
        return 0;
    }
    uint32_t len = get_length(bytes.data);
    uint8_t kind = bytes.data[4];
    if (len < 1 || len > max || kind == 0 || kind >= PEER_FRAMES) {
        return -1;
    }
    if (bytes.len < 4 + (size_t)len) {
        return 0;
    }
    *type = (enum peer_frame)kind;
    *payload = slice_make(bytes.data + PEER_FRAME_HEAD, len - 1);
    return 4 + (int64_t)len;
}

size_t peer_introduction_encode(const struct peer_introduction *intro, void *buffer, size_t size)
{
    struct writer w = writer_make(buffer, size);
    write_bytes(&w, magic, sizeof(magic));
    write_u64(&w, intro->oldest);
    write_u64(&w, intro->newest);
    write_u64(&w, (uint64_t)intro->purpose);
    write_id(&w, intro->cluster);
    write_slice(&w, intro->cluster_name);
    write_u64(&w, intro->node);
    write_u64(&w, intro->to);
    write_id(&w, intro->store);
    write_u64(&w, intro->life);
    write_u64(&w, intro->number);
    write_slice(&w, intro->client_address);
    write_slice(&w, intro->stores);
    write_u64(&w, intro->state);
    write_slice(&w, intro->peer_address);
    write_u64(&w, intro->used_ids);
    write_u64(&w, intro->state_max);
    write_slice(&w, intro->nonce);
    return w.full ? 0 : (size_t)(w.at - (uint8_t *)buffer);
}

bool peer_introduction_decode(struct slice payload, struct peer_introduction *out)
{
    struct peer_introduction intro;
    if (payload.len < sizeof(magic) || memcmp(payload.data, magic, sizeof(magic)) != 0) {
        return false;
    }
    struct reader r =
        reader_make(slice_make(payload.data + sizeof(magic), payload.len - sizeof(magic)));
    intro.oldest = read_u32(&r);
    intro.newest = read_u32(&r);
    uint64_t purpose = read_u64(&r);
    intro.cluster = read_id(&r);
    intro.cluster_name = read_slice(&r, PEER_NAME_MAX);
    intro.node = read_u64(&r);
    intro.to = read_u64(&r);
    intro.store = read_id(&r);
    intro.life = read_u64(&r);
    intro.number = read_u64(&r);
    intro.client_address = read_slice(&r, PEER_ADDRESS_MAX);
    intro.stores = read_slice(&r, PEER_STORES_MAX);
    intro.state = reader_left(&r) > 0 ? read_u32(&r) : 1; /* the first version did not send it */
    intro.peer_address =
        reader_left(&r) > 0 ? read_slice(&r, PEER_ADDRESS_MAX) : slice_make(NULL, 0);
    intro.used_ids = reader_left(&r) > 0 ? read_u64(&r) : 0;
    intro.state_max = reader_left(&r) > 0 ? read_u64(&r) : 0;
    intro.nonce = reader_left(&r) > 0 ? read_slice(&r, PEER_NONCE) : slice_make(NULL, 0);
    if (r.bad || intro.state == 0 || intro.life > PEER_LIFE_MAX ||
        (purpose != PEER_FOR_MESSAGES && purpose != PEER_FOR_SNAPSHOT) || id_is_zero(intro.store) ||
        intro.node == 0 || intro.oldest > intro.newest ||
        (intro.nonce.len != 0 && intro.nonce.len != PEER_NONCE)) {
        return false;
    }
    intro.purpose = (enum peer_purpose)purpose;
    *out = intro;
    return true;
}

bool peer_stores_next(struct slice *stores, uint64_t *node, struct id *store)
{
    struct reader r = reader_make(*stores);
    *node = read_fixed64(&r);
    store->high = read_fixed64(&r);
    store->low = read_fixed64(&r);
    *stores = slice_make(r.at, reader_left(&r));
    return !r.bad && *node != 0 && !id_is_zero(*store);
}

size_t peer_stores_put(uint8_t *at, uint64_t node, struct id store)
{
    struct writer w = writer_make(at, 24);
    write_fixed64(&w, node);
    write_fixed64(&w, store.high);
    write_fixed64(&w, store.low);
    return 24;
}

void peer_request_head(uint8_t *at, uint64_t number, uint8_t kind)
{
    number = little_endian(number);
    memcpy(at, &number, 8);
    at[8] = kind;
}

bool peer_request_parse(struct slice payload, uint64_t *number, uint8_t *kind, struct slice *body)
{
    if (payload.len < PEER_REQUEST_HEAD) {
        return false;
    }
    struct reader r = reader_make(payload);
    *number = read_fixed64(&r);
    *kind = read_u8(&r);
    *body = slice_make(r.at, reader_left(&r));
    return true;
}
