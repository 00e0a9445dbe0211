/* Reads a request's JSON: one object, strictly, into a struct of the caller by a table of fields.
 *
 * Strict means: UTF-8, no NUL, no duplicate key, at most LIMIT_HTTP_BODY bytes and LIMIT_JSON_DEPTH
 * levels, no field that is not in the table. Numbers are whole, below 2^53 in magnitude, and have
 * no fraction or exponent (S3.2). A field whose value is null counts as absent.
 *
 * The caller owns the `struct json_doc`. Texts that json_doc_read returns are valid until
 * json_doc_close; they are in the text or in memory of the document. */
#ifndef HOLDFAST_WIRE_JSON_H
#define HOLDFAST_WIRE_JSON_H

#include "base/memory.h"
#include "wire/fault.h"
#include "wire/json_parse.h"

enum json_field_type {
    JSON_FIELD_STRING,  /* struct slice: min to max bytes */
    JSON_FIELD_UINT,    /* uint64_t: min to max */
    JSON_FIELD_INT,     /* int64_t: min to max */
    JSON_FIELD_BOOL,    /* bool */
    JSON_FIELD_STRINGS, /* struct json_strings: min to max of them, each 1 to item_max bytes */
    JSON_FIELD_ANY,     /* struct slice: any value, as compact JSON text of at most max bytes */
};

struct json_strings {
    const struct slice *items;
    size_t count;
};

struct json_field {
    const char *name;
    enum json_field_type type;
    bool required;
    size_t offset; /* of the member in the caller's struct */
    int64_t min;
    int64_t max;
    size_t item_max;
};

struct json_doc_block;

enum { JSON_FIELDS = JSON_MEMBERS - 1 }; /* most rows of a table */

struct json_doc {
    const struct memory *memory;
    struct json_doc_block *blocks; /* memory of returned texts */
    struct json_members members;
};

/* Parses `text`, which must outlive the document. On an error nothing needs to be closed. */
enum hf_error json_doc_open(struct json_doc *doc, const struct memory *memory, struct slice text,
                            struct fault *fault);
void json_doc_close(struct json_doc *doc);

/* Fills in the members of `out` whose fields are present and leaves the others, so the caller sets
 * defaults first. Bit i of `*present`: row i is present. The error is about the first bad field in
 * the text, or else the first missing one in the table; then `out` and `*present` are untouched.
 * Example: "ttl_ms: must be a whole number from 100 to 86400000". At most 64 rows, with limits
 * below 2^53. */
enum hf_error json_doc_read(struct json_doc *doc, const struct json_field *fields, size_t count,
                            void *out, uint64_t *present, struct fault *fault);

/* The member `key`, a string, of an object whose other members are not checked. False: there is none
 * among the first JSON_MEMBERS, or it is no string; `*out` is untouched. */
bool json_doc_text(struct json_doc *doc, const char *key, struct slice *out);

/* Checks one value of any kind and copies it as compact text, as JSON_FIELD_ANY does; null has the
 * length 0. `out` has space for text.len bytes. */
enum hf_error json_compact(const struct memory *memory, struct slice text, uint8_t *out,
                           size_t *len, struct fault *fault);

#endif
