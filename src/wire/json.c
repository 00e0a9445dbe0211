/* Requests by a table of fields, see json.h. json_parse.c validates the text and finds the members;
 * strings without escapes are slices of the text. */
#include "wire/json.h"

#include <inttypes.h>

#include "wire/json_scan.h"

enum { QUOTED_KEY = 64 }; /* bytes of a field's name quoted in an error */

/* ---- the text ---- */

static enum hf_error plain_fault(struct fault *fault, enum hf_error code)
{
    return fault_set(fault, code, "%s", hf_error_text(code));
}

static enum hf_error check_bytes(struct slice text, struct fault *fault)
{
    if (text.len > LIMIT_HTTP_BODY) {
        return plain_fault(fault, HF_BODY_TOO_LARGE);
    }
    if (text.len > 0 && memchr(text.data, 0, text.len) != NULL) {
        return plain_fault(fault, HF_JSON_NUL);
    }
    return HF_OK;
}

enum hf_error json_doc_open(struct json_doc *doc, const struct memory *memory, struct slice text,
                            struct fault *fault)
{
    if (text.len == 0) {
        return fault_set(fault, HF_JSON_MALFORMED, "the body is empty, a JSON object is needed");
    }
    enum json_kind kind;
    enum hf_error error = check_bytes(text, fault);
    if (error == HF_OK) {
        error = json_parse(memory, text, 0, &kind, &doc->members, fault);
    }
    if (error != HF_OK) {
        return error;
    }
    if (kind != JSON_KIND_OBJECT) {
        return plain_fault(fault, HF_JSON_NOT_OBJECT);
    }
    doc->memory = memory;
    doc->blocks = NULL;
    return HF_OK;
}

enum hf_error json_compact(const struct memory *memory, struct slice text, uint8_t *out,
                           size_t *len, struct fault *fault)
{
    enum json_kind kind;
    enum hf_error error = check_bytes(text, fault);
    if (error == HF_OK) {
        error = json_parse(memory, text, 1, &kind, NULL, fault);
    }
    if (error == HF_OK) {
        *len = kind == JSON_KIND_NULL ? 0 : json_scan_compact(text, out);
    }
    return error;
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

/* The contents of a string; `text` has its quotes. */
static struct slice string_of(struct json_doc *doc, struct slice text)
{
    struct slice inner = slice_make(text.data + 1, text.len - 2);
    if (inner.len == 0 || memchr(inner.data, '\\', inner.len) == NULL) {
        return inner;
    }
    uint8_t *decoded = doc_alloc(doc, inner.len);
    return slice_make(decoded, json_scan_unescape(inner, decoded));
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

static size_t count_items(struct slice array)
{
    struct slice item;
    size_t count = 0;
    while (json_scan_item(&array, &item)) {
        count++;
    }
    return count;
}

static enum hf_error read_strings(struct json_doc *doc, struct slice array,
                                  const struct json_field *field, struct json_strings *out,
                                  struct fault *fault)
{
    size_t count = count_items(array);
    if (!is_within(count, field)) {
        return field_fault(fault, HF_FIELD_RANGE, field);
    }
    struct slice *items = doc_alloc(doc, count * sizeof(*items));
    struct slice item;
    for (size_t i = 0; json_scan_item(&array, &item); i++) {
        bool is_string = item.data[0] == '"';
        items[i] = is_string ? string_of(doc, item) : item;
        if (!is_string || items[i].len == 0 || items[i].len > field->item_max) {
            return fault_set(fault, is_string ? HF_FIELD_RANGE : HF_FIELD_TYPE,
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

/* One member that is not null. */
static enum hf_error read_value(struct json_doc *doc, const struct json_member *member,
                                const struct json_field *field, union value *out,
                                struct fault *fault)
{
    enum hf_error error = HF_FIELD_TYPE;
    switch (field->type) {
    case JSON_FIELD_STRING:
        if (member->kind == JSON_KIND_STRING) {
            out->text = string_of(doc, member->value);
            error = is_within(out->text.len, field) ? HF_OK : HF_FIELD_RANGE;
        }
        break;
    case JSON_FIELD_UINT:
    case JSON_FIELD_INT:
        if (member->kind == JSON_KIND_NUMBER) {
            error = read_number(member->value, field, &out->whole);
        }
        break;
    case JSON_FIELD_BOOL:
        if (member->kind == JSON_KIND_TRUE || member->kind == JSON_KIND_FALSE) {
            out->truth = member->kind == JSON_KIND_TRUE;
            error = HF_OK;
        }
        break;
    case JSON_FIELD_STRINGS:
        if (member->kind == JSON_KIND_ARRAY) {
            return read_strings(doc, member->value, field, &out->strings, fault);
        }
        break;
    case JSON_FIELD_ANY:
        error = read_any(doc, member->value, field, &out->text);
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
    hf_assert(count <= JSON_FIELDS);
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

static struct slice key_of(struct json_doc *doc, const struct json_member *member)
{
    if (!member->has_escapes) {
        return member->key;
    }
    uint8_t *decoded = doc_alloc(doc, member->key.len);
    return slice_make(decoded, json_scan_unescape(member->key, decoded));
}

bool json_doc_text(struct json_doc *doc, const char *key, struct slice *out)
{
    for (size_t i = 0; i < doc->members.count && i < JSON_MEMBERS; i++) {
        const struct json_member *member = &doc->members.at[i];
        if (member->kind == JSON_KIND_STRING && slice_equal(key_of(doc, member), slice_of(key))) {
            *out = string_of(doc, member->value);
            return true;
        }
    }
    return false;
}

enum hf_error json_doc_read(struct json_doc *doc, const struct json_field *fields, size_t count,
                            void *out, uint64_t *present, struct fault *fault)
{
    check_table(fields, count);
    union value values[JSON_FIELDS];
    uint64_t found = 0;
    /* Keys are unique, so of more members than JSON_MEMBERS one of the first is unknown. */
    for (size_t i = 0; i < doc->members.count; i++) {
        hf_assert(i < JSON_MEMBERS);
        const struct json_member *member = &doc->members.at[i];
        struct slice key = key_of(doc, member);
        size_t row = find_field(fields, count, key);
        if (row == count) {
            return fault_set(fault, HF_FIELD_UNKNOWN, "%.*s: there is no such field here",
                             fault_clip(key, QUOTED_KEY), (const char *)key.data);
        }
        if (member->kind == JSON_KIND_NULL) {
            continue;
        }
        enum hf_error error = read_value(doc, member, &fields[row], &values[row], fault);
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
