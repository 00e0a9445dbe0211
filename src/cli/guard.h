/* The guard: a small process between the wrapper (`holdfast lock`) and the command. It is the
 * command's parent and holds the deadline, so that the command is dead in time even when the
 * wrapper is stopped, killed or hangs.
 *
 *     wrapper ── socket ──> guard ── parent of ──> command, in a process group of its own
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
 * to it and to every descendant. The guard is a sub-reaper: whoever left the group becomes its
 * child when its parent is dead, and is killed then. Once it ends, nothing makes it go on again: a
 * confirmation that comes too late changes nothing.
 *
 * The guard ignores every signal but KILL and STOP, and is in a process group of its own, so that
 * what stops a shell's job does not stop it. It is started before the wrapper has any thread. */
#ifndef HOLDFAST_CLI_GUARD_H
#define HOLDFAST_CLI_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum guard_word {
    /* from the wrapper */
    GUARD_START = 1, /* deadline_ms, token: run the command; value 1: it gets the terminal */
    GUARD_DEADLINE,  /* deadline_ms: confirmed until then */
    GUARD_STOP,      /* the lock is lost: end the command now */
    GUARD_SIGNAL,    /* value: pass it on to the command's process group */
    GUARD_RESUME,    /* the shell let the job go on; value 1: it has the terminal */
    /* from the guard */
    GUARD_STARTED, /* pid */
    GUARD_NOT_RUN, /* value: errno of execve or fork */
    GUARD_PAUSED,  /* value: the signal that stopped the command, for the shell's job control */
    GUARD_ENDING,  /* by itself: the deadline came near */
    GUARD_EXITED,  /* value: as waitpid says; pid: one that could not be killed, or 0 */
};

struct guard_message {
    int32_t word;
    int32_t value;
    int64_t deadline_ms; /* on clock_boot_ms */
    int64_t pid;
    uint64_t token;
};

struct guard_plan {
    const char *path; /* of the program */
    char *const *arguments;
    const char *lock;     /* for HOLDFAST_LOCK */
    int terminal;         /* for job control, or -1 */
    const sigset_t *mask; /* the command's */
    int64_t term_ms;      /* between TERM and KILL */
    int64_t kill_ms;      /* between KILL and the deadline */
};

struct guard {
    int fd; /* of the socket; readable when there is a message, or it is gone */
    pid_t pid;
};

/* Forks it. False with errno. The caller has no other thread. */
bool guard_start(struct guard *g, const struct guard_plan *plan);
void guard_send(const struct guard *g, const struct guard_message *message);
/* Does not wait. 1: there was one; 0: none now; -1: the guard is gone. */
int guard_receive(const struct guard *g, struct guard_message *message);
/* Closes the socket, which is its end if it is idle, and waits for it. */
void guard_close(struct guard *g);

/* What the guard process does; never returns. */
_Noreturn void guard_main(int fd, const struct guard_plan *plan);

#endif
