/* The wait-for graph of a lock: its holders may wait for other locks, and so on. */
#ifndef HOLDFAST_CLI_SHOW_GRAPH_H
#define HOLDFAST_CLI_SHOW_GRAPH_H

#include <stdio.h>

#include "cli/api.h"

/* GET /api/v1/locks/NAME, as api_call. */
int show_graph_query(struct api *api, struct slice name, struct api_answer *answer);
/* Prints the graph of `lock` (of show_graph_query) if a holder waits, and marks cycles. Returns the
 * exit code. */
int show_graph_print(FILE *to, struct api *api, const struct json_t *lock);

#endif
