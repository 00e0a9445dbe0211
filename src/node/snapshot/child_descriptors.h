/* The descriptors of a forked child, which has no use for those of its parent. */
#ifndef HOLDFAST_NODE_SNAPSHOT_CHILD_DESCRIPTORS_H
#define HOLDFAST_NODE_SNAPSHOT_CHILD_DESCRIPTORS_H

/* Closes all but one. Allocates nothing and takes no lock, so that the child of a process with
 * threads may call it. Works without close_range(2) (before Linux 5.9, or forbidden), and then
 * without /proc, too; only the last is slow, about 0.1 s for a million possible descriptors. */
void child_descriptors_close(int keep);

#endif
