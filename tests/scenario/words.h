/* The words of one step, taken from left to right. What does not fit ends the scenario with its
 * place and what was expected. */
#ifndef SCENARIO_WORDS_H
#define SCENARIO_WORDS_H

#include "runner.h"

struct word {
    const char *text;
    bool quoted;
};

struct words {
    struct runner *runner;
    struct word *at;
    size_t count;
    size_t next;
};

/* Replaces {i} by the loop's number and {x*9} by xxxxxxxxx. */
const char *words_fill_in(struct runner *p, const char *text);
/* Splits at blanks and commas, and makes of name{1..3} three words. */
void words_split(struct runner *p, const char *text, struct words *out);

bool words_left(const struct words *w);
/* Takes these words, if they come next. */
bool words_take(struct words *w, const char *what);
void words_need(struct words *w, const char *what);
bool words_next_is_quoted(const struct words *w);
const char *words_plain(struct words *w, const char *what);
const char *words_quoted(struct words *w, const char *what);
const char *words_any(struct words *w, const char *what);
uint64_t words_number(struct words *w, const char *what);
uint32_t words_number32(struct words *w, const char *what);
uint64_t words_span(struct words *w, const char *what);
uint32_t words_span32(struct words *w, const char *what);
/* Fails when a word is left that nobody understood. */
void words_finish(const struct words *w);

#endif
