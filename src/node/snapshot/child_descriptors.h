/* Closes the descriptors that a forked child inherited from its parent. */
#ifndef HOLDFAST_NODE_SNAPSHOT_CHILD_DESCRIPTORS_H
#define HOLDFAST_NODE_SNAPSHOT_CHILD_DESCRIPTORS_H

/* Closes all descriptors but `keep`. Allocates nothing and takes no lock, so that the child of a
 * process with threads may call it. Falls back to /proc without close_range(2) (before Linux 5.9,
 * or forbidden), and without /proc tries every possible descriptor, which is slow. */
void child_descriptors_close(int keep);

#endif
