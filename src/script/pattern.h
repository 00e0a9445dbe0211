/* Lua's patterns, as in its manual (5.4.1), with a budget of steps.
 *
 * Lua's own matcher runs inside one instruction without a limit. A pattern of twenty characters can
 * take centuries. This one counts its steps and stops when the budget is used up. Independent of
 * Lua. */
#ifndef HOLDFAST_SCRIPT_PATTERN_H
#define HOLDFAST_SCRIPT_PATTERN_H

#include "base/slice.h"

enum {
    PATTERN_CAPTURES = 32,
    PATTERN_DEPTH = 200, /* consecutive quantifiers and captures */
};

/* Special lengths. */
#define CAPTURE_POSITION (-1) /* "()", whose value is its position */
#define CAPTURE_OPEN (-2)

struct pattern_capture {
    const char *start;
    ptrdiff_t len;
};

struct pattern {
    /* Set by the caller before each match; the budget only once. */
    const char *subject;
    const char *subject_end;
    const char *end; /* of the pattern */
    uint64_t steps_left;
    /* The result. */
    const char *error; /* NULL, or what is wrong with the pattern */
    bool is_exhausted; /* the budget is used up */
    int capture_count;
    struct pattern_capture captures[PATTERN_CAPTURES];
    int depth;
};

/* Matches the pattern from `p` on at `at` only. Returns the end of the match, or NULL: see `error`
 * and `is_exhausted` for the reason. */
const char *pattern_match(struct pattern *m, const char *at, const char *p);

/* Whether it contains a character with a special meaning. */
bool pattern_is_special(struct slice pattern);

#endif
