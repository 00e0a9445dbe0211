/* JSON as text: what wire/json.c needs and jansson does not provide.
 *
 * jansson validates the text and decodes its strings. But it does not keep the text of a value: it
 * would turn 0.1 into 0.10000000000000001 and refuse integers of more than 64 bits. It has no
 * adjustable limit on depth. */
#ifndef HOLDFAST_WIRE_JSON_SCAN_H
#define HOLDFAST_WIRE_JSON_SCAN_H

#include "base/limits.h"
#include "base/slice.h"

enum { JSON_SCAN_MEMBERS = 64 };

/* The texts of the values of the outermost object, in order. */
struct json_scan {
    unsigned count; /* may be more than the array holds */
    struct slice values[JSON_SCAN_MEMBERS];
};

/* False when the text is deeper than LIMIT_JSON_DEPTH. For invalid JSON the result is meaningless,
 * but safe. */
bool json_scan(struct slice text, struct json_scan *out);

/* Copies valid JSON without the white space between its tokens; returns the length. `out` has space
 * for text.len bytes. */
size_t json_scan_compact(struct slice text, uint8_t *out);

enum json_scan_number {
    JSON_SCAN_WHOLE,    /* *out is set */
    JSON_SCAN_FRACTION, /* written with a fraction or an exponent */
    JSON_SCAN_LARGE,    /* |value| >= LIMIT_NUMBER */
};

enum json_scan_number json_scan_integer(struct slice text, int64_t *out);

#endif
