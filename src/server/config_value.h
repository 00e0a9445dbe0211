/* Values of settings as people write them. Each function says whether the text is one; `out` is
 * untouched if not. */
#ifndef HOLDFAST_SERVER_CONFIG_VALUE_H
#define HOLDFAST_SERVER_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool value_number(const char *text, uint64_t *out);
/* Seconds, with a fraction if you like, or with ms, s, m or h behind them. */
bool value_duration_ms(const char *text, uint64_t *out);
/* Bytes, or with K, M, G (KiB, MiB, GiB mean the same: powers of 1024) behind them. */
bool value_size(const char *text, uint64_t *out);
bool value_switch(const char *text, bool *out); /* true, yes, on, 1 and their opposites */

/* The reverse, for printing. */
void value_print_duration(uint64_t ms, char *text, size_t size);
void value_print_size(uint64_t bytes, char *text, size_t size);

#endif
