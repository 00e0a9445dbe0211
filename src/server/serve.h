/* `holdfast serve`: one node in the foreground until a stop signal. */
#ifndef HOLDFAST_SERVER_SERVE_H
#define HOLDFAST_SERVER_SERVE_H

/* `arguments`: after the word `serve`. Returns the exit code. */
int serve_main(int count, char **arguments);

/* Exit codes of all commands of this module. */
#define EXIT_USAGE 64
#define EXIT_START_FAILED 1
#define EXIT_DISK_FAILED 74

#endif
