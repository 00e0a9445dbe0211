/* How much memory this process may use: the defaults of limits in bytes are shares of it. */
#ifndef HOLDFAST_SERVER_USABLE_MEMORY_H
#define HOLDFAST_SERVER_USABLE_MEMORY_H

#include <stdint.h>

/* The machine's memory, or the smallest limit of the control groups that the process is in.
 * `membership` is /proc/self/cgroup, `root` the mount point of cgroup v2; tests name others. */
uint64_t usable_memory(const char *membership, const char *root);

/* The same without the machine and without libuv's view of cgroup v1. UINT64_MAX: no limit. */
uint64_t cgroup_memory(const char *membership, const char *root);

#endif
