/* Feeds bytes to the HTTP/1.1 parser, cut in any way, and writes down what it reports, so that two
 * ways can be compared; checks on the way what must hold for any input. */
#ifndef HOLDFAST_TESTS_SUPPORT_HTTP1_EVENTS_H
#define HOLDFAST_TESTS_SUPPORT_HTTP1_EVENTS_H

#include <stdlib.h>

#include "base/buffer.h"
#include "base/panic.h"
#include "wire/http1.h"

/* How the input is cut: whole, byte by byte, or in random pieces of up to `cut` bytes. */
enum { CUT_WHOLE = 0, CUT_BYTES = 1 };

struct http1_run {
    struct http1 parser;
    struct buffer *log;
    size_t consumed;
    size_t body_len;
    bool in_request;
    bool over; /* broken, closed or switched */
};

static inline void run_check_text(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        hf_assert((c >= 0x20 || c == '\t') && c != 0x7f);
    }
}

static inline void run_log_head(struct http1_run *run, struct slice bytes)
{
    const struct http1_request *q = http1_request(&run->parser);
    hf_assert(!(q->chunked && q->content_length > 0));
    hf_assert(q->content_length <= LIMIT_HTTP_BODY && q->minor <= 1);
    hf_assert(q->path.len > 0 && (q->path.data[0] == '/' || slice_equal(q->path, slice_of("*"))));
    hf_assert(q->query.len == 0 || (q->query.data > bytes.data &&
                                    q->query.data + q->query.len < bytes.data + bytes.len));
    run_check_text(q->path);
    run_check_text(q->query);
    run_check_text(q->host);
    buffer_printf(run->log, "HEAD %s HTTP/1.%u%s%s%s %llu\n", http_method_text(q->method), q->minor,
                  q->keep_alive ? " keep-alive" : "", q->expect_continue ? " expect" : "",
                  q->chunked ? " chunked" : "", (unsigned long long)q->content_length);
    const struct slice parts[] = {q->host, q->path, q->query};
    for (size_t i = 0; i < 3; i++) {
        buffer_append_slice(run->log, parts[i]);
        buffer_append_byte(run->log, '\n');
    }
    for (unsigned i = 0; i < http1_header_count(&run->parser); i++) {
        struct slice name = http1_header_name(&run->parser, i);
        struct slice value = http1_header_value(&run->parser, i);
        hf_assert(name.len > 0 && memchr(name.data, ' ', name.len) == NULL);
        run_check_text(name);
        run_check_text(value);
        buffer_append_slice(run->log, name);
        buffer_append_text(run->log, "=");
        buffer_append_slice(run->log, value);
        buffer_append_text(run->log, "\n");
    }
    buffer_append_text(run->log, "BODY ");
}

static inline void run_log_done(struct http1_run *run)
{
    const struct http1_request *q = http1_request(&run->parser);
    hf_assert(run->in_request);
    hf_assert(q->chunked || run->body_len == q->content_length);
    run->in_request = false;
    buffer_append_text(run->log, "\nDONE\n");
}

/* What has ended stays as it ended, whatever comes. */
static inline void run_check_over(struct http1_run *run, struct http1_result ended)
{
    static const uint8_t more[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    struct http1_result again = http1_feed(&run->parser, slice_make(more, sizeof(more) - 1));
    hf_assert(again.event == ended.event && again.error == ended.error && again.consumed == 0);
    run->over = true;
}

static inline void run_note(struct http1_run *run, struct slice bytes, struct http1_result r)
{
    hf_assert(r.consumed <= bytes.len);
    hf_assert((r.event == HTTP1_ERROR) == (r.error != HF_OK));
    run->consumed += r.consumed;
    switch (r.event) {
    case HTTP1_MORE:
        break;
    case HTTP1_HEAD:
        hf_assert(!run->in_request && r.consumed > 0);
        run->in_request = true;
        run->body_len = 0;
        run_log_head(run, bytes);
        break;
    case HTTP1_BODY:
        hf_assert(run->in_request && r.body.len > 0 && r.body.len <= r.consumed);
        hf_assert(r.body.data + r.body.len == bytes.data + r.consumed);
        run->body_len += r.body.len;
        hf_assert(run->body_len <= LIMIT_HTTP_BODY);
        buffer_append_slice(run->log, r.body);
        break;
    case HTTP1_DONE:
        run_log_done(run);
        break;
    case HTTP1_PREFACE:
        hf_assert(run->consumed == 0);
        buffer_append_text(run->log, "PREFACE\n");
        run_check_over(run, r);
        break;
    case HTTP1_CLOSED:
        buffer_append_text(run->log, "CLOSED\n");
        run_check_over(run, r);
        break;
    case HTTP1_ERROR:
        buffer_printf(run->log, "\nERROR %s\n", hf_error_code(r.error));
        run_check_over(run, r);
        break;
    }
}

/* Offers the unconsumed part of input[0..available) until the parser wants more. The bytes lie at a
 * new place at each call, and nothing readable follows them. */
static inline void run_offer(struct http1_run *run, struct slice input, size_t available)
{
    enum http1_event event = HTTP1_HEAD;
    while (!run->over && event != HTTP1_MORE) {
        size_t len = available - run->consumed;
        uint8_t *copy = malloc(len > 0 ? len : 1);
        hf_assert(copy != NULL);
        if (len > 0) {
            memcpy(copy, input.data + run->consumed, len);
        }
        struct http1_result r = http1_feed(&run->parser, slice_make(copy, len));
        event = r.event;
        run_note(run, slice_make(copy, len), r);
        free(copy);
    }
}

/* Appends to `log` what the parser reports. `cut`: see above; `seed` is for random pieces. */
static inline void http1_run(struct slice input, unsigned cut, uint64_t seed, struct buffer *log)
{
    struct http1_run run = {.log = log};
    http1_init(&run.parser);
    size_t available = cut == CUT_WHOLE ? input.len : 0;
    run_offer(&run, input, available);
    while (available < input.len && !run.over) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t piece = cut == CUT_BYTES ? 1 : 1 + (size_t)(seed >> 33) % cut;
        available = piece < input.len - available ? available + piece : input.len;
        run_offer(&run, input, available);
    }
    buffer_printf(log, "%zu bytes%s\n", run.consumed,
                  http1_is_idle(&run.parser) && run.consumed == input.len ? ", idle" : "");
}

#endif
