/* `holdfast dev`: a cluster of real processes on this machine. */
#ifndef HOLDFAST_SERVER_DEV_H
#define HOLDFAST_SERVER_DEV_H

/* `arguments`: after the word `dev`. Returns the exit code. */
int dev_main(int count, char **arguments);

#endif
