/* `holdfast serve`: one node in the foreground until it is told to stop. */
#ifndef HOLDFAST_SERVER_SERVE_H
#define HOLDFAST_SERVER_SERVE_H

/* The arguments behind the word `serve`. Returns the exit code. */
int serve_main(int count, char **arguments);

/* What it says about itself. */
#define EXIT_USAGE 64
#define EXIT_START_FAILED 1
#define EXIT_DISK_FAILED 74

#endif
