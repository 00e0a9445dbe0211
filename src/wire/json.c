/* Only this file and json_tree.c include jansson, which validates JSON and decodes strings and
 * keys. Numbers and values of any kind are taken from the text itself (wire/json_scan.h). jansson's
 * objects keep their order: their n-th member is the n-th one in the text. */
#include "wire/json.h"

#include <inttypes.h>
#include <jansson.h>

enum {
    QUOTED_KEY = 64,   /* bytes of a field's name quoted in an error */
    QUOTED_ERROR = 80, /* bytes of jansson's message */
};

/* ---- the text ---- */

static enum hf_error code_of(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_invalid_utf8:
        return HF_JSON_NOT_UTF8;
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return HF_JSON_NUL;
    case json_error_duplicate_key:
        return HF_FIELD_REPEATED;
    case json_error_numeric_overflow:
        return HF_JSON_NUMBER;
    case json_error_stack_overflow:
        return HF_JSON_TOO_DEEP;
    default:
        return HF_JSON_MALFORMED;
    }
}

static enum hf_error plain_fault(struct fault *fault, enum hf_error code)
{
    return fault_set(fault, code, "%s", hf_error_text(code));
}

static enum hf_error parse_fault(struct fault *fault, const json_error_t *error)
{
    hf_assert(json_error_code(error) != json_error_out_of_memory);
    enum hf_error code = code_of(error);
    struct slice detail = slice_of(error->text);
    return fault_set(fault, code, "%s: line %d, column %d: %.*s", hf_error_text(code), error->line,
                     error->column, fault_clip(detail, QUOTED_ERROR), error->text);
}

enum hf_error json_doc_open(struct json_doc *doc, const struct memory *memory, struct slice text,
                            struct fault *fault)
{
    if (text.len == 0) {
        return fault_set(fault, HF_JSON_MALFORMED, "the body is empty, a JSON object is needed");
    }
    if (text.len > LIMIT_HTTP_BODY) {
        return plain_fault(fault, HF_BODY_TOO_LARGE);
    }
    if (memchr(text.data, 0, text.len) != NULL) {
        return plain_fault(fault, HF_JSON_NUL);
    }
    if (!json_scan(text, &doc->scan)) {
        return plain_fault(fault, HF_JSON_TOO_DEEP);
    }
    /* As real numbers, since jansson refuses integers of more than 64 bits without naming the
     * field. */
    json_error_t error;
    json_t *root =
        json_loadb((const char *)text.data, text.len,
                   JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error);
    if (root == NULL) {
        return parse_fault(fault, &error);
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return plain_fault(fault, HF_JSON_NOT_OBJECT);
    }
    hf_assert(json_object_size(root) == doc->scan.count);
    doc->root = root;
    doc->memory = memory;
    doc->blocks = NULL;
    return HF_OK;
}

/* ---- returned memory ---- */

struct json_doc_block {
    struct json_doc_block *next;
    size_t size;
};

static void *doc_alloc(struct json_doc *doc, size_t size)
{
    struct json_doc_block *block = memory_alloc(doc->memory, sizeof(*block) + size);
    *block = (struct json_doc_block){doc->blocks, sizeof(*block) + size};
    doc->blocks = block;
    return block + 1;
}

void json_doc_close(struct json_doc *doc)
{
    while (doc->blocks != NULL) {
        struct json_doc_block *block = doc->blocks;
        doc->blocks = block->next;
        memory_free(doc->memory, block, block->size);
    }
    json_decref(doc->root);
    doc->root = NULL;
}

/* ---- the fields ---- */

union value {
    struct slice text;
    uint64_t natural;
    int64_t whole;
    bool truth;
    struct json_strings strings;
};

static enum hf_error field_fault(struct fault *fault, enum hf_error code,
                                 const struct json_field *field)
{
    const char *name = field->name;
    int64_t min = field->min, max = field->max;
    switch (field->type) {
    case JSON_FIELD_STRING:
        return fault_set(fault, code, "%s: must be a string of %" PRId64 " to %" PRId64 " bytes",
                         name, min, max);
    case JSON_FIELD_UINT:
    case JSON_FIELD_INT:
        return fault_set(fault, code, "%s: must be a whole number from %" PRId64 " to %" PRId64,
                         name, min, max);
    case JSON_FIELD_BOOL:
        return fault_set(fault, code, "%s: must be true or false", name);
    case JSON_FIELD_STRINGS:
        return fault_set(fault, code, "%s: must be an array of %" PRId64 " to %" PRId64 " strings",
                         name, min, max);
    case JSON_FIELD_ANY:
        return fault_set(fault, code, "%s: must be at most %" PRId64 " bytes of JSON", name, max);
    }
    return code;
}

static bool is_within(size_t size, const struct json_field *field)
{
    return (int64_t)size >= field->min && (int64_t)size <= field->max;
}

static struct slice string_of(const json_t *string)
{
    return slice_make(json_string_value(string), json_string_length(string));
}

static enum hf_error read_number(struct slice text, const struct json_field *field, int64_t *out)
{
    int64_t number = 0;
    switch (json_scan_integer(text, &number)) {
    case JSON_SCAN_FRACTION:
        return HF_FIELD_TYPE;
    case JSON_SCAN_LARGE:
        return HF_FIELD_RANGE;
    case JSON_SCAN_WHOLE:
        break;
    }
    if (number < field->min || number > field->max) {
        return HF_FIELD_RANGE;
    }
    *out = number;
    return HF_OK;
}

static enum hf_error read_strings(struct json_doc *doc, const json_t *array,
                                  const struct json_field *field, struct json_strings *out,
                                  struct fault *fault)
{
    size_t count = json_array_size(array);
    if (!json_is_array(array) || !is_within(count, field)) {
        return field_fault(fault, json_is_array(array) ? HF_FIELD_RANGE : HF_FIELD_TYPE, field);
    }
    struct slice *items = doc_alloc(doc, count * sizeof(*items));
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        items[i] = string_of(item);
        if (!json_is_string(item) || items[i].len == 0 || items[i].len > field->item_max) {
            return fault_set(fault, json_is_string(item) ? HF_FIELD_RANGE : HF_FIELD_TYPE,
                             "%s[%zu]: must be a string of 1 to %zu bytes", field->name, i,
                             field->item_max);
        }
    }
    *out = (struct json_strings){items, count};
    return HF_OK;
}

static enum hf_error read_any(struct json_doc *doc, struct slice text,
                              const struct json_field *field, struct slice *out)
{
    uint8_t *compact = doc_alloc(doc, text.len);
    size_t len = json_scan_compact(text, compact);
    if (!is_within(len, field)) {
        return HF_FIELD_RANGE;
    }
    *out = slice_make(compact, len);
    return HF_OK;
}

/* One member that is not null; `text` is its value in the text. */
static enum hf_error read_value(struct json_doc *doc, const json_t *json, struct slice text,
                                const struct json_field *field, union value *out,
                                struct fault *fault)
{
    enum hf_error error = HF_FIELD_TYPE;
    switch (field->type) {
    case JSON_FIELD_STRING:
        if (json_is_string(json)) {
            out->text = string_of(json);
            error = is_within(out->text.len, field) ? HF_OK : HF_FIELD_RANGE;
        }
        break;
    case JSON_FIELD_UINT:
    case JSON_FIELD_INT:
        if (json_is_number(json)) {
            error = read_number(text, field, &out->whole);
        }
        break;
    case JSON_FIELD_BOOL:
        if (json_is_boolean(json)) {
            out->truth = json_is_true(json);
            error = HF_OK;
        }
        break;
    case JSON_FIELD_STRINGS:
        return read_strings(doc, json, field, &out->strings, fault);
    case JSON_FIELD_ANY:
        error = read_any(doc, text, field, &out->text);
        break;
    }
    return error == HF_OK ? HF_OK : field_fault(fault, error, field);
}

static void store(const struct json_field *field, const union value *value, void *out)
{
    void *member = (char *)out + field->offset;
    switch (field->type) {
    case JSON_FIELD_STRING:
    case JSON_FIELD_ANY:
        *(struct slice *)member = value->text;
        break;
    case JSON_FIELD_UINT:
        *(uint64_t *)member = (uint64_t)value->whole;
        break;
    case JSON_FIELD_INT:
        *(int64_t *)member = value->whole;
        break;
    case JSON_FIELD_BOOL:
        *(bool *)member = value->truth;
        break;
    case JSON_FIELD_STRINGS:
        *(struct json_strings *)member = value->strings;
        break;
    }
}

static size_t find_field(const struct json_field *fields, size_t count, struct slice key)
{
    size_t i = 0;
    while (i < count && !slice_equal(slice_of(fields[i].name), key)) {
        i++;
    }
    return i;
}

static void check_table(const struct json_field *fields, size_t count)
{
    hf_assert(count <= JSON_SCAN_MEMBERS);
    for (size_t i = 0; i < count; i++) {
        hf_assert(fields[i].max < (int64_t)LIMIT_NUMBER && fields[i].min > -(int64_t)LIMIT_NUMBER);
        hf_assert(fields[i].type != JSON_FIELD_UINT || fields[i].min >= 0);
    }
}

static enum hf_error check_missing(const struct json_field *fields, size_t count, uint64_t present,
                                   struct fault *fault)
{
    for (size_t i = 0; i < count; i++) {
        if (fields[i].required && (present >> i & 1) == 0) {
            return fault_set(fault, HF_FIELD_MISSING, "%s: is required", fields[i].name);
        }
    }
    return HF_OK;
}

enum hf_error json_doc_read(struct json_doc *doc, const struct json_field *fields, size_t count,
                            void *out, uint64_t *present, struct fault *fault)
{
    check_table(fields, count);
    union value values[JSON_SCAN_MEMBERS];
    uint64_t found = 0;
    size_t nth = 0;
    for (void *iter = json_object_iter(doc->root); iter != NULL;
         iter = json_object_iter_next(doc->root, iter), nth++) {
        struct slice key = slice_make(json_object_iter_key(iter), json_object_iter_key_len(iter));
        size_t row = find_field(fields, count, key);
        if (row == count) {
            return fault_set(fault, HF_FIELD_UNKNOWN, "%.*s: there is no such field here",
                             fault_clip(key, QUOTED_KEY), (const char *)key.data);
        }
        const json_t *json = json_object_iter_value(iter);
        if (json_is_null(json)) {
            continue;
        }
        /* Keys are unique, so there are no more known members than the scan stores. */
        enum hf_error error =
            read_value(doc, json, doc->scan.values[nth], &fields[row], &values[row], fault);
        if (error != HF_OK) {
            return error;
        }
        found |= UINT64_C(1) << row;
    }
    enum hf_error error = check_missing(fields, count, found, fault);
    if (error != HF_OK) {
        return error;
    }
    for (size_t i = 0; i < count; i++) {
        if ((found >> i & 1) != 0) {
            store(&fields[i], &values[i], out);
        }
    }
    *present = found;
    return HF_OK;
}
