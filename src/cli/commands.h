/* The functions behind the words, one file each: see the rows in commands.c. Each gets what stands
 * behind its word and gives the exit code. */
#ifndef HOLDFAST_CLI_COMMANDS_H
#define HOLDFAST_CLI_COMMANDS_H

#include "cli/command.h"

#endif
