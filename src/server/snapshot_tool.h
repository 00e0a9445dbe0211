/* `holdfast snapshot`: a backup of a running cluster, what a snapshot file holds, and a new cluster
 * made of one (S3.3). */
#ifndef HOLDFAST_SERVER_SNAPSHOT_TOOL_H
#define HOLDFAST_SERVER_SNAPSHOT_TOOL_H

#include <stdbool.h>

/* What was asked for with `snapshot save`; a text is NULL when it was not given. */
struct snapshot_save {
    const char *file;
    const char *endpoints;
    const char *timeout;
    bool json;
    bool force;
};

/* The arguments behind the word `snapshot`. `save` asks the cluster, as commands do and this room
 * does not. Returns the exit code. */
int snapshot_tool_main(int count, char **arguments,
                       int (*save)(const struct snapshot_save *request));

#endif
