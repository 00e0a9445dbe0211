/* Encodes events by EVENT_FIELDS. */
#include "events/event_codec.h"

size_t event_encode(const struct event *f, uint32_t version, uint8_t at[EVENT_BYTES_MAX])
{
    struct writer out = writer_make(at, EVENT_BYTES_MAX);
    struct writer *w = &out;
    write_u8(w, record_format(version));
    EVENT_FIELDS(FIELD_PUT)
    return out.full ? 0 : (size_t)(out.at - at);
}

bool event_decode(struct slice bytes, struct event *f)
{
    struct reader in = reader_make(bytes);
    struct reader *r = &in;
    uint32_t version = record_version(read_u8(r));
    if (in.bad || version == 0 || version > CORE_VERSION) {
        return false;
    }
    EVENT_FIELDS(FIELD_TAKE)
    return reader_done(r);
}
