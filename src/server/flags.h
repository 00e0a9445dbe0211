/* Flags of the commands of this module except `serve`: one small table each. */
#ifndef HOLDFAST_SERVER_FLAGS_H
#define HOLDFAST_SERVER_FLAGS_H

#include <stdbool.h>
#include <stdio.h>

struct server_flag {
    const char *name;     /* "--data" */
    const char *argument; /* placeholder of the value in the help; NULL: it is a switch */
    const char *help;
    const char **text; /* set to the value */
    bool *on;          /* set to true if the switch is given */
};

enum { FLAG_WORDS_MAX = 4 };

struct flag_words {
    const char *at[FLAG_WORDS_MAX];
    unsigned count;
};

/* `--flag value`, `--flag=value`, switches and at most `max_words` other words. On failure, prints
 * the problem to stderr after the name `command`, and returns false. */
bool flags_read(const char *command, const struct server_flag *flags, unsigned flag_count,
                int count, char **arguments, unsigned max_words, struct flag_words *words);

void flags_print(FILE *to, const struct server_flag *flags, unsigned flag_count);

#endif
