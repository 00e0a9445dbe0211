/* Job control. The command has its own process group: the terminal must be passed to it and taken
 * back, and ^Z must stop the whole job. */
#ifndef HOLDFAST_CLI_TERMINAL_H
#define HOLDFAST_CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

struct terminal {
    int fd; /* /dev/tty; -1: none */
    bool has_modes;
    struct termios modes; /* at the start */
};

/* The caller must block TTOU. */
void terminal_open(struct terminal *t);
/* The group of this process has the terminal. */
bool terminal_is_ours(const struct terminal *t);
/* The command gets the terminal at its start: it is ours and the stdin of the command, and stdout
 * is not a pipe to another program of the job, which would lose the terminal. */
bool terminal_to_give(const struct terminal *t);
/* Takes the terminal back from the group of `child`, if it has it; `restore`: with its modes. */
void terminal_take(const struct terminal *t, pid_t child, bool restore);
/* Stops this job as ^Z does until it is continued. False at once: no shell with job control could
 * continue it. */
bool terminal_stop_job(void);

#endif
