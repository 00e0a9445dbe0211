/* The command that is to be run: found before a lock is asked for, so that a wrong name costs
 * nobody a turn. */
#ifndef HOLDFAST_CLI_PROGRAM_H
#define HOLDFAST_CLI_PROGRAM_H

struct program {
    char path[4096];
    char **arguments;
    char *shell[4]; /* of -c */
};

/* `arguments` as after `--`, NULL behind the last. 0, or EXIT_CANNOT_RUN or EXIT_NO_COMMAND, having
 * said why. */
int program_find(struct program *p, char **arguments);
/* $SHELL -c TEXT, else /bin/sh: as flock(1) does. */
int program_find_shell(struct program *p, char *text);

#endif
