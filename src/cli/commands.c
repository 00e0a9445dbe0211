/* The table of commands. */
#include "cli/commands.h"

#include <string.h>

#include "server/dev.h"
#include "server/recover.h"
#include "server/serve.h"

/* clang-format off */
static const struct cli_command commands[] = {
    {"lock", "run a command while a lock is held", "NAME... [FLAGS] -- COMMAND...",
     "holdfast lock -n cron/nightly -- /usr/local/bin/nightly",
     lock_main, lock_options,
     "Waits for the lock, runs COMMAND with HOLDFAST_LOCK and HOLDFAST_TOKEN in its environment, and gives\n"
     "the lock back when it ends. If the lock is lost meanwhile, COMMAND is stopped, in time: it is dead\n"
     "before another gets the lock. Several names are taken together. As in flock(1),\n"
     "`holdfast lock NAME COMMAND...` and `holdfast lock NAME -c STRING` do it too.\n\n"
     "Ends with COMMAND's own code, 128+N if signal N killed it, or 64 usage, 69 unreachable, 75 not\n"
     "acquired, 77 denied, 79 lost, 126 COMMAND cannot be run, 127 not found."},
    {"elect", "run a command while leading", "NAME [VALUE] [FLAGS] [--listen] [-- COMMAND...]",
     "holdfast elect scheduler \"http://$(hostname):8080\" -- /usr/local/bin/scheduler",
     elect_main, elect_options,
     "Waits to be elected, announces VALUE, and runs COMMAND while it leads; when the lead is lost COMMAND\n"
     "is stopped as by `holdfast lock`, with the same exit codes. HOLDFAST_TOKEN is the epoch. Without a\n"
     "COMMAND it prints that it was elected and leads until a signal."},
    {"serve", "run one node; with no flags, one that is a cluster by itself", "[FLAGS]",
     "holdfast serve --id 1 --cluster 1=10.0.0.1:4654,2=10.0.0.2:4654,3=10.0.0.3:4654 --bootstrap",
     serve_main, NULL, NULL},
    {"dev", "run a whole cluster on this machine, to play and to test with",
     "[--nodes N] [--dir DIR] [--base-port P]",
     "holdfast dev --nodes 3", dev_main, NULL, NULL},
    {"ls", "the names that are held or waited for", "[PREFIX]",
     "holdfast ls billing/", ls_main, ls_options, NULL},
    {"show", "one name: who holds it, who waits, what comes next", "NAME",
     "holdfast show billing/close", show_main, show_options,
     "Also shows who waits for whom, where a holder of the name waits for another one itself."},
    {"watch", "what happens, as it happens", "[PREFIX]",
     "holdfast watch --json billing/", watch_main, watch_options,
     "Goes on through another node when one dies, without a gap. With --json each line is an object\n"
     "with id, event and data; --since ID goes on behind an id."},
    {"sessions", "who is there", "", "holdfast sessions", sessions_main, sessions_options, NULL},
    {"status", "who leads, who is there, whether it serves", "",
     "holdfast status --endpoints 10.0.0.1:4653,10.0.0.2:4653", status_main, status_options,
     "Ends with 69 when no majority of the voters is there."},
    {"top", "a live picture of the busiest names", "", "holdfast top --interval 5s", top_main,
     top_options, NULL},
    {"audit", "what operators did", "", "holdfast audit --json", audit_main, audit_options, NULL},
    {"force-unlock", "end every hold on a name", "NAME --reason TEXT",
     "holdfast force-unlock billing/close --reason \"worker-7 was taken out of service\"",
     force_unlock_main, force_unlock_options,
     "The lock-delay that the holder asked for follows, so that its work can end; --now skips it."},
    {"revoke", "ask the holders to finish, with a deadline", "NAME --reason TEXT [--deadline DURATION]",
     "holdfast revoke billing/close --reason maintenance --deadline 5m", revoke_main, revoke_options,
     NULL},
    {"reset-fence", "set the lowest token that the fence of a resource accepts",
     "RESOURCE --reason TEXT [--token TOKEN] [--slot N]",
     "holdfast reset-fence disk/7 --reason \"a test wrote a token that nobody was given\"",
     reset_fence_main, reset_fence_options,
     "For a fence that refuses the real holders. Without --token every token that was issued so far is\n"
     "refused, so holders must acquire again; that is safe. With --token the holder of that token goes on,\n"
     "and so does everyone with a higher one."},
    {"member", "who belongs to the cluster: list, add, remove, promote, demote, transfer",
     "list | add ID HOST:PORT | remove ID | promote ID | demote ID | transfer [ID]",
     "holdfast member add 6 10.0.0.6:4654", member_main, member_options,
     "HOST:PORT is the peer port of the new node, which is started with `holdfast serve --join`. It\n"
     "learns first; promote it when it has caught up. Its ID is above every ID that was removed.\n"
     "\n"
     "When the leader itself is removed or demoted, it transfers the leadership first, and the next\n"
     "leader makes the change. The command waits until the change is in force. Do not stop a removed\n"
     "node before."},
    {"recover", "make a new cluster of one node's folder, when most voters are lost",
     "--data DIR --id N [--cluster N=HOST:PORT --reason TEXT]",
     "holdfast recover --data /var/lib/holdfast --id 2", recover_main, NULL, NULL},
    {"bench", "measure how many locks a second a cluster takes and gives back",
     "[--clients N] [--seconds S] [--json] [FLAGS]",
     "holdfast bench --clients 64 --seconds 10", bench_main, NULL, NULL},
    {"snapshot", "take a backup, look into one, or begin a new cluster with it",
     "save|inspect|restore FILE [FLAGS]", "holdfast snapshot save backup.snapshot", snapshot_main, NULL,
     NULL},
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

bool cli_command_is_destructive(const struct cli_command *command)
{
    return command->run == force_unlock_main || command->run == revoke_main ||
           command->run == recover_main || command->run == reset_fence_main;
}
