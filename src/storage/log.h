/* The durable log of one node: raft entries by index, in segments of fixed size (S12.2, S12.3).
 *
 *   append     one write and one sync for the whole batch (two of each when it crosses the end of a
 *              segment); returns when it is durable. A batch that starts at or below the last index
 *              replaces everything from there on: a conflict is resolved by the same single write,
 *              so there is no moment at which the old suffix is gone and the new one not there
 *   prepare    makes the next segment ahead of need, in steps of at most a megabyte, on the same
 *              thread between two appends; `fill`, which is nearly all of it, may be done beside
 *              appends whose writes somebody else makes
 *   drop       gives up whole segments at the front, after a snapshot; they become spares, which
 *              prepare uses again without filling them
 *   read       entries by index, in pieces of bounded size, checked
 *   begin      the first half of an append, whose write somebody else makes; then `end`
 *
 * After a power cut at any point the log is what was acknowledged, plus perhaps the beginning of
 * the one operation that was under way; each is a state that raft allows. What log_open has
 * returned is durable, whatever was synced before it (S12.2).
 *
 * STORAGE_FULL leaves the log as it was, and the call may be repeated. Any other failure of a call
 * that writes breaks the log: it then refuses all further ones with the same problem, and opening
 * it anew is the only safe way on.
 *
 * The log belongs to one thread at a time, save for log_read_beside and log_fill. It owns its
 * files; the disk must outlive it. */
#ifndef HOLDFAST_STORAGE_LOG_H
#define HOLDFAST_STORAGE_LOG_H

#include <stdbool.h>

#include "base/slice.h"
#include "storage/disk.h"

struct log;

struct log_options {
    uint32_t segment_bytes; /* of new segments, 0 for 16 MiB; a multiple of 4096, at least 8192 */
    uint32_t spare_limit;   /* segments kept for later use, 0 for 4 */
    struct id store;        /* every file says to whom it belongs */
    uint64_t life;          /* higher at each opening, and durable already */
    bool create;            /* whether there may be no log yet */
    bool direct;            /* log_begin may be used, if the disk can */
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

/* A write at the end of the log that was not finished when the process ended, and that log_open
 * left out. Nobody was told that its entries are durable, unless they were damaged in a way that
 * cannot be told from an unfinished write (log_tail.c). */
struct log_dropped {
    char segment[DISK_NAME_MAX + 1];
    uint32_t offset;
    uint32_t bytes;       /* as far as there is something left of it */
    uint64_t first, last; /* indexes of its entries, as far as they are legible; 0: none is */
};
/* NULL: nothing was dropped. */
const struct log_dropped *log_dropped(const struct log *log);

/* The entries are log_first to log_last; none when log_last is log_first - 1. */
uint64_t log_first(const struct log *log);
uint64_t log_last(const struct log *log);

/* Appends `count` >= 1 entries, the first of which gets index `first`, between log_first and
 * log_last + 1. An entry has at most LIMIT_ENTRY bytes and fits into a segment. */
enum storage_status log_append(struct log *log, uint64_t first, const struct log_entry *entries,
                               size_t count, struct problem *problem);

/* What is to be written for log_begin, as storage/disk.h says of direct writes: whole blocks, the
 * first of which begins with bytes that are durable already, and are written again as they are. */
struct log_write {
    struct disk_file *file;
    uint64_t offset;
    const uint8_t *bytes; /* the log's; they stay until log_end */
    size_t len;
};

/* log_append without waiting, in two halves. The first lays the entries out; nobody must touch the
 * log, but for log_read_beside, until log_end is told how the write of `*out` went:
 *
 *   DONE             the entries are in the log
 *   AGAIN, NEVER     it is as it was; log_append, which writes over what may have been written, is
 *                    to be called with the same entries, before anything else
 *   FAILED           it is broken
 *
 * False: this way is not open to this batch, and nothing was begun; log_append is. So it is with
 * one that does not fit into the segment, or is long. */
bool log_begin(struct log *log, uint64_t first, const struct log_entry *entries, size_t count,
               struct log_write *out);
void log_end(struct log *log, enum disk_direct how, const struct problem *problem);
/* Whether there are direct writes at all: as it was asked for, and the disk can. */
bool log_is_direct(const struct log *log);

/* Removes the entries from `index` on. */
enum storage_status log_truncate(struct log *log, uint64_t index, struct problem *problem);

/* Removes all entries; the next one gets `index` + 1. For a snapshot at `index`, durable already,
 * that was installed. */
enum storage_status log_reset(struct log *log, uint64_t index, uint64_t term,
                              struct problem *problem);

/* Allows the log to forget the entries before `index`, at most log_last + 1. It forgets whole
 * segments only, so log_first may stay lower. */
enum storage_status log_drop_before(struct log *log, uint64_t index, struct problem *problem);

/* Damage in the last batch cannot always be told from a write that the power cut, and is dropped
 * then. Sealing (a write and a sync of one small record) makes it damage that is named. For a clean
 * stop and for when nothing has come for a while; does nothing when it is done already. */
enum storage_status log_seal(struct log *log, struct problem *problem);
bool log_wants_seal(const struct log *log);

/* Whether there is no segment ready for when the current one is full. An append that needs one then
 * makes it itself, and waits. */
bool log_wants_prepare(const struct log *log);
/* One step towards it; to be repeated while log_wants_prepare. */
enum storage_status log_prepare(struct log *log, struct problem *problem);
/* The steps of it that fill a new file. They touch nothing that is a part of the log, so the thread
 * that calls log_prepare may call this while another one is between log_begin and log_end, or calls
 * them. A failure does not break the log. */
bool log_wants_fill(struct log *log);
enum storage_status log_fill(struct log *log, struct problem *problem);

/* What the entries from `index` on take in the files, to within 64 KiB: decides when a snapshot is
 * due (S12.5). */
uint64_t log_bytes_from(const struct log *log, uint64_t index);
/* What all files of the log take. */
uint64_t log_bytes_on_disk(const struct log *log);

/* Entries in order, in one block of memory. */
struct log_piece {
    uint64_t first; /* index of entries[0] */
    struct log_entry *entries;
    size_t count;
    size_t block_size; /* private */
};

/* Reads from `index`, which must be in the log, up to `last` or the end: at least one entry, then
 * as many as keep the sum of their data within `max_bytes`. Freed with log_piece_free. */
enum storage_status log_read(struct log *log, uint64_t index, uint64_t last, size_t max_bytes,
                             struct log_piece *out, struct problem *problem);
/* The same from a second thread, at any time: does not wait for a write or a sync that the first
 * one has under way. STORAGE_MISSING when the index is not in the log. */
enum storage_status log_read_beside(struct log *log, uint64_t index, size_t max_bytes,
                                    struct log_piece *out, struct problem *problem);
void log_piece_free(struct log_piece *piece);

/* The term of one entry. */
enum storage_status log_term(struct log *log, uint64_t index, uint64_t *term,
                             struct problem *problem);

#endif
