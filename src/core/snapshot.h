/* The canonical snapshot: the same state gives the same bytes on every node. Versioned, ends with a
 * checksum of the whole, streams in and out. Writing allocates nothing and takes no lock, since a
 * forked child does it (S12.5). */
#ifndef HOLDFAST_CORE_SNAPSHOT_H
#define HOLDFAST_CORE_SNAPSHOT_H

#include "core/core.h"

/* Gets the bytes in order; returning false stops the writing. */
typedef bool (*snapshot_sink_fn)(void *ctx, const void *data, size_t len);
bool snapshot_write(const struct core *core, snapshot_sink_fn sink, void *ctx);

/* Reads a snapshot in pieces of any size, from anybody: nothing in it is trusted.
 * snapshot_reader_finish gives the core (owned by the caller) only when everything was there and
 * sound: HF_OK. HF_VERSION is what a newer program wrote and HF_CORRUPT is damage; then `*out` is
 * untouched and `problem`, which may be NULL, says what is wrong and where ("session 17: client id
 * is empty"). Frees the reader in any case. */
struct snapshot_problem {
    char text[160];
};

struct snapshot_reader;
struct snapshot_reader *snapshot_reader_new(const struct core_options *options);
enum hf_error snapshot_reader_feed(struct snapshot_reader *reader, const void *data, size_t len);
enum hf_error snapshot_reader_finish(struct snapshot_reader *reader, struct core **out,
                                     struct snapshot_problem *problem);

#endif
