/* The flags of every command, by a table: `--name VALUE`, `--name=VALUE`, `-n VALUE`, `-nVALUE`, `-ab`;
 * `--` ends them. config.c makes such a table from the settings of `serve`.
 *
 *     struct show { bool graph; uint64_t rows; };
 *     static const struct flag flags[] = {
 *         {"graph", 'g', FLAG_SWITCH(struct show, graph), NULL, "print the graph"},
 *         {"rows", 0, FLAG_NUMBER_IN(struct show, rows, 1, 100), "N", "rows to print"},
 *         FLAGS_END,
 *     };
 */
#ifndef HOLDFAST_SERVER_FLAGS_H
#define HOLDFAST_SERVER_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum flag_kind {
    FLAG_KIND_SWITCH,   /* bool: becomes true */
    FLAG_KIND_TEXT,     /* const char *; may be empty if `min` is 0 */
    FLAG_KIND_SETTING,  /* const char *; "true" if there is no `=VALUE` */
    FLAG_KIND_NUMBER,   /* uint64_t */
    FLAG_KIND_DURATION, /* uint64_t, in ms: "1.5" (seconds), "20ms", "3s", "2m", "1h" */
    FLAG_KIND_WORD,     /* uint64_t: position of the word in `value`, "leader|any"; in any case */
    FLAG_KIND_LIST,     /* struct flag_list: given several times */
};

enum { FLAG_LIST_MAX = 64 };

struct flag_list {
    const char *items[FLAG_LIST_MAX];
    size_t count;
};

struct flag {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    enum flag_kind kind;
    size_t offset;
    uint64_t min;
    uint64_t max;
    const char *value; /* placeholder of the value in the help text: "DURATION" */
    const char *help;
};

/* Kind, member and range of a row. A member of another type does not compile. */
#define FLAG_MEMBER(type, member, of) \
    _Generic(&((type *)NULL)->member, of * : offsetof(type, member))
#define FLAG_SWITCH(type, member) FLAG_KIND_SWITCH, FLAG_MEMBER(type, member, bool), 0, 0
#define FLAG_TEXT(type, member) FLAG_KIND_TEXT, FLAG_MEMBER(type, member, const char *), 0, 0
/* Not empty. */
#define FLAG_TEXT_SET(type, member) FLAG_KIND_TEXT, FLAG_MEMBER(type, member, const char *), 1, 0
#define FLAG_NUMBER_IN(type, member, min, max) \
    FLAG_KIND_NUMBER, FLAG_MEMBER(type, member, uint64_t), min, max
#define FLAG_NUMBER(type, member) FLAG_NUMBER_IN(type, member, 0, UINT64_MAX)
#define FLAG_DURATION_IN(type, member, min, max) \
    FLAG_KIND_DURATION, FLAG_MEMBER(type, member, uint64_t), min, max
#define FLAG_DURATION(type, member) FLAG_DURATION_IN(type, member, 0, UINT64_MAX)
#define FLAG_WORD(type, member) FLAG_KIND_WORD, FLAG_MEMBER(type, member, uint64_t), 0, 0
#define FLAG_LIST(type, member) FLAG_KIND_LIST, FLAG_MEMBER(type, member, struct flag_list), 1, 0

#define FLAGS_END                                      \
    {                                                  \
        NULL, 0, FLAG_KIND_SWITCH, 0, 0, 0, NULL, NULL \
    }

enum flag_order {
    FLAGS_ANY_ORDER,  /* flags and words in any order */
    FLAGS_WORDS_LAST, /* the first word ends the flags: the rest belongs to another program */
};

enum { FLAG_PROBLEM = 512 };

struct flag_words {
    int count;
    char **items;  /* the arguments that are not flags; points into the arguments of the caller */
    int separator; /* number of words before `--`; -1: there is no `--` */
};

/* Sets the members of `out` whose flags are given; the caller sets defaults first. On failure,
 * returns false and `problem` is one line of plain characters. */
bool flags_parse(const struct flag *flags, enum flag_order order, struct flag_words *words,
                 void *out, char problem[FLAG_PROBLEM]);

/* As flags_parse, for `count` arguments. On failure, prints the problem to stderr and returns false;
 * the exit code is EXIT_USAGE. */
bool flags_read(const char *command, const struct flag *flags, enum flag_order order, int count,
                char **arguments, void *out, struct flag_words *words);

/* Whether there are at most `max` words; else prints the problem to stderr. */
bool flags_words_check(const char *command, const struct flag_words *words, int max);

/* Prints one line for each flag. */
void flags_print(const struct flag *flags, FILE *to);

#endif
