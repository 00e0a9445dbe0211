/* JSON as text: what wire/json.c needs to know of it that jansson does not tell.
 *
 * jansson says whether the text is JSON, and decodes its strings. It keeps no text of a value,
 * though, and so would turn a client's 0.1 into 0.10000000000000001 and refuse integers of more
 * than 64 bits; and it has no limit of ours on depth. */
#ifndef HOLDFAST_WIRE_JSON_SCAN_H
#define HOLDFAST_WIRE_JSON_SCAN_H

#include "base/limits.h"
#include "base/slice.h"

enum { JSON_SCAN_MEMBERS = 64 };

/* The texts of the values of the outermost object, in the order in which they come. */
struct json_scan {
    unsigned count; /* may be more than there is room for */
    struct slice values[JSON_SCAN_MEMBERS];
};

/* False when the text is deeper than LIMIT_JSON_DEPTH. Of a text that is no JSON it finds nonsense,
 * but without harm. */
bool json_scan(struct slice text, struct json_scan *out);

/* Copies valid JSON without the white space between its tokens; returns the length. `out` has room
 * for text.len bytes. */
size_t json_scan_compact(struct slice text, uint8_t *out);

enum json_scan_number {
    JSON_SCAN_WHOLE,    /* *out is set */
    JSON_SCAN_FRACTION, /* written with a fraction or an exponent */
    JSON_SCAN_LARGE,    /* |value| >= LIMIT_NUMBER */
};

/* The text of a JSON number as a whole number. */
enum json_scan_number json_scan_integer(struct slice text, int64_t *out);

#endif
