/* The log in memory, and what its files share. Private to log_*.c.
 *
 * Memory does not grow with the entries: there is one mark per 64 KiB of records, and a reader
 * scans from there.
 *
 *   segments   oldest first: closed ones, then the one that is written (`active`), then prepared
 *              ones, which are empty
 *   marks      ascending by index and by place. A mark represents the entries from its index up to
 *              the next mark's; they are consecutive in its segment, apart from control records
 *   spares     files that were segments, by number; their content is ignored
 *
 * Segments, marks, first and last change only under `guard`, which is never held during disk I/O.
 * So log_read_beside does not wait for the disk. */
#ifndef HOLDFAST_STORAGE_LOG_STATE_H
#define HOLDFAST_STORAGE_LOG_STATE_H

#include <pthread.h>

#include "base/memory.h"
#include "storage/log.h"
#include "storage/log_format.h"

#define LOG_SEGMENT_BYTES (16u << 20)
#define LOG_SEGMENT_MAX (1u << 30)
#define LOG_TEMPORARY "log.tmp" /* a segment that is being made */

enum {
    LOG_MARK_BYTES = 64 << 10,
    LOG_FILL_STEP = 1 << 20, /* zeros written and synced by one call of log_prepare */
    LOG_SPARE_LIMIT = 4,
    LOG_BUFFER_KEPT = 1 << 20,    /* a larger buffer is freed after use */
    LOG_DIRECT_BYTES = 256 << 10, /* size limit of one direct write */
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
    uint32_t filled;           /* bytes synced so far */

    struct log_mark *marks;
    size_t mark_count;
    size_t mark_capacity;
    uint64_t first;
    uint64_t last;
    uint64_t bytes;            /* of all entries ever appended */
    uint64_t position_segment; /* of the segment whose record defines first and last */
    bool positioned;           /* first and last are known; see log_apply */
    bool anchored;             /* first is final */
    bool interrupted;          /* the next entry needs its own mark */

    uint64_t chain; /* checksum of the newest record */
    bool sealed;    /* the newest record is a seal, or there is none since the segment was copied */

    uint8_t *buffer;
    size_t buffer_size;

    uint8_t tail_block[DISK_BLOCK]; /* the active segment's last block, up to its tail */
    uint8_t *direct;                /* LOG_DIRECT_BYTES when direct writes are in use; or NULL */
    size_t begun;                   /* bytes of the records between log_begin and log_end, or 0 */

    struct log_dropped dropped; /* at opening; 0 bytes: nothing */

    struct problem broken; /* STORAGE_OK: not broken */
};

/* ---- log.c: the state ---- */

/* Applies one record at its place in a segment, after a write and at opening. Returns what is wrong
 * with it, or NULL. */
const char *log_apply(struct log *log, const struct log_segment *segment, uint32_t offset,
                      const struct log_record *record);

/* The mark from which the entry, which must be in the log, is reached. */
size_t log_mark_of(const struct log *log, uint64_t index);

struct log_segment *log_segment_by_number(struct log *log, uint64_t number);
void log_segment_push(struct log *log, struct log_segment segment);
void log_segment_remove(struct log *log, size_t at);

/* At least `size` bytes; log_buffer_done ends their use. */
uint8_t *log_buffer(struct log *log, size_t size);
void log_buffer_done(struct log *log);

/* The `bytes` were written to the active segment and end at its tail; they begin with its last
 * block, or follow its known part. */
void log_remember_tail(struct log *log, const uint8_t *bytes, size_t len);

/* Breaks the log if `status` is not STORAGE_OK, and returns the status. Later writes fail with the
 * first problem. */
enum storage_status log_fail(struct log *log, enum storage_status status,
                             const struct problem *problem);
/* Before each write; asserts that no direct write is in flight. */
enum storage_status log_check_broken(const struct log *log, struct problem *problem);

void log_lock(struct log *log);
void log_unlock(struct log *log);

/* ---- log_direct.c: appends by direct writes ---- */

/* If the disk supports them. */
void log_direct_prepare(struct log *log);
void log_direct_free(struct log *log);

/* ---- log_append.c ---- */

struct log_batch {
    uint64_t first;
    const struct log_entry *entries;
    size_t count;
};

/* How many entries from `from` on fit between `tail` and the end of a segment, with space for a
 * CLOSE; `*bytes` is their size. */
size_t log_batch_fit(const struct log_batch *batch, size_t from, uint32_t tail,
                     uint32_t segment_size, size_t *bytes);
/* For the active segment; with a CLOSE if more follow. */
void log_batch_encode(const struct log *log, const struct log_batch *batch, size_t from, size_t n,
                      bool close, uint8_t *bytes);
/* The records are durable; with `close` they end the segment. */
void log_apply_all(struct log *log, const uint8_t *bytes, size_t len, bool close);

/* ---- log_segments.c: the files ---- */

/* With number and salt, so that records can be encoded for it. */
struct log_segment log_segment_plan(struct log *log, uint64_t follows, uint32_t size);

/* Makes the planned segment out of a file that was written and synced. `image` starts with space
 * for the header and continues with records up to segment->tail. Header, records and name are then
 * durable. Closes the file when it fails. */
enum storage_status log_segment_make(struct log *log, struct log_segment *segment,
                                     struct disk_file *file, uint8_t *image,
                                     struct problem *problem);

/* A spare of exactly that size; else a new file, filled with zeros at once, and `*blank` is set. */
enum storage_status log_segment_file(struct log *log, uint32_t size, struct disk_file **out,
                                     bool *blank, struct problem *problem);

/* Durably turns a segment's file into a spare, or removes it when there are enough. */
enum storage_status log_segment_retire(struct log *log, const struct log_segment *segment,
                                       struct problem *problem);

void log_spare_push(struct log *log, uint64_t number);

/* Towards one more prepared segment, even if one exists. */
enum storage_status log_prepare_step(struct log *log, struct problem *problem);

/* ---- log_link.c: finding the segments ---- */

/* Segments that were replaced; their files are closed. */
struct log_leftovers {
    struct log_segment *list;
    size_t count;
    size_t capacity;
};

/* Opens and orders the segments; lists the spares. */
enum storage_status log_find_segments(struct log *log, struct log_leftovers *leftovers,
                                      struct problem *problem);

/* ---- log_scan.c: reading a segment ---- */

struct log_scan {
    const struct log_segment *segment;
    const uint8_t *bytes; /* the whole file */
    uint32_t offset;      /* of the next record */
    uint64_t chain;
    bool chained; /* false: the first record may follow any other */
    bool closed;
};

/* The next record and its offset. False at the end of the valid records, at scan->offset. */
bool log_scan_next(struct log_scan *scan, struct log_record *record, uint32_t *at);

/* What follows the last valid record. */
struct log_end {
    bool damaged; /* it was durable once; `why` explains */
    char why[120];
    uint32_t bytes;       /* of an unfinished write; 0: nothing is left of one */
    uint64_t first, last; /* indexes of its legible entries; 0: none */
};

/* At the end of the valid records. Empty for a closed segment. */
void log_scan_end(const struct log_scan *scan, struct log_end *end);

/* Whether a record of this segment exists in its bytes, and where. */
bool log_scan_finds_record(const struct log_segment *segment, const uint8_t *bytes, uint32_t *at);

/* ---- log_tail.c: damage in the last write ---- */

/* Whether the invalid record at scan->offset was written completely and changed later; `why` is the
 * evidence. */
bool log_tail_is_damage(const struct log_scan *scan, char *why, size_t why_size);

#endif
