/* Encodes a change of members for the leader. */
#include "base/codec.h"
#include "node/forward/forward_state.h"

size_t change_encode(const struct change *change, uint8_t at[CHANGE_BYTES])
{
    struct writer w = writer_make(at, CHANGE_BYTES);
    write_u64(&w, (uint64_t)change->change);
    write_u64(&w, change->id);
    write_slice(&w, slice_of(change->address));
    hf_assert(!w.full);
    return (size_t)(w.at - at);
}

bool change_decode(struct slice bytes, struct change *out)
{
    struct reader r = reader_make(bytes);
    uint64_t change = read_u64(&r);
    uint64_t id = read_u64(&r);
    struct slice address = read_slice(&r, PEER_ADDRESS_MAX);
    if (!reader_done(&r) || change >= GATEWAY_CHANGES) {
        return false;
    }
    memset(out, 0, sizeof(*out));
    out->change = (enum gateway_change)change;
    out->id = id;
    if (address.len > 0) {
        memcpy(out->address, address.data, address.len);
    }
    return strlen(out->address) == address.len;
}
