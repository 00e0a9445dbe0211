/* The text of a scenario as a tree of lines: what is indented deeper belongs to the line above. */
#ifndef SCENARIO_SCENARIO_FILE_H
#define SCENARIO_SCENARIO_FILE_H

#include <stdbool.h>

#include "arena.h"

struct line {
    int number;
    int indent;
    bool is_comment;
    char *text; /* without indentation; of a step also without its comment */
    struct line *children;
    struct line *next;
};

struct scenario {
    const char *path;
    struct line *lines;
};

/* Reads a file into the arena. False when it cannot be read or does not begin with a comment;
 * `problem` then says why, with the path. */
bool scenario_read(struct arena *arena, const char *path, struct scenario *out,
                   const char **problem);

/* The text of a step with the lines that continue it. */
const char *line_joined(struct arena *arena, const struct line *line);

/* The first `->` outside quotes, or NULL. */
const char *find_arrow(const char *text);

#endif
