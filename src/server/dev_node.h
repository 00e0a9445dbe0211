/* Starts one node of a local cluster as a process. */
#ifndef HOLDFAST_SERVER_DEV_NODE_H
#define HOLDFAST_SERVER_DEV_NODE_H

#include <stdio.h>

#include "server/dev_cluster.h"

/* On failure prints the problem as `holdfast: ...` and returns false. */
bool dev_node_start(const struct dev_cluster *c, struct dev_node *node, bool bootstrap);
/* The command that starts the same node in a shell of any folder, as one line. */
void dev_node_print_command(const struct dev_cluster *c, const struct dev_node *node, FILE *to);

#endif
