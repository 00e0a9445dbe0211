/* The command as a child of the guard: starts it, and kills it with all its descendants. */
#ifndef HOLDFAST_CLI_GUARD_CHILD_H
#define HOLDFAST_CLI_GUARD_CHILD_H

#include "cli/guard.h"

/* Forks and executes it in its own process group, in the foreground of the terminal if
 * `has_terminal`. Returns its pid, or -1 with errno if it cannot be run; then no process remains. */
pid_t guard_child_start(const struct guard_plan *plan, struct guard_shared *shared, uint64_t token,
                        bool has_terminal);

/* Kills the processes of the cgroup (may be NULL), the group of `leader` (0: none) if that is a child
 * of this process, dead or alive, and every child of this process. Reaps all children except the
 * leader. Returns a process that is still alive, or 0 if all are dead. */
pid_t guard_child_kill_all(pid_t leader, const struct guard_cgroup *cgroup);

#endif
