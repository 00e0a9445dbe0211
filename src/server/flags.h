/* Flags of a command that is neither `serve`, which has settings, nor long: one small table each.
 */
#ifndef HOLDFAST_SERVER_FLAGS_H
#define HOLDFAST_SERVER_FLAGS_H

#include <stdbool.h>
#include <stdio.h>

struct flag {
    const char *name;     /* "--data" */
    const char *argument; /* what follows it, for people; NULL: it is a switch */
    const char *help;
    const char **text; /* set to what follows */
    bool *on;          /* set when it is there */
};

enum { FLAG_WORDS_MAX = 4 };

struct flag_words {
    const char *at[FLAG_WORDS_MAX];
    unsigned count;
};

/* Reads `--flag value`, `--flag=value`, switches and at most `max_words` other words. False: what
 * is wrong was said on stderr. `command` is its name, for that. */
bool flags_read(const char *command, const struct flag *flags, unsigned flag_count, int count,
                char **arguments, unsigned max_words, struct flag_words *words);

void flags_print(FILE *to, const struct flag *flags, unsigned flag_count);

#endif
