/* See http_answer.h. */
#include "cli/http_answer.h"

#include <stdio.h>
#include <strings.h>

enum { CHUNK_LINE = 64 };

static enum http_state broken(struct http *h, const char *problem)
{
    (void)snprintf(h->problem, sizeof(h->problem), "%s", problem);
    return HTTP_BROKEN;
}

static bool read_digits(struct slice text, unsigned base, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        unsigned digit = c >= '0' && c <= '9'   ? c - '0' + 0u
                         : c >= 'a' && c <= 'f' ? c - 'a' + 10u
                         : c >= 'A' && c <= 'F' ? c - 'A' + 10u
                                                : 99u;
        if (digit >= base || value > (UINT64_MAX >> 8)) {
            return false;
        }
        value = value * base + digit;
    }
    *out = value;
    return text.len > 0;
}

/* Cuts a line without CR LF from `rest`; false: incomplete. */
static bool cut_line(struct slice *rest, struct slice *line)
{
    const uint8_t *end = rest->len == 0 ? NULL : memmem(rest->data, rest->len, "\r\n", 2);
    if (end == NULL) {
        return false;
    }
    *line = slice_make(rest->data, (size_t)(end - rest->data));
    *rest = slice_make(end + 2, rest->len - line->len - 2);
    return true;
}

static bool header_is(struct slice line, const char *name, struct slice *value)
{
    size_t len = strlen(name);
    if (line.len <= len || line.data[len] != ':' ||
        strncasecmp((const char *)line.data, name, len) != 0) {
        return false;
    }
    *value = slice_make(line.data + len + 1, line.len - len - 1);
    while (value->len > 0 && value->data[0] == ' ') {
        *value = slice_make(value->data + 1, value->len - 1);
    }
    return true;
}

static bool take_status(struct http *h, struct slice line)
{
    uint64_t status;
    if (line.len < 12 || memcmp(line.data, "HTTP/1.", 7) != 0 || line.data[8] != ' ' ||
        !read_digits(slice_make(line.data + 9, 3), 10, &status)) {
        return false;
    }
    h->status = (int)status;
    return true;
}

static bool take_header(struct http *h, struct slice line)
{
    struct slice value;
    uint64_t number;
    if (header_is(line, "content-length", &value)) {
        h->has_length = read_digits(value, 10, &h->left);
        return h->has_length;
    }
    if (header_is(line, "transfer-encoding", &value)) {
        h->is_chunked = slice_equal(value, slice_of("chunked"));
        return h->is_chunked;
    }
    if (header_is(line, "retry-after", &value) && read_digits(value, 10, &number)) {
        h->retry_after_s = number < 3600 ? (unsigned)number : 3600;
    }
    return true;
}

enum http_state http_take_head(struct http *h)
{
    struct slice rest = buffer_bytes(&h->in);
    struct slice line;
    size_t total = rest.len;
    if (rest.len == 0 || memmem(rest.data, rest.len, "\r\n\r\n", 4) == NULL) {
        return HTTP_MORE;
    }
    if (!cut_line(&rest, &line) || !take_status(h, line)) {
        return broken(h, "the server does not use HTTP");
    }
    while (cut_line(&rest, &line) && line.len > 0) {
        if (!take_header(h, line)) {
            return broken(h, "the head of its answer is invalid");
        }
    }
    buffer_consume(&h->in, total - rest.len);
    h->chunk_open = false;
    if (h->is_chunked) {
        h->left = 0;
    }
    return HTTP_DONE;
}

static void move(struct http *h, struct buffer *out, size_t len)
{
    buffer_append(out, buffer_bytes(&h->in).data, len);
    buffer_consume(&h->in, len);
}

/* CR LF after a chunk, then the size of the next. */
static enum http_state take_chunk_line(struct http *h)
{
    struct slice rest = buffer_bytes(&h->in);
    size_t total = rest.len;
    struct slice line;
    if (h->chunk_open && (!cut_line(&rest, &line) || line.len > 0)) {
        return total < 2 ? HTTP_MORE : broken(h, "a chunk of its answer has no end");
    }
    if (!cut_line(&rest, &line)) {
        return rest.len < CHUNK_LINE ? HTTP_MORE : broken(h, "a chunk of its answer has no size");
    }
    if (!read_digits(slice_make(line.data, line.len), 16, &h->left)) {
        return broken(h, "a chunk of its answer has no size");
    }
    buffer_consume(&h->in, total - rest.len);
    h->chunk_open = true;
    h->is_over = h->left == 0;
    return HTTP_DONE;
}

enum http_state http_take_body(struct http *h, struct buffer *out)
{
    while (!h->is_over) {
        if (h->is_chunked && h->left == 0) {
            enum http_state state = take_chunk_line(h);
            if (state != HTTP_DONE) {
                return state;
            }
            continue;
        }
        size_t here = buffer_len(&h->in);
        if ((h->is_chunked || h->has_length) && here > h->left) {
            here = (size_t)h->left;
        }
        if (h->has_length && !h->is_chunked && h->left == 0) {
            break;
        }
        if (here == 0) {
            return HTTP_MORE;
        }
        if (here > buffer_space(out)) {
            return broken(h, "its answer is too large");
        }
        move(h, out, here);
        if (h->is_chunked || h->has_length) {
            h->left -= here;
        }
    }
    return HTTP_DONE;
}
