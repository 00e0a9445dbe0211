/* The request line and the header lines.
 *
 * Positions are offsets, since the bytes may have moved when the next line is read. They become
 * slices when the head is complete. */
#include "wire/http1_head.h"

#define T CHAR_TOKEN
#define U CHAR_TARGET
#define H CHAR_HOST

/* clang-format off */
/* A target may contain all visible characters except '#', which no client sends, and raw UTF-8,
 * which some send. A host contains no '@' (which could hide a user), '/', '?' or '"'. */
const uint8_t http1_chars[256] = {
    ['!'] = T | U | H, ['"'] = U, ['#'] = T, ['$'] = T | U | H, ['%'] = T | U | H,
    ['&'] = T | U | H, ['\''] = T | U | H, ['('] = U | H, [')'] = U | H, ['*'] = T | U | H,
    ['+'] = T | U | H, [','] = U | H, ['-'] = T | U | H, ['.'] = T | U | H, ['/'] = U,
    ['0' ... '9'] = T | U | H | CHAR_DIGIT | CHAR_HEX,
    [':'] = U | H, [';'] = U | H, ['<'] = U, ['='] = U | H, ['>'] = U, ['?'] = U, ['@'] = U,
    ['A' ... 'F'] = T | U | H | CHAR_HEX, ['G' ... 'Z'] = T | U | H,
    ['['] = U | H, ['\\'] = U, [']'] = U | H, ['^'] = T | U, ['_'] = T | U | H, ['`'] = T | U,
    ['a' ... 'f'] = T | U | H | CHAR_HEX, ['g' ... 'z'] = T | U | H,
    ['{'] = U, ['|'] = T | U, ['}'] = U, ['~'] = T | U | H,
    [0x80 ... 0xff] = U,
};

static const struct slice methods[] = {
#define M(text) {(const uint8_t *)(text), sizeof(text) - 1}
    [HTTP_GET] = M("GET"), [HTTP_HEAD] = M("HEAD"), [HTTP_POST] = M("POST"),
    [HTTP_PUT] = M("PUT"), [HTTP_PATCH] = M("PATCH"), [HTTP_DELETE] = M("DELETE"),
    [HTTP_OPTIONS] = M("OPTIONS"), [HTTP_LOCK] = M("LOCK"), [HTTP_UNLOCK] = M("UNLOCK"),
#undef M
};
/* clang-format on */

enum { METHOD_COUNT = sizeof(methods) / sizeof(methods[0]) };

const char *http_method_text(enum http_method method)
{
    return (const char *)methods[method].data;
}

bool http_method_read(struct slice text, enum http_method *out)
{
    for (unsigned i = 0; i < METHOD_COUNT; i++) {
        if (slice_equal(text, methods[i])) {
            *out = (enum http_method)i;
            return true;
        }
    }
    return false;
}

static bool all_are(struct slice text, unsigned classes)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!char_is(text.data[i], classes)) {
            return false;
        }
    }
    return true;
}

/* Without regard to case; `lower` is a token in lower case. */
static bool is_word(struct slice text, struct slice lower)
{
    if (text.len != lower.len) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if ((c >= 'A' && c <= 'Z' ? c | 0x20 : c) != lower.data[i]) {
            return false;
        }
    }
    return true;
}

static bool is_control(uint8_t byte)
{
    return (byte < 0x20 && byte != '\t') || byte == 0x7f;
}

enum hf_error head_check_text(struct slice text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    size_t i = 0;
    while (i < text.len) {
        size_t stop = text.len;
        if (text.len - i >= 8) {
            /* Eight bytes at once: below 0x20, or 0x7f (adding 1 sets its high bit). */
            uint64_t word;
            memcpy(&word, text.data + i, 8);
            uint64_t low = (word - ones * 0x20) & ~word;
            uint64_t del = ((word & ones * 0x7f) + ones) & ~word;
            stop = i + 8;
            if (((low | del) & ones * 0x80) == 0) {
                i = stop;
                continue;
            }
        }
        for (; i < stop; i++) {
            if (is_control(text.data[i])) {
                return text.data[i] == 0 ? HF_HTTP_NUL : HF_HTTP_CONTROL;
            }
        }
    }
    return HF_OK;
}

/* ---- the request line ---- */

static struct http1_span span_of(const uint8_t *bytes, struct slice part)
{
    if (part.len == 0) {
        return (struct http1_span){0, 0};
    }
    return (struct http1_span){(uint16_t)(part.data - bytes), (uint16_t)part.len};
}

/* Removes the text before the first `separator`, and the separator. */
static bool cut(struct slice *rest, uint8_t separator, struct slice *before)
{
    const uint8_t *at = rest->len == 0 ? NULL : memchr(rest->data, separator, rest->len);
    if (at == NULL) {
        return false;
    }
    size_t len = (size_t)(at - rest->data);
    *before = slice_make(rest->data, len);
    *rest = slice_make(at + 1, rest->len - len - 1);
    return true;
}

/* Removes SCHEME://HOST of an absolute target. */
static bool cut_authority(struct slice *target, struct slice *host)
{
    struct slice scheme;
    if (!cut(target, ':', &scheme) || target->len < 2 || memcmp(target->data, "//", 2) != 0 ||
        (!is_word(scheme, slice_of("http")) && !is_word(scheme, slice_of("https")))) {
        return false;
    }
    size_t end = 2;
    while (end < target->len && target->data[end] != '/' && target->data[end] != '?') {
        end++;
    }
    *host = slice_make(target->data + 2, end - 2);
    *target = slice_make(target->data + end, target->len - end);
    return host->len > 0 && all_are(*host, CHAR_HOST);
}

static enum hf_error parse_target(struct http1 *p, const uint8_t *bytes, struct slice target)
{
    struct slice host = {NULL, 0}, path, query = {NULL, 0};
    if (target.len == 0 || !all_are(target, CHAR_TARGET)) {
        return HF_HTTP_TARGET;
    }
    if (target.len == 1 && target.data[0] == '*') {
        p->path = span_of(bytes, target);
        return p->request.method == HTTP_OPTIONS ? HF_OK : HF_HTTP_TARGET;
    }
    if (target.data[0] != '/' && !cut_authority(&target, &host)) {
        return HF_HTTP_TARGET;
    }
    path = target;
    if (cut(&target, '?', &path)) {
        query = target;
    }
    p->host = span_of(bytes, host);
    p->path = span_of(bytes, path);
    p->query = span_of(bytes, query);
    return HF_OK;
}

static enum hf_error parse_version(struct http1 *p, struct slice version)
{
    const uint8_t *v = version.data;
    if (version.len != 8 || memcmp(v, "HTTP/", 5) != 0 || !char_is(v[5], CHAR_DIGIT) ||
        v[6] != '.' || !char_is(v[7], CHAR_DIGIT)) {
        return HF_HTTP_REQUEST_LINE;
    }
    if (v[5] != '1' || v[7] > '1') {
        return HF_HTTP_VERSION;
    }
    p->request.minor = v[7] - (unsigned)'0';
    return HF_OK;
}

static enum hf_error parse_method(struct http1 *p, struct slice method)
{
    return http_method_read(method, &p->request.method) ? HF_OK : HF_HTTP_METHOD;
}

enum hf_error head_request_line(struct http1 *p, const uint8_t *bytes, size_t at, size_t len)
{
    struct slice rest = slice_make(bytes + at, len);
    enum hf_error error = head_check_text(rest);
    if (error != HF_OK) {
        return error;
    }
    struct slice method, target;
    if (!cut(&rest, ' ', &method) || method.len == 0 || !all_are(method, CHAR_TOKEN) ||
        !cut(&rest, ' ', &target)) {
        return HF_HTTP_REQUEST_LINE;
    }
    if ((error = parse_version(p, rest)) != HF_OK || (error = parse_method(p, method)) != HF_OK) {
        return error;
    }
    return parse_target(p, bytes, target);
}

/* ---- the headers ---- */

static bool is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

static struct slice trim(struct slice text)
{
    while (text.len > 0 && is_space(text.data[0])) {
        text = slice_make(text.data + 1, text.len - 1);
    }
    while (text.len > 0 && is_space(text.data[text.len - 1])) {
        text.len--;
    }
    return text;
}

enum hf_error head_split_field(struct slice line, struct slice *name, struct slice *value)
{
    if (is_space(line.data[0])) {
        return HF_HTTP_FOLDED;
    }
    size_t len = 0;
    while (len < line.len && char_is(line.data[len], CHAR_TOKEN)) {
        len++;
    }
    struct slice rest = slice_make(line.data + len, line.len - len);
    enum hf_error error = head_check_text(rest);
    if (error != HF_OK) {
        return error;
    }
    if (rest.len == 0 || rest.data[0] != ':' || len == 0) {
        struct slice after = trim(rest);
        bool spaced = after.len < rest.len && after.len > 0 && after.data[0] == ':' && len > 0;
        return spaced ? HF_HTTP_COLON : HF_HTTP_HEADER;
    }
    *name = slice_make(line.data, len);
    *value = trim(slice_make(rest.data + 1, rest.len - 1));
    return HF_OK;
}

static enum hf_error note_host(struct http1 *p, const uint8_t *bytes, struct slice value)
{
    if (p->has_host || !all_are(value, CHAR_HOST)) {
        return HF_HTTP_HOST;
    }
    p->has_host = true;
    if (p->host.len == 0) { /* the host of an absolute target takes precedence */
        p->host = span_of(bytes, value);
    }
    return HF_OK;
}

static enum hf_error note_length(struct http1 *p, struct slice value)
{
    if (p->has_length) {
        return HF_HTTP_LENGTH_REPEATED;
    }
    if (value.len == 0 || !all_are(value, CHAR_DIGIT)) {
        return HF_HTTP_LENGTH;
    }
    uint64_t length = 0;
    for (size_t i = 0; i < value.len; i++) {
        length = length * 10 + (value.data[i] - (unsigned)'0');
        if (length > LIMIT_HTTP_BODY) {
            return HF_BODY_TOO_LARGE;
        }
    }
    p->has_length = true;
    p->request.content_length = length;
    return HF_OK;
}

static enum hf_error note_encoding(struct http1 *p, struct slice value)
{
    if (p->request.chunked || !is_word(value, slice_of("chunked"))) {
        return HF_HTTP_ENCODING;
    }
    p->request.chunked = true;
    return HF_OK;
}

/* Unknown words are for proxies. */
static void note_connection(struct http1 *p, struct slice value)
{
    for (;;) {
        struct slice word = value;
        bool more = cut(&value, ',', &word);
        word = trim(word);
        p->wants_close |= is_word(word, slice_of("close"));
        p->wants_keep_alive |= is_word(word, slice_of("keep-alive"));
        if (!more) {
            return;
        }
    }
}

/* Ignored for HTTP/1.0, whose clients do not wait. */
static enum hf_error note_expect(struct http1 *p, struct slice value)
{
    if (p->request.minor == 0) {
        return HF_OK;
    }
    p->request.expect_continue = is_word(value, slice_of("100-continue"));
    return p->request.expect_continue ? HF_OK : HF_HTTP_EXPECT;
}

enum hf_error head_field(struct http1 *p, const uint8_t *bytes, size_t at, size_t len)
{
    if (p->field_count == LIMIT_HTTP_HEADERS) {
        return HF_TOO_MANY_HEADERS;
    }
    struct slice name, value;
    enum hf_error error = head_split_field(slice_make(bytes + at, len), &name, &value);
    if (error != HF_OK) {
        return error;
    }
    p->fields[p->field_count++] = (struct http1_field){span_of(bytes, name), span_of(bytes, value)};
    switch (name.len) {
    case 4:
        return is_word(name, slice_of("host")) ? note_host(p, bytes, value) : HF_OK;
    case 6:
        return is_word(name, slice_of("expect")) ? note_expect(p, value) : HF_OK;
    case 10:
        if (is_word(name, slice_of("connection"))) {
            note_connection(p, value);
        }
        return HF_OK;
    case 14:
        return is_word(name, slice_of("content-length")) ? note_length(p, value) : HF_OK;
    case 17:
        return is_word(name, slice_of("transfer-encoding")) ? note_encoding(p, value) : HF_OK;
    default:
        return HF_OK;
    }
}

enum hf_error head_finish(struct http1 *p, const uint8_t *bytes)
{
    struct http1_request *request = &p->request;
    if (request->chunked && p->has_length) {
        return HF_HTTP_LENGTH_CHUNKED;
    }
    if (request->chunked && request->minor == 0) {
        return HF_HTTP_10_CHUNKED;
    }
    /* RFC 1945, section 8.3. In HTTP/1.1 no length means no body, and curl -X POST relies on
     * that. */
    if (request->method >= HTTP_POST && request->method <= HTTP_PATCH && request->minor == 0 &&
        !p->has_length) {
        return HF_HTTP_LENGTH_REQUIRED;
    }
    if (request->minor == 1 && !p->has_host) {
        return HF_HTTP_HOST;
    }
    request->keep_alive = !p->wants_close && (request->minor == 1 || p->wants_keep_alive);
    request->expect_continue &= request->chunked || request->content_length > 0;
    request->host = slice_make(bytes + p->host.at, p->host.len);
    request->query = slice_make(bytes + p->query.at, p->query.len);
    request->path = p->path.len > 0 ? slice_make(bytes + p->path.at, p->path.len) : slice_of("/");
    p->head = bytes;
    return HF_OK;
}

unsigned http1_header(const struct http1 *p, const char *name, struct slice *value)
{
    unsigned count = 0;
    for (unsigned i = 0; i < p->field_count; i++) {
        if (is_word(http1_header_name(p, i), slice_of(name)) && count++ == 0) {
            *value = http1_header_value(p, i);
        }
    }
    return count;
}
