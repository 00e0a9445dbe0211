/* Marks of a fence in memory and, with a path, in a file that is replaced whenever a mark rises. */
#ifndef HOLDFAST_CLIENT_FENCE_MARKS_H
#define HOLDFAST_CLIENT_FENCE_MARKS_H

#include <stdint.h>

enum { FENCE_MARKS_MAX = 65536 };

struct fence_marks;

/* With a path: reads the file if it exists, and locks PATH.lock against other processes. 0, or
 * HF_ERR_SYSTEM or HF_ERR_INVALID (damaged file), with text. */
int fence_marks_open(struct fence_marks **out, const char *path);
/* Takes NULL. */
void fence_marks_close(struct fence_marks *marks);

/* For struct hf_fence_store. ENOBUFS: FENCE_MARKS_MAX marks exist. */
int fence_marks_load(void *arg, const char *resource, uint64_t *mark);
int fence_marks_save(void *arg, const char *resource, uint64_t mark);

#endif
