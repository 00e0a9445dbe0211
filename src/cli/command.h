/* One row for each word after `holdfast`: from it come the help, the completion of shells and the
 * call. A new command is a file of its own in src/cli (or a room below) and a row in commands.c. */
#ifndef HOLDFAST_CLI_COMMAND_H
#define HOLDFAST_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"

struct cli_command {
    const char *name;
    const char *summary;                     /* a few words, for the list */
    const char *usage;                       /* what stands behind the name: "NAME --reason TEXT" */
    const char *example;                     /* lines that could be typed, with a word about each */
    int (*run)(int count, char **arguments); /* what stands behind the name; gives the exit code */

    /* The flags, for help, completion and cli_options_read. NULL: it prints its own `--help`. */
    const struct cli_option *options;
    const char *about; /* more sentences for `--help`; may be NULL */
};

/* NULL: there is no such command. */
const struct cli_command *cli_command_find(const char *name);
/* In the order in which they are shown; NULL behind the last one. */
const struct cli_command *cli_command_at(unsigned index);
/* It takes something away from others, so it is never proposed in place of an unknown word. */
bool cli_command_is_destructive(const struct cli_command *command);

#endif
