/* The guard: a small process between the wrapper (`holdfast lock`) and the command. It is the
 * command's parent and holds the deadline, so that the command is dead in time even when the
 * wrapper is stopped, killed or hangs.
 *
 *     wrapper ── parent of ──> standby ── parent of ──> guard ── parent of ──> command
 *        └──────────────────── socket ────────────────────┘        in a process group of its own
 *
 * The wrapper tells the guard how long the lock is certainly held, after each confirmation; the
 * guard counts by itself, on CLOCK_BOOTTIME:
 *
 *     idle ──START──▶ running ──1──▶ ending ──2──▶ killing
 *       │                │                            │
 *       │ wrapper gone   │ the command ended          │ all are dead
 *       ▼                ▼                            ▼
 *      gone            EXITED                       EXITED
 *
 *     1  STOP, or the wrapper is gone, or term_ms + kill_ms are left until the deadline
 *     2  term_ms later, or kill_ms before the deadline, or when the command itself is dead
 *
 * Ending means TERM (and CONT, for those that are stopped) to the process group; killing means KILL
 * to it and to every descendant, by the cgroup where there is one (guard_cgroup.h). The guard is a
 * sub-reaper: whoever left the group becomes its child when its parent is dead, and is killed then.
 * Once it ends, nothing makes it go on again: a confirmation that comes too late changes nothing.
 *
 * The standby does nothing but wait, for the case that the guard cannot do its work. It kills the
 * command and every descendant, which become its children, when the guard was killed, or when half
 * of kill_ms is left until the deadline and the guard, which is stopped or hangs, has not ended
 * everything by then. The wrapper writes the deadline to memory that all three share, so that it
 * reaches the standby without the guard.
 *
 *     killed                  what ends the command
 *     wrapper                 the guard, at once, with TERM first
 *     guard                   the kernel (PDEATHSIG), and the standby for the descendants
 *     standby                 the guard, at once, with TERM first
 *     wrapper and guard       as for the guard alone
 *     wrapper and standby     the guard
 *     guard and standby       the kernel, and the wrapper for the descendants
 *     all three               the kernel; a descendant that left the command lives on
 *
 * Guard and standby ignore every signal but KILL and STOP, and each is in a process group of its
 * own, so that what stops a shell's job does not stop them. They are started before the wrapper has
 * any thread. */
#ifndef HOLDFAST_CLI_GUARD_H
#define HOLDFAST_CLI_GUARD_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum guard_word {
    /* from the wrapper */
    GUARD_START = 1, /* deadline_ms, token: run the command; value 1: it gets the terminal */
    GUARD_DEADLINE,  /* deadline_ms: confirmed until then */
    GUARD_STOP,      /* the lock is lost: end the command now; deadline_ms, or 0: dead by then */
    GUARD_SIGNAL,    /* value: pass it on to the command's process group */
    GUARD_RESUME,    /* the shell let the job go on; value 1: it has the terminal */
    /* from the guard */
    GUARD_STARTED, /* pid */
    GUARD_NOT_RUN, /* value: errno of execve or fork */
    GUARD_PAUSED,  /* value: the signal that stopped the command, for the shell's job control */
    GUARD_ENDING,  /* by itself: the deadline came near; value 1: the standby was killed */
    GUARD_EXITED,  /* value: as waitpid says; pid: one that could not be killed, or 0 */
    /* from the standby */
    GUARD_REPLACED, /* all are dead; pid as above; value 1: the guard missed the deadline */
};

struct guard_message {
    int32_t word;
    int32_t value;
    int64_t deadline_ms; /* on clock_boot_ms */
    int64_t pid;
    uint64_t token;
};

/* Memory of all three processes. */
struct guard_shared {
    _Atomic(int64_t) deadline_ms; /* by the wrapper; 0: the command was not started */
    _Atomic(pid_t) guard;         /* by the standby */
    _Atomic(pid_t) child;         /* by the command itself, before execve */
};

struct guard_cgroup;

struct guard_plan {
    const char *path; /* of the program */
    char *const *arguments;
    const char *lock;            /* for HOLDFAST_LOCK */
    int terminal;                /* for job control, or -1 */
    const sigset_t *mask;        /* the command's */
    int64_t term_ms;             /* between TERM and KILL */
    int64_t kill_ms;             /* between KILL and the deadline */
    struct guard_cgroup *cgroup; /* for the command, or NULL */
};

struct guard {
    int fd;   /* of the socket; readable when there is a message, or both are gone */
    int wake; /* an eventfd: the deadline in the shared memory has come nearer */
    pid_t standby;
    struct guard_shared *shared;
};

/* Forks both. False with errno. The caller has no other thread. */
bool guard_start(struct guard *g, const struct guard_plan *plan);
void guard_send(const struct guard *g, const struct guard_message *message);
/* Does not wait. 1: there was one; 0: none now; -1: guard and standby are gone. */
int guard_receive(const struct guard *g, struct guard_message *message);
/* Closes the socket, which is their end if the guard is idle, and waits for the standby. One that
 * is stopped is killed: the guard has ended the command, or ends it now. */
void guard_close(struct guard *g);

/* What the standby does, which forks the guard. `wake` as in struct guard. */
_Noreturn void guard_standby(int fd, int wake, struct guard_shared *shared,
                             const struct guard_plan *plan);
/* What the guard does. `standby` is readable when the standby is gone. */
_Noreturn void guard_main(int fd, int standby, struct guard_shared *shared,
                          const struct guard_plan *plan);

#endif
