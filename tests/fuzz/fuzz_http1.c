/* Arbitrary bytes as what a connection reads. However they are cut, the parser reports the same;
 * what it takes for a head is looked at once more, naively, for what could smuggle a request; what
 * it hands out as path and query is decoded. */
#include <strings.h>

#include "../support/http1_events.h"
#include "base/text.h"
#include "wire/uri.h"

enum { BYTEWISE_SIZE = 1024 }; /* above that, one byte at a time takes too long */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_cut(struct slice input, unsigned cut, uint64_t seed, const struct buffer *whole)
{
    struct buffer log;
    buffer_init(&log, memory_system(), 64 << 20);
    http1_run(input, cut, seed, &log);
    hf_assert(slice_equal(buffer_bytes(&log), buffer_bytes(whole)));
    buffer_close(&log);
}

static bool line_is_about(struct slice line, const char *header)
{
    size_t len = strlen(header);
    return line.len >= len && strncasecmp((const char *)line.data, header, len) == 0;
}

/* Line by line, knowing nothing but CR LF. */
static void check_head(struct slice head)
{
    unsigned lengths = 0, encodings = 0, hosts = 0;
    size_t start = 0;
    for (size_t i = 0; i < head.len; i++) {
        hf_assert(head.data[i] != 0);
        hf_assert(head.data[i] != '\r' || (i + 1 < head.len && head.data[i + 1] == '\n'));
        if (head.data[i] == '\n') {
            hf_assert(i > 0 && head.data[i - 1] == '\r');
            struct slice line = slice_make(head.data + start, i - 1 - start);
            hf_assert(line.len == 0 || (line.data[0] != ' ' && line.data[0] != '\t'));
            lengths += line_is_about(line, "content-length:");
            encodings += line_is_about(line, "transfer-encoding:");
            hosts += line_is_about(line, "host:");
            hf_assert(!line_is_about(line, "content-length "));
            hf_assert(!line_is_about(line, "transfer-encoding "));
            start = i + 1;
        }
    }
    hf_assert(lengths + encodings <= 1 && hosts <= 1);
}

static void check_path(struct slice path)
{
    uint8_t *out = malloc(path.len);
    uint8_t name_text[LIMIT_NAME];
    struct slice text, name, verb;
    hf_assert(out != NULL);
    if (uri_decode(path, out, &text) == HF_OK) {
        hf_assert(text.len <= path.len && text_is_utf8(text));
    }
    if (uri_cut_verb(path, &name, &verb)) {
        hf_assert(name.len + 1 + verb.len == path.len);
        hf_assert(memchr(verb.data, '/', verb.len) == NULL);
        if (uri_decode_name(name, name_text, &text) == HF_OK) {
            hf_assert(text_is_name(text));
        }
    }
    free(out);
}

static void check_query(struct slice raw)
{
    uint8_t *out = malloc(raw.len > 0 ? raw.len : 1);
    struct uri_query query;
    struct fault fault;
    hf_assert(out != NULL);
    if (uri_query_parse(raw, out, &query, &fault) == HF_OK) {
        size_t total = 0;
        for (unsigned i = 0; i < query.count; i++) {
            const struct uri_parameter *p = &query.parameters[i];
            hf_assert(text_is_utf8(p->key) && text_is_utf8(p->value));
            total += p->key.len + p->value.len;
        }
        hf_assert(total <= raw.len);
        uint64_t number = 5;
        hf_assert(uri_query_number(&query, "limit", 1, 1000, &number, &fault) != HF_OK ||
                  (number >= 1 && number <= 1000));
    } else {
        hf_assert(strlen(fault.text) > 0);
    }
    free(out);
}

static void check_requests(struct slice input)
{
    struct http1 p;
    http1_init(&p);
    size_t used = 0;
    for (;;) {
        struct slice bytes = slice_make(input.data + used, input.len - used);
        struct http1_result r = http1_feed(&p, bytes);
        if (r.event != HTTP1_HEAD && r.event != HTTP1_BODY && r.event != HTTP1_DONE) {
            return;
        }
        if (r.event == HTTP1_HEAD) {
            check_head(slice_make(bytes.data, r.consumed));
            check_path(http1_request(&p)->path);
            check_query(http1_request(&p)->query);
        }
        used += r.consumed;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_make(data, size);
    struct buffer whole;
    buffer_init(&whole, memory_system(), 64 << 20);
    http1_run(input, CUT_WHOLE, 0, &whole);
    hf_assert(!whole.overflowed);
    if (size <= BYTEWISE_SIZE) {
        check_cut(input, CUT_BYTES, 0, &whole);
    }
    check_cut(input, 7, size, &whole);
    check_cut(input, 100, size, &whole);
    check_requests(input);
    buffer_close(&whole);
    return 0;
}
