/* Other lock services, as protocols of the same load that `holdfast bench` runs: one thread, one
 * epoll, no library between it and the socket, so that no client is slower than another. Each file
 * speaks the part of its service's protocol that its own lock recipe needs. */
#ifndef HOLDFAST_BENCH_PEERS_H
#define HOLDFAST_BENCH_PEERS_H

#include "bench/load.h"

extern const struct bench_protocol peer_etcd;
extern const struct bench_protocol peer_zookeeper;
extern const struct bench_protocol peer_postgres;
extern const struct bench_protocol peer_advisory; /* PostgreSQL's advisory locks */

/* A name only: its clients have a connection to each of several Redis, and so a loop of their own.
 * Like bench_load_run. */
extern const struct bench_protocol peer_redlock;
bool redlock_run(const struct bench_settings *settings, const struct bench_targets *targets,
                 struct bench_result *result, char problem[BENCH_PROBLEM]);

#endif
