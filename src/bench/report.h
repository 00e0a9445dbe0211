/* The output of `holdfast bench`: one JSON object or a table, and the file of samples. */
#ifndef HOLDFAST_BENCH_REPORT_H
#define HOLDFAST_BENCH_REPORT_H

#include "bench/load.h"

void bench_report_json(const struct bench_settings *settings, const struct bench_targets *targets,
                       const struct bench_result *result);
void bench_report_table(const struct bench_settings *settings, const struct bench_targets *targets,
                        const struct bench_result *result);
/* For the line of server/progress.h. */
void bench_report_progress(const struct bench_progress *progress);
/* CSV: began_us (wall clock), took_us. False with errno if the file cannot be written. */
bool bench_report_samples(const char *path, const struct bench_result *result);

#endif
