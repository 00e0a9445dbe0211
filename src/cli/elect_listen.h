/* `holdfast elect --listen`: prints the leader and each change. */
#ifndef HOLDFAST_CLI_ELECT_LISTEN_H
#define HOLDFAST_CLI_ELECT_LISTEN_H

#include "cli/options.h"

/* Ends after `changes` lines; 0: never. Returns the exit code. */
int elect_listen(const struct cli_common *common, const char *name, uint64_t changes);

#endif
