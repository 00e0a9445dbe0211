/* The load of `holdfast bench`, in one thread, on epoll. */
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
    uint64_t began_ns; /* on the monotonic clock; with a rate, the time it was due */
    uint64_t took_ns;
};

struct bench_result {
    struct histogram acquire; /* all times in ns */
    struct histogram release;
    struct histogram handover; /* --contended: from the release request to the next grant */
    uint64_t cycles;
    uint64_t measured_ns;
    uint64_t cpu_ns;  /* CPU time of the bench itself during the measurement */
    uint64_t held_ns; /* time to acquire the locks of `held` */
    uint64_t errors;
    struct bench_error by_code[BENCH_CODES]; /* if all are used, the last counts all other codes */
    unsigned codes;
    char last_error[BENCH_MESSAGE];
    uint64_t reconnects;
    bool interrupted; /* by Ctrl-C; the result covers the time until then */
    struct bench_sample *samples;
    size_t sample_count;
    size_t sample_capacity;
};

/* For the progress callback, about once per second. */
struct bench_progress {
    const char *phase;
    uint64_t passed_ns; /* since the phase began */
    uint64_t total_ns;  /* of the phase; 0: not known */
    uint64_t done;      /* in PREPARE: held locks; later: cycles */
    const struct bench_result *so_far;
};

typedef void bench_progress_fn(const struct bench_progress *progress);

/* On failure, false with a sentence in `problem`. The caller closes the result in both cases. */
bool bench_load_run(const struct bench_settings *settings, const struct bench_targets *targets,
                    bench_progress_fn *on_progress, struct bench_result *result,
                    char problem[BENCH_PROBLEM]);
void bench_result_close(struct bench_result *result);

#endif
