/* The exit codes of `holdfast`, a contract with scripts. Codes from 64 follow sysexits(3) where it
 * has one. */
#ifndef HOLDFAST_CLI_EXITS_H
#define HOLDFAST_CLI_EXITS_H

#include "server/serve.h" /* EXIT_USAGE, EXIT_DISK_FAILED */

#define EXIT_FAILED 1        /* refused by the service; the message has the reason */
#define EXIT_UNREACHABLE 69  /* no endpoint answered, or none sees a leader */
#define EXIT_OURS 70         /* internal or system error */
#define EXIT_NOT_ACQUIRED 75 /* another client holds it; `lock -E` overrides it */
#define EXIT_DENIED 77       /* not allowed */
#define EXIT_LOST 79         /* lock or session lost; a command that ran was killed */
#define EXIT_CANNOT_RUN 126  /* the command exists but cannot be run */
#define EXIT_NO_COMMAND 127  /* command not found */
#define EXIT_SIGNAL 128      /* plus the signal */

#endif
