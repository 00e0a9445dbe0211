/* Text tables, see columns.h. */
#include "cli/columns.h"

#include <stdlib.h>
#include <unistd.h>

enum { CELLS_MAX = 64 << 20, CELL_TEXT = 1024 };

void columns_init(struct columns *t, unsigned count)
{
    hf_assert(count > 0 && count <= COLUMNS_MOST);
    *t = (struct columns){.count = count};
    buffer_init(&t->cells, memory_system(), CELLS_MAX);
}

void columns_close(struct columns *t)
{
    buffer_close(&t->cells);
}

/* Of UTF-8. A wide character counts as one and misaligns its row. */
static size_t count_characters(struct slice text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++) {
        count += (text.data[i] & 0xc0) != 0x80;
    }
    return count;
}

void columns_slice(struct columns *t, struct slice text)
{
    struct slice shown = slice_make(text.data, text.len < CELL_TEXT ? text.len : CELL_TEXT);
    buffer_append_byte(&t->cells, COLOUR_NONE);
    for (size_t i = 0; i < shown.len; i++) {
        uint8_t c = shown.data[i];
        buffer_append_byte(&t->cells, c < 0x20 || c == 0x7f ? '?' : c);
    }
    buffer_append_byte(&t->cells, 0);
    size_t width = count_characters(shown);
    unsigned column = (unsigned)(t->cell_count % t->count);
    t->is_filled[column] = t->is_filled[column] || (t->cell_count >= t->count && width > 0);
    t->cell_count++;
    if (width > t->width[column]) {
        t->width[column] = width;
    }
}

void columns_text(struct columns *t, const char *text)
{
    columns_slice(t, slice_of(text));
}

void columns_printf(struct columns *t, const char *format, ...)
{
    char text[CELL_TEXT];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    columns_text(t, text);
}

void columns_optional(struct columns *t, const char *heading)
{
    hf_assert(t->cell_count < t->count);
    t->is_optional[t->cell_count] = true;
    columns_text(t, heading);
}

void columns_colour(struct columns *t, enum cli_colour colour)
{
    hf_assert(t->cell_count > 0);
    size_t at = t->cells.end - 1; /* NUL of the last cell */
    while (at > t->cells.start && t->cells.data[at - 1] > COLOUR_DIM) {
        at--;
    }
    t->cells.data[at - 1] = (uint8_t)colour;
}

static bool is_shown(const struct columns *t, unsigned column)
{
    return !t->is_optional[column] || t->is_filled[column];
}

static unsigned last_shown(const struct columns *t)
{
    unsigned column = t->count - 1;
    while (column > 0 && !is_shown(t, column)) {
        column--;
    }
    return column;
}

void columns_print(struct columns *t, FILE *to)
{
    columns_print_as(t, to, cli_has_colour(to));
}

void columns_print_as(struct columns *t, FILE *to, bool has_colour)
{
    unsigned last = last_shown(t);
    const char *cell = (const char *)t->cells.data + t->cells.start;
    for (size_t i = 0; i < t->cell_count && !t->cells.overflowed; i++) {
        unsigned column = (unsigned)(i % t->count);
        const char *text = t->is_optional[column] && cell[1] == '\0' ? "-" : cell + 1;
        enum cli_colour colour = i < t->count ? COLOUR_BOLD : (enum cli_colour)cell[0];
        size_t width = count_characters(slice_of(text));
        if (is_shown(t, column)) {
            fprintf(to, "%s%s%s%*s%s", cli_colour_on(colour, has_colour), text,
                    cli_colour_off(colour, has_colour),
                    column == last ? 0 : (int)(t->width[column] - width), "",
                    column == last ? "\n" : "  ");
        }
        cell += strlen(cell + 1) + 2;
    }
}

bool cli_has_colour(FILE *to)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return isatty(fileno(to)) == 1 && (no == NULL || no[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

const char *cli_colour_on(enum cli_colour colour, bool has_colour)
{
    static const char *const codes[] = {
        [COLOUR_NONE] = "",          [COLOUR_BOLD] = "\x1b[1m",    [COLOUR_RED] = "\x1b[31m",
        [COLOUR_GREEN] = "\x1b[32m", [COLOUR_YELLOW] = "\x1b[33m", [COLOUR_DIM] = "\x1b[2m",
    };
    return has_colour ? codes[colour] : "";
}

const char *cli_colour_off(enum cli_colour colour, bool has_colour)
{
    return has_colour && colour != COLOUR_NONE ? "\x1b[0m" : "";
}
