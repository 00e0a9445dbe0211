/* See sink_batch.h. */
#include "sinks/sink_batch.h"

#include <string.h>

void sink_batch_init(struct sink_batch *batch, const struct memory *memory)
{
    memset(batch, 0, sizeof(*batch));
    batch->max = SINK_BATCH_EVENTS;
    buffer_init(&batch->lines, memory, SINK_BATCH_BYTES);
    buffer_init(&batch->keys, memory, SINK_BATCH_EVENTS * LIMIT_NAME);
}

void sink_batch_close(struct sink_batch *batch)
{
    buffer_close(&batch->lines);
    buffer_close(&batch->keys);
}

void sink_batch_clear(struct sink_batch *batch)
{
    buffer_truncate(&batch->lines, 0);
    buffer_truncate(&batch->keys, 0);
    batch->count = 0;
    batch->has_read = false;
    batch->oldest_ms = 0;
}

bool sink_batch_is_full(const struct sink_batch *batch)
{
    return batch->count >= batch->max || buffer_space(&batch->lines) < EVENT_JSON_MAX + 1;
}

/* The line that begins at `at` is complete. */
static void end_line(struct sink_batch *batch, size_t at, struct slice key, uint64_t wall_ms)
{
    struct slice lines = buffer_bytes(&batch->lines);
    struct sink_row *row = &batch->rows[batch->count++];
    hf_assert(!batch->lines.overflowed && lines.len - at <= EVENT_JSON_MAX);
    const uint8_t *id = lines.data + at + SINK_ID_AT;
    const uint8_t *quote = memchr(id, '"', lines.len - at - SINK_ID_AT);
    hf_assert(quote != NULL);
    *row = (struct sink_row){.at = (uint32_t)at,
                             .len = (uint32_t)(lines.len - at),
                             .key_at = (uint32_t)buffer_len(&batch->keys),
                             .key_len = (uint32_t)key.len,
                             .id_len = (uint32_t)(quote - id)};
    buffer_append_slice(&batch->keys, key);
    buffer_append_byte(&batch->lines, '\n');
    if (batch->oldest_ms == 0) {
        batch->oldest_ms = wall_ms;
    }
}

void sink_batch_add(struct sink_batch *batch, const struct event_json *json, struct slice prefix,
                    const struct logged_event *record)
{
    struct slice name = event_json_name(record);
    size_t at = buffer_len(&batch->lines);
    hf_assert(!sink_batch_is_full(batch));
    batch->up_to = record->id;
    batch->has_read = true;
    if (prefix.len > 0 && !slice_starts_with(name, prefix)) {
        return;
    }
    if (event_json_write(json, record, &batch->lines)) {
        end_line(batch, at, name,
                 record->kind == LOGGED_EVENT ? record->event.wall_ms : record->audit.wall_ms);
    }
}

void sink_batch_add_gap(struct sink_batch *batch, const struct event_json *json, uint64_t from,
                        uint64_t to, uint64_t wall_ms)
{
    size_t at = buffer_len(&batch->lines);
    hf_assert(!sink_batch_is_full(batch));
    event_json_write_gap(json, from, to, wall_ms, &batch->lines);
    end_line(batch, at, slice_make(NULL, 0), wall_ms);
    batch->up_to = (struct event_id){to, UINT32_MAX};
    batch->has_read = true;
}
