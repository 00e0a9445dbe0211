/* Feeds the blocks of the file to the snapshot reader of the core. */
#include "node/snapshot/state_load.h"

#include "core/snapshot.h"

static enum storage_status feed_all(struct snapshot_source *source, struct snapshot_reader *reader,
                                    const struct state_watch *watch, struct problem *problem)
{
    uint64_t total = snapshot_source_bytes(source);
    uint64_t done = 0;
    for (;;) {
        struct snapshot_piece piece;
        enum storage_status status = snapshot_source_next(source, &piece, problem);
        if (status != STORAGE_OK) {
            return status;
        }
        done += piece.body.len;
        if (watch != NULL) {
            watch->note(watch->ctx, done, total);
        }
        if (piece.body.len > 0 &&
            snapshot_reader_feed(reader, piece.body.data, piece.body.len) != HF_OK) {
            return STORAGE_OK; /* the end of the reader reports the error */
        }
        if (piece.last) {
            return STORAGE_OK;
        }
    }
}

enum storage_status state_load_source(struct snapshot_source *source, uint64_t index,
                                      const struct core_options *options,
                                      const struct state_watch *watch, struct core **out,
                                      struct problem *problem)
{
    struct snapshot_reader *reader = snapshot_reader_new(options);
    struct core *core = NULL;
    struct snapshot_problem wrong = {""};
    enum storage_status status = feed_all(source, reader, watch, problem);
    enum hf_error error = snapshot_reader_finish(reader, &core, &wrong);
    if (status != STORAGE_OK) {
        core_free(error == HF_OK ? core : NULL);
        return status;
    }
    if (error != HF_OK) {
        return problem_set(problem, error == HF_VERSION ? STORAGE_VERSION : STORAGE_CORRUPT,
                           "the state in the snapshot at index %llu cannot be used: %s",
                           (unsigned long long)index, wrong.text);
    }
    *out = core;
    return STORAGE_OK;
}

enum storage_status state_load_watched(struct store *store, uint64_t index, uint64_t term,
                                       const struct core_options *options,
                                       const struct state_watch *watch, struct core **out,
                                       struct problem *problem)
{
    struct snapshot_source *source;
    enum storage_status status =
        snapshot_source_open(store->snapshots, index, term, &source, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    status = state_load_source(source, index, options, watch, out, problem);
    snapshot_source_close(source);
    return status;
}

enum storage_status state_load(struct store *store, uint64_t index, uint64_t term,
                               const struct core_options *options, struct core **out,
                               struct problem *problem)
{
    return state_load_watched(store, index, term, options, NULL, out, problem);
}
