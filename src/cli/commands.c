/* The table of commands. */
#include "cli/commands.h"

#include <string.h>

#include "cli/bench.h"
#include "server/dev.h"
#include "server/recover.h"
#include "server/serve.h"

/* clang-format off */
static const struct cli_command commands[] = {
    {"serve", "run one node; with no flags, one that is a cluster by itself", "[FLAGS]",
     "holdfast serve --id 1 --cluster 1=10.0.0.1:4654,2=10.0.0.2:4654,3=10.0.0.3:4654 --bootstrap",
     serve_main, NULL, NULL},
    {"dev", "run a whole cluster on this machine, to play and to test with",
     "[--nodes N] [--dir DIR] [--base-port P]",
     "holdfast dev --nodes 3", dev_main, NULL, NULL},
    {"recover", "make a new cluster of one node's folder, when most voters are lost",
     "--data DIR --id N [--cluster N=HOST:PORT --reason TEXT]",
     "holdfast recover --data /var/lib/holdfast --id 2", recover_main, NULL, NULL},
    {"bench", "measure how many locks a second a cluster takes and gives back",
     "[--clients N] [--seconds S] [--json] [FLAGS]",
     "holdfast bench --clients 64 --seconds 10", bench_main, NULL, NULL},
};
/* clang-format on */

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

const struct cli_command *cli_command_at(unsigned index)
{
    return index < COMMANDS ? &commands[index] : NULL;
}

const struct cli_command *cli_command_find(const char *name)
{
    for (unsigned i = 0; i < COMMANDS; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}
