/* The canonical snapshot: the same state gives the same bytes on every node. It is a stream with a
 * version and a checksum at its end. Writing allocates nothing and takes no lock: a forked child
 * does it (S12.5). */
#ifndef HOLDFAST_CORE_SNAPSHOT_H
#define HOLDFAST_CORE_SNAPSHOT_H

#include "core/core.h"

/* Receives the bytes in order; false stops the writing. */
typedef bool (*snapshot_sink_fn)(void *ctx, const void *data, size_t len);
bool snapshot_write(const struct core *core, snapshot_sink_fn sink, void *ctx);

/* Reads a snapshot in pieces of any size; the content is untrusted. snapshot_reader_finish frees
 * the reader. HF_OK: the snapshot is complete and valid, the caller owns the core. HF_VERSION: a
 * newer program wrote it. HF_CORRUPT: it is damaged. On errors `*out` is untouched and `problem`
 * (or NULL) says what is wrong and where ("session 17: client id is empty"). */
struct snapshot_problem {
    char text[160];
};

struct snapshot_reader;
struct snapshot_reader *snapshot_reader_new(const struct core_options *options);
enum hf_error snapshot_reader_feed(struct snapshot_reader *reader, const void *data, size_t len);
enum hf_error snapshot_reader_finish(struct snapshot_reader *reader, struct core **out,
                                     struct snapshot_problem *problem);

#endif
