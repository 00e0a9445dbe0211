/* Reads JSON without a table of fields: the responses of a server, for tools.
 *
 * A value is jansson's. Every function accepts NULL and then finds nothing, so a path through a
 * response needs no intermediate checks:
 *
 *     const struct json_t *holder = json_tree_get(row, "holder");
 *     struct slice client = json_tree_text(json_tree_get(holder, "client_id")); */
#ifndef HOLDFAST_WIRE_JSON_TREE_H
#define HOLDFAST_WIRE_JSON_TREE_H

#include "base/buffer.h"
#include "wire/fault.h"

struct json_t;

/* NULL: not valid JSON; `fault` contains the position. The caller frees it. */
struct json_t *json_tree_parse(struct slice text, struct fault *fault);
void json_tree_free(struct json_t *tree);

/* Values belong to the tree. NULL: absent, or null. */
const struct json_t *json_tree_get(const struct json_t *object, const char *key);
const struct json_t *json_tree_at(const struct json_t *array, size_t index);
size_t json_tree_count(const struct json_t *array); /* 0 if it is not an array */

struct slice json_tree_text(const struct json_t *value); /* empty if it is not a string */
uint64_t json_tree_u64(const struct json_t *value, uint64_t fallback);
double json_tree_double(const struct json_t *value, double fallback);
double json_tree_real(const struct json_t *value, double fallback); /* any number */
bool json_tree_true(const struct json_t *value);

bool json_tree_is_text(const struct json_t *value);
bool json_tree_is_object(const struct json_t *value);
bool json_tree_is_array(const struct json_t *value);
/* The first key of the object that is not in `keys`, which ends with NULL; NULL: none. */
const char *json_tree_other_key(const struct json_t *object, const char *const *keys);

void json_tree_write(const struct json_t *value, struct buffer *out);

#endif
