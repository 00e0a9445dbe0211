/* The simulator: a cluster of production replicas in a world of faults, decided by one seed.
 *
 *   sim [--seed N] [--seeds N] [--seconds S] [--trace]
 *
 * Runs S simulated seconds with faults and then some without, in which the cluster must make
 * progress again. What is checked is in checks.c. A failing run prints its seed. */
#define _POSIX_C_SOURCE 200809L
#include "world.h"

#include <time.h>

static void one_world(const struct options *options)
{
    memset(&world, 0, sizeof(world));
    world.options = *options;
    world.random = options->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < 10; i++) {
        (void)chance();
    }
    world.now_us = 1000000;
    nodes_begin(5);
    clients_begin();
    faults_schedule();
    uint64_t until_us = world.now_us + options->seconds * 1000000;
    while (world.now_us < until_us && world_step()) {
    }
    faults_stop();
    until_us = world.now_us + 4000000;
    while (world.now_us < until_us && world_step()) {
    }
    uint64_t before = clients_done();
    until_us = world.now_us + 6000000;
    while (world.now_us < until_us && world_step()) {
    }
    if (clients_done() == before) {
        violation("no progress after the faults stopped");
    }
    nodes_end();
    checks_end();
    world_close();
}

static void add(struct counts *sum)
{
    const uint64_t *from = (const uint64_t *)&world.counts;
    uint64_t *to = (uint64_t *)sum;
    for (size_t i = 0; i < sizeof(*sum) / sizeof(uint64_t); i++) {
        to[i] += from[i];
    }
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    struct options options = {.seed = 1, .seconds = 60};
    uint64_t seeds = 1;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--seed") == 0) {
            options.seed = strtoull(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            seeds = strtoull(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--seconds") == 0) {
            options.seconds = strtoull(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--trace") == 0) {
            options.trace = true;
        } else {
            fprintf(stderr, "usage: sim [--seed N] [--seeds N] [--seconds S] [--trace]\n");
            return 64;
        }
    }
    struct counts sum = {0};
    double start = seconds_now();
    for (uint64_t i = 0; i < seeds; i++) {
        one_world(&options);
        add(&sum);
        options.seed++;
    }
    double elapsed = seconds_now() - start;
    printf("%llu seeds of %llu s: %llu commands, %llu granted, %llu refused, %llu expired, "
           "%llu unavailable, %llu not done, %llu unknown; %llu entries, %llu elections, %llu "
           "crashes, "
           "%llu cuts, %llu snapshots, %llu installed, %llu member changes, %llu transfers, "
           "%llu stale writes refused by the fence; %.0f times real time\n",
           (unsigned long long)seeds, (unsigned long long)options.seconds,
           (unsigned long long)sum.commands, (unsigned long long)sum.granted,
           (unsigned long long)sum.refused, (unsigned long long)sum.expired,
           (unsigned long long)sum.unavailable, (unsigned long long)sum.not_done,
           (unsigned long long)sum.unknown, (unsigned long long)sum.entries,
           (unsigned long long)sum.elections, (unsigned long long)sum.crashes,
           (unsigned long long)sum.cuts, (unsigned long long)sum.snapshots,
           (unsigned long long)sum.installs, (unsigned long long)sum.changes,
           (unsigned long long)sum.transfers, (unsigned long long)sum.fence_refusals,
           (double)(seeds * (options.seconds + 10)) / elapsed);
    printf("%llu passed, 0 failed\n", (unsigned long long)seeds);
    return 0;
}
