/* Validates JSON text and finds the members of the outermost object, in one pass and without a tree.
 *
 * Strict: RFC 8259, UTF-8, no NUL (also not as \u0000), no surrogate without its pair, no key twice
 * in one object, at most LIMIT_JSON_DEPTH levels, no number beyond the range of a double. */
#ifndef HOLDFAST_WIRE_JSON_PARSE_H
#define HOLDFAST_WIRE_JSON_PARSE_H

#include "base/limits.h"
#include "base/memory.h"
#include "base/slice.h"
#include "wire/fault.h"

enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_TRUE,
    JSON_KIND_FALSE,
    JSON_KIND_NUMBER,
    JSON_KIND_STRING,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT
};

/* Slices of the parsed text. A key or a string is between its quotes, with its escapes. */
struct json_member {
    struct slice key;
    struct slice value; /* without white space around it */
    enum json_kind kind;
    bool has_escapes; /* of the key */
};

/* One more than a table of fields has: the keys are unique, so one of them is unknown then. */
enum { JSON_MEMBERS = 65 };

struct json_members {
    size_t count; /* may be more than the array holds */
    struct json_member at[JSON_MEMBERS];
};

/* Parses one value of any kind, with white space around it, that is `depth` levels deep itself.
 * `members` may be NULL. `memory` is used only while it runs. */
enum hf_error json_parse(const struct memory *memory, struct slice text, unsigned depth,
                         enum json_kind *kind, struct json_members *members, struct fault *fault);

#endif
