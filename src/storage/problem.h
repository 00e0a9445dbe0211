/* Failures of the files of a node: one list of kinds, and a text with the operation, the file and,
 * where possible, what to do. A function that can fail returns a kind and fills in the caller's
 * `struct problem`, which is untouched on success. */
#ifndef HOLDFAST_STORAGE_PROBLEM_H
#define HOLDFAST_STORAGE_PROBLEM_H

/* Symbol, stable word for logs and metrics, meaning. */
#define STORAGE_STATUS_LIST(X)                                                          \
    X(OK, "ok", "done")                                                                 \
    X(MISSING, "missing", "a file is not there")                                        \
    X(EXISTS, "exists", "a file is there already")                                      \
    X(FULL, "disk_full", "no space; nothing was changed, and the call may be repeated") \
    X(LOCKED, "locked", "another process uses the folder")                              \
    X(DENIED, "denied", "the file system refuses")                                      \
    X(IO, "io_error", "the disk failed; only a restart is safe")                        \
    X(CORRUPT, "corrupt", "bytes that were durable have changed, or files are gone")    \
    X(VERSION, "unsupported_version", "written by a newer version of Holdfast")         \
    X(FOREIGN, "foreign", "belongs to another node, store or cluster")

enum storage_status {
#define X(symbol, word, text) STORAGE_##symbol,
    STORAGE_STATUS_LIST(X)
#undef X
        STORAGE_STATUS_COUNT
};

struct problem {
    enum storage_status status;
    char text[512];
};

/* The end of a text about damage. */
#define STORAGE_ADVICE                                                                            \
    ". Nothing was changed. If the files cannot be brought back as they were on this very disk, " \
    "remove this node from the cluster and add it under a new id"

const char *storage_status_word(enum storage_status status);

/* Returns the status, for `return problem_set(...)`. */
enum storage_status problem_set(struct problem *problem, enum storage_status status,
                                const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Appends a sentence to a problem that is set, as far as it fits. */
void problem_add(struct problem *problem, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
