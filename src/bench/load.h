/* The load of `holdfast bench`: clients that acquire and release, in one thread, on epoll. */
#ifndef HOLDFAST_BENCH_LOAD_H
#define HOLDFAST_BENCH_LOAD_H

#include "bench/histogram.h"
#include "bench/settings.h"
#include "bench/targets.h"

enum { BENCH_CODES = 16, BENCH_SAMPLES_MAX = 20000000 };

struct bench_error {
    char code[BENCH_CODE];
    uint64_t count;
};

struct bench_sample {
    uint64_t began_ns; /* monotonic clock; with a rate, the time the cycle was due */
    uint64_t took_ns;
};

struct bench_result {
    struct histogram acquire; /* ns, as are all times here */
    struct histogram release;
    struct histogram handover; /* contended lock: from sending its release to the next grant */
    uint64_t cycles;
    uint64_t measured_ns;
    uint64_t cpu_ns;  /* CPU time that the bench itself used */
    uint64_t held_ns; /* time to acquire the locks of `held` */
    uint64_t errors;
    struct bench_error by_code[BENCH_CODES]; /* the last entry counts all other codes */
    unsigned codes;
    char last_error[BENCH_MESSAGE];
    uint64_t reconnects;
    bool interrupted; /* by Ctrl-C; the figures cover the time until then */
    struct bench_sample *samples;
    size_t sample_count;
    size_t sample_capacity;
};

/* Passed to the callback about once a second: the results so far. */
struct bench_progress {
    const char *phase;
    uint64_t passed_ns;
    uint64_t done; /* in the unit of the phase: locks held, or cycles */
    const struct bench_result *so_far;
};

typedef void bench_progress_fn(const struct bench_progress *progress);

/* False: the load could not begin, and `problem` contains why. The caller frees the result either
 * way. */
bool bench_load_run(const struct bench_settings *settings, const struct bench_targets *targets,
                    bench_progress_fn *on_progress, struct bench_result *result,
                    char problem[BENCH_PROBLEM]);
void bench_result_close(struct bench_result *result);

#endif
