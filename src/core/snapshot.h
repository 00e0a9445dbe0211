/* The canonical snapshot: the same state gives the same bytes on every node. It has a version, ends
 * with a checksum of the whole, and is written and read as a stream. Writing allocates nothing and
 * takes no lock, because a forked child does it (S12.5). */
#ifndef HOLDFAST_CORE_SNAPSHOT_H
#define HOLDFAST_CORE_SNAPSHOT_H

#include "core/core.h"

/* Receives the bytes in order; returning false stops the writing. */
typedef bool (*snapshot_sink_fn)(void *ctx, const void *data, size_t len);
bool snapshot_write(const struct core *core, snapshot_sink_fn sink, void *ctx);

/* Reads a snapshot in pieces of any size. The content is untrusted. snapshot_reader_finish returns
 * HF_OK and a core (owned by the caller) only when the snapshot is complete and valid. HF_VERSION:
 * a newer program wrote it. HF_CORRUPT: it is damaged. On both errors `*out` is untouched and
 * `problem`, which may be NULL, describes what is wrong and where ("session 17: client id is
 * empty"). Frees the reader in any case. */
struct snapshot_problem {
    char text[160];
};

struct snapshot_reader;
struct snapshot_reader *snapshot_reader_new(const struct core_options *options);
enum hf_error snapshot_reader_feed(struct snapshot_reader *reader, const void *data, size_t len);
enum hf_error snapshot_reader_finish(struct snapshot_reader *reader, struct core **out,
                                     struct snapshot_problem *problem);

#endif
