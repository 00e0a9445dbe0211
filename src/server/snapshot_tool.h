/* `holdfast snapshot`: saves a backup of a running cluster, inspects a file, creates a new cluster
 * from one (S3.3). */
#ifndef HOLDFAST_SERVER_SNAPSHOT_TOOL_H
#define HOLDFAST_SERVER_SNAPSHOT_TOOL_H

#include <stdbool.h>
#include <stdint.h>

/* The arguments of `snapshot save`; NULL or 0: not given. */
struct snapshot_save {
    const char *file;
    const char *endpoints;
    uint64_t timeout_ms;
    bool json;
    bool force;
};

/* `arguments`: after the word `snapshot`. `save` is a callback because it is a client of the
 * cluster, and this module has none. Returns the exit code. */
int snapshot_tool_main(int count, char **arguments,
                       int (*save)(const struct snapshot_save *request));

#endif
