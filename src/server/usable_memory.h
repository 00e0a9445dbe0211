/* The memory that this process may use; the defaults of limits are shares of it. */
#ifndef HOLDFAST_SERVER_USABLE_MEMORY_H
#define HOLDFAST_SERVER_USABLE_MEMORY_H

#include <stdint.h>

/* The memory of the machine, or the smallest limit of the control groups. `membership` is
 * /proc/self/cgroup and `root` the mount point of cgroup v2; tests pass others. */
uint64_t usable_memory(const char *membership, const char *root);

/* Of cgroup v2 alone. UINT64_MAX: no limit. */
uint64_t cgroup_memory(const char *membership, const char *root);

#endif
