/* A cgroup (version 2) for the command. Root can create one, and a user in a delegated part of the
 * tree. All descendants stay in it, and the kernel kills them in one step. Without a cgroup,
 * descendants are found as children of the guard, one generation after the other.
 *
 * Each function does nothing for NULL and for a cgroup that could not be created. */
#ifndef HOLDFAST_CLI_GUARD_CGROUP_H
#define HOLDFAST_CLI_GUARD_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct guard_cgroup {
    char path[PATH_MAX]; /* "": none */
    size_t parent_len;   /* length of the part of `path` that is the cgroup of this process */
    int kill;            /* cgroup.kill, open for writing */
};

/* Creates a cgroup below that of this process, and removes those of dead wrappers. False with errno
 * if it cannot be created. */
bool guard_cgroup_make(struct guard_cgroup *c);
/* Moves the calling process into it, if possible. */
void guard_cgroup_enter(const struct guard_cgroup *c);
/* Sends KILL to all processes in it, and to those that they fork at the same time. Does not wait. */
void guard_cgroup_kill(const struct guard_cgroup *c);
/* A live process in it, or 0. */
pid_t guard_cgroup_member(const struct guard_cgroup *c);
/* Moves live processes to the parent cgroup and removes this one. May be called more than once. */
void guard_cgroup_remove(const struct guard_cgroup *c);

#endif
