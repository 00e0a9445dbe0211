/* The command as a child of the guard: started, and killed with all its descendants. */
#ifndef HOLDFAST_CLI_GUARD_CHILD_H
#define HOLDFAST_CLI_GUARD_CHILD_H

#include "cli/guard.h"

/* Forks and executes it in a process group of its own, in the foreground of the terminal if
 * `has_terminal`. Its pid, or -1 with errno when it cannot be
 * run, and then there is no process. */
pid_t guard_child_start(const struct guard_plan *plan, struct guard_shared *shared, uint64_t token,
                        bool has_terminal);

/* Kills what is in the cgroup (may be NULL), the group of `leader` if that is a child of this
 * process, dead or alive (0: there is none), and every child of this process but the leader; reaps
 * those. Gives one that still lives, or 0 when all are dead. */
pid_t guard_child_kill_all(pid_t leader, const struct guard_cgroup *cgroup);

#endif
