/* The processes of a local cluster: started, watched, stopped. They die with us (PDEATHSIG), each
 * has a folder and a log of its own, and tells through a pipe when it is ready. */
#ifndef HOLDFAST_SERVER_DEV_CLUSTER_H
#define HOLDFAST_SERVER_DEV_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { DEV_NODES_MAX = 9, DEV_PORT_STEP = 10, DEV_PATH = 3072 };

struct dev_node {
    unsigned id;
    uint16_t client_port; /* the peer port is the next, that of the Redis protocol the one after */
    char folder[DEV_PATH + 32];
    char log[DEV_PATH + 64];
    pid_t pid;    /* 0: not running */
    int ready_fd; /* -1: nothing more to hear */
    bool ready;
    unsigned leader; /* as it said when it was ready */
};

struct dev_cluster {
    unsigned count;
    uint16_t base_port;
    char dir[DEV_PATH];
    struct dev_node nodes[DEV_NODES_MAX];
};

/* Fills in the names and ports. */
void dev_cluster_init(struct dev_cluster *c, unsigned count, uint16_t base_port, const char *dir);

/* Each of these prints what is wrong, as `holdfast: ...`, and returns false. */
bool dev_cluster_ports_are_free(const struct dev_cluster *c);
bool dev_cluster_prepare_folder(const struct dev_cluster *c);
bool dev_cluster_start(struct dev_cluster *c);

/* Waits for something to happen, at most so long. */
enum dev_event { DEV_NOTHING, DEV_READY, DEV_ENDED, DEV_SIGNAL };
enum dev_event dev_cluster_wait(struct dev_cluster *c, int timeout_ms, struct dev_node **node,
                                int *status);

/* Asks all to stop, waits, and insists when that takes too long. */
void dev_cluster_stop(struct dev_cluster *c);

/* Prints the end of a node's log to stderr. */
void dev_node_print_log(const struct dev_node *node);

#endif
