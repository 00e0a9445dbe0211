/* The output of `holdfast dev`. */
#ifndef HOLDFAST_SERVER_DEV_PRINT_H
#define HOLDFAST_SERVER_DEV_PRINT_H

#include "server/dev_cluster.h"

/* At the start. */
void dev_print_dashboard(const struct dev_cluster *c);
void dev_print_nodes(const struct dev_cluster *c);
void dev_print_ready(const struct dev_cluster *c, unsigned leader);

/* A node ended with that status of waitpid(2): its restart is planned; it failed too often; it is
 * not started again (--no-restart). */
void dev_print_restart(const struct dev_node *node, int status);
void dev_print_given_up(const struct dev_cluster *c, const struct dev_node *node, int status);
void dev_print_down(const struct dev_cluster *c, const struct dev_node *node, int status);
void dev_print_back(const struct dev_node *node);

/* --chaos. A killed node has the lines of any that ended. */
void dev_print_chaos(const struct dev_cluster *c, uint64_t seed, uint64_t interval_ms);
void dev_print_stopped(const struct dev_node *node, int64_t for_ms);
void dev_print_continued(const struct dev_node *node);

#endif
