/* Output of `holdfast bench`: one JSON object, or a table; and the samples. */
#ifndef HOLDFAST_BENCH_REPORT_H
#define HOLDFAST_BENCH_REPORT_H

#include "bench/load.h"

void bench_report_json(const struct bench_settings *settings, const struct bench_targets *targets,
                       const struct bench_result *result);
void bench_report_table(const struct bench_settings *settings, const struct bench_targets *targets,
                        const struct bench_result *result);
/* One line on a terminal; the next call overwrites it. */
void bench_report_progress(const struct bench_progress *progress);
/* CSV: began_us (wall clock), took_us. False: the file could not be written; see errno. */
bool bench_report_samples(const char *path, const struct bench_result *result);

#endif
