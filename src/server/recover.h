/* `holdfast recover`: creates a new cluster from the folder of one node after the majority of the
 * old cluster is lost (S3.3). The procedure is in docs/OPERATION.md. */
#ifndef HOLDFAST_SERVER_RECOVER_H
#define HOLDFAST_SERVER_RECOVER_H

/* `arguments` are those after the word `recover`. Returns the exit code. */
int recover_main(int count, char **arguments);

#endif
