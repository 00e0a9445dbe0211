/* The lines of events that are delivered together. A batch is built from a cursor and stays unchanged
 * until it is delivered, so that a driver may send it again. */
#ifndef HOLDFAST_SINKS_SINK_BATCH_H
#define HOLDFAST_SINKS_SINK_BATCH_H

#include "sinks/event_json.h"

/* A file is synced for each batch; smaller ones cost more than their lines. */
enum { SINK_BATCH_EVENTS = 4000, SINK_BATCH_BYTES = 1 << 20 };

struct sink_row {
    uint32_t at; /* in `lines` */
    uint32_t len;
    uint32_t key_at; /* in `keys` */
    uint32_t key_len;
    uint32_t id_len; /* of the value of "id", which begins at SINK_ID_AT of the line */
};

/* {"id":"... */
#define SINK_ID_AT 7

struct sink_batch {
    struct buffer lines; /* each with a newline */
    struct buffer keys;  /* names */
    struct sink_row rows[SINK_BATCH_EVENTS];
    uint32_t count;
    uint32_t max;          /* rows */
    struct event_id up_to; /* of the last record that was read for it, also if it has no line */
    bool has_read;         /* a record was read */
    uint64_t oldest_ms;    /* wall clock of the first line */
};

void sink_batch_init(struct sink_batch *batch, const struct memory *memory);
void sink_batch_close(struct sink_batch *batch);
void sink_batch_clear(struct sink_batch *batch);
/* No further line may be added. */
bool sink_batch_is_full(const struct sink_batch *batch);
/* Records of names that do not begin with `prefix` have no line; with an empty prefix, all have.
 * It must not be full. */
void sink_batch_add(struct sink_batch *batch, const struct event_json *json, struct slice prefix,
                    const struct logged_event *record);
void sink_batch_add_gap(struct sink_batch *batch, const struct event_json *json, uint64_t from,
                        uint64_t to, uint64_t wall_ms);

static inline struct slice sink_batch_line(const struct sink_batch *batch, uint32_t row)
{
    struct slice all = buffer_bytes(&batch->lines);
    return slice_make(all.data + batch->rows[row].at, batch->rows[row].len);
}

static inline struct slice sink_batch_key(const struct sink_batch *batch, uint32_t row)
{
    struct slice all = buffer_bytes(&batch->keys);
    uint32_t len = batch->rows[row].key_len;
    return slice_make(len == 0 ? NULL : all.data + batch->rows[row].key_at, len);
}

static inline struct slice sink_batch_id(const struct sink_batch *batch, uint32_t row)
{
    return slice_make(sink_batch_line(batch, row).data + SINK_ID_AT, batch->rows[row].id_len);
}

#endif
