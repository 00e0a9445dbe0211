/* For a forked child: closes inherited descriptors. */
#ifndef HOLDFAST_NODE_SNAPSHOT_CHILD_DESCRIPTORS_H
#define HOLDFAST_NODE_SNAPSHOT_CHILD_DESCRIPTORS_H

/* All but `keep`. Allocates nothing and takes no lock: the child of a process with threads may call
 * it. Without close_range(2) reads /proc, and without /proc tries every possible descriptor. */
void child_descriptors_close(int keep);

#endif
