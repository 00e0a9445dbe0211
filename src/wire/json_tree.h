/* Reading JSON that we did not ask for field by field: the answers of a server, for tools.
 *
 * A value is jansson's; every function takes NULL and then finds nothing, so that a path through an
 * answer needs no checks on its way:
 *
 *     struct slice client = json_tree_text(json_tree_get(json_tree_get(row, "holder"),
 * "client_id"));
 */
#ifndef HOLDFAST_WIRE_JSON_TREE_H
#define HOLDFAST_WIRE_JSON_TREE_H

#include "base/buffer.h"
#include "wire/fault.h"

struct json_t;

/* NULL: it is no JSON, and `fault` says where. The caller frees it. */
struct json_t *json_tree_parse(struct slice text, struct fault *fault);
void json_tree_free(struct json_t *tree);

/* Values belong to the tree. NULL: there is none, or it is null. */
const struct json_t *json_tree_get(const struct json_t *object, const char *key);
const struct json_t *json_tree_at(const struct json_t *array, size_t index);
size_t json_tree_count(const struct json_t *array); /* 0 for what is no array */

struct slice json_tree_text(const struct json_t *value); /* empty for what is no string */
uint64_t json_tree_u64(const struct json_t *value, uint64_t fallback);
bool json_tree_true(const struct json_t *value);

/* Appends it as compact JSON. */
void json_tree_write(const struct json_t *value, struct buffer *out);

#endif
