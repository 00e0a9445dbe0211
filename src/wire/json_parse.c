/* The parser of json_parse.h: recursive descent, one function for each kind of value. */
#include "wire/json_parse.h"

#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "wire/json_keys.h"
#include "wire/json_scan.h"

enum {
    QUOTED = 40,      /* bytes of a key quoted in an error */
    SAFE_DIGITS = 300 /* a number of so many characters without exponent fits into a double */
};

struct parser {
    const uint8_t *at;
    const uint8_t *end;
    unsigned depth;
    const struct memory *memory;
    struct json_members *members; /* NULL: not wanted */
    struct json_keys keys;        /* of the objects that are open */
    enum hf_error error;
    const char *problem;
    struct slice about; /* quoted in the error; may be empty */
    const uint8_t *where;
};

static bool fail(struct parser *p, enum hf_error error, const char *problem)
{
    p->error = error;
    p->problem = problem;
    p->where = p->at;
    return false;
}

static bool expected(struct parser *p, const char *what)
{
    return fail(p, HF_JSON_MALFORMED, p->at == p->end ? "premature end of input" : what);
}

static void skip_white(struct parser *p)
{
    while (p->at < p->end &&
           (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t')) {
        p->at++;
    }
}

static bool take(struct parser *p, uint8_t c)
{
    if (p->at == p->end || *p->at != c) {
        return false;
    }
    p->at++;
    return true;
}

/* ---- strings ---- */

static bool take_code_unit(struct parser *p, uint32_t *out)
{
    if (p->end - p->at < 4 || !json_scan_hex(p->at, out)) {
        return expected(p, "invalid escape");
    }
    p->at += 4;
    return true;
}

/* After `\u`. */
static bool parse_code_point(struct parser *p)
{
    uint32_t first;
    uint32_t second;
    if (!take_code_unit(p, &first)) {
        return false;
    }
    if (first == 0) {
        return fail(p, HF_JSON_NUL, "\\u0000 is not allowed");
    }
    if (first < 0xd800 || first > 0xdfff) {
        return true;
    }
    if (first > 0xdbff || !take(p, '\\') || !take(p, 'u')) {
        return expected(p, "a surrogate without its pair");
    }
    if (!take_code_unit(p, &second)) {
        return false;
    }
    return (second >= 0xdc00 && second <= 0xdfff) || expected(p, "a surrogate without its pair");
}

/* After a backslash. */
static bool parse_escape(struct parser *p)
{
    if (take(p, 'u')) {
        return parse_code_point(p);
    }
    bool is_known = p->at < p->end && memchr("\"\\/bfnrt", *p->at, 8) != NULL;
    if (!is_known) {
        return expected(p, "invalid escape");
    }
    p->at++;
    return true;
}

static bool parse_string(struct parser *p, struct slice *out, bool *has_escapes)
{
    const uint8_t *begin = ++p->at;
    *has_escapes = false;
    while (p->at < p->end && *p->at != '"') {
        if (*p->at == '\\') {
            *has_escapes = true;
            p->at++;
            if (!parse_escape(p)) {
                return false;
            }
        } else if (*p->at < 0x20) {
            return fail(p, HF_JSON_MALFORMED, "a control character in a string");
        } else {
            p->at++;
        }
    }
    *out = slice_make(begin, (size_t)(p->at - begin));
    return take(p, '"') || expected(p, "");
}

/* ---- numbers and words ---- */

static size_t skip_digits(struct parser *p)
{
    const uint8_t *begin = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
        p->at++;
    }
    return (size_t)(p->at - begin);
}

static bool fits_double(const struct parser *p, struct slice number)
{
    char *text = memory_alloc(p->memory, number.len + 1);
    memcpy(text, number.data, number.len);
    text[number.len] = '\0';
    bool fits = isfinite(strtod(text, NULL));
    memory_free(p->memory, text, number.len + 1);
    return fits;
}

static bool parse_number(struct parser *p)
{
    const uint8_t *begin = p->at;
    bool has_exponent = false;
    (void)take(p, '-');
    if (!take(p, '0') && skip_digits(p) == 0) {
        return expected(p, "invalid token");
    }
    if (take(p, '.') && skip_digits(p) == 0) {
        return expected(p, "invalid token");
    }
    if (take(p, 'e') || take(p, 'E')) {
        has_exponent = true;
        if (!take(p, '+')) {
            (void)take(p, '-');
        }
        if (skip_digits(p) == 0) {
            return expected(p, "invalid token");
        }
    }
    struct slice number = slice_make(begin, (size_t)(p->at - begin));
    if ((has_exponent || number.len > SAFE_DIGITS) && !fits_double(p, number)) {
        return fail(p, HF_JSON_NUMBER, "number overflow");
    }
    return true;
}

static bool parse_word(struct parser *p, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(p->end - p->at) < len || memcmp(p->at, word, len) != 0) {
        return expected(p, "invalid token");
    }
    p->at += len;
    return true;
}

/* ---- arrays and objects ---- */

static bool parse_value(struct parser *p, enum json_kind *kind);

static bool enter(struct parser *p)
{
    p->at++;
    if (++p->depth > LIMIT_JSON_DEPTH) {
        return fail(p, HF_JSON_TOO_DEEP, "");
    }
    return true;
}

static bool parse_array(struct parser *p)
{
    enum json_kind kind;
    if (!enter(p)) {
        return false;
    }
    skip_white(p);
    if (!take(p, ']')) {
        do {
            skip_white(p);
            if (!parse_value(p, &kind)) {
                return false;
            }
            skip_white(p);
        } while (take(p, ','));
        if (!take(p, ']')) {
            return expected(p, "']' expected");
        }
    }
    p->depth--;
    return true;
}

static bool parse_key(struct parser *p, size_t first, struct json_member *out)
{
    skip_white(p);
    if (p->at == p->end || *p->at != '"') {
        return expected(p, "string or '}' expected");
    }
    if (!parse_string(p, &out->key, &out->has_escapes)) {
        return false;
    }
    if (!json_keys_add(&p->keys, first, out->key, out->has_escapes)) {
        p->about = out->key;
        return fail(p, HF_FIELD_REPEATED, "duplicate object key");
    }
    skip_white(p);
    return take(p, ':') || expected(p, "':' expected");
}

static bool parse_members(struct parser *p, size_t first, struct json_members *members)
{
    struct json_member member;
    do {
        if (!parse_key(p, first, &member)) {
            return false;
        }
        skip_white(p);
        const uint8_t *begin = p->at;
        if (!parse_value(p, &member.kind)) {
            return false;
        }
        member.value = slice_make(begin, (size_t)(p->at - begin));
        if (members != NULL) {
            if (members->count < JSON_MEMBERS) {
                members->at[members->count] = member;
            }
            members->count++;
        }
        skip_white(p);
    } while (take(p, ','));
    return take(p, '}') || expected(p, "'}' expected");
}

static bool parse_object(struct parser *p)
{
    struct json_members *members = p->members;
    size_t first = json_keys_begin(&p->keys);
    p->members = NULL; /* only those of the outermost object are wanted */
    if (!enter(p)) {
        return false;
    }
    skip_white(p);
    if (!take(p, '}') && !parse_members(p, first, members)) {
        return false;
    }
    p->depth--;
    return json_keys_end(&p->keys, first, &p->about) ||
           fail(p, HF_FIELD_REPEATED, "duplicate object key");
}

static bool parse_value(struct parser *p, enum json_kind *kind)
{
    struct slice ignored;
    bool has_escapes;
    switch (p->at == p->end ? 0 : *p->at) {
    case '{':
        *kind = JSON_KIND_OBJECT;
        return parse_object(p);
    case '[':
        *kind = JSON_KIND_ARRAY;
        p->members = NULL;
        return parse_array(p);
    case '"':
        *kind = JSON_KIND_STRING;
        return parse_string(p, &ignored, &has_escapes);
    case 't':
        *kind = JSON_KIND_TRUE;
        return parse_word(p, "true");
    case 'f':
        *kind = JSON_KIND_FALSE;
        return parse_word(p, "false");
    case 'n':
        *kind = JSON_KIND_NULL;
        return parse_word(p, "null");
    default:
        *kind = JSON_KIND_NUMBER;
        return parse_number(p);
    }
}

/* ---- the text ---- */

/* The first byte that is not UTF-8; only called if there is one. */
static const uint8_t *first_not_utf8(struct slice text)
{
    size_t i = 0;
    for (;;) {
        size_t len = 1;
        while (len <= 4 && len <= text.len - i && !text_is_utf8(slice_make(text.data + i, len))) {
            len++;
        }
        if (len > 4 || len > text.len - i) {
            return text.data + i;
        }
        i += len;
    }
}

/* Line and column (in characters) of the last byte before `where`. */
static enum hf_error report(const struct parser *p, struct slice text, struct fault *fault)
{
    unsigned line = 1;
    unsigned column = 0;
    for (const uint8_t *at = text.data; at < p->where; at++) {
        line += *at == '\n';
        column = *at == '\n' ? 0 : column + ((*at & 0xc0) != 0x80);
    }
    if (p->error == HF_JSON_TOO_DEEP) {
        return fault_set(fault, p->error, "%s", hf_error_text(p->error));
    }
    if (p->about.len == 0) {
        return fault_set(fault, p->error, "%s: line %u, column %u: %s", hf_error_text(p->error),
                         line, column, p->problem);
    }
    return fault_set(fault, p->error, "%s: line %u, column %u: %s near '\"%.*s\"'",
                     hf_error_text(p->error), line, column, p->problem,
                     fault_clip(p->about, QUOTED), (const char *)p->about.data);
}

static bool parse_text(struct parser *p, struct slice text, enum json_kind *kind)
{
    if (!text_is_utf8(text)) {
        p->at = first_not_utf8(text);
        return fail(p, HF_JSON_NOT_UTF8, "unable to decode a byte");
    }
    skip_white(p);
    if (!parse_value(p, kind)) {
        return false;
    }
    skip_white(p);
    return p->at == p->end || expected(p, "end of input expected");
}

enum hf_error json_parse(const struct memory *memory, struct slice text, unsigned depth,
                         enum json_kind *kind, struct json_members *members, struct fault *fault)
{
    struct parser p;
    p.at = text.data;
    p.end = text.len == 0 ? text.data : text.data + text.len;
    p.depth = depth;
    p.memory = memory;
    p.members = members;
    p.error = HF_OK;
    p.about = slice_make(NULL, 0);
    if (members != NULL) {
        members->count = 0;
    }
    json_keys_open(&p.keys, memory);
    bool is_valid = parse_text(&p, text, kind);
    enum hf_error error = is_valid ? HF_OK : report(&p, text, fault);
    json_keys_close(&p.keys);
    return error;
}
