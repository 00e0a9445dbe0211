/* `holdfast recover`: a new cluster out of one node's folder, when the majority of the old one is
 * lost (S3.3). docs/OPERATION.md tells when and how. */
#ifndef HOLDFAST_SERVER_RECOVER_H
#define HOLDFAST_SERVER_RECOVER_H

/* The arguments behind the word `recover`. Returns the exit code. */
int recover_main(int count, char **arguments);

#endif
