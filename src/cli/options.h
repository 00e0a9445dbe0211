/* Flags by a table: `--name VALUE`, `--name=VALUE`, `-n VALUE`, `-nVALUE`, `-ab`; `--` ends them.
 *
 *     struct show { struct cli_common common; bool graph; };
 *     static const struct cli_option options[] = {
 *         CLI_COMMON_OPTIONS(struct show),
 *         {"graph", 'g', CLI_FLAG, offsetof(struct show, graph), NULL, "..."},
 *         CLI_OPTIONS_END,
 *     };
 */
#ifndef HOLDFAST_CLI_OPTIONS_H
#define HOLDFAST_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum cli_option_type {
    CLI_FLAG,     /* bool: becomes true */
    CLI_TEXT,     /* const char * */
    CLI_NUMBER,   /* uint64_t */
    CLI_DURATION, /* uint64_t, in ms: "1.5" (seconds), "20ms", "3s", "2m", "1h" */
};

struct cli_option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    enum cli_option_type type;
    size_t offset;
    const char *value; /* placeholder of the value in the help text: "DURATION" */
    const char *help;
};

#define CLI_OPTIONS_END                  \
    {                                    \
        NULL, 0, CLI_FLAG, 0, NULL, NULL \
    }

/* The options of every command that sends requests to the service. */
struct cli_common {
    const char *endpoints; /* NULL: HOLDFAST_ENDPOINTS, else the default port on this machine */
    uint64_t timeout_ms;
    bool json;
};

#define CLI_ENDPOINTS_OPTION(type)                                                    \
    {                                                                                 \
        "endpoints", 0, CLI_TEXT, offsetof(type, common.endpoints), "HOST:PORT,...",  \
            "nodes to try in turn (default: HOLDFAST_ENDPOINTS, else 127.0.0.1:4653)" \
    }
#define CLI_TIMEOUT_OPTION(type)                                                   \
    {                                                                              \
        "timeout", 0, CLI_DURATION, offsetof(type, common.timeout_ms), "DURATION", \
            "timeout of a request (default: 5s)"                                   \
    }
#define CLI_JSON_OPTION(type)                                                \
    {                                                                        \
        "json", 0, CLI_FLAG, offsetof(type, common.json), NULL, "print JSON" \
    }
#define CLI_COMMON_OPTIONS(type) \
    CLI_ENDPOINTS_OPTION(type), CLI_TIMEOUT_OPTION(type), CLI_JSON_OPTION(type)

/* The defaults of struct cli_common. */
#define CLI_COMMON_DEFAULT \
    {                      \
        NULL, 5000, false  \
    }

enum cli_order {
    CLI_ANY_ORDER,  /* flags and words in any order */
    CLI_WORDS_LAST, /* the first word ends the flags: the rest belongs to another program */
};

struct cli_words {
    int count;
    char **items;  /* the arguments that are not flags; points into the arguments of the caller */
    int separator; /* number of words before `--`; -1: there is no `--` */
};

/* Sets the members of `out` whose flags are given; the caller sets defaults first. On failure,
 * prints the problem to stderr and returns false; the exit code is EXIT_USAGE. */
bool cli_options_read(const char *command, const struct cli_option *options, enum cli_order order,
                      int count, char **arguments, void *out, struct cli_words *words);

/* Whether the number of words is right; else prints the problem and the usage. */
bool cli_words_check(const char *command, const struct cli_words *words, int min, int max);

/* Prints one line for each option. */
void cli_options_print(const struct cli_option *options, FILE *to);

#endif
