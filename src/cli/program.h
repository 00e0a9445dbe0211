/* The command to run, looked up before the lock is requested: a wrong name does not occupy the
 * lock. */
#ifndef HOLDFAST_CLI_PROGRAM_H
#define HOLDFAST_CLI_PROGRAM_H

struct program {
    char path[4096];
    char **arguments;
    char *shell[4]; /* of -c */
};

/* `arguments` after `--`, NULL-terminated. 0, or prints the problem and returns EXIT_CANNOT_RUN or
 * EXIT_NO_COMMAND. */
int program_find(struct program *p, char **arguments);
/* $SHELL -c TEXT, else /bin/sh -c TEXT, as flock(1). */
int program_find_shell(struct program *p, char *text);

#endif
