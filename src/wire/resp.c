/* Parses RESP requests. Messages are those of Redis; limits are smaller, since a request contains
 * lock names and small scripts. */
#include "wire/resp.h"

#include "base/panic.h"

static const struct resp_result incomplete = {.status = RESP_INCOMPLETE};

static struct resp_result failed(const char *error)
{
    return (struct resp_result){.status = RESP_ERROR, .error = error};
}

void resp_parser_init(struct resp_parser *p)
{
    p->expected = 0;
    p->count = 0;
    p->has_length = false;
    p->at = 0;
    p->scanned = 0;
}

struct slice resp_argument(const struct resp_parser *p, const uint8_t *bytes, uint32_t i)
{
    hf_assert(i < p->count);
    return slice_make(bytes + p->offset[i], p->size[i]);
}

/* From `p->at` on, without its CR LF. False: not complete. */
static bool take_line(struct resp_parser *p, const uint8_t *bytes, size_t len, struct slice *line,
                      size_t *next)
{
    size_t from = p->scanned > p->at ? p->scanned : p->at;
    const uint8_t *end = from == len ? NULL : memchr(bytes + from, '\n', len - from);
    if (end == NULL) {
        p->scanned = len;
        return false;
    }
    size_t stop = (size_t)(end - bytes);
    *next = stop + 1;
    if (stop > p->at && bytes[stop - 1] == '\r') {
        stop--;
    }
    *line = slice_make(bytes + p->at, stop - p->at);
    return true;
}

/* Without sign, space or leading zeros: strict, since lengths delimit the arguments. */
static bool parse_length(struct slice text, uint32_t max, uint32_t *out)
{
    uint64_t value = 0;
    if (text.len == 0 || text.len > 10 || (text.len > 1 && text.data[0] == '0')) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    *out = (uint32_t)value;
    return value <= max;
}

/* Fast path for a number and its CR LF. Returns the offset of the next line. 0: incomplete or
 * different, use the general parser. */
static size_t read_plain_length(const uint8_t *bytes, size_t len, size_t at, uint32_t *out)
{
    enum { DIGITS = 6 };
    uint32_t value = 0;
    size_t end = at;
    while (end < len && end - at < DIGITS && bytes[end] >= '0' && bytes[end] <= '9') {
        value = value * 10 + (uint32_t)(bytes[end++] - '0');
    }
    bool is_plain = end > at && (bytes[at] != '0' || end == at + 1) && len - end >= 2 &&
                    bytes[end] == '\r' && bytes[end + 1] == '\n';
    *out = value;
    return is_plain ? end + 2 : 0;
}

/* ---- inline requests ---- */

static int hex(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static uint8_t escaped(uint8_t c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return c;
    }
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' || c == '\0';
}

/* Decodes one quoted word from *at, after its opening quote, to *to, which never overtakes it.
 * False: the quote is not closed, or no space follows it. */
static bool unquote(uint8_t *line, size_t end, uint8_t quote, size_t *at, size_t *to)
{
    for (size_t i = *at; i < end; i++) {
        uint8_t c = line[i];
        if (c == quote) {
            *at = i + 1;
            return i + 1 == end || is_space(line[i + 1]);
        }
        if (c == '\\' && quote == '"' && i + 3 < end && line[i + 1] == 'x' &&
            hex(line[i + 2]) >= 0 && hex(line[i + 3]) >= 0) {
            c = (uint8_t)(hex(line[i + 2]) * 16 + hex(line[i + 3]));
            i += 3;
        } else if (c == '\\' && quote == '"' && i + 1 < end) {
            c = escaped(line[++i]);
        } else if (c == '\\' && i + 1 < end && line[i + 1] == '\'') {
            c = line[++i];
        }
        line[(*to)++] = c;
    }
    return false;
}

static const char *split_words(struct resp_parser *p, uint8_t *bytes, size_t end)
{
    size_t at = 0;
    for (;;) {
        while (at < end && is_space(bytes[at])) {
            at++;
        }
        if (at == end) {
            return NULL;
        }
        if (p->count == LIMIT_RESP_ARGUMENTS) {
            return "too many words in an inline request";
        }
        size_t begin = at;
        size_t to = at;
        while (at < end && !is_space(bytes[at])) {
            uint8_t c = bytes[at++];
            if (c != '"' && c != '\'') {
                bytes[to++] = c;
            } else if (!unquote(bytes, end, c, &at, &to)) {
                return "unbalanced quotes in request";
            }
        }
        p->offset[p->count] = (uint32_t)begin;
        p->size[p->count++] = (uint32_t)(to - begin);
    }
}

static struct resp_result feed_inline(struct resp_parser *p, uint8_t *bytes, size_t len)
{
    struct slice line;
    size_t next;
    bool is_whole = take_line(p, bytes, len, &line, &next);
    /* Without its LF, one more byte may be its CR. */
    if (is_whole ? line.len > LIMIT_RESP_INLINE : len > LIMIT_RESP_INLINE + 1) {
        return failed("too big inline request");
    }
    if (!is_whole) {
        return incomplete;
    }
    const char *error = split_words(p, bytes, line.len);
    return error != NULL ? failed(error)
                         : (struct resp_result){.status = RESP_REQUEST, .consumed = next};
}

/* ---- an array of bulk strings ---- */

/* "*3". Null and negative arrays are empty requests. */
static const char *read_head(struct resp_parser *p, const uint8_t *bytes, size_t len, bool *is_done)
{
    struct slice line;
    size_t next;
    if (!take_line(p, bytes, len, &line, &next)) {
        return len > LIMIT_RESP_HEAD + 1 ? "too big mbulk count string" : NULL;
    }
    if (line.len > LIMIT_RESP_HEAD) {
        return "too big mbulk count string";
    }
    struct slice number = slice_make(line.data + 1, line.len - 1);
    bool is_nothing = number.len > 1 && number.data[0] == '-';
    if (is_nothing) {
        number = slice_make(number.data + 1, number.len - 1);
    }
    uint32_t count;
    if (!parse_length(number, is_nothing ? UINT32_MAX : LIMIT_RESP_ARGUMENTS, &count)) {
        return "invalid multibulk length";
    }
    p->at = next;
    p->expected = is_nothing ? 0 : count;
    *is_done = p->expected == 0;
    return NULL;
}

/* "$5". False: more bytes are needed, or *error is set. */
static bool read_length(struct resp_parser *p, const uint8_t *bytes, size_t len, const char **error)
{
    struct slice line;
    size_t next;
    if (p->at < len && bytes[p->at] != '$') {
        *error = "expected '$'";
        return false;
    }
    next = read_plain_length(bytes, len, p->at + 1, &p->length);
    if (next != 0 && p->length <= LIMIT_RESP_BULK && next + p->length <= LIMIT_RESP_REQUEST) {
        p->at = next;
        p->has_length = true;
        return true;
    }
    if (!take_line(p, bytes, len, &line, &next)) {
        *error = len - p->at > LIMIT_RESP_HEAD + 1 ? "too big bulk count string" : NULL;
        return false;
    }
    if (line.len > LIMIT_RESP_HEAD) {
        *error = "too big bulk count string";
        return false;
    }
    if (!parse_length(slice_make(line.data + 1, line.len - 1), LIMIT_RESP_BULK, &p->length) ||
        next + p->length > LIMIT_RESP_REQUEST) {
        *error = "invalid bulk length";
        return false;
    }
    p->at = next;
    p->has_length = true;
    return true;
}

static struct resp_result feed_array(struct resp_parser *p, const uint8_t *bytes, size_t len)
{
    const char *error = NULL;
    bool is_done = false;
    if (p->expected == 0) {
        error = read_head(p, bytes, len, &is_done);
        if (error != NULL) {
            return failed(error);
        }
    }
    while (p->count < p->expected) {
        if (!p->has_length && !read_length(p, bytes, len, &error)) {
            return error != NULL ? failed(error) : incomplete;
        }
        if (len - p->at < (size_t)p->length + 2) {
            return incomplete;
        }
        if (bytes[p->at + p->length] != '\r' || bytes[p->at + p->length + 1] != '\n') {
            return failed("a bulk string does not end with CR LF");
        }
        p->offset[p->count] = (uint32_t)p->at;
        p->size[p->count++] = p->length;
        p->at += (size_t)p->length + 2;
        p->has_length = false;
    }
    if (p->expected == 0 && !is_done) {
        return incomplete;
    }
    return (struct resp_result){.status = RESP_REQUEST, .consumed = p->at};
}

struct resp_result resp_feed(struct resp_parser *p, uint8_t *bytes, size_t len)
{
    if (p->at == 0 && p->scanned == 0) {
        p->count = 0;
    }
    if (len == 0) {
        return incomplete;
    }
    struct resp_result r = bytes[0] == '*' ? feed_array(p, bytes, len) : feed_inline(p, bytes, len);
    if (r.status == RESP_REQUEST) {
        p->expected = 0;
        p->at = 0;
        p->scanned = 0;
    }
    return r;
}
