/* See segment.h. */
#include "events/segment.h"

#include "storage/bytes.h"

#define HEADER_MAGIC 0x76454648u /* "HFEv" */
#define FRAME_MAGIC 0x72464648u  /* "HFFr" */
#define TAIL_MAGIC 0x6c744648u   /* "HFtl" */
#define SEGMENT_VERSION 1u

/* ---- header ---- */

uint64_t event_header_encode(const struct event_header *header, uint8_t out[EVENT_HEADER_BYTES])
{
    put_u32(out + 8, HEADER_MAGIC);
    put_u32(out + 12, SEGMENT_VERSION);
    put_u64(out + 16, header->cluster.high);
    put_u64(out + 24, header->cluster.low);
    put_u64(out + 32, header->node);
    put_u64(out + 40, header->number);
    put_u64(out + 48, header->from);
    put_u64(out + 56, header->wall_ms);
    uint64_t salt = storage_checksum(out + 8, EVENT_HEADER_BYTES - 8, 0);
    put_u64(out, salt);
    return salt;
}

bool event_header_decode(const uint8_t bytes[EVENT_HEADER_BYTES], struct event_header *out,
                         uint64_t *salt)
{
    if (get_u32(bytes + 8) != HEADER_MAGIC || get_u32(bytes + 12) != SEGMENT_VERSION ||
        get_u64(bytes) != storage_checksum(bytes + 8, EVENT_HEADER_BYTES - 8, 0)) {
        return false;
    }
    *out = (struct event_header){.cluster = {get_u64(bytes + 16), get_u64(bytes + 24)},
                                 .node = get_u64(bytes + 32),
                                 .number = get_u64(bytes + 40),
                                 .from = get_u64(bytes + 48),
                                 .wall_ms = get_u64(bytes + 56)};
    *salt = get_u64(bytes);
    return true;
}

/* ---- records ---- */

uint32_t event_name_hash(struct slice name)
{
    return name.len == 0 ? 0 : (uint32_t)storage_checksum(name.data, name.len, 0);
}

/* Of a record:  u32 size | u32 name hash | u64 wall_ms | kind | type | position | id | payload  */
size_t event_record_begin(const struct event_record *record, uint8_t *at)
{
    put_u32(at + 4, record->name_hash);
    put_u64(at + 8, record->wall_ms);
    at[16] = (uint8_t)record->kind;
    at[17] = record->type;
    struct writer w = writer_make(at + EVENT_RECORD_HEAD, EVENT_RECORD_MAX - EVENT_RECORD_HEAD);
    write_u64(&w, record->position.index);
    write_u64(&w, record->position.ordinal);
    write_u64(&w, record->position.sub);
    write_u64(&w, record->id.index);
    write_u64(&w, record->id.ordinal);
    return (size_t)(w.at - at);
}

void event_record_end(uint8_t *at, size_t length)
{
    hf_assert(length > EVENT_RECORD_HEAD && length <= EVENT_RECORD_MAX);
    put_u32(at, (uint32_t)length);
}

struct event_record event_record_peek(const uint8_t *at, struct event_position position)
{
    return (struct event_record){.kind = (enum logged_kind)at[16],
                                 .type = at[17],
                                 .name_hash = get_u32(at + 4),
                                 .wall_ms = get_u64(at + 8),
                                 .position = position};
}

bool event_record_take(struct slice *rest, struct event_record *out)
{
    const uint8_t *at = rest->data;
    if (rest->len < EVENT_RECORD_HEAD) {
        return false;
    }
    uint32_t size = get_u32(at);
    if (size < EVENT_RECORD_HEAD || size > rest->len || size > EVENT_RECORD_MAX ||
        (at[16] != LOGGED_EVENT && at[16] != LOGGED_AUDIT) || at[17] >= EVENT_COUNT) {
        return false;
    }
    struct reader r = reader_make(slice_make(at + EVENT_RECORD_HEAD, size - EVENT_RECORD_HEAD));
    *out = (struct event_record){.kind = (enum logged_kind)at[16],
                                 .type = at[17],
                                 .name_hash = get_u32(at + 4),
                                 .wall_ms = get_u64(at + 8)};
    out->position.index = read_u64(&r);
    out->position.ordinal = read_u32(&r);
    out->position.sub = read_u32(&r);
    out->id.index = read_u64(&r);
    out->id.ordinal = read_u32(&r);
    out->payload = slice_make(r.at, reader_left(&r));
    *rest = slice_make(at + size, rest->len - size);
    return !r.bad;
}

bool event_record_decode(const struct event_record *record, struct logged_event *out)
{
    out->kind = record->kind;
    out->id = record->id;
    return record->kind == LOGGED_EVENT ? event_decode(record->payload, &out->event)
                                        : audit_decode(record->payload, &out->audit);
}

/* ---- frames ---- */

void event_frame_encode(const struct event_frame *frame, uint64_t salt, uint8_t *bytes)
{
    hf_assert(frame->length >= EVENT_FRAME_HEADER && frame->length <= EVENT_FRAME_MAX);
    put_u32(bytes + 8, FRAME_MAGIC);
    put_u32(bytes + 12, frame->length);
    put_u64(bytes + 16, frame->from);
    put_u64(bytes + 24, frame->to);
    put_u64(bytes + 32, frame->from_ms);
    put_u64(bytes + 40, frame->to_ms);
    put_u32(bytes + 48, frame->count);
    put_u32(bytes + 52, 0);
    put_u64(bytes, storage_checksum(bytes + 8, frame->length - 8, salt));
}

bool event_frame_decode(struct slice bytes, uint64_t salt, struct event_frame *out)
{
    const uint8_t *at = bytes.data;
    if (bytes.len < EVENT_FRAME_HEADER || get_u32(at + 8) != FRAME_MAGIC) {
        return false;
    }
    uint32_t length = get_u32(at + 12);
    if (length < EVENT_FRAME_HEADER || length > EVENT_FRAME_MAX || length > bytes.len ||
        get_u64(at) != storage_checksum(at + 8, length - 8, salt)) {
        return false;
    }
    *out = (struct event_frame){
        .from = get_u64(at + 16),
        .to = get_u64(at + 24),
        .from_ms = get_u64(at + 32),
        .to_ms = get_u64(at + 40),
        .count = get_u32(at + 48),
        .length = length,
        .records = slice_make(at + EVENT_FRAME_HEADER, length - EVENT_FRAME_HEADER)};
    return out->from <= out->to;
}

/* ---- index ---- */

/* Four bits for each name, by double hashing. */
enum { BLOOM_HASHES = 4, BLOOM_BITS = EVENT_BLOOM_BYTES * 8 };

static uint32_t bloom_bit(uint32_t hash, uint32_t i)
{
    return (hash + i * ((hash >> 16) | 1)) % BLOOM_BITS;
}

static void bloom_add(uint8_t bloom[EVENT_BLOOM_BYTES], uint32_t hash)
{
    for (uint32_t i = 0; i < BLOOM_HASHES; i++) {
        uint32_t bit = bloom_bit(hash, i);
        bloom[bit / 8] = (uint8_t)(bloom[bit / 8] | 1u << bit % 8);
    }
}

bool event_block_may_have(const struct event_block *block, uint32_t name_hash)
{
    for (uint32_t i = 0; i < BLOOM_HASHES; i++) {
        uint32_t bit = bloom_bit(name_hash, i);
        if ((block->bloom[bit / 8] & 1u << bit % 8) == 0) {
            return false;
        }
    }
    return true;
}

static void range_begin(struct event_range *range, uint64_t from, uint64_t from_ms)
{
    *range =
        (struct event_range){.from = from, .to = from, .from_ms = from_ms, .min_ms = UINT64_MAX};
}

/* The end of a frame, after its records. */
static void range_end(struct event_range *range, const struct event_frame *frame)
{
    struct event_position end = event_position_end_of(frame->to);
    range->to = frame->to;
    range->to_ms = frame->to_ms;
    if (range->records == 0) {
        range->first = end;
    }
    if (range->records == 0 || event_position_after(end, range->last)) {
        range->last = end;
    }
}

static void range_join(struct event_range *range, const struct event_range *next)
{
    if (next->records == 0) {
        return;
    }
    if (range->records == 0) {
        range->first = next->first;
    }
    range->records += next->records;
    range->last = next->last;
    range->min_ms = next->min_ms < range->min_ms ? next->min_ms : range->min_ms;
    range->max_ms = next->max_ms > range->max_ms ? next->max_ms : range->max_ms;
}

void event_summary_begin(struct event_summary *summary)
{
    range_begin(&summary->range, 0, 0);
    memset(summary->bloom, 0, sizeof(summary->bloom));
}

void event_summary_add(struct event_summary *summary, const struct event_record *record)
{
    struct event_range *range = &summary->range;
    if (range->records++ == 0) {
        range->first = record->position;
    }
    range->last = record->position;
    range->min_ms = record->wall_ms < range->min_ms ? record->wall_ms : range->min_ms;
    range->max_ms = record->wall_ms > range->max_ms ? record->wall_ms : range->max_ms;
    if (record->name_hash != 0) {
        bloom_add(summary->bloom, record->name_hash);
    }
}

/* False: malformed, or out of order. */
static bool summarize(const struct event_frame *frame, const struct event_block *before,
                      struct event_summary *out)
{
    struct slice rest = frame->records;
    struct event_record record;
    struct event_position last = {frame->from, 0, 0};
    bool is_first = before == NULL || frame->from > before->range.to;
    if (!is_first) {
        last = before->range.last;
    }
    event_summary_begin(out);
    for (uint32_t i = 0; i < frame->count; i++) {
        if (!event_record_take(&rest, &record) || !event_position_after(record.position, last)) {
            return false;
        }
        event_summary_add(out, &record);
        last = record.position;
    }
    return rest.len == 0 && (before == NULL || frame->from >= before->range.to);
}

/* A frame after a gap begins a block, so gaps are between blocks only. */
static bool continues(const struct event_block *block, uint64_t offset,
                      const struct event_frame *frame)
{
    return block != NULL && block->length < EVENT_BLOCK_BYTES && block->range.to == frame->from &&
           block->offset + block->length == offset;
}

static struct event_block *last_block(struct event_index *index)
{
    return index->count == 0 ? NULL : &index->blocks[index->count - 1];
}

bool event_index_join(struct event_index *index, uint64_t offset, const struct event_frame *frame,
                      const struct event_summary *summary)
{
    struct event_block *block = last_block(index);
    if (!continues(block, offset, frame)) {
        if (index->count == EVENT_SEGMENT_BLOCKS) {
            return false;
        }
        block = &index->blocks[index->count++];
        range_begin(&block->range, frame->from, frame->from_ms);
        block->offset = (uint32_t)offset;
        block->length = 0;
        memset(block->bloom, 0, sizeof(block->bloom));
    }
    range_join(&block->range, &summary->range);
    range_end(&block->range, frame);
    for (uint32_t i = 0; i < EVENT_BLOOM_BYTES; i++) {
        block->bloom[i] |= summary->bloom[i];
    }
    block->length += frame->length;
    return true;
}

bool event_index_add(struct event_index *index, uint64_t offset, const struct event_frame *frame)
{
    struct event_summary summary;
    return summarize(frame, last_block(index), &summary) &&
           event_index_join(index, offset, frame, &summary);
}

void event_segment_summarize(struct event_segment *segment, const struct event_index *index)
{
    hf_assert(index->count > 0);
    const struct event_block *last = &index->blocks[index->count - 1];
    struct event_range *sum = &segment->range;
    *sum = index->blocks[0].range;
    segment->gaps = segment->gap_to = segment->gap_ms = 0;
    for (uint32_t i = 1; i < index->count; i++) {
        const struct event_range *range = &index->blocks[i].range;
        if (range->from > sum->to) {
            segment->gaps++;
            segment->gap_to = range->from;
            segment->gap_ms = range->from_ms;
        }
        if (sum->records == 0 && range->records > 0) {
            sum->first = range->first;
        }
        sum->min_ms = range->min_ms < sum->min_ms ? range->min_ms : sum->min_ms;
        sum->max_ms = range->max_ms > sum->max_ms ? range->max_ms : sum->max_ms;
        sum->records += range->records;
        sum->to = range->to;
        sum->to_ms = range->to_ms;
        sum->last = range->last;
    }
    if (sum->records == 0) {
        sum->first = sum->last;
    }
    segment->end = (uint64_t)last->offset + last->length;
}

/* ---- footer ---- */

static void put_position(uint8_t *at, struct event_position p)
{
    put_u64(at, p.index);
    put_u32(at + 8, p.ordinal);
    put_u32(at + 12, p.sub);
}

static struct event_position get_position(const uint8_t *at)
{
    return (struct event_position){get_u64(at), get_u32(at + 8), get_u32(at + 12)};
}

enum { RANGE_BYTES = 88 };

static void put_range(uint8_t *at, const struct event_range *r)
{
    put_u64(at, r->from);
    put_u64(at + 8, r->to);
    put_u64(at + 16, r->from_ms);
    put_u64(at + 24, r->to_ms);
    put_u64(at + 32, r->min_ms);
    put_u64(at + 40, r->max_ms);
    put_position(at + 48, r->first);
    put_position(at + 64, r->last);
    put_u64(at + 80, r->records);
}

static void get_range(const uint8_t *at, struct event_range *r)
{
    *r = (struct event_range){.from = get_u64(at),
                              .to = get_u64(at + 8),
                              .from_ms = get_u64(at + 16),
                              .to_ms = get_u64(at + 24),
                              .min_ms = get_u64(at + 32),
                              .max_ms = get_u64(at + 40),
                              .first = get_position(at + 48),
                              .last = get_position(at + 64),
                              .records = get_u64(at + 80)};
}

size_t event_footer_size(const struct event_index *index)
{
    return (size_t)index->count * EVENT_BLOCK_ENTRY + EVENT_TAIL_BYTES;
}

/* Of the tail:  checksum | magic | count | checksum of the blocks | range | gaps | gap_to | gap_ms  */
void event_footer_encode(const struct event_segment *segment, const struct event_index *index,
                         uint8_t *out)
{
    uint8_t *at = out;
    for (uint32_t i = 0; i < index->count; i++, at += EVENT_BLOCK_ENTRY) {
        const struct event_block *block = &index->blocks[i];
        put_range(at, &block->range);
        put_u32(at + RANGE_BYTES, block->offset);
        put_u32(at + RANGE_BYTES + 4, block->length);
        memcpy(at + RANGE_BYTES + 8, block->bloom, EVENT_BLOOM_BYTES);
    }
    memset(at, 0, EVENT_TAIL_BYTES);
    put_u32(at + 8, TAIL_MAGIC);
    put_u32(at + 12, index->count);
    put_u64(at + 16, storage_checksum(out, (size_t)(at - out), segment->salt));
    put_range(at + 24, &segment->range);
    put_u64(at + 112, segment->gaps);
    put_u64(at + 120, segment->gap_to);
    put_u64(at + 128, segment->gap_ms);
    put_u64(at, storage_checksum(at + 8, EVENT_TAIL_BYTES - 8, segment->salt));
}

bool event_tail_decode(const uint8_t bytes[EVENT_TAIL_BYTES], uint64_t size,
                       struct event_segment *out)
{
    uint32_t count = get_u32(bytes + 12);
    uint64_t footer = (uint64_t)count * EVENT_BLOCK_ENTRY + EVENT_TAIL_BYTES;
    if (get_u64(bytes) != storage_checksum(bytes + 8, EVENT_TAIL_BYTES - 8, out->salt) ||
        get_u32(bytes + 8) != TAIL_MAGIC || count == 0 || count > EVENT_SEGMENT_BLOCKS ||
        size < EVENT_HEADER_BYTES + footer) {
        return false;
    }
    out->size = size;
    out->end = size - footer;
    get_range(bytes + 24, &out->range);
    out->gaps = get_u64(bytes + 112);
    out->gap_to = get_u64(bytes + 120);
    out->gap_ms = get_u64(bytes + 128);
    out->is_closed = true;
    return out->range.from <= out->range.to;
}

bool event_footer_decode(struct slice bytes, const struct event_segment *segment,
                         struct event_index *out)
{
    if (bytes.len < EVENT_TAIL_BYTES + EVENT_BLOCK_ENTRY) {
        return false;
    }
    const uint8_t *tail = bytes.data + (bytes.len - EVENT_TAIL_BYTES);
    uint32_t count = get_u32(tail + 12);
    size_t blocks = bytes.len - EVENT_TAIL_BYTES;
    if (count > EVENT_SEGMENT_BLOCKS || blocks != (size_t)count * EVENT_BLOCK_ENTRY ||
        get_u64(tail + 16) != storage_checksum(bytes.data, blocks, segment->salt)) {
        return false;
    }
    const uint8_t *at = bytes.data;
    uint64_t end = EVENT_HEADER_BYTES;
    for (uint32_t i = 0; i < count; i++, at += EVENT_BLOCK_ENTRY) {
        struct event_block *block = &out->blocks[i];
        get_range(at, &block->range);
        block->offset = get_u32(at + RANGE_BYTES);
        block->length = get_u32(at + RANGE_BYTES + 4);
        if (block->offset < end || block->length > EVENT_BLOCK_MAX ||
            (uint64_t)block->offset + block->length > segment->end) {
            return false;
        }
        end = (uint64_t)block->offset + block->length;
        memcpy(block->bloom, at + RANGE_BYTES + 8, EVENT_BLOOM_BYTES);
    }
    out->count = count;
    return true;
}
