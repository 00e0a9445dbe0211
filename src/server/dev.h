/* `holdfast dev`: a whole cluster of real processes on this machine, to play and to test with. */
#ifndef HOLDFAST_SERVER_DEV_H
#define HOLDFAST_SERVER_DEV_H

/* The arguments behind the word `dev`. Returns the exit code. */
int dev_main(int count, char **arguments);

#endif
