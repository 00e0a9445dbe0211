/* The command to run. It is looked up before the lock is requested, so that a wrong name does not
 * occupy the lock. */
#ifndef HOLDFAST_CLI_PROGRAM_H
#define HOLDFAST_CLI_PROGRAM_H

struct program {
    char path[4096];
    char **arguments;
    char *shell[4]; /* of -c */
};

/* `arguments` are those after `--`, NULL-terminated. Returns 0; else prints the problem and returns
 * EXIT_CANNOT_RUN or EXIT_NO_COMMAND. */
int program_find(struct program *p, char **arguments);
/* $SHELL -c TEXT, or /bin/sh -c TEXT without $SHELL, as flock(1) does. */
int program_find_shell(struct program *p, char *text);

#endif
