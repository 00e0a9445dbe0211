/* The exit codes of `holdfast`: a contract with scripts, each tested in tests/cluster. Codes from 64
 * follow sysexits(3) where it defines one. */
#ifndef HOLDFAST_CLI_EXITS_H
#define HOLDFAST_CLI_EXITS_H

#include "server/serve.h" /* EXIT_USAGE, EXIT_DISK_FAILED */

#define EXIT_FAILED 1        /* the service refused the request; the message has the reason */
#define EXIT_UNREACHABLE 69  /* no endpoint answered, or none that sees a leader */
#define EXIT_OURS 70         /* an internal or system error */
#define EXIT_NOT_ACQUIRED 75 /* another client holds it; `lock -E` overrides the code */
#define EXIT_DENIED 77       /* not allowed */
#define EXIT_LOST 79         /* the lock was lost while the command ran; the command was killed */
#define EXIT_CANNOT_RUN 126  /* the command exists but cannot be run */
#define EXIT_NO_COMMAND 127  /* the command was not found */
#define EXIT_SIGNAL 128      /* plus the number of the signal */

#endif
