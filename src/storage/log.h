/* The durable log of one node: raft entries by index, in segments of fixed size (S12.2, S12.3).
 *
 *   append     one write and one sync for the batch (two of each at the end of a segment); returns
 *              when it is durable. A batch that starts at or below the last index replaces
 *              everything from there on with the same write
 *   prepare    makes the next segment in advance, in steps of at most 1 MiB, on the same thread
 *              between two appends. `fill` is most of that work and may run in parallel to direct
 *              writes
 *   drop       gives up whole segments at the front, after a snapshot. They become spares, which
 *              prepare reuses without filling them
 *   read       entries by index, in pieces of bounded size, checked
 *   begin      first half of an append whose direct write the caller makes; `end` is the second
 *
 * After a power cut the log contains what was acknowledged, plus perhaps the beginning of the one
 * operation that was in progress. When log_open returns, all entries of the log are durable,
 * whatever was synced before (S12.2).
 *
 * STORAGE_FULL leaves the log unchanged, and the call may be repeated. Any other failure of a call
 * that writes breaks the log: it refuses further writes with the same problem and must be reopened.
 *
 * The log belongs to one thread at a time, except for log_read_beside and log_fill. It owns its
 * files; the disk must outlive it. */
#ifndef HOLDFAST_STORAGE_LOG_H
#define HOLDFAST_STORAGE_LOG_H

#include <stdbool.h>

#include "base/slice.h"
#include "storage/disk.h"

struct log;

struct log_options {
    uint32_t segment_bytes; /* of new segments, 0 for 16 MiB; a multiple of 4096, at least 8192 */
    uint32_t spare_limit;   /* segments kept for reuse, 0 for 4 */
    struct id store;        /* the owner, in the header of every file */
    uint64_t life;          /* higher at each opening, and already durable */
    bool create;            /* allow that no log exists yet */
    bool direct;            /* allow log_begin, if the disk supports it */
};

struct log_entry {
    uint64_t term;
    uint16_t type;
    struct slice data;
};

/* `*out` is freed with log_close, which writes nothing. */
enum storage_status log_open(struct disk *disk, const struct log_options *options, struct log **out,
                             struct problem *problem);
void log_close(struct log *log);

/* An unfinished write at the end that log_open left out. Its entries were never acknowledged,
 * unless damage looks like an unfinished write (log_tail.c). */
struct log_dropped {
    char segment[DISK_NAME_MAX + 1];
    uint32_t offset;
    uint32_t bytes;       /* of the remains */
    uint64_t first, last; /* indexes of the legible entries; 0: none */
};
/* NULL: nothing was dropped. */
const struct log_dropped *log_dropped(const struct log *log);

/* The entries are log_first to log_last; none when log_last is log_first - 1. */
uint64_t log_first(const struct log *log);
uint64_t log_last(const struct log *log);

/* Appends `count` >= 1 entries; the first gets index `first`, between log_first and log_last + 1.
 * An entry has at most LIMIT_ENTRY bytes and fits into a segment. */
enum storage_status log_append(struct log *log, uint64_t first, const struct log_entry *entries,
                               size_t count, struct problem *problem);

/* A direct write for the caller (storage/disk.h): whole blocks. The first one may begin with
 * durable bytes, which are written again unchanged. */
struct log_write {
    struct disk_file *file;
    uint64_t offset;
    const uint8_t *bytes; /* owned by the log; valid until log_end */
    size_t len;
};

/* log_append in two halves, without waiting. Until log_end is called with the result of the write
 * of `*out`, only log_read_beside may be called:
 *
 *   DONE             the entries are in the log
 *   AGAIN, NEVER     the log is unchanged; call log_append with the same entries before anything
 *   else, since it overwrites what may have been written
 *   FAILED           the log is broken
 *
 * False: nothing was begun, use log_append. So for a batch that is long or does not fit into the
 * segment. */
bool log_begin(struct log *log, uint64_t first, const struct log_entry *entries, size_t count,
               struct log_write *out);
void log_end(struct log *log, enum disk_direct how, const struct problem *problem);
/* Whether direct writes are enabled and the disk supports them. */
bool log_is_direct(const struct log *log);

/* Removes the entries from `index` on. */
enum storage_status log_truncate(struct log *log, uint64_t index, struct problem *problem);

/* Removes all entries; the next one gets `index` + 1. Called when an installed snapshot at `index`
 * is durable. */
enum storage_status log_reset(struct log *log, uint64_t index, uint64_t term,
                              struct problem *problem);

/* Allows the log to drop the entries before `index`, at most log_last + 1. It drops whole segments,
 * so log_first may stay lower. */
enum storage_status log_drop_before(struct log *log, uint64_t index, struct problem *problem);

/* Writes and syncs one small record after the last batch, if there is none. Damage in the last
 * batch can look like a torn write and is then dropped; in a sealed log it is reported. Called at a
 * clean stop and when the log is idle. */
enum storage_status log_seal(struct log *log, struct problem *problem);
bool log_wants_seal(const struct log *log);

/* No segment is prepared for when the current one is full. An append that needs one makes it
 * itself, and blocks. */
bool log_wants_prepare(const struct log *log);
/* One step; repeat while log_wants_prepare. */
enum storage_status log_prepare(struct log *log, struct problem *problem);
/* The steps of log_prepare that fill a new file. They touch no part of the log, so the thread that
 * calls log_prepare may call this while another one uses log_begin and log_end. A failure does not
 * break the log. */
bool log_wants_fill(struct log *log);
enum storage_status log_fill(struct log *log, struct problem *problem);

/* Bytes of the entries from `index` on, within 64 KiB. Decides when a snapshot is due (S12.5). */
uint64_t log_bytes_from(const struct log *log, uint64_t index);
/* Of all files of the log. */
uint64_t log_bytes_on_disk(const struct log *log);

/* Entries in order, in one block of memory. */
struct log_piece {
    uint64_t first; /* index of entries[0] */
    struct log_entry *entries;
    size_t count;
    size_t block_size; /* private */
};

/* Reads from `index`, which must be in the log, up to `last` or the end: at least one entry, then
 * as many as keep their data within `max_bytes`. Freed with log_piece_free. */
enum storage_status log_read(struct log *log, uint64_t index, uint64_t last, size_t max_bytes,
                             struct log_piece *out, struct problem *problem);
/* The same from a second thread, at any time, without waiting for a write or sync. STORAGE_MISSING
 * when the index is not in the log. */
enum storage_status log_read_beside(struct log *log, uint64_t index, size_t max_bytes,
                                    struct log_piece *out, struct problem *problem);
void log_piece_free(struct log_piece *piece);

enum storage_status log_term(struct log *log, uint64_t index, uint64_t *term,
                             struct problem *problem);

#endif
