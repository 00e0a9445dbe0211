/* Job control. The command has its own process group, so the terminal must be passed to it and taken
 * back. If the user stops it with ^Z, the whole job must stop for the shell. */
#ifndef HOLDFAST_CLI_TERMINAL_H
#define HOLDFAST_CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

struct terminal {
    int fd; /* /dev/tty; -1: there is none */
    bool has_modes;
    struct termios modes; /* at the start */
};

/* The caller must block TTOU. */
void terminal_open(struct terminal *t);
/* Whether the group of this process has the terminal now. */
bool terminal_is_ours(const struct terminal *t);
/* Whether the command gets the terminal at its start: it is ours, it is the stdin of the command,
 * and stdout is not a pipe to another program of the job, which would lose the terminal. */
bool terminal_to_give(const struct terminal *t);
/* Takes the terminal back from the group of `child`, if that has it; with `restore`, also restores
 * its modes. */
void terminal_take(const struct terminal *t, pid_t child, bool restore);
/* Stops this job as ^Z does, and returns when it continues. Returns false at once if there is no
 * shell with job control that could continue it. */
bool terminal_stop_job(void);

#endif
