/* See guard_child.h. */
#include "cli/guard_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/guard_cgroup.h"

extern char **environ;

/* With /bin/sh, as execvp(3) does without a #! line. */
static void run_as_script(const struct guard_plan *plan)
{
    size_t count = 1;
    while (plan->arguments[count] != NULL) {
        count++;
    }
    char **arguments = calloc(count + 2, sizeof(*arguments));
    char *path = strdup(plan->path);
    char shell[] = "/bin/sh";
    if (arguments != NULL && path != NULL) {
        arguments[0] = shell;
        arguments[1] = path;
        memcpy(&arguments[2], &plan->arguments[1], (count - 1) * sizeof(*arguments));
        (void)execve(shell, arguments, environ);
    }
}

/* In the child: what execve keeps. */
static _Noreturn void become_command(const struct guard_plan *plan, struct guard_shared *shared,
                                     uint64_t token, bool has_terminal, pid_t guard, int problem)
{
    char text[24];
    /* Before it can fork: guard and standby must find it and its descendants. */
    atomic_store(&shared->child, getpid());
    guard_cgroup_enter(plan->cgroup);
    (void)snprintf(text, sizeof(text), "%" PRIu64, token);
    (void)setpgid(0, 0);
    if (has_terminal && plan->terminal >= 0) {
        (void)tcsetpgrp(plan->terminal, getpid()); /* TTOU is blocked: this does not stop it */
    }
    /* A killed guard cannot enforce the deadline. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard) {
        _exit(0);
    }
    if (setenv("HOLDFAST_LOCK", plan->lock, 1) == 0 && setenv("HOLDFAST_TOKEN", text, 1) == 0) {
        (void)sigprocmask(SIG_SETMASK, plan->mask, NULL);
        (void)execve(plan->path, plan->arguments, environ);
        if (errno == ENOEXEC) {
            run_as_script(plan);
        }
    }
    int error = errno;
    (void)!write(problem, &error, sizeof(error));
    _exit(0);
}

pid_t guard_child_start(const struct guard_plan *plan, struct guard_shared *shared, uint64_t token,
                        bool has_terminal)
{
    int problem[2];
    if (pipe2(problem, O_CLOEXEC) != 0) {
        return -1;
    }
    pid_t guard = getpid();
    pid_t child = fork();
    if (child == 0) {
        (void)close(problem[0]);
        become_command(plan, shared, token, has_terminal, guard, problem[1]);
    }
    int error = errno;
    (void)close(problem[1]);
    if (child > 0) {
        (void)setpgid(child, child); /* both do it: either may run first */
        ssize_t got = read(problem[0], &error, sizeof(error)); /* execve closes the other end */
        if (got == (ssize_t)sizeof(error)) {
            (void)waitpid(child, NULL, 0);
            child = -1;
        }
    }
    (void)close(problem[0]);
    errno = error;
    return child;
}

enum { KILL_ROUNDS = 100 }; /* then other events are handled */

/* Children of this process, which has one thread. Without this file of /proc only the process group
 * is killed, as the man page documents. */
static FILE *open_children(void)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    return fopen(path, "re");
}

/* Dead or no longer our child; with `how` WNOWAIT not reaped. */
static bool is_dead(pid_t child, int how)
{
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | how) != 0) {
        return errno == ECHILD;
    }
    return info.si_pid == child;
}

/* Kills and reaps listed children but the leader. `*seen` is one of them. True if any was
 * reaped. */
static bool kill_listed(FILE *children, pid_t leader, pid_t *seen)
{
    bool has_reaped = false;
    int child;
    while (fscanf(children, "%d", &child) == 1) {
        if (child != leader) {
            *seen = child;
            (void)kill(child, SIGKILL);
            has_reaped |= is_dead(child, 0);
        }
    }
    return has_reaped;
}

/* Orphans of a process become our children before its death is visible, but a list read earlier
 * lacks them. So all are dead only if a list read after the leader's death has no other child. */
pid_t guard_child_kill_all(pid_t leader, const struct guard_cgroup *cgroup)
{
    pid_t seen = 0;
    bool has_reaped = true;
    siginfo_t info;
    guard_cgroup_kill(cgroup);
    /* Until the leader is reaped, its pid denotes no other group. */
    if (leader > 0 && waitid(P_PID, (id_t)leader, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
        (void)kill(-leader, SIGKILL);
    }
    for (int round = 0; has_reaped && round < KILL_ROUNDS; round++) {
        bool is_leader_dead = leader <= 0 || is_dead(leader, WNOWAIT);
        FILE *children = open_children();
        seen = 0;
        has_reaped = false;
        if (children != NULL) {
            has_reaped = kill_listed(children, leader, &seen);
            (void)fclose(children);
        }
        if (seen == 0) {
            pid_t left = guard_cgroup_member(cgroup);
            return is_leader_dead ? left : leader;
        }
    }
    return seen;
}
