/* One row per command, for help, completion and dispatch. A new command is a file and a row in
 * commands.c. */
#ifndef HOLDFAST_CLI_COMMAND_H
#define HOLDFAST_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"

struct cli_command {
    const char *name;
    const char *summary;                     /* one line */
    const char *usage;                       /* arguments: "NAME --reason TEXT" */
    const char *example;                     /* for `--help` */
    int (*run)(int count, char **arguments); /* returns the exit code */

    /* For help, completion and flags_read. NULL: it prints its own `--help`. */
    const struct flag *options;
    const char *about; /* for `--help`; or NULL */
};

/* NULL: no such command. */
const struct cli_command *cli_command_find(const char *name);
/* In order; NULL after the last. */
const struct cli_command *cli_command_at(unsigned index);
/* It removes locks or data of others, and is never suggested for an unknown word. */
bool cli_command_is_destructive(const struct cli_command *command);

#endif
