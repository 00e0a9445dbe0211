/* Reads the log from one index to its end, in the memory of one piece. May be used beside the
 * thread that writes the log. The caller closes it. */
#ifndef HOLDFAST_STORAGE_LOG_STREAM_H
#define HOLDFAST_STORAGE_LOG_STREAM_H

#include "storage/log.h"

/* Bytes of data in one piece; a larger entry is a piece by itself. */
#define LOG_STREAM_PIECE (1u << 20)

struct log_stream {
    struct log *log;
    uint64_t next; /* index of the entry that is read next */
    struct log_piece piece;
    size_t given;           /* entries of the piece that were returned */
    struct problem problem; /* of a piece that could not be read */
};

/* Its data is valid until the next call. NULL: it could not be read, see `problem`. */
const struct log_entry *log_stream_next(struct log_stream *s);
void log_stream_close(struct log_stream *s);

#endif
