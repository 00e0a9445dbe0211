/* The marks of a fence in memory and, with a path, in a file that is replaced with each rise. */
#ifndef HOLDFAST_CLIENT_FENCE_MARKS_H
#define HOLDFAST_CLIENT_FENCE_MARKS_H

#include <stdint.h>

enum { FENCE_MARKS_MAX = 65536 };

struct fence_marks;

/* With a path: reads the file if there is one, and keeps others out by a lock on PATH.lock. 0, or
 * HF_ERR_SYSTEM, HF_ERR_INVALID (the file is damaged), with its text. */
int fence_marks_open(struct fence_marks **out, const char *path);
/* Takes NULL. */
void fence_marks_close(struct fence_marks *marks);

/* For struct hf_fence_store; ENOBUFS: there are FENCE_MARKS_MAX. */
int fence_marks_load(void *arg, const char *resource, uint64_t *mark);
int fence_marks_save(void *arg, const char *resource, uint64_t mark);

#endif
