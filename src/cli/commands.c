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
     "Waits for the lock, runs COMMAND with HOLDFAST_LOCK and HOLDFAST_TOKEN in its environment, and\n"
     "releases the lock when COMMAND ends. If the lock is lost, COMMAND is killed before another client can\n"
     "acquire the lock. Several names are acquired together, all or none. As in flock(1),\n"
     "`holdfast lock NAME COMMAND...` and `holdfast lock NAME -c STRING` work too.\n\n"
     "With --linger the lock is kept for some time after COMMAND ended, with any exit code. A job of another\n"
     "machine whose clock is late then finds the lock held, and not a run that is already over. A signal or a\n"
     "revocation ends this time early; a loss in it is reported on stderr. The exit code stays that of COMMAND.\n\n"
     "The exit code is that of COMMAND, 128+N if signal N killed it, or 64 wrong usage, 69 unreachable,\n"
     "75 not acquired, 77 denied, 79 lock lost, 126 COMMAND cannot be run, 127 COMMAND not found."},
    {"elect", "run a command while this client is elected leader", "NAME [VALUE] [FLAGS] [--listen] [-- COMMAND...]",
     "holdfast elect scheduler \"http://$(hostname):8080\" -- /usr/local/bin/scheduler",
     elect_main, elect_options,
     "Waits to be elected, publishes VALUE, and runs COMMAND while it is the leader. If the leadership is\n"
     "lost, COMMAND is killed as by `holdfast lock`, with the same exit codes. HOLDFAST_TOKEN is the epoch.\n"
     "Without COMMAND it prints a line when it is elected and stays leader until a signal."},
    {"acquire", "acquire a lock for a script that cannot be wrapped by `lock`", "NAME... [FLAGS]",
     "lock=$(holdfast acquire -n cron/nightly --ttl 10m) || exit; eval \"$lock\"",
     acquire_main, acquire_options,
     "Waits for the lock and prints shell variables: HOLDFAST_LOCK, HOLDFAST_TOKEN (the fencing token),\n"
     "HOLDFAST_LEASE (for `holdfast renew` and `holdfast release`), HOLDFAST_UNTIL. No process keeps the lock:\n"
     "it ends after the TTL, unless the script renews it. Prefer `holdfast lock` where a command can be wrapped:\n"
     "it renews, and it kills the command when the lock is lost.\n\n"
     "HOLDFAST_UNTIL is the time, in seconds as in /proc/uptime, until which the lock is certainly held. With\n"
     "HOLDFAST_SESSION, or --session, the lock belongs to that session (`holdfast session`). A lost answer is\n"
     "no problem: the request is repeated with the same id. A signal withdraws it.\n\n"
     "The exit code is 0, or 64 wrong usage, 69 unreachable, 75 not acquired, 77 denied, 79 lost again, or the\n"
     "session has ended, 128+N ended by signal N. After a failure stdout has `(exit CODE)`, so that\n"
     "eval \"$(holdfast acquire ...)\" fails too."},
    {"renew", "renew a lock that `acquire` acquired", "[LEASE] [--ttl DURATION]",
     "holdfast renew || exit   # with HOLDFAST_LEASE in the environment",
     renew_main, renew_options,
     "LEASE is HOLDFAST_LEASE of `holdfast acquire`, by default from the environment, where other users cannot\n"
     "see it. Whoever has it can renew and release the lock. Prints the new HOLDFAST_UNTIL.\n\n"
     "The exit code is 0, 69 unreachable (the lock may still be held, until HOLDFAST_UNTIL at least), 77 denied,\n"
     "79 it is not held any more: stop what it protects."},
    {"release", "release a lock that `acquire` acquired", "[LEASE]",
     "holdfast release   # with HOLDFAST_LEASE in the environment",
     release_main, release_options,
     "LEASE is HOLDFAST_LEASE of `holdfast acquire`, by default from the environment. Releasing twice is no error.\n\n"
     "The exit code is 0, 69 unreachable (the lock ends after its TTL), 77 denied, 79 the lock was lost before: what\n"
     "it protected may have been disturbed."},
    {"session", "open, renew and close a session that holds the locks of a script", "open|renew|close [SESSION] [FLAGS]",
     "session=$(holdfast session open --ttl 5m) || exit; eval \"$session\"",
     session_main, session_options,
     "The actions:\n"
     "  holdfast session open                 prints HOLDFAST_SESSION as a shell variable\n"
     "  holdfast session renew [SESSION]      renews the session and all its locks\n"
     "  holdfast session close [SESSION]      releases all its locks\n"
     "\n"
     "`holdfast acquire` takes HOLDFAST_SESSION from the environment: then one renewal is enough for all locks, and\n"
     "one close releases them. SESSION is by default from the environment too. `holdfast sessions` lists sessions.\n\n"
     "The exit code is 0, 69 unreachable, 77 denied, 79 the session has ended, and its locks with it."},
    {"serve", "run one node; without flags, a cluster of one node", "[FLAGS]",
     "holdfast serve --id 1 --cluster 1=10.0.0.1:4654,2=10.0.0.2:4654,3=10.0.0.3:4654 --bootstrap",
     serve_main, NULL, NULL},
    {"dev", "run a cluster on this machine, for trying out and for tests",
     "[--nodes N] [--dir DIR] [--base-port P] [--no-restart]",
     "holdfast dev --nodes 3", dev_main, NULL, NULL},
    {"ls", "list the locks that are held or waited for", "[PREFIX]",
     "holdfast ls billing/", ls_main, ls_options, NULL},
    {"show", "show the holders and the queue of one lock", "NAME",
     "holdfast show billing/close", show_main, show_options,
     "If a holder itself waits for another lock, the chain of waiting clients is shown too."},
    {"history", "show who held a lock, when, and how each hold ended", "NAME [--at TIME | --since TIME]",
     "holdfast history billing/close --at 14:03", history_main, history_options,
     "Lists present holders, then ended holds, the latest first. With --at: who held the lock at that time,\n"
     "or who held it last before. Times are UTC; 2h is two hours ago. The answer is from the event log of one\n"
     "node, which keeps a limited time; if that may be too short, the command says since when it is complete."},
    {"watch", "print lock events as they happen", "[PREFIX]",
     "holdfast watch --json billing/", watch_main, watch_options,
     "Continues at another node without a gap if a node fails. With --json each line is an object with\n"
     "id, event and data; --since ID continues after an id."},
    {"sessions", "list the open sessions, or what one of them holds and waits for", "[SESSION_ID]",
     "holdfast sessions", sessions_main, sessions_options,
     "With SESSION_ID, which the list shows to operators: the names that this session holds, then those it\n"
     "waits for, in both tiers. WAITERS are all that wait for the name; ENDS is when the hold expires or the\n"
     "wait gives up."},
    {"sinks", "show the event sinks: what was delivered, and how far they are behind", "",
     "holdfast sinks", sinks_main, sinks_options,
     "The leader delivers the events to Kafka, a file or a webhook; the settings of `holdfast serve` that\n"
     "begin with sink- say where. POSITION is the id of the newest event that the sink confirmed, LAG the age of\n"
     "the oldest event that it does not have, ENTRIES the log entries behind. DELIVERED, FAILURES and GAPS are\n"
     "those of this leader since its start. The last error of each sink is below, also of one that has recovered."},
    {"status", "show the leader, the members, and whether the cluster serves requests", "",
     "holdfast status --endpoints 10.0.0.1:4653,10.0.0.2:4653", status_main, status_options,
     "Below the members it says what is wrong and what to do next. Each member is requested at its own client\n"
     "address for that: its disk, its certificate, its clock. With --json, `problems` is a list of code,\n"
     "severity (critical, warning, info), text and action.\n\n"
     "The exit code is 69 if no majority of the voters is reachable, else 0."},
    {"doctor", "check this machine, the settings of a node, and the other nodes", "[--config FILE]",
     "holdfast doctor --config /etc/holdfast/holdfast.ini", doctor_main, doctor_options,
     "One line for each check: ok, warn or fail, what was found, what to do. Run it as the user of the node, before\n"
     "its first start or while it runs. The checks: settings, data folder, file system, free space, speed of a\n"
     "synced write (a test file of 256 KiB without a name, for at most two seconds), open files, memory, clock and\n"
     "its source, certificate, CA and peer secret, ports, other nodes (peer and client address, time to answer,\n"
     "cluster, versions, clock). Limits are those of this shell; a service manager may set others.\n\n"
     "The exit code is 0 without a failed check (there may be warnings), 1 with one, 64 for wrong usage."},
    {"top", "show the cluster and its busiest locks, updated continuously", "[PREFIX]", "holdfast top --sort wait billing/", top_main,
     top_options,
     "On a terminal, h shows the keys: the order of the locks, a filter by prefix, a page for each lock. "
     "Otherwise a table, or a line of JSON, is printed for each update."},
    {"hot", "show the prefixes of lock names with the most contention, holds, waits or requests", "[--by WHAT] [--limit N]",
     "holdfast hot --by wait", hot_main, hot_options,
     "The prefix of a name ends with its last / or :, orders/ of orders/17; a name without one is its own\n"
     "prefix. The leader counts in bounded memory since it began to lead; older time counts less. ERROR is by\n"
     "how much a figure may be too large. HOLDERS and WAITING are averages: seconds held or waited in each\n"
     "second, counted when the hold or the wait ends."},
    {"ttl-advice", "recommend a TTL from measured renewals", "NAME | --prefix PREFIX [--for DURATION]",
     "holdfast ttl-advice --prefix jobs/ --for 2m", ttl_advice_main, ttl_advice_options,
     "Measures for some time, while the clients work: when each lease is renewed, as the service applies it, and how\n"
     "long a keep-alive of this command takes. Then it reads the history of the names: how long they were held, and\n"
     "how many holds ended because nobody renewed them. It prints one TTL and the reasons. It changes no lock; for\n"
     "the time of the measurement it has a session of its own.\n\n"
     "LATENESS is the time between two renewals beyond the median of the lease: pauses of the client, its network\n"
     "and the service together. What a minute does not show, it cannot know: measure under load, and give the\n"
     "longest pause that you expect with --pause, for example that of a live migration."},
    {"audit", "list the audit records of operators' commands", "", "holdfast audit --name billing/close --since 2h",
     audit_main, audit_options,
     "Without a filter, the last 10,000 records. With one, also older ones that the event log of the node\n"
     "still has. Denied calls (DENIED), refused nodes, and changes of members, policy and settings are\n"
     "records too. Times are UTC."},
    {"force-unlock", "take a lock away from all its holders", "NAME --reason TEXT",
     "holdfast force-unlock billing/close --reason \"worker-7 was taken out of service\"",
     force_unlock_main, force_unlock_options,
     "The lock-delay of the holder follows, so that its work can end; --now skips it."},
    {"revoke", "request that the holders of a lock release it by a deadline", "NAME --reason TEXT [--deadline DURATION]",
     "holdfast revoke billing/close --reason maintenance --deadline 5m", revoke_main, revoke_options,
     NULL},
    {"reset-fence", "set the lowest token that the fence check of a resource accepts",
     "RESOURCE --reason TEXT [--token TOKEN] [--slot N]",
     "holdfast reset-fence disk/7 --reason \"a test stored a token that was never issued\"",
     reset_fence_main, reset_fence_options,
     "For a fence check that rejects the current holders. Without --token, every token issued so far is\n"
     "rejected and holders must acquire again; this is safe. With --token, that token and all higher ones\n"
     "are accepted."},
    {"alert", "report locks that are held longer than a rule allows, list rules and such locks",
     "set PREFIX DURATION | list | remove PREFIX",
     "holdfast alert set billing/ 10m", alert_main, alert_options,
     "A hold longer than DURATION of a name that begins with PREFIX is reported once: as a line of the log,\n"
     "an event of `holdfast watch` and in the metrics. Nothing is taken away. PREFIX \"*\" is every name; of\n"
     "several rules, the one with the longest prefix counts. `list` shows the rules and the locks that are\n"
     "past theirs now."},
    {"member", "list and change the members of the cluster, transfer the leadership",
     "list | add ID HOST:PORT | remove ID | promote ID | demote ID | transfer [ID]",
     "holdfast member add 6 10.0.0.6:4654", member_main, member_options,
     "HOST:PORT is the peer address of the new node, which is started with `holdfast serve --join`. It\n"
     "starts as a learner; promote it when it has caught up. Its ID must be higher than every removed ID.\n"
     "\n"
     "If the leader itself is removed or demoted, it transfers the leadership first, and the next leader\n"
     "makes the change. The command waits until the change is in effect. Do not stop a removed node\n"
     "before that."},
    {"log-level", "show or change the log levels of all nodes", "[LEVEL | SUBSYSTEM=LEVEL,...] [--node N]",
     "holdfast log-level raft=debug,peer=debug", log_level_main, log_level_options,
     "Levels are debug, info, warn, error and off; subsystems are node, raft, peer, disk, snapshot, client and\n"
     "lock. Subsystems that are not named keep their level. A change lasts until the node's next start or\n"
     "SIGHUP. If some nodes do not answer, the others are changed, and the exit code is 69."},
    {"cert", "make a private CA and certificates of nodes and clients",
     "init|node|client|show [FLAGS]", "holdfast cert init --dir /etc/holdfast/tls",
     cert_main, cert_options,
     "The actions, and the files that they make in DIR:\n"
     "  holdfast cert init --dir DIR                                 ca.pem, ca-key.pem\n"
     "  holdfast cert node --dir DIR --id N --host HOST...           node-N.pem, node-N-key.pem\n"
     "  holdfast cert client --dir DIR --name TENANT/PRINCIPAL       client-TENANT-PRINCIPAL.pem, ...\n"
     "  holdfast cert show FILE\n"
     "\n"
     "Keys are ECDSA P-256 in files with mode 0600; no file is overwritten. Nodes need ca.pem and their own\n"
     "two files. Keep ca-key.pem where no node runs: whoever has it can be any client and any node."},
    {"auth", "show and change who may do what, create the first administrator",
     "bootstrap|rescue|show|apply|explain|tenants|whoami [FLAGS]",
     "holdfast auth bootstrap --data /var/lib/holdfast --out admin.token",
     auth_main, auth_options,
     "The actions:\n"
     "  holdfast auth bootstrap --data DIR              creates the first administrator; once\n"
     "  holdfast auth rescue --data DIR                 creates a new one and removes all others\n"
     "  holdfast auth show                              prints tenants, principals and their grants\n"
     "  holdfast auth apply FILE                        makes the policy that of FILE (the JSON of show)\n"
     "  holdfast auth explain TENANT/PRINCIPAL RIGHT NAME\n"
     "                                                  whether it has the right, and why; exit code 77: no\n"
     "  holdfast auth tenants                           prints what each tenant has, and its quotas\n"
     "  holdfast auth whoami                            prints whom the node sees\n"
     "\n"
     "bootstrap and rescue use the Unix socket in the data folder and need the user of the node. Tokens stay\n"
     "valid while their principal stays in the policy."},
    {"token", "create, list and revoke the tokens of principals",
     "create TENANT/PRINCIPAL | list [TENANT/PRINCIPAL] | revoke NUMBER",
     "holdfast token create acme/ci --ttl 720h --out ci.token", token_main, token_options,
     "The token is made by this command; the cluster stores only its SHA-256. It is printed once. Give it to\n"
     "clients with --token-file or HOLDFAST_TOKEN_FILE."},
    {"recover", "create a new cluster from the folder of one node after most voters are lost",
     "--data DIR --id N [--cluster N=HOST:PORT --reason TEXT]",
     "holdfast recover --data /var/lib/holdfast --id 2", recover_main, NULL, NULL},
    {"bench", "measure how many locks per second a cluster acquires and releases",
     "[--clients N] [--seconds S] [--json] [FLAGS]",
     "holdfast bench --clients 64 --seconds 10", bench_main, NULL, NULL},
    {"snapshot", "save a backup, inspect one, or create a new cluster from it",
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
