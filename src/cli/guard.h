/* The guard: a process between the wrapper (`holdfast lock`) and the command. It is the parent of
 * the command and enforces the deadline, even if the wrapper is stopped, is killed or hangs.
 *
 *     wrapper ── parent of ──> standby ── parent of ──> guard ── parent of ──> command
 *        └──────────────────── socket ────────────────────┘        in its own process group
 *
 * After each confirmation the wrapper sends the time until which the lock is certainly held. The
 * guard has its own timer, on CLOCK_BOOTTIME:
 *
 *     idle ──START──▶ running ──1──▶ ending ──2──▶ killing
 *       │                │                            │
 *       │ wrapper gone   │ the command ended          │ all are dead
 *       ▼                ▼                            ▼
 *      gone            EXITED                       EXITED
 *
 *     1  STOP, or the wrapper is gone, or term_ms + kill_ms are left until the deadline
 *     2  term_ms later, or kill_ms before the deadline, or after the death of the command
 *
 * Ending: TERM (and CONT, for stopped processes) to the process group. Killing: KILL to the group
 * and every descendant, through the cgroup if there is one (guard_cgroup.h). The guard is a
 * sub-reaper: a process that left the group becomes its child after its parent's death, and is
 * killed then. Ending is final: a later confirmation changes nothing.
 *
 * The standby kills the command and all descendants, which become its children, if the guard was
 * killed, or if half of kill_ms is left until the deadline and the guard, stopped or hanging, has
 * not ended everything. It reads the deadline from memory shared with the wrapper.
 *
 *     killed                  what ends the command
 *     wrapper                 the guard, at once, with TERM first
 *     guard                   the kernel (PDEATHSIG), and the standby for the descendants
 *     standby                 the guard, at once, with TERM first
 *     wrapper and guard       as for the guard alone
 *     wrapper and standby     the guard
 *     guard and standby       the kernel, and the wrapper for the descendants
 *     all three               the kernel; a descendant that left the command survives
 *
 * Guard and standby ignore every signal but KILL and STOP. Each has its own process group: stopping
 * a job of the shell does not stop them. They are forked before the wrapper has threads. */
#ifndef HOLDFAST_CLI_GUARD_H
#define HOLDFAST_CLI_GUARD_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum guard_word {
    /* from the wrapper */
    GUARD_START = 1, /* deadline_ms, token: run the command; value 1: with the terminal */
    GUARD_DEADLINE,  /* deadline_ms: confirmed until then */
    GUARD_STOP,      /* lock lost: end the command now, by deadline_ms (0: as before) */
    GUARD_SIGNAL,    /* value: signal for the command's process group */
    GUARD_RESUME,    /* the shell continued the job; value 1: with the terminal */
    /* from the guard */
    GUARD_STARTED, /* pid */
    GUARD_NOT_RUN, /* value: errno of execve or fork */
    GUARD_PAUSED,  /* value: signal that stopped the command, for job control */
    GUARD_ENDING,  /* the guard ends the command: value 0: deadline; 1: standby killed */
    GUARD_EXITED,  /* value: status of waitpid; pid: one that could not be killed, or 0 */
    /* from the standby */
    GUARD_REPLACED, /* all dead; pid as above; value 1: the guard missed the deadline */
};

struct guard_message {
    int32_t word;
    int32_t value;
    int64_t deadline_ms; /* on clock_boot_ms */
    int64_t pid;
    uint64_t token;
};

struct guard_shared {
    _Atomic(int64_t) deadline_ms; /* set by the wrapper; 0: not started */
    _Atomic(pid_t) guard;         /* set by the standby */
    _Atomic(pid_t) child;         /* set by the command, before execve */
};

struct guard_cgroup;

struct guard_plan {
    const char *path;
    char *const *arguments;
    const char *lock; /* HOLDFAST_LOCK */
    int terminal;     /* job control, or -1 */
    const sigset_t *mask;
    int64_t term_ms;             /* TERM to KILL */
    int64_t kill_ms;             /* KILL to deadline */
    struct guard_cgroup *cgroup; /* or NULL */
};

struct guard {
    int fd;   /* socket; readable: a message, or both processes are gone */
    int wake; /* eventfd: the shared deadline is earlier now */
    pid_t standby;
    struct guard_shared *shared;
};

/* Forks both. False with errno. The caller must have no other thread. */
bool guard_start(struct guard *g, const struct guard_plan *plan);
void guard_send(const struct guard *g, const struct guard_message *message);
/* Does not wait. 1: a message; 0: none; -1: guard and standby are gone. */
int guard_receive(const struct guard *g, struct guard_message *message);
/* Closes the socket, which ends both if the guard is idle, and waits for the standby. Kills a
 * stopped standby: the guard has ended the command, or ends it now. */
void guard_close(struct guard *g);

/* Main function of the standby, which forks the guard. `wake` as in struct guard. */
_Noreturn void guard_standby(int fd, int wake, struct guard_shared *shared,
                             const struct guard_plan *plan);
/* Main function of the guard. `standby` is readable if the standby is gone. */
_Noreturn void guard_main(int fd, int standby, struct guard_shared *shared,
                          const struct guard_plan *plan);

#endif
