/* A text table: columns as wide as their contents, colour only on a terminal. After columns_init,
 * one call per cell, row by row; the first row is the heading. An optional column is left out if no
 * row has text in it. */
#ifndef HOLDFAST_CLI_COLUMNS_H
#define HOLDFAST_CLI_COLUMNS_H

#include <stdio.h>

#include "base/buffer.h"

enum { COLUMNS_MOST = 12 };

enum cli_colour { COLOUR_NONE, COLOUR_BOLD, COLOUR_RED, COLOUR_GREEN, COLOUR_YELLOW, COLOUR_DIM };

struct columns {
    unsigned count;
    struct buffer cells; /* each: colour (1 byte), text, NUL */
    size_t cell_count;
    size_t width[COLUMNS_MOST]; /* in characters */
    bool is_optional[COLUMNS_MOST];
    bool is_filled[COLUMNS_MOST]; /* a row has text in it */
};

void columns_init(struct columns *t, unsigned count);
void columns_close(struct columns *t);

/* Control characters become '?': a name cannot move the cursor. */
void columns_slice(struct columns *t, struct slice text);
void columns_text(struct columns *t, const char *text);
void columns_printf(struct columns *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds the heading of an optional column. Empty cells of it are printed as "-". */
void columns_optional(struct columns *t, const char *heading);
/* Of the last cell. */
void columns_colour(struct columns *t, enum cli_colour colour);

void columns_print(struct columns *t, FILE *to);
void columns_print_as(struct columns *t, FILE *to, bool has_colour);

/* A terminal, NO_COLOR is not set, TERM is not dumb. */
bool cli_has_colour(FILE *to);
/* Escape sequences; "" without colour. */
const char *cli_colour_on(enum cli_colour colour, bool has_colour);
const char *cli_colour_off(enum cli_colour colour, bool has_colour);

#endif
