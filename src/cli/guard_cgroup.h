/* A cgroup (version 2) for the command, where one can be made: by root, or in a part of the tree
 * that was delegated to this user. Who is in it stays in it, whatever it forks and whatever session
 * it makes, and the kernel kills all of them in one step. Where there is none, descendants are
 * found as children of the guard, one generation after the other.
 *
 * Each function takes NULL, or a cgroup that could not be made, and then does nothing. */
#ifndef HOLDFAST_CLI_GUARD_CGROUP_H
#define HOLDFAST_CLI_GUARD_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct guard_cgroup {
    char path[PATH_MAX]; /* "": none */
    size_t parent_len;   /* of `path`: the cgroup that this process is in */
    int kill;            /* of cgroup.kill, for writing */
};

/* Makes one below the cgroup of this process, and removes those of processes that are dead. False
 * with errno: none can be made. */
bool guard_cgroup_make(struct guard_cgroup *c);
/* The calling process goes there, or stays where it is. */
void guard_cgroup_enter(const struct guard_cgroup *c);
/* KILL to all that are in it, and to what they fork meanwhile. Does not wait. */
void guard_cgroup_kill(const struct guard_cgroup *c);
/* One that lives in it, or 0. */
pid_t guard_cgroup_member(const struct guard_cgroup *c);
/* Who still lives goes back to the cgroup above; then it is removed. May be done more than once. */
void guard_cgroup_remove(const struct guard_cgroup *c);

#endif
