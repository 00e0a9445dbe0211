/* The framing of a request: lines, the length of the body, chunks, trailers.
 *
 *   HEAD_LINE ─▶ HEAD_FIELDS ─┬─▶ FIXED ────────────────────────────┬─▶ END ─┬─▶ HEAD_LINE
 *                             └─▶ CHUNK_LINE ─▶ CHUNK ─▶ CHUNK_END ─┘        └─▶ CLOSED
 *                                   │  ▲───────────────────┘
 *                                   └─▶ TRAILERS ─▶ END          any of them ─▶ BROKEN
 *
 * Everything but the body is read by lines. A line is parsed only when it is complete or too long,
 * and independently of what follows. So the result does not depend on how the input is split. */
#include "wire/http1.h"

#include "base/panic.h"
#include "wire/http1_head.h"

enum http1_state {
    HEAD_LINE,
    HEAD_FIELDS,
    FIXED,
    CHUNK_LINE,
    CHUNK,
    CHUNK_END,
    TRAILERS,
    END,
    CLOSED,
    SWITCHED, /* to HTTP/2 */
    BROKEN,
};

_Static_assert(2 + LIMIT_HTTP_LINE + 2 + LIMIT_HTTP_HEADER_BYTES <= UINT16_MAX,
               "an offset in the head fits a http1_span");
_Static_assert(LIMIT_HTTP_HEADERS <= UINT8_MAX, "field_count");

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

void http1_init(struct http1 *p)
{
    /* Everything but the fields, of which none is valid. */
    memset(p, 0, offsetof(struct http1, fields));
    p->state = HEAD_LINE;
    p->fresh = true;
}

bool http1_is_idle(const struct http1 *p)
{
    return p->state == HEAD_LINE && p->seen == 0;
}

/* A step returns true when the next one can run at once; otherwise the result is complete. */
static bool fail(struct http1 *p, struct http1_result *r, enum hf_error error)
{
    p->state = BROKEN;
    p->error = error;
    r->event = HTTP1_ERROR;
    r->error = error;
    return false;
}

enum line_result { LINE_MORE, LINE_WHOLE, LINE_BARE, LINE_LONG };

/* The line at p->line, without its end, if it is complete and has at most `max` bytes; p->line is
 * then the next one. */
static enum line_result next_line(struct http1 *p, struct slice bytes, size_t max,
                                  struct slice *line)
{
    size_t stop = p->line + max + 2; /* the line's end included */
    if (stop > bytes.len) {
        stop = bytes.len;
    }
    const uint8_t *end = p->seen < stop ? memchr(bytes.data + p->seen, '\n', stop - p->seen) : NULL;
    if (end == NULL) {
        p->seen = (uint32_t)stop;
        return stop - p->line == max + 2 ? LINE_LONG : LINE_MORE;
    }
    const uint8_t *begin = bytes.data + p->line;
    if (end == begin || end[-1] != '\r') {
        return LINE_BARE;
    }
    *line = slice_make(begin, (size_t)(end - 1 - begin));
    p->line = p->seen = (uint32_t)(end + 1 - bytes.data);
    return LINE_WHOLE;
}

static void consume_lines(struct http1 *p, struct http1_result *r)
{
    r->consumed += p->line;
    p->line = p->seen = 0;
}

static bool line_failed(struct http1 *p, struct http1_result *r, enum line_result line,
                        enum hf_error too_long)
{
    if (line == LINE_MORE) {
        r->event = HTTP1_MORE;
        return false;
    }
    return fail(p, r, line == LINE_BARE ? HF_HTTP_BARE_LF : too_long);
}

/* ---- the head ---- */

static void begin_request(struct http1 *p)
{
    p->has_host = p->has_length = p->wants_close = p->wants_keep_alive = false;
    p->field_count = 0;
    p->body_left = p->body_read = p->extra_read = 0;
    p->host = p->path = p->query = (struct http1_span){0, 0};
    p->request = (struct http1_request){0};
}

/* The HTTP/2 preface, or its beginning. */
static bool is_preface(struct http1 *p, struct slice bytes, struct http1_result *r)
{
    size_t len = bytes.len < sizeof(preface) - 1 ? bytes.len : sizeof(preface) - 1;
    if (len == 0 || memcmp(bytes.data, preface, len) != 0) {
        return false;
    }
    r->event = HTTP1_MORE;
    if (len == sizeof(preface) - 1) {
        p->state = SWITCHED;
        r->event = HTTP1_PREFACE;
    }
    return true;
}

static bool step_head_line(struct http1 *p, struct slice bytes, struct http1_result *r)
{
    if (p->fresh && is_preface(p, bytes, r)) {
        return false;
    }
    /* Other protocols, for example TLS. */
    if (bytes.len > p->line && bytes.data[p->line] != '\r' && bytes.data[p->line] != '\n' &&
        !char_is(bytes.data[p->line], CHAR_TOKEN)) {
        return fail(p, r, HF_HTTP_REQUEST_LINE);
    }
    struct slice line;
    enum line_result result = next_line(p, bytes, LIMIT_HTTP_LINE, &line);
    if (result != LINE_WHOLE) {
        return line_failed(p, r, result, HF_LINE_TOO_LONG);
    }
    /* RFC 9112, section 2.2: old clients send an empty line after a body. */
    if (line.len == 0 && !p->blank_seen) {
        p->blank_seen = true;
        p->fresh = false;
        consume_lines(p, r);
        return true;
    }
    begin_request(p);
    enum hf_error error =
        head_request_line(p, bytes.data, (size_t)(line.data - bytes.data), line.len);
    if (error != HF_OK) {
        return fail(p, r, error);
    }
    p->fresh = false;
    p->headers_end = p->line + LIMIT_HTTP_HEADER_BYTES;
    p->state = HEAD_FIELDS;
    return true;
}

static bool finish_head(struct http1 *p, struct slice bytes, struct http1_result *r)
{
    enum hf_error error = head_finish(p, bytes.data);
    if (error != HF_OK) {
        return fail(p, r, error);
    }
    p->body_left = (uint32_t)p->request.content_length;
    p->state = p->request.chunked ? CHUNK_LINE : FIXED;
    consume_lines(p, r);
    r->event = HTTP1_HEAD;
    return false;
}

static bool step_head_fields(struct http1 *p, struct slice bytes, struct http1_result *r)
{
    for (;;) {
        /* A line must end before headers_end. */
        uint32_t left = p->headers_end - p->line;
        struct slice line;
        enum line_result result =
            left < 2 ? LINE_LONG : next_line(p, bytes, (size_t)left - 2, &line);
        if (result != LINE_WHOLE) {
            return line_failed(p, r, result, HF_HEADERS_TOO_LARGE);
        }
        if (line.len == 0) {
            return finish_head(p, bytes, r);
        }
        enum hf_error error = head_field(p, bytes.data, (size_t)(line.data - bytes.data), line.len);
        if (error != HF_OK) {
            return fail(p, r, error);
        }
    }
}

/* ---- the body ---- */

/* Of the body, or of a non-empty chunk. */
static bool body_piece(struct http1 *p, struct slice bytes, struct http1_result *r)
{
    size_t len = bytes.len < p->body_left ? bytes.len : p->body_left;
    if (len == 0) {
        r->event = HTTP1_MORE;
        return false;
    }
    p->body_left -= (uint32_t)len;
    r->event = HTTP1_BODY;
    r->body = slice_make(bytes.data, len);
    r->consumed += len;
    return false;
}

static bool step_fixed(struct http1 *p, struct slice bytes, struct http1_result *r)
{
    if (p->body_left == 0) {
        p->state = END;
        return true;
    }
    return body_piece(p, bytes, r);
}

/* SIZE[;EXTENSIONS]. Spaces are refused, since parsers differ about them. */
static enum hf_error parse_chunk_line(struct http1 *p, struct slice line)
{
    uint64_t size = 0;
    size_t i = 0;
    for (; i < line.len && char_is(line.data[i], CHAR_HEX); i++) {
        uint8_t c = line.data[i];
        size = size << 4 | (c <= '9' ? c - (unsigned)'0' : (c | 0x20u) - 'a' + 10u);
        if (i == 15) {
            return HF_HTTP_CHUNK; /* too many zeros, or too large */
        }
    }
    if (i == 0 || (i < line.len && line.data[i] != ';')) {
        return HF_HTTP_CHUNK;
    }
    struct slice extensions = slice_make(line.data + i, line.len - i);
    enum hf_error error = head_check_text(extensions);
    if (error != HF_OK) {
        return error;
    }
    p->extra_read += (uint32_t)extensions.len;
    if (p->extra_read > LIMIT_HTTP_EXTENSIONS) {
        return HF_CHUNK_LINE_TOO_LONG;
    }
    if (size > LIMIT_HTTP_BODY - p->body_read) {
        return HF_BODY_TOO_LARGE;
    }
    p->body_left = (uint32_t)size;
    p->body_read += (uint32_t)size;
    return HF_OK;
}

static bool step_chunk_line(struct http1 *p, struct slice bytes, struct http1_result *r)
{
    struct slice line;
    enum line_result result = next_line(p, bytes, LIMIT_HTTP_CHUNK_LINE, &line);
    if (result != LINE_WHOLE) {
        return line_failed(p, r, result, HF_CHUNK_LINE_TOO_LONG);
    }
    enum hf_error error = parse_chunk_line(p, line);
    if (error != HF_OK) {
        return fail(p, r, error);
    }
    consume_lines(p, r);
    p->state = CHUNK;
    if (p->body_left == 0) {
        p->state = TRAILERS;
        p->extra_read = 0;
    }
    return true;
}

static bool step_chunk(struct http1 *p, struct slice bytes, struct http1_result *r)
{
    if (p->body_left == 0) {
        p->state = CHUNK_END;
        return true;
    }
    return body_piece(p, bytes, r);
}

static bool step_chunk_end(struct http1 *p, struct slice bytes, struct http1_result *r)
{
    if (bytes.len > 0 && bytes.data[0] != '\r') {
        return fail(p, r, bytes.data[0] == '\n' ? HF_HTTP_BARE_LF : HF_HTTP_CHUNK);
    }
    if (bytes.len < 2) {
        r->event = HTTP1_MORE;
        return false;
    }
    if (bytes.data[1] != '\n') {
        return fail(p, r, HF_HTTP_CHUNK);
    }
    r->consumed += 2;
    p->state = CHUNK_LINE;
    return true;
}

/* Trailers are checked as strictly as headers, and dropped. */
static bool step_trailers(struct http1 *p, struct slice bytes, struct http1_result *r)
{
    struct slice line;
    enum line_result result =
        next_line(p, bytes, LIMIT_HTTP_TRAILERS - (size_t)p->extra_read, &line);
    if (result != LINE_WHOLE) {
        return line_failed(p, r, result, HF_TRAILERS_TOO_LARGE);
    }
    if (line.len == 0) {
        p->state = END;
    } else {
        struct slice name, value;
        enum hf_error error = head_split_field(line, &name, &value);
        if (error != HF_OK) {
            return fail(p, r, error);
        }
        p->extra_read += (uint32_t)line.len;
    }
    consume_lines(p, r);
    return true;
}

static bool step_end(struct http1 *p, struct http1_result *r)
{
    p->state = p->request.keep_alive ? HEAD_LINE : CLOSED;
    p->blank_seen = false;
    r->event = HTTP1_DONE;
    return false;
}

/* ---- the parser ---- */

static bool step(struct http1 *p, struct slice bytes, struct http1_result *r)
{
    switch ((enum http1_state)p->state) {
    case HEAD_LINE:
        return step_head_line(p, bytes, r);
    case HEAD_FIELDS:
        return step_head_fields(p, bytes, r);
    case FIXED:
        return step_fixed(p, bytes, r);
    case CHUNK_LINE:
        return step_chunk_line(p, bytes, r);
    case CHUNK:
        return step_chunk(p, bytes, r);
    case CHUNK_END:
        return step_chunk_end(p, bytes, r);
    case TRAILERS:
        return step_trailers(p, bytes, r);
    case END:
        return step_end(p, r);
    case CLOSED:
        r->event = HTTP1_CLOSED;
        return false;
    case SWITCHED:
        r->event = HTTP1_PREFACE;
        return false;
    case BROKEN:
        break;
    }
    return fail(p, r, p->error);
}

struct http1_result http1_feed(struct http1 *p, struct slice bytes)
{
    struct http1_result r = {HTTP1_MORE, HF_OK, 0, {NULL, 0}};
    hf_assert(bytes.len >= p->seen); /* the caller passes unconsumed bytes again */
    if (bytes.len == 0) {
        bytes.data = (const uint8_t *)""; /* allow pointer arithmetic when it was NULL */
    }
    while (step(p, slice_make(bytes.data + r.consumed, bytes.len - r.consumed), &r)) {
        /* continue */
    }
    if (r.event == HTTP1_ERROR) {
        p->line = p->seen = 0;
    }
    hf_assert(r.consumed <= bytes.len);
    return r;
}
