/* The nodes that `holdfast bench` sends requests to, from GET /api/v1/cluster. */
#ifndef HOLDFAST_BENCH_TARGETS_H
#define HOLDFAST_BENCH_TARGETS_H

#include <netinet/in.h>

#include "bench/settings.h"

enum { BENCH_TARGETS_MAX = 64, BENCH_HOST = 272, BENCH_PROBLEM = 400 };

struct bench_target {
    char host[BENCH_HOST]; /* HOST:PORT */
    char name[BENCH_HOST]; /* HOST, for the certificate */
    struct sockaddr_storage address;
    socklen_t address_len;
};

struct bench_targets {
    struct bench_target at[BENCH_TARGETS_MAX];
    unsigned count; /* healthy nodes, the leader first if `leads` */
    bool leads;     /* the leader's address is known */
    uint64_t leader;
    uint64_t members;
    char version[32]; /* of the server; "": unknown */
};

/* settings->endpoints NULL: HOLDFAST_ENDPOINTS or the default. Returns 0; else prints the problem and
 * returns the exit code. */
int bench_targets_find(const struct bench_settings *settings, struct bench_targets *out);

/* Uses the list "HOST:PORT,..." instead; the first one counts as the leader. False: an address is
 * invalid, or there are too many. */
bool bench_targets_of_list(const char *list, struct bench_targets *out);
/* Adds `by` to all ports. */
void bench_targets_shift(struct bench_targets *targets, unsigned by);

#endif
