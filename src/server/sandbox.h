/* What a node gives up after its start, so that an error in it is of less use to an attacker: new
 * privileges, core files, and the system calls that it does not need.
 *
 * A call outside of the list fails with ENOSYS. The first such call of each number is reported, also
 * if the child that writes a snapshot made it. The list is complete for what a node does, so a report
 * is an attack, a bug or a newer C library. Executing a program and ptrace end the process with
 * SIGSYS. */
#ifndef HOLDFAST_SERVER_SANDBOX_H
#define HOLDFAST_SERVER_SANDBOX_H

#include <stdbool.h>

enum { SANDBOX_PROBLEM = 256, SANDBOX_NAME = 32 };

/* Before the first thread: no_new_privs, and no core file and no ptrace by the same user (both would
 * show passwords, keys and lease ids) unless `ulimit -c` allows a core file. */
void sandbox_prepare(void);

/* For all threads of the process, for good. `on_refused` is called in a signal handler, by the
 * thread or child that made a refused call; then sandbox_next_refused has its name. Threads must not
 * block SIGSYS. False: `problem` has the reason. */
bool sandbox_enter(void (*on_refused)(void *ctx), void *ctx, char problem[SANDBOX_PROBLEM]);

/* The name of a refused system call that was not returned yet. False: there is none. */
bool sandbox_next_refused(char name[SANDBOX_NAME]);

/* Sanitizers inspect the process with ptrace: a build with them has no list of calls. */
bool sandbox_is_built(void);

#endif
