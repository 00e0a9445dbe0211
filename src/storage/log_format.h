/* The on-disk format of the log: segments and records, and what makes a record valid.
 *
 * A segment is a file of fixed size: one page of header, then records, each at a multiple of 8,
 * then the old content: zeros in a new file, old records in a recycled one.
 *
 *   header   checksum of the page, "HOLDFLOG", version, size of the file, store id, number of the
 *            segment, number of the segment that it follows (0: it is the first), life, sealed,
 *            blank (1: the file held zeros; 0: it was recycled, or an older version made it)
 *   record   checksum, length, kind, type, index, term, checksum of the record before, start of its
 *            batch, salt; then the payload, padded with zeros to a multiple of 8
 *
 * The header is durable before the file gets the name of a segment, and is not written again. The
 * offsets of checksum, magic and version are the same in all versions.
 *
 * A record is valid when:
 *
 *   - Its checksum matches. It covers header and payload and is seeded by the segment's salt: store
 *     id, segment number and life. The life rises with every opening, durably (storage/store.c). So
 *     no file gets the same salt twice, and old records in a recycled file are never valid.
 *   - It contains the checksum of the record before it, also across segments. So a record left by a
 *     failed write does not follow one that overwrote its beginning, and a lost, duplicated or
 *     misplaced segment is detected.
 *
 * An append is not acknowledged before its sync. So every byte before the start of a record's batch
 * was durable when that record was written (used by log_scan.c). `sealed` extends this to a copied
 * segment: the bytes before it were durable before the file got its name. */
#ifndef HOLDFAST_STORAGE_LOG_FORMAT_H
#define HOLDFAST_STORAGE_LOG_FORMAT_H

#include <stdbool.h>

#include "base/slice.h"
#include "storage/bytes.h"
#include "storage/problem.h"

enum {
    LOG_FORMAT_VERSION = 1,
    LOG_PAGE = 4096,  /* the header; records start after it */
    LOG_RECORD = 48,  /* the header of a record */
    LOG_LENGTH = 8,   /* offset of the length in it, 4 bytes */
    LOG_NAME_MAX = 40 /* of a segment's file name, with the NUL */
};

enum log_kind {
    LOG_ENTRY = 1, /* becomes the last entry, and removes those from its index on */
    LOG_TRUNCATE,  /* removes the entries from its index on */
    LOG_RESET,     /* removes all entries; the next one has its index + 1. Its term is the
                      snapshot's */
    LOG_SEAL,      /* changes nothing; proves that the bytes before it were durable */
    LOG_CLOSE,     /* the last record of a segment: the log continues in the next one */
};

struct log_segment {
    uint64_t number;
    uint64_t follows;
    uint64_t life;
    uint64_t salt;
    uint32_t size;
    uint32_t sealed;
    uint32_t tail; /* offset of the next record */
    bool blank;    /* bytes without a record are zeros */
    bool direct;   /* the file is prepared for direct writes */
    struct disk_file *file;
};

struct log_record {
    enum log_kind kind;
    uint16_t type;
    uint64_t index;
    uint64_t term;
    uint64_t before;   /* checksum of the record before */
    uint64_t checksum; /* of this one */
    uint32_t batch;    /* offset of the start of its batch in the segment */
    uint32_t size;     /* with header and padding */
    struct slice payload;
};

static inline size_t log_record_size(size_t payload_len)
{
    return LOG_RECORD + round_up_8(payload_len);
}

/* Also sets the salt. `page` has LOG_PAGE bytes. */
void log_segment_encode(struct log_segment *segment, struct id store, uint8_t *page);

/* `file_size` is that of the whole file. */
enum storage_status log_segment_decode(struct log_segment *segment, struct id store,
                                       uint64_t number, const char *name, const uint8_t *page,
                                       uint64_t file_size, struct problem *problem);

/* Returns the checksum. `record->checksum` and `size` are not used. */
uint64_t log_record_encode(const struct log_segment *segment, const struct log_record *record,
                           uint8_t *at);

/* Whether the `left` bytes at `at` begin with a record of this segment, by salt and checksum. */
bool log_record_decode(const struct log_segment *segment, const uint8_t *at, size_t left,
                       struct log_record *out);

/* The same without the checksum, for a record that is damaged or unfinished: decodes a header with
 * this segment's salt whose record fits into `left`. */
bool log_record_glance(const struct log_segment *segment, const uint8_t *at, size_t left,
                       struct log_record *out);

/* Size of the record that seems to begin at `at`, where there are LOG_RECORD bytes; 0: none. So a
 * reader knows how much to read. */
size_t log_record_peek(const struct log_segment *segment, const uint8_t *at);

/* log-000000000012, spare-000000000007 */
void log_segment_name(char name[LOG_NAME_MAX], const char *prefix, uint64_t number);
/* False for any other name. */
bool log_segment_number(const char *name, const char *prefix, uint64_t *number);

#endif
