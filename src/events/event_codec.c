/* Encodes events by EVENT_FIELDS, and audit records. */
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

/* Of audit records. A change of the fields below is a new format. */
#define AUDIT_FORMAT 1
enum { AUDIT_OF_CLUSTER = 1, AUDIT_FENCE_RESET = 2, AUDIT_NOTE = 4, AUDIT_FLAGS = 7 };

size_t audit_encode(const struct audit_view *a, uint8_t at[AUDIT_BYTES_MAX])
{
    struct writer w = writer_make(at, AUDIT_BYTES_MAX);
    write_u8(&w, AUDIT_FORMAT);
    write_u64(&w, a->number);
    write_u64(&w, a->index);
    write_u64(&w, a->wall_ms);
    write_u64(&w, a->tenant);
    write_u64(&w, a->kind);
    write_u8(&w, (uint8_t)((a->is_of_cluster ? AUDIT_OF_CLUSTER : 0) |
                           (a->is_fence_reset ? AUDIT_FENCE_RESET : 0) |
                           (a->is_note ? AUDIT_NOTE : 0)));
    write_slice(&w, a->action);
    write_slice(&w, a->resource);
    write_slice(&w, a->actor);
    write_slice(&w, a->reason);
    write_slice(&w, a->trace);
    write_u64(&w, a->count);
    write_u64(&w, a->slot);
    write_u64(&w, a->mark_before);
    write_u64(&w, a->mark_after);
    return w.full ? 0 : (size_t)(w.at - at);
}

bool audit_decode(struct slice bytes, struct audit_view *out)
{
    struct reader r = reader_make(bytes);
    if (read_u8(&r) != AUDIT_FORMAT) {
        return false;
    }
    *out = (struct audit_view){.number = read_u64(&r)};
    out->index = read_u64(&r);
    out->wall_ms = read_u64(&r);
    out->tenant = read_u32(&r);
    out->kind = read_u32(&r);
    uint8_t flags = read_u8(&r);
    out->is_of_cluster = (flags & AUDIT_OF_CLUSTER) != 0;
    out->is_fence_reset = (flags & AUDIT_FENCE_RESET) != 0;
    out->is_note = (flags & AUDIT_NOTE) != 0;
    out->action = read_slice(&r, AUDIT_BYTES_MAX);
    out->resource = read_slice(&r, AUDIT_BYTES_MAX);
    out->actor = read_slice(&r, AUDIT_BYTES_MAX);
    out->reason = read_slice(&r, AUDIT_BYTES_MAX);
    out->trace = read_slice(&r, AUDIT_BYTES_MAX);
    out->count = read_u32(&r);
    out->slot = read_u32(&r);
    out->mark_before = read_u64(&r);
    out->mark_after = read_u64(&r);
    return reader_done(&r) && flags <= AUDIT_FLAGS;
}
