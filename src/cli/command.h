/* One row for each command. Help, shell completion and dispatch use it. A new command is a file in
 * src/cli (or a module below) and a row in commands.c. */
#ifndef HOLDFAST_CLI_COMMAND_H
#define HOLDFAST_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"

struct cli_command {
    const char *name;
    const char *summary;                     /* one line, for the list of commands */
    const char *usage;                       /* the arguments: "NAME --reason TEXT" */
    const char *example;                     /* for `--help` */
    int (*run)(int count, char **arguments); /* gets the arguments; returns the exit code */

    /* The flags, for help, completion and flags_read. NULL: it prints its own `--help`. */
    const struct flag *options;
    const char *about; /* description for `--help`; may be NULL */
};

/* Returns NULL if there is no such command. */
const struct cli_command *cli_command_find(const char *name);
/* In the order of the list; NULL after the last one. */
const struct cli_command *cli_command_at(unsigned index);
/* Whether it removes locks or data of others; such a command is never suggested for an unknown
 * word. */
bool cli_command_is_destructive(const struct cli_command *command);

#endif
