/* The terminal of `holdfast top`: its alternate screen and its keys. The terminal is restored at the
 * end, by ^C, a signal, and while the command is stopped with ^Z. */
#ifndef HOLDFAST_CLI_TOP_SCREEN_H
#define HOLDFAST_CLI_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum top_key {
    KEY_NONE = 0, /* the deadline has passed, or `fd` is readable */
    KEY_ENTER = '\r',
    KEY_ESCAPE = 0x1b,
    KEY_ERASE = 0x7f,
    /* behind the bytes */
    KEY_UP = 0x100,
    KEY_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_HOME,
    KEY_BOTTOM,
    KEY_REDRAW, /* another size, or continued after ^Z */
    KEY_GONE,   /* the terminal is gone */
};

/* False: standard input or output is not a terminal that can do this. */
bool top_screen_open(void);
void top_screen_close(void);
void top_screen_size(unsigned *rows, unsigned *columns);
/* The lines of `text`, cut at the window; `marked`: the line shown in reverse, or -1. */
void top_screen_paint(const char *text, size_t len, int marked);
/* Waits for a key until `deadline_ms` (clock_boot_ms), or until `fd` (-1: none) is readable. A byte that
 * is no key above is returned as it is. */
int top_screen_key(int64_t deadline_ms, int fd);

#endif
