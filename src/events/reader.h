/* Reads segments block by block, for cursors and scans. One thread. */
#ifndef HOLDFAST_EVENTS_READER_H
#define HOLDFAST_EVENTS_READER_H

#include "events/log_state.h"

/* As many as fit into a block. */
enum { EVENT_BLOCK_RECORDS = EVENT_BLOCK_MAX / (EVENT_RECORD_HEAD + 5) };

struct event_reader {
    struct event_log *log;
    struct disk_file *file; /* of `segment`; NULL: it cannot be opened, so it has no blocks */
    struct event_segment segment;
    struct event_index index;
    uint32_t records[EVENT_BLOCK_RECORDS]; /* offsets in `bytes` */
    uint32_t count;
    uint64_t from; /* covered by the frames that were read, (from, to]; both 0: none was valid */
    uint64_t to;
    uint64_t to_ms;
    uint64_t work; /* bytes read since the caller reset it */
    uint8_t bytes[EVENT_BLOCK_MAX];
    uint8_t scratch[EVENT_SCRATCH];
};

void event_reader_init(struct event_reader *r, struct event_log *log);
void event_reader_close(struct event_reader *r);

enum event_reading { EVENT_READING_DONE, EVENT_READING_NONE, EVENT_READING_FAILED };

/* Opens the next segment with a number of at least `number`, or at most, if `backward`. A file that is
 * gone is a segment without blocks. NONE: there is no such segment; nothing is changed. */
enum event_reading event_reader_open(struct event_reader *r, uint64_t number, bool backward,
                                     struct problem *problem);
/* What was written since to the open segment: blocks from number `from_block` on. */
enum event_reading event_reader_refresh(struct event_reader *r, uint32_t from_block,
                                        struct problem *problem);
/* Reads a block from `offset` in the file on: fills `records`, `from`, `to`. Stops at damage, which leaves
 * `to` before the end of the block. */
bool event_reader_load(struct event_reader *r, uint32_t block, uint64_t offset,
                       struct problem *problem);
/* A record of the loaded block. */
struct event_record event_reader_record(const struct event_reader *r, uint32_t i);

#endif
