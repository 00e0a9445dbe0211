/* `holdfast bench`: how fast a cluster is, for its makers and for its users. */
#ifndef HOLDFAST_CLI_BENCH_H
#define HOLDFAST_CLI_BENCH_H

/* The arguments behind the word `bench`. Returns the exit code. */
int bench_main(int count, char **arguments);

#endif
