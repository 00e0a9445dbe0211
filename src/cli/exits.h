/* The exit codes of `holdfast`: a contract with scripts, each with a test in tests/cluster. Those
 * from 64 are sysexits(3)'s where it has a word for it. */
#ifndef HOLDFAST_CLI_EXITS_H
#define HOLDFAST_CLI_EXITS_H

#include "server/serve.h" /* EXIT_USAGE, EXIT_DISK_FAILED */

#define EXIT_FAILED 1        /* the service answered and refused; the message says why */
#define EXIT_UNREACHABLE 69  /* no endpoint answered, or none that knows a leader */
#define EXIT_OURS 70         /* something of ours or of the system failed */
#define EXIT_NOT_ACQUIRED 75 /* somebody else holds it; `lock -E` overrides */
#define EXIT_DENIED 77       /* not allowed */
#define EXIT_LOST 79         /* the lock was lost while the command ran, and it was stopped */
#define EXIT_CANNOT_RUN 126  /* the command is there but cannot be run */
#define EXIT_NO_COMMAND 127  /* the command was not found */
#define EXIT_SIGNAL 128      /* plus the number of the signal */

#endif
