/* The functions of commands.c. Each gets the arguments after the command's name and returns the
 * exit code. */
#ifndef HOLDFAST_CLI_COMMANDS_H
#define HOLDFAST_CLI_COMMANDS_H

#include "cli/command.h"

int acquire_main(int count, char **arguments);
int alert_main(int count, char **arguments);
int auth_main(int count, char **arguments);
int bench_main(int count, char **arguments); /* src/bench */
int cert_main(int count, char **arguments);
int doctor_main(int count, char **arguments);
int elect_main(int count, char **arguments);
int lock_main(int count, char **arguments);
int history_main(int count, char **arguments);
int ls_main(int count, char **arguments);
int show_main(int count, char **arguments);
int watch_main(int count, char **arguments);
int session_main(int count, char **arguments);
int sessions_main(int count, char **arguments);
int sinks_main(int count, char **arguments);
int status_main(int count, char **arguments);
int audit_main(int count, char **arguments);
int force_unlock_main(int count, char **arguments);
int release_main(int count, char **arguments);
int renew_main(int count, char **arguments);
int reset_fence_main(int count, char **arguments);
int revoke_main(int count, char **arguments);
int hot_main(int count, char **arguments);
int log_level_main(int count, char **arguments);
int member_main(int count, char **arguments);
int token_main(int count, char **arguments);
int top_main(int count, char **arguments);
int ttl_advice_main(int count, char **arguments);
int snapshot_main(int count, char **arguments);

extern const struct flag acquire_options[];
extern const struct flag alert_options[];
extern const struct flag auth_options[];
extern const struct flag cert_options[];
extern const struct flag doctor_options[];
extern const struct flag elect_options[];
extern const struct flag lock_options[];
extern const struct flag history_options[];
extern const struct flag ls_options[];
extern const struct flag show_options[];
extern const struct flag watch_options[];
extern const struct flag session_options[];
extern const struct flag sessions_options[];
extern const struct flag sinks_options[];
extern const struct flag status_options[];
extern const struct flag audit_options[];
extern const struct flag force_unlock_options[];
extern const struct flag release_options[];
extern const struct flag renew_options[];
extern const struct flag reset_fence_options[];
extern const struct flag revoke_options[];
extern const struct flag hot_options[];
extern const struct flag log_level_options[];
extern const struct flag member_options[];
extern const struct flag token_options[];
extern const struct flag top_options[];
extern const struct flag ttl_advice_options[];

#endif
