/* Job control: the command has its own process group, so the terminal must be handed to it and
 * taken back, and when the user stops it with ^Z the whole job must stop for the shell. */
#ifndef HOLDFAST_CLI_TERMINAL_H
#define HOLDFAST_CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

struct terminal {
    int fd; /* /dev/tty; -1: there is none */
    bool has_modes;
    struct termios modes; /* as they were */
};

/* The caller blocks TTOU. */
void terminal_open(struct terminal *t);
/* Whether this process's group has it now. */
bool terminal_is_ours(const struct terminal *t);
/* Whether the command should get it at its start: it is ours, it is the command's input, and the
 * output is no pipe to another program of the same job, which would lose it. */
bool terminal_to_give(const struct terminal *t);
/* Back from the group of `child`, if that has it; with `restore` its modes as they were too. */
void terminal_take(const struct terminal *t, pid_t child, bool restore);
/* Stops this job as ^Z would, and returns when it goes on. False, at once: nobody could let it go
 * on, because no shell with job control is there. */
bool terminal_stop_job(void);

#endif
