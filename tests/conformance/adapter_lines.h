/* What the adapter of libholdfast writes: one JSON object a line, whole and at once, from any thread. */
#ifndef HOLDFAST_TESTS_CONFORMANCE_ADAPTER_LINES_H
#define HOLDFAST_TESTS_CONFORMANCE_ADAPTER_LINES_H

#include "wire/json_write.h"

/* Opens the object of a line; line_end closes and writes it. */
void line_begin(struct buffer *line, struct json_writer *w);
void line_end(struct buffer *line, struct json_writer *w);

/* A token is text: numbers of some languages are not exact above 2^53. */
void line_put_token(struct json_writer *w, uint64_t token);

/* Writes the fields of one answer. */
typedef void (*line_put_fn)(struct json_writer *w, const void *arg);

/* Answers to the command `id`. `put` may be NULL. The error is one of libholdfast; its text is the last one of
 * this thread. */
void line_answer(uint64_t id, int error);
void line_answer_ok(uint64_t id, line_put_fn put, const void *arg);
void line_answer_error(uint64_t id, int error);
void line_answer_with_words(uint64_t id, const char *word, const char *code, const char *message);

#endif
