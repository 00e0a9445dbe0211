/* Encodes events, see event_codec.h. A test fills every field and compares. */
#include "node/forward/event_codec.h"

#include "base/codec.h"
#include "base/tier.h"

#define EVENT_FORMAT 1u
#define TEXT_MAX (LIMIT_VALUE > LIMIT_REASON ? LIMIT_VALUE : LIMIT_REASON)

size_t event_encode(const struct event *e, uint8_t at[EVENT_BYTES_MAX])
{
    struct writer w = writer_make(at, EVENT_BYTES_MAX);
    const uint64_t numbers[] = {EVENT_FORMAT, e->type,  e->tier,       e->tenant,      e->index,
                                e->ordinal,   e->part,  e->parts,      e->node,        e->at_ms,
                                e->wall_ms,   e->token, e->attachment, e->deadline_ms, e->reason,
                                e->ended,     e->mode,  e->slot};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        write_u64(&w, numbers[i]);
    }
    write_id(&w, e->session);
    write_id(&w, e->lease);
    write_slice(&w, e->name);
    write_slice(&w, e->client);
    write_slice(&w, e->owner);
    write_slice(&w, e->actor);
    write_slice(&w, e->text);
    return w.full ? 0 : (size_t)(w.at - at);
}

static uint32_t read_below(struct reader *r, uint32_t end)
{
    uint32_t value = read_u32(r);
    r->bad = r->bad || value >= end;
    return value;
}

bool event_decode(struct slice bytes, struct event *out)
{
    struct reader r = reader_make(bytes);
    uint64_t format = read_u64(&r);
    r.bad = r.bad || format != EVENT_FORMAT;
    out->type = (enum event_type)read_below(&r, EVENT_COUNT);
    out->tier = read_below(&r, TIER_EFFICIENCY + 1);
    out->tenant = read_u32(&r);
    out->index = read_u64(&r);
    out->ordinal = read_u32(&r);
    out->part = read_u32(&r);
    out->parts = read_u32(&r);
    out->node = read_u32(&r);
    out->at_ms = read_u64(&r);
    out->wall_ms = read_u64(&r);
    out->token = read_u64(&r);
    out->attachment = read_u64(&r);
    out->deadline_ms = read_u64(&r);
    out->reason = (enum reason)read_below(&r, REASON_COUNT);
    out->ended = (enum ended)read_below(&r, ENDED_COUNT);
    out->mode = (enum mode)read_below(&r, MODE_COUNT);
    out->slot = read_u32(&r);
    out->session = read_id(&r);
    out->lease = read_id(&r);
    out->name = read_slice(&r, LIMIT_NAME);
    out->client = read_slice(&r, LIMIT_CLIENT);
    out->owner = read_slice(&r, LIMIT_OWNER);
    out->actor = read_slice(&r, LIMIT_ACTOR);
    out->text = read_slice(&r, TEXT_MAX);
    return reader_done(&r);
}
