/* One lock as text, for `holdfast show` and `holdfast top`. */
#ifndef HOLDFAST_CLI_SHOW_H
#define HOLDFAST_CLI_SHOW_H

#include <stdio.h>

#include "wire/json_tree.h"

/* `lock`: an answer of show_graph_query. */
void show_print(FILE *to, bool has_colour, const struct json_t *lock);

#endif
