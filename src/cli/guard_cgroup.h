/* A cgroup (version 2) for the command, if root or a delegated user can create one. All descendants
 * stay in it, and the kernel kills them in one step. Without it, descendants are found as children
 * of the guard, one generation after the other.
 *
 * Each function does nothing for NULL and for a cgroup that was not created. */
#ifndef HOLDFAST_CLI_GUARD_CGROUP_H
#define HOLDFAST_CLI_GUARD_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct guard_cgroup {
    char path[PATH_MAX]; /* "": none */
    size_t parent_len;   /* of the part of `path` that is this process's cgroup */
    int kill;            /* cgroup.kill, for writing */
};

/* Creates one below this process's, and removes those of dead wrappers. False with errno. */
bool guard_cgroup_make(struct guard_cgroup *c);
/* Moves the calling process into it, if possible. */
void guard_cgroup_enter(const struct guard_cgroup *c);
/* KILL to all processes in it, also those being forked. Does not wait. */
void guard_cgroup_kill(const struct guard_cgroup *c);
/* A live one, or 0. */
pid_t guard_cgroup_member(const struct guard_cgroup *c);
/* Moves live processes to the parent and removes this one. May be repeated. */
void guard_cgroup_remove(const struct guard_cgroup *c);

#endif
