#include "adapter_lines.h"

#include <holdfast.h>
#include <pthread.h>
#include <stdio.h>

enum { LINE = 1 << 16 };

void line_begin(struct buffer *line, struct json_writer *w)
{
    buffer_init(line, memory_system(), LINE);
    json_writer_init(w, line);
    json_write_open(w, '{');
}

void line_end(struct buffer *line, struct json_writer *w)
{
    static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
    json_write_close(w);
    buffer_append_byte(line, '\n');
    hf_assert(!line->overflowed);
    struct slice bytes = buffer_bytes(line);
    pthread_mutex_lock(&writing);
    (void)fwrite(bytes.data, 1, bytes.len, stdout);
    (void)fflush(stdout);
    pthread_mutex_unlock(&writing);
    buffer_close(line);
}

void line_put_token(struct json_writer *w, uint64_t token)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)token);
    json_put_text(w, "token", text);
}

static const char *word_of(int error)
{
    static const char *const words[] = {
        [HF_ERR_HELD] = "held",
        [HF_ERR_TIMEOUT] = "timeout",
        [HF_ERR_UNREACHABLE] = "unreachable",
        [HF_ERR_LOST] = "lost",
        [HF_ERR_DENIED] = "denied",
        [HF_ERR_INVALID] = "invalid",
        [HF_ERR_DELAYED] = "delayed",
        [HF_ERR_DEADLOCK] = "deadlock",
        [HF_ERR_MISMATCH] = "mismatch",
        [HF_ERR_LIMIT] = "limit",
        [HF_ERR_UNKNOWN] = "unknown",
        [HF_ERR_CANCELLED] = "cancelled",
        [HF_ERR_STALE] = "stale",
    };
    bool is_known = error > 0 && (size_t)error < sizeof(words) / sizeof(words[0]);
    return is_known && words[error] != NULL ? words[error] : "other";
}

void line_answer_with_words(uint64_t id, const char *word, const char *code, const char *message)
{
    struct json_writer w;
    struct buffer line;
    line_begin(&line, &w);
    json_put_u64(&w, "id", id);
    json_put_bool(&w, "ok", false);
    json_put_text(&w, "error", word);
    json_put_text(&w, "code", code);
    json_put_text(&w, "message", message);
    line_end(&line, &w);
}

void line_answer_error(uint64_t id, int error)
{
    line_answer_with_words(id, word_of(error), hf_error_name(error), hf_last_error());
}

void line_answer_ok(uint64_t id, line_put_fn put, const void *arg)
{
    struct json_writer w;
    struct buffer line;
    line_begin(&line, &w);
    json_put_u64(&w, "id", id);
    json_put_bool(&w, "ok", true);
    if (put != NULL) {
        put(&w, arg);
    }
    line_end(&line, &w);
}

void line_answer(uint64_t id, int error)
{
    if (error != 0) {
        line_answer_error(id, error);
    } else {
        line_answer_ok(id, NULL, NULL);
    }
}
