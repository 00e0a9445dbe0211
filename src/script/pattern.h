/* Lua's patterns, as its manual describes them (5.4.1), with a budget.
 *
 * Lua's own matcher works inside one instruction for as long as the pattern makes it, which can be
 * centuries for a pattern of twenty characters. This one counts its steps and ends when they are
 * used up. It knows nothing of Lua. */
#ifndef HOLDFAST_SCRIPT_PATTERN_H
#define HOLDFAST_SCRIPT_PATTERN_H

#include "base/slice.h"

enum {
    PATTERN_CAPTURES = 32,
    PATTERN_DEPTH = 200, /* of quantifiers and captures behind each other */
};

/* Lengths that are none. */
#define CAPTURE_POSITION (-1) /* "()", whose value is where it starts */
#define CAPTURE_OPEN (-2)

struct pattern_capture {
    const char *start;
    ptrdiff_t len;
};

struct pattern {
    /* Set by the caller, before each match except for the budget, which goes on. */
    const char *subject;
    const char *subject_end;
    const char *end; /* of the pattern */
    uint64_t steps_left;
    /* The outcome. */
    const char *error; /* NULL, or what is wrong with the pattern */
    bool is_exhausted; /* the steps were used up */
    int capture_count;
    struct pattern_capture captures[PATTERN_CAPTURES];
    int depth;
};

/* Matches the pattern from `p` on at `at`, and nowhere else. The end of what matched, or NULL: see
 * `error` and `is_exhausted` for why. */
const char *pattern_match(struct pattern *m, const char *at, const char *p);

/* Whether any character of it is more than itself. */
bool pattern_is_special(struct slice pattern);

#endif
