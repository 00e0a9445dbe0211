/* What happened, as a list of short phrases ("granted", "token 1", "until 10s"), and the comparison
 * with what a scenario expects: each expected phrase must be among them.
 *
 *     token 1                  is among them
 *     no token, not replayed   none of them begins with that word
 *     steps at most 20000      there is one "steps N" with such an N; also "at least" */
#ifndef SCENARIO_FACTS_H
#define SCENARIO_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"

struct facts {
    struct arena *arena;
    const char **at;
    size_t count;
    size_t capacity;
};

void facts_init(struct facts *facts, struct arena *arena);
void fact(struct facts *facts, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool facts_have(const struct facts *facts, const char *phrase);
/* All of them, with commas. */
const char *facts_text(struct arena *arena, const struct facts *facts);

/* Whether the phrase, in its normal form, is true of the facts. */
bool facts_agree(const struct facts *facts, const char *phrase);

/* The next phrase of a text that has commas between them, trimmed; NULL at the end. */
const char *phrase_next(struct arena *arena, const char **text);

/* A time span in words, as short as it is exact: 1500ms, 10s, 5m, 2h. */
const char *span_text(struct arena *arena, uint64_t ms);
/* The other way round, also "1m30s"; false when it is none. */
bool span_read(const char *text, uint64_t *ms);
/* A decimal number and nothing else. */
bool number_read(const char *text, uint64_t *out);

/* A token in words: its C, and "+e" for the other tier's (S3.1). */
const char *token_text(struct arena *arena, uint64_t token);
bool token_read(const char *text, uint64_t *out);

#endif
