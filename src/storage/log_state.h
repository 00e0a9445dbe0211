/* The log in memory, and what its files share. Private to log_*.c.
 *
 * Memory does not grow with the number of entries: only every 64 KiB of records has a mark, and a
 * reader walks from there.
 *
 *   segments   oldest first: closed ones, then the one that is written (`active`), then prepared
 *              ones, which are empty
 *   marks      ascending by index and by place. A mark stands for the entries from its index up to
 *              the next mark's; they lie one behind the other in its segment, with nothing but
 *              control records between them
 *   spares     files that were segments, by number; what is in them means nothing
 *
 * Segments, marks, first and last change only under `guard`, and never while a disk is waited for,
 * so that log_read_beside need not wait for one either. */
#ifndef HOLDFAST_STORAGE_LOG_STATE_H
#define HOLDFAST_STORAGE_LOG_STATE_H

#include <pthread.h>

#include "base/memory.h"
#include "storage/log.h"
#include "storage/log_format.h"

#define LOG_SEGMENT_BYTES (16u << 20)
#define LOG_SEGMENT_MAX (1u << 30)
#define LOG_TEMPORARY "log.tmp" /* a segment in the making */

enum {
    LOG_MARK_BYTES = 64 << 10,
    LOG_FILL_STEP = 1 << 20, /* zeros written and synced by one call of log_prepare */
    LOG_SPARE_LIMIT = 4,
    LOG_BUFFER_KEPT = 1 << 20,    /* a larger buffer is given back after use */
    LOG_DIRECT_BYTES = 256 << 10, /* of one direct write */
};

struct log_mark {
    uint64_t index;
    uint64_t segment; /* its number */
    uint64_t bytes;   /* log->bytes when it was set */
    uint32_t offset;
};

struct log {
    struct disk *disk;
    struct log_options options;
    pthread_mutex_t guard;

    struct log_segment *segments;
    size_t segment_count;
    size_t segment_capacity;
    size_t active;
    uint64_t next_number;

    uint64_t *spares;
    size_t spare_count;
    size_t spare_capacity;
    struct disk_file *filling; /* LOG_TEMPORARY while it is filled with zeros */
    uint32_t filled;           /* synced so far */

    struct log_mark *marks;
    size_t mark_count;
    size_t mark_capacity;
    uint64_t first;
    uint64_t last;
    uint64_t bytes;            /* of entries, ever */
    uint64_t position_segment; /* number of the one with the newest record that says where we are */
    bool positioned;           /* first and last are known; see log_apply */
    bool anchored;             /* and first is final */
    bool interrupted;          /* the next entry needs a mark of its own */

    uint64_t chain; /* checksum of the newest record */
    bool sealed;    /* it is a seal, or there is none since the segment was copied */

    uint8_t *buffer;
    size_t buffer_size;

    uint8_t tail_block[DISK_BLOCK]; /* the active segment's last block, up to its tail */
    uint8_t *direct;                /* LOG_DIRECT_BYTES, where there are direct writes; or NULL */
    size_t begun;                   /* bytes of the records between log_begin and log_end, or 0 */

    struct log_dropped dropped; /* at opening; 0 bytes: nothing */

    struct problem broken; /* status is STORAGE_OK while all is well */
};

/* ---- log.c: the state ---- */

/* Takes over one record, at its place in a segment: the same when it is written and when it is read
 * again at opening. Says what is wrong with it, or NULL. */
const char *log_apply(struct log *log, const struct log_segment *segment, uint32_t offset,
                      const struct log_record *record);

/* The mark from which the entry is reached; it is in the log. */
size_t log_mark_of(const struct log *log, uint64_t index);

struct log_segment *log_segment_by_number(struct log *log, uint64_t number);
void log_segment_push(struct log *log, struct log_segment segment);
void log_segment_remove(struct log *log, size_t at);

/* At least that many bytes; and the end of using them. */
uint8_t *log_buffer(struct log *log, size_t size);
void log_buffer_done(struct log *log);

/* `bytes` were put behind each other in the active segment, and end at its tail. They begin with
 * its last block, or follow what is known of it. */
void log_remember_tail(struct log *log, const uint8_t *bytes, size_t len);

/* Remembers a failure that must not be the beginning of a limp, and passes it on. */
enum storage_status log_fail(struct log *log, enum storage_status status,
                             const struct problem *problem);
/* Before everything that writes; and nothing may while a direct write is under way. */
enum storage_status log_check_broken(const struct log *log, struct problem *problem);

void log_lock(struct log *log);
void log_unlock(struct log *log);

/* ---- log_direct.c: appends by direct writes ---- */

/* Makes the active segment ready for them, if it can be. */
void log_direct_prepare(struct log *log);
void log_direct_free(struct log *log);

/* ---- log_append.c ---- */

struct log_batch {
    uint64_t first;
    const struct log_entry *entries;
    size_t count;
};

/* How many of the entries from `from` on fit between `tail` and the end of a segment, with room for
 * a CLOSE behind them; and their size. */
size_t log_batch_fit(const struct log_batch *batch, size_t from, uint32_t tail,
                     uint32_t segment_size, size_t *bytes);
/* Encodes `n` entries for the active segment, and a CLOSE if more are to come. */
void log_batch_encode(const struct log *log, const struct log_batch *batch, size_t from, size_t n,
                      bool close, uint8_t *bytes);
/* Takes the records that were just made durable over into the state; with `close` the segment ends
 * with them. */
void log_apply_all(struct log *log, const uint8_t *bytes, size_t len, bool close);

/* ---- log_segments.c: the files ---- */

/* A segment that is to be made, with its number and salt, so that records can be encoded for it. */
struct log_segment log_segment_plan(struct log *log, uint64_t follows, uint32_t size);

/* Makes the planned segment out of a file that was written and synced once before. `image` starts
 * with room for the header and goes on with records up to segment->tail. When this returns, header
 * and records are durable and then the name is. Closes the file when it fails. */
enum storage_status log_segment_make(struct log *log, struct log_segment *segment,
                                     struct disk_file *file, uint8_t *image,
                                     struct problem *problem);

/* A spare of exactly that size, opened; else a new file, filled with zeros in one go, which is
 * `*blank`. */
enum storage_status log_segment_file(struct log *log, uint32_t size, struct disk_file **out,
                                     bool *blank, struct problem *problem);

/* Turns a file that is a segment into a spare, or removes it when there are enough; durably. */
enum storage_status log_segment_retire(struct log *log, const struct log_segment *segment,
                                       struct problem *problem);

void log_spare_push(struct log *log, uint64_t number);

/* A step towards one more prepared segment, whether there is one already or not. */
enum storage_status log_prepare_step(struct log *log, struct problem *problem);

/* ---- log_link.c: which segments there are ---- */

/* Files that another one has taken the place of; closed. */
struct log_leftovers {
    struct log_segment *list;
    size_t count;
    size_t capacity;
};

/* Opens the segments and puts them in order; lists the spares. */
enum storage_status log_find_segments(struct log *log, struct log_leftovers *leftovers,
                                      struct problem *problem);

/* ---- log_scan.c: reading a segment ---- */

struct log_scan {
    const struct log_segment *segment;
    const uint8_t *bytes; /* the whole file */
    uint32_t offset;      /* of the next record */
    uint64_t chain;
    bool chained; /* false: the first record may follow anything */
    bool closed;
};

/* The next record, and where it is. False at the end of what is valid, at scan->offset. */
bool log_scan_next(struct log_scan *scan, struct log_record *record, uint32_t *at);

/* What lies behind the last valid record. */
struct log_end {
    bool damaged; /* something shows that it was durable once; `why` says what */
    char why[120];
    uint32_t bytes;       /* of a write that was not finished; 0: nothing is left of one */
    uint64_t first, last; /* indexes of its entries that are legible; 0: none is */
};

/* At the end of what is valid; nothing in a segment that is closed. */
void log_scan_end(const struct log_scan *scan, struct log_end *end);

/* Whether a record of this segment lies anywhere in its bytes; where. */
bool log_scan_finds_record(const struct log_segment *segment, const uint8_t *bytes, uint32_t *at);

/* ---- log_tail.c: damage in the last write ---- */

/* Whether the record at scan->offset, which does not check, was written whole and changed later;
 * `why` says what shows it. */
bool log_tail_is_damage(const struct log_scan *scan, char *why, size_t why_size);

#endif
