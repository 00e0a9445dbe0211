/* The files of the event log: segments. Bytes only, no files.
 *
 *   header | frame | frame | ...                  the newest segment
 *   header | frame | frame | ... | blocks | tail  a closed one; blocks and tail are the footer
 *
 * A frame covers the log entries (from, to] and has the records that they made. Its checksum includes the
 * salt of the segment, so a frame of another file is not valid here. Blocks are groups of neighbouring
 * frames of about EVENT_BLOCK_BYTES; the index of a segment describes each block, with a Bloom filter of
 * its names. So a search reads the blocks that may have a matching record. The tail has the summary of
 * the segment, so opening a log reads little.
 *
 * Numbers are little-endian (storage/bytes.h). Everything is checked by the reader, apart from what the
 * checksum proves to be unchanged. */
#ifndef HOLDFAST_EVENTS_SEGMENT_H
#define HOLDFAST_EVENTS_SEGMENT_H

#include "events/event_codec.h"
#include "events/event_log.h"

enum {
    EVENT_HEADER_BYTES = 64,
    EVENT_FRAME_HEADER = 56,
    EVENT_FRAME_MAX = 64 << 10,
    EVENT_BLOCK_BYTES = 64 << 10, /* a block of so many bytes gets no further frame */
    EVENT_BLOCK_MAX = EVENT_BLOCK_BYTES + EVENT_FRAME_MAX,
    EVENT_SEGMENT_BLOCKS = 400, /* the last entry may need more than EVENT_SEGMENT_MAX */
    EVENT_BLOOM_BYTES = 512,
    EVENT_BLOCK_ENTRY = 96 + EVENT_BLOOM_BYTES, /* in the footer */
    EVENT_TAIL_BYTES = 144,
    EVENT_RECORD_HEAD = 18,
    EVENT_RECORD_MAX = EVENT_BYTES_MAX + 64,
    EVENT_SEGMENT_MAX = 16 << 20, /* bytes of frames */
};

/* What blocks and segments have in common. `from_ms`, `to_ms`: wall clock when the entries `from` and
 * `to` were applied; 0: unknown. `min_ms`, `max_ms`: of the records. `first`: of the first record; without
 * one, the end of entry `to`. `last`: of the last record, or the end of entry `to` if that is later. */
struct event_range {
    uint64_t from;
    uint64_t to;
    uint64_t from_ms;
    uint64_t to_ms;
    uint64_t min_ms;
    uint64_t max_ms;
    struct event_position first;
    struct event_position last;
    uint64_t records;
};

struct event_block {
    struct event_range range;
    uint32_t offset; /* in the file */
    uint32_t length;
    uint8_t bloom[EVENT_BLOOM_BYTES];
};

struct event_index {
    uint32_t count;
    struct event_block blocks[EVENT_SEGMENT_BLOCKS];
};

/* A file. `gaps`: between its blocks; `gap_to`, `gap_ms`: the end of the last one. */
struct event_segment {
    uint64_t number; /* rises; the files are in this order */
    uint64_t salt;
    uint64_t end;  /* of the frames */
    uint64_t size; /* of the file */
    struct event_range range;
    uint64_t gaps;
    uint64_t gap_to;
    uint64_t gap_ms;
    bool is_closed;
};

/* ---- header ---- */

struct event_header {
    struct id cluster;
    uint64_t node;
    uint64_t number;
    uint64_t from;
    uint64_t wall_ms;
};

/* Returns the salt. */
uint64_t event_header_encode(const struct event_header *header, uint8_t out[EVENT_HEADER_BYTES]);
bool event_header_decode(const uint8_t bytes[EVENT_HEADER_BYTES], struct event_header *out,
                         uint64_t *salt);

/* ---- records ---- */

/* `payload`: event_codec.h. */
struct event_record {
    enum logged_kind kind;
    uint8_t type; /* enum event_type; 0: audit */
    uint32_t name_hash;
    uint64_t wall_ms;
    struct event_position position;
    struct event_id id;
    struct slice payload;
};

uint32_t event_name_hash(struct slice name);
/* Writes the head of a record to `at`, which has EVENT_RECORD_MAX bytes; returns its length. The payload
 * follows; event_record_end takes the length of both. `payload` is not used. */
size_t event_record_begin(const struct event_record *record, uint8_t *at);
void event_record_end(uint8_t *at, size_t length);
/* What the index needs of a record of this program: `position` is its own. */
struct event_record event_record_peek(const uint8_t *at, struct event_position position);
/* Takes the first record off `rest`. False: malformed, or `rest` is empty. */
bool event_record_take(struct slice *rest, struct event_record *out);
/* False: malformed. */
bool event_record_decode(const struct event_record *record, struct logged_event *out);

/* ---- frames ---- */

struct event_frame {
    uint64_t from;
    uint64_t to;
    uint64_t from_ms;
    uint64_t to_ms;
    uint32_t count;
    uint32_t length;
    struct slice records;
};

/* `frame` begins with EVENT_FRAME_HEADER unused bytes; `length` includes them. */
void event_frame_encode(const struct event_frame *frame, uint64_t salt, uint8_t *bytes);
/* The frame at the start of `bytes`. False: none that is valid. */
bool event_frame_decode(struct slice bytes, uint64_t salt, struct event_frame *out);

/* ---- index, summary ---- */

/* What the index needs of the records of one frame. `range`: only what is of records. */
struct event_summary {
    struct event_range range;
    uint8_t bloom[EVENT_BLOOM_BYTES];
};

void event_summary_begin(struct event_summary *summary);
void event_summary_add(struct event_summary *summary, const struct event_record *record);
/* Adds a frame of this program, whose records are valid. False, nothing is changed: the index is full. */
bool event_index_join(struct event_index *index, uint64_t offset, const struct event_frame *frame,
                      const struct event_summary *summary);
/* Adds a frame at the end of the index. False, nothing is changed: the index is full, or a record is
 * malformed or out of order. */
bool event_index_add(struct event_index *index, uint64_t offset, const struct event_frame *frame);
bool event_block_may_have(const struct event_block *block, uint32_t name_hash);
/* Sets `range`, `gaps`, `gap_to`, `gap_ms`, `end`. */
void event_segment_summarize(struct event_segment *segment, const struct event_index *index);

/* ---- footer ---- */

size_t event_footer_size(const struct event_index *index);
/* `out` has event_footer_size bytes. The file ends with them. */
void event_footer_encode(const struct event_segment *segment, const struct event_index *index,
                         uint8_t *out);
/* Sets all of `out` but `number` and `salt`, which the caller has set. `size`: of the file. False: no valid tail. */
bool event_tail_decode(const uint8_t bytes[EVENT_TAIL_BYTES], uint64_t size,
                       struct event_segment *out);
/* `bytes`: from segment->end to the end of the file. */
bool event_footer_decode(struct slice bytes, const struct event_segment *segment,
                         struct event_index *out);

#endif
