/* Parsing and printing values of settings. A parser returns false if the text is no such value;
 * `out` is untouched then. */
#ifndef HOLDFAST_SERVER_CONFIG_VALUE_H
#define HOLDFAST_SERVER_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool value_number(const char *text, uint64_t *out);
/* Seconds, or a number with ms, s, m or h; a fraction is allowed. */
bool value_duration_ms(const char *text, uint64_t *out);
/* Bytes, or a number with K, M, G, KiB, MiB or GiB, which are powers of 1024. */
bool value_size(const char *text, uint64_t *out);
bool value_switch(const char *text, bool *out); /* true, yes, on, 1 and their opposites */

void value_print_duration(uint64_t ms, char *text, size_t size);
void value_print_size(uint64_t bytes, char *text, size_t size);

#endif
