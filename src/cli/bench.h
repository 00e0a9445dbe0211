/* `holdfast bench`: measures the throughput and the latency of a cluster. */
#ifndef HOLDFAST_CLI_BENCH_H
#define HOLDFAST_CLI_BENCH_H

/* `arguments` are those after the word `bench`. Returns the exit code. */
int bench_main(int count, char **arguments);

#endif
