/* Reads parts of JSON text that json_parse has validated. */
#ifndef HOLDFAST_WIRE_JSON_SCAN_H
#define HOLDFAST_WIRE_JSON_SCAN_H

#include "base/limits.h"
#include "base/slice.h"

/* Copies valid JSON without the white space between its tokens; returns the length. `out` has space
 * for text.len bytes. */
size_t json_scan_compact(struct slice text, uint8_t *out);

/* Replaces the escapes in the contents of a string; returns the length. `out` has space for text.len
 * bytes. */
size_t json_scan_unescape(struct slice text, uint8_t *out);
/* Four hexadecimal digits. False: they are not. */
bool json_scan_hex(const uint8_t *at, uint32_t *out);

/* The next item of an array; `rest` is the text of the array at first. False: there is none. */
bool json_scan_item(struct slice *rest, struct slice *item);

enum json_scan_number {
    JSON_SCAN_WHOLE,    /* *out is set */
    JSON_SCAN_FRACTION, /* written with a fraction or an exponent */
    JSON_SCAN_LARGE,    /* |value| >= LIMIT_NUMBER */
};

enum json_scan_number json_scan_integer(struct slice text, int64_t *out);

#endif
