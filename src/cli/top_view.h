/* The text of `holdfast top`. */
#ifndef HOLDFAST_CLI_TOP_VIEW_H
#define HOLDFAST_CLI_TOP_VIEW_H

#include <stdio.h>

#include "cli/top_rows.h"

struct top_view {
    enum top_sort sort;
    const char *prefix; /* of the names; "": all */
    uint64_t interval_ms;
    bool has_colour;
    size_t first, rows; /* of data->rows */
};

/* The words of --sort, "queue|age|wait|rate". */
#define TOP_SORT_WORDS "queue|age|wait|rate"
const char *top_sort_name(enum top_sort sort);

enum { TOP_HEADER_LINES = 4 };
/* TOP_HEADER_LINES lines: leader, members; counts; rates; latencies. */
void top_print_header(FILE *to, const struct top_view *view, const struct top_data *data);
/* A heading and the rows. */
void top_print_rows(FILE *to, const struct top_view *view, const struct top_data *data);
/* One line. */
void top_print_json(const struct top_view *view, const struct top_data *data);

#endif
