/* Who waits for whom, from one name on: its holders may wait for other names, whose holders may
 * wait in turn. */
#ifndef HOLDFAST_CLI_SHOW_GRAPH_H
#define HOLDFAST_CLI_SHOW_GRAPH_H

#include "cli/api.h"

/* GET /api/v1/locks/NAME, as api_call. */
int show_graph_ask(struct api *api, struct slice name, struct api_answer *answer);
/* Prints the graph below `lock` (an answer of the call above), if a holder of it waits for
 * anything; a circle is called so. Gives the exit code. */
int show_graph_print(struct api *api, const struct json_t *lock);

#endif
