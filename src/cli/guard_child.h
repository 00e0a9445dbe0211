/* Starts the command as a child of the guard, and kills it with all descendants. */
#ifndef HOLDFAST_CLI_GUARD_CHILD_H
#define HOLDFAST_CLI_GUARD_CHILD_H

#include "cli/guard.h"

/* Executes it in its own process group, in the foreground of the terminal if `has_terminal`.
 * Returns the pid, or -1 with errno; then no process remains. */
pid_t guard_child_start(const struct guard_plan *plan, struct guard_shared *shared, uint64_t token,
                        bool has_terminal);

/* Kills the cgroup (may be NULL), the group of `leader` (0: none) if that is a child, dead or
 * alive, and every child of this process. Reaps all children but the leader. Returns a process
 * still alive; 0: all are dead. */
pid_t guard_child_kill_all(pid_t leader, const struct guard_cgroup *cgroup);

#endif
