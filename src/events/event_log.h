/* The event log: what a node applied, on its disk, for history, audit search, watches that resume, and
 * sinks. Nothing of it is in the replicated state, and no answer to a command waits for it.
 *
 *      loop ──event_log_append──▶ buffer ──▶ writer thread ──▶ segments ──▶ readers, on any thread
 *                                (bounded)                        │
 *                                                                 └──▶ notification
 *
 * Content: every event of the tier CORRECTNESS, every audit record, and on the leader the events of the
 * tier EFFICIENCY. The latter are lossy: only the node that led has them, some may be missing, and
 * they carry the id of the newest event of the tier CORRECTNESS.
 *
 * Files: DATA/events/NUMBER.events, each a header, frames, and after it is full a footer (segment.h).
 * A frame holds the records of some milliseconds, its length and checksum, and the log entries that it
 * covers: (from, to]. No fsync. Frames whose ranges do not join show a gap, whatever caused it (buffer
 * full, disk full, snapshot installed, tail lost in a power cut), so a gap cannot pass unnoticed and
 * an entry without events is not one. After a restart the node applies entries again; records that are
 * in the log are not written twice.
 *
 * Limits: the oldest segments are removed above `max_bytes` and `max_age_ms`. If the buffer is full,
 * events are dropped, counted, and their entries are a gap. The loop never waits.
 *
 * Threads: functions under "loop" are for the node's event loop. Cursors and scans (event_scan.h) may
 * be used on any thread, each by one thread at a time; they read files, so not on the loop. */
#ifndef HOLDFAST_EVENTS_EVENT_LOG_H
#define HOLDFAST_EVENTS_EVENT_LOG_H

#include "base/memory.h"
#include "core/event.h"
#include "core/view.h"
#include "events/event_id.h"
#include "storage/disk.h"

struct event_log;

struct event_log_options {
    const struct memory *memory; /* thread-safe */
    const char *path;            /* the folder; created if needed */
    struct disk *disk;           /* used instead of `path`, if not NULL; tests */
    struct id cluster;           /* files of another cluster are removed */
    uint64_t node;
    uint64_t max_bytes;
    uint64_t max_age_ms;
    size_t buffer_bytes;  /* 0: 8 MiB */
    size_t segment_bytes; /* 0: by max_bytes, at most 16 MiB */
    bool by_hand;         /* no thread: event_log_write does its work; tests */
    void *ctx;
    uint64_t (*wall_ms)(void *ctx); /* any thread */
};

/* Reads headers, verifies the newest segment and cuts off its invalid end. NULL: the folder cannot be
 * used; the node runs without event log. */
struct event_log *event_log_open(const struct event_log_options *options, struct problem *problem);
/* Writes what is buffered, ends the thread. Cursors and scans must be closed before. Takes NULL. */
void event_log_close(struct event_log *log);

/* ---- loop: no allocation, no disk; at most 100 short system calls a second ---- */

/* In the order in which they were applied; audit records of an entry after its events. `version`: of the
 * state. An event of the tier EFFICIENCY gets its id here. Known events are ignored. */
void event_log_append(struct event_log *log, const struct event *event, uint32_t version);
void event_log_append_audit(struct event_log *log, const struct audit_view *record);
/* Every record of the entries up to `index` was appended. Once per iteration of the loop, also after
 * events of the tier EFFICIENCY without an entry. What is appended is written only after it. */
void event_log_applied(struct event_log *log, uint64_t index, uint64_t wall_ms);
/* The state up to `index` was loaded without its events: at the start, or a snapshot installed. */
void event_log_skipped(struct event_log *log, uint64_t index, uint64_t wall_ms);

struct event_log_stats {
    uint64_t appended; /* records written to files, since start */
    uint64_t dropped;  /* records lost since start: buffer full, or the disk refused */
    uint64_t bytes;    /* of all files */
    uint64_t max_bytes;
    uint64_t segments;
    uint64_t gaps;      /* in the log now */
    uint64_t oldest_ms; /* wall clock: of the oldest record; 0: empty */
    uint64_t
        complete_since_ms;   /* wall clock: no gap from here to now; 0: from the cluster's begin */
    uint64_t first_index;    /* entries after this one are in the log, apart from gaps */
    uint64_t complete_index; /* entries after this one are in the log without a gap */
    uint64_t last_index;     /* up to this one */
    struct event_id newest;  /* of the tier CORRECTNESS; {0, 0}: none */
    bool disk_full;          /* the last write failed */
};
void event_log_stats(struct event_log *log, struct event_log_stats *out);

/* ---- any thread ---- */

/* `fn` is called on the writer thread after records became readable; it may only signal another thread
 * (eventfd, condition). At most EVENT_LOG_LISTENERS. */
#define EVENT_LOG_LISTENERS 16
typedef void (*event_log_notify_fn)(void *ctx);
void event_log_listen(struct event_log *log, event_log_notify_fn fn, void *ctx);
void event_log_unlisten(struct event_log *log, event_log_notify_fn fn, void *ctx);

enum logged_kind { LOGGED_EVENT = 1, LOGGED_AUDIT = 2 };

/* `id`: its own; of an audit record and of the tier EFFICIENCY, of the newest event before it (an audit
 * record has its own number in its tenant). */
struct logged_event {
    enum logged_kind kind;
    struct event_id id;
    union {
        struct event event; /* tier EFFICIENCY: lossy */
        struct audit_view audit;
    };
};

enum event_read {
    EVENT_READ_RECORD, /* `record` */
    EVENT_READ_GAP, /* `gap_from`, `gap_to`: no events of the entries (gap_from, gap_to] are here */
    EVENT_READ_END, /* all that is written was read; try again when notified */
    EVENT_READ_MORE,   /* a bounded amount of work was done without a result: call again */
    EVENT_READ_FAILED, /* `problem`; the cursor can only be closed */
};

struct event_step {
    struct logged_event record; /* slices are valid until the next call */
    uint64_t gap_from;
    uint64_t gap_to;
    struct problem problem;
};

/* Oldest first, from the first record after `after` ({0, 0}: from the oldest). Audit records that carry
 * the id `after` are read again. If the log begins later, or has a gap there, the first step is a gap.
 * A cursor that falls behind the removal of segments gets a gap, too. */
struct event_cursor;
struct event_cursor *event_cursor_open(struct event_log *log, struct event_id after);
enum event_read event_cursor_next(struct event_cursor *cursor, struct event_step *out);
void event_cursor_close(struct event_cursor *cursor);

/* Does the work of the thread once (by_hand). */
void event_log_write(struct event_log *log);

#endif
