/* Responses as a tree, see json_tree.h. Only this file includes jansson. */
#include "wire/json_tree.h"

#include <jansson.h>

#include "base/limits.h"

struct json_t *json_tree_parse(struct slice text, struct fault *fault)
{
    json_error_t error;
    const char *data = text.len == 0 ? "" : (const char *)text.data;
    json_t *root = json_loadb(data, text.len, JSON_DECODE_ANY, &error);
    if (root == NULL && json_error_code(&error) == json_error_numeric_overflow) {
        /* Metadata of a user: return a rounded number rather than an error. */
        root = json_loadb(data, text.len, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error);
    }
    if (root == NULL) {
        (void)fault_set(fault, HF_JSON_MALFORMED, "not JSON: line %d, column %d: %.80s", error.line,
                        error.column, error.text);
    }
    return root;
}

void json_tree_free(struct json_t *tree)
{
    json_decref(tree);
}

static const json_t *unless_null(const json_t *value)
{
    return json_is_null(value) ? NULL : value;
}

const struct json_t *json_tree_get(const struct json_t *object, const char *key)
{
    return unless_null(json_object_get(object, key));
}

const struct json_t *json_tree_at(const struct json_t *array, size_t index)
{
    return unless_null(json_array_get(array, index));
}

size_t json_tree_count(const struct json_t *array)
{
    return json_array_size(array);
}

struct slice json_tree_text(const struct json_t *value)
{
    return json_is_string(value) ? slice_make(json_string_value(value), json_string_length(value))
                                 : slice_make("", 0);
}

double json_tree_double(const struct json_t *value, double fallback)
{
    return json_is_number(value) ? json_number_value(value) : fallback;
}

uint64_t json_tree_u64(const struct json_t *value, uint64_t fallback)
{
    if (json_is_real(value)) { /* only when the whole text was parsed that way */
        double real = json_real_value(value);
        return real >= 0 && real < (double)LIMIT_NUMBER ? (uint64_t)real : fallback;
    }
    return json_is_integer(value) && json_integer_value(value) >= 0
               ? (uint64_t)json_integer_value(value)
               : fallback;
}

double json_tree_real(const struct json_t *value, double fallback)
{
    return json_is_number(value) ? json_number_value(value) : fallback;
}

bool json_tree_true(const struct json_t *value)
{
    return json_is_true(value);
}

static int append(const char *bytes, size_t len, void *out)
{
    return buffer_append(out, bytes, len) ? 0 : -1;
}

void json_tree_write(const struct json_t *value, struct buffer *out)
{
    if (value == NULL) {
        buffer_append_text(out, "null");
        return;
    }
    (void)json_dump_callback(value, append, out, JSON_COMPACT | JSON_ENCODE_ANY);
}

bool json_tree_is_text(const struct json_t *value)
{
    return json_is_string(value);
}

bool json_tree_is_object(const struct json_t *value)
{
    return json_is_object(value);
}

bool json_tree_is_array(const struct json_t *value)
{
    return json_is_array(value);
}

const char *json_tree_other_key(const struct json_t *object, const char *const *keys)
{
    json_t *all = (json_t *)(uintptr_t)object; /* jansson's iterators are not const */
    for (void *at = json_object_iter(all); at != NULL; at = json_object_iter_next(all, at)) {
        const char *key = json_object_iter_key(at);
        size_t i = 0;
        while (keys[i] != NULL && strcmp(keys[i], key) != 0) {
            i++;
        }
        if (keys[i] == NULL) {
            return key;
        }
    }
    return NULL;
}
