/* `holdfast recover`: creates a new cluster from the folder of one node after the old majority is
 * lost (S3.3, docs/OPERATION.md). */
#ifndef HOLDFAST_SERVER_RECOVER_H
#define HOLDFAST_SERVER_RECOVER_H

/* `arguments`: after the word `recover`. Returns the exit code. */
int recover_main(int count, char **arguments);

#endif
