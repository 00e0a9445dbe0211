/* Starts, monitors and stops the processes of a local cluster. They end with the parent
 * (PDEATHSIG). Each has its own folder and log, and reports through a pipe that it is ready. */
#ifndef HOLDFAST_SERVER_DEV_CLUSTER_H
#define HOLDFAST_SERVER_DEV_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "server/dev_restart.h"

enum { DEV_NODES_MAX = 9, DEV_PORT_STEP = 10, DEV_PATH = 3072 };
#define DEV_CLUSTER_NAME "dev"

struct dev_node {
    unsigned id;
    uint16_t client_port; /* + 1: the peer port; + 2: the port of the Redis protocol */
    char folder[DEV_PATH + 32];
    char log[DEV_PATH + 64];
    pid_t pid;    /* 0: not running */
    int ready_fd; /* -1: closed */
    bool ready;
    unsigned leader; /* as the node reported when it was ready */
    struct dev_restart restart;
};

struct dev_cluster {
    unsigned count;
    uint16_t base_port;
    char dir[DEV_PATH];
    char secure_dir[DEV_PATH + 16]; /* of certificates and tokens; "": clear text, no tokens */
    int death_signal;               /* that the nodes get when this process dies */
    struct dev_node nodes[DEV_NODES_MAX];
};

void dev_cluster_init(struct dev_cluster *c, unsigned count, uint16_t base_port, const char *dir,
                      bool is_secure);
static inline bool dev_is_secure(const struct dev_cluster *c)
{
    return c->secure_dir[0] != '\0';
}

/* On failure, each of these prints the problem as `holdfast: ...` and returns false. */
bool dev_cluster_ports_are_free(const struct dev_cluster *c);
bool dev_cluster_prepare_folder(const struct dev_cluster *c);
bool dev_cluster_start(struct dev_cluster *c);

/* At most `timeout_ms` (-1: without limit). */
enum dev_event { DEV_NOTHING, DEV_READY, DEV_ENDED, DEV_SIGNAL };
enum dev_event dev_cluster_wait(struct dev_cluster *c, int timeout_ms, struct dev_node **node,
                                int *status);

/* Time until the next planned start of a node that has ended; -1: none is planned. */
int dev_cluster_restart_in_ms(const struct dev_cluster *c);
/* Starts the nodes whose time has come, with their old data. A node with an empty folder reports
 * that it lost its disk. */
bool dev_cluster_restart_due(struct dev_cluster *c);

/* SIGTERM to all nodes; after a timeout, SIGKILL. */
void dev_cluster_stop(struct dev_cluster *c);

/* The last bytes of a file, from the start of a line, to stderr. */
void dev_print_end(const char *path, long bytes);
void dev_node_print_log(const struct dev_node *node);

/* The clock of all waits here. */
static inline int64_t dev_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif
