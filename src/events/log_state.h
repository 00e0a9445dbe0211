/* The event log in memory: what the files of events/ share, and nothing else includes.
 *
 *   intake   the loop's: the buffer, and what was appended. A ring; the loop moves `head`, the writer `tail`
 *            (while the writer pauses, the loop may move both to the first byte)
 *   shared   both; under `lock`, which is never held during a system call
 *   writer   the thread's
 *   files    the list of segments; under `files.lock`, which is never held while a file is used
 */
#ifndef HOLDFAST_EVENTS_LOG_STATE_H
#define HOLDFAST_EVENTS_LOG_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "events/event_log.h"
#include "events/segment.h"
#include "storage/disk.h"

enum {
    EVENT_BUFFER_BYTES = 8 << 20,
    EVENT_BUFFER_MIN = 32 << 10,
    EVENT_SEGMENT_MIN = 64 << 10,
    EVENT_SEGMENTS = 4096,       /* most files */
    EVENT_NUMBER_STEP = 1 << 16, /* between two segments, so that others fit in between */
    EVENT_OUT_FRAMES = 8,        /* written together */
    EVENT_OUT_BYTES = 4 * EVENT_FRAME_MAX,
    EVENT_BATCH_BYTES = 256 << 10, /* in the buffer: enough to write before EVENT_BATCH_MS */
    EVENT_BATCH_MS = 100,          /* between two looks at the buffer */
    EVENT_RETRY_MS = 1000,         /* after the disk failed */
    EVENT_QUIET_MS = 1000,         /* between two frames without records */
    EVENT_LOOK_MS = 1000,          /* for old segments, and what is covered without records */
    EVENT_FILE_NAME = 20 + 7 + 1,  /* NUMBER.events, with the NUL */
};

/* One item of the buffer, in front of its bytes. Items are multiples of 8 bytes. */
enum event_item_kind {
    EVENT_ITEM_RECORD, /* its position, so that the writer need not decode it; then its bytes */
    EVENT_ITEM_WRAP,   /* nothing more up to the end of the buffer */
    EVENT_ITEM_GAP,    /* struct event_item_gap */
};

struct event_item {
    uint32_t size; /* of the bytes that follow */
    uint32_t kind;
};

/* Everything up to `covered` is in the items before. The entries (covered, to] have no items. */
struct event_item_gap {
    uint64_t covered;
    uint64_t covered_ms;
    uint64_t to;
    uint64_t to_ms;
};

struct event_intake {
    uint8_t *bytes;
    size_t size;
    uint64_t head;         /* counts bytes since the start, as the following two */
    uint64_t published;    /* of complete entries: what the writer may take */
    _Atomic uint64_t tail; /* written by the writer only */
    uint64_t covered;
    uint64_t covered_ms;
    struct event_position last; /* nothing up to it is new */
    struct event_id newest;     /* for records without an id of their own */
    struct event_id newest_event;
    uint64_t audit_index; /* of the audit records that were counted last */
    uint32_t audit_count;
    uint32_t pending; /* records after `published` */
    bool is_losing;   /* what is appended is dropped until a gap was put into the buffer */
    uint64_t dropped; /* not yet in `shared` */
};

struct event_shared {
    uint64_t published;
    uint64_t to;
    uint64_t to_ms;
    uint64_t dropped;
    struct event_id newest;
    bool sleeps; /* the writer waits for records */
    bool rests;  /* ... for the time of the next look, or `enough` bytes */
    uint64_t enough;
    bool is_urgent; /* write now */
    bool stop;
};

/* A frame in `out` that was not written yet. */
struct event_waiting_frame {
    struct event_frame frame;
    struct event_summary summary;
    uint64_t at;   /* the end of its items in the buffer */
    bool is_split; /* its last entry continues in the next frame */
};

struct event_writer {
    pthread_t thread;
    bool has_thread;
    struct disk_file *file; /* of `segment`; NULL: none is open */
    struct event_segment segment;
    bool is_listed;
    bool is_split;       /* the last entry that was written continues in the next frame */
    uint64_t opened_ms;  /* wall clock */
    uint64_t covered;    /* by frames in files */
    uint64_t covered_ms; /* wall clock of that entry */
    uint64_t written_ms; /* monotonic: when the last frame was */
    uint64_t last_number;
    uint8_t *out;       /* EVENT_OUT_BYTES: the waiting frames, then the one that is being filled */
    uint32_t out_bytes; /* of the waiting frames */
    uint32_t waiting;
    struct event_waiting_frame frames[EVENT_OUT_FRAMES];
    uint32_t frame_length; /* of the one that is being filled, as the following two */
    uint32_t frame_count;
    struct event_summary summary;
    bool has_failed;  /* the last attempt */
    uint8_t *scratch; /* EVENT_SCRATCH bytes */
};

struct event_files {
    pthread_mutex_t lock;
    pthread_cond_t changed;         /* `covered`, or the list */
    struct event_segment *segments; /* by number */
    uint32_t count;
    uint32_t capacity;
    struct event_index *index; /* of the last segment, unless it is closed */
    uint64_t covered;          /* what readers may know: everything up to it is in the files */
    uint64_t covered_ms;
    uint64_t appended;
    uint64_t damaged_to; /* the newest entry of a gap that a reader found */
    uint64_t damaged_ms;
    uint64_t damages;
    bool disk_full;
};

struct event_log {
    struct event_log_options options;
    const struct memory *memory;
    struct disk *disk;
    struct disk *own_disk;
    struct event_intake intake;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct event_shared shared;
    struct event_writer writer;
    struct event_files files;
    pthread_mutex_t listeners_lock;
    struct {
        event_log_notify_fn fn;
        void *ctx;
    } listeners[EVENT_LOG_LISTENERS];
};

uint64_t event_log_monotonic_ms(void);
void event_log_deadline(uint32_t ms, struct timespec *out); /* CLOCK_MONOTONIC */
void event_file_name(uint64_t number, char out[EVENT_FILE_NAME]);

/* ---- open.c ---- */

/* Fills `files`, and sets what continues from them in `intake` and `writer`. */
bool event_log_recover(struct event_log *log, struct problem *problem);

/* ---- writer.c ---- */

void *event_writer_run(void *log);
/* `is_last`: at the end, what is covered without records is written, too. */
void event_writer_write(struct event_log *log, bool is_last);

/* ---- files.c ---- */

/* Adds the segment at its place by number. */
void event_files_add(struct event_log *log, const struct event_segment *segment);
/* The next segment with a number of at least `number`, or at most, if `backward`. If it is open, copies
 * its blocks from number `from_block` on to `index`, unless NULL. False: none. */
bool event_files_find(struct event_log *log, uint64_t number, bool backward, uint32_t from_block,
                      struct event_segment *out, struct event_index *index);
/* A reader found that the entries (from, to] of a block are not readable. */
void event_files_note_damage(struct event_log *log, uint64_t to, uint64_t to_ms);
/* Reads the index of a segment from its footer, or from its frames if that is damaged. It has no blocks
 * if there is no valid frame. `scratch`: EVENT_SCRATCH bytes. */
bool event_files_load_index(const struct event_segment *segment, struct disk_file *file,
                            uint8_t *scratch, struct event_index *out, struct problem *problem);
/* The valid frames from the start of the file on. Sets range and end of `segment`. */
bool event_files_scan(struct event_segment *segment, struct disk_file *file, uint8_t *scratch,
                      struct event_index *out, struct problem *problem);

#define EVENT_SCRATCH (EVENT_SEGMENT_BLOCKS * EVENT_BLOCK_ENTRY + EVENT_TAIL_BYTES)
_Static_assert(EVENT_SCRATCH >= EVENT_BLOCK_MAX, "for frames and footers");

#endif
