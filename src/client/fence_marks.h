/* Marks of a fence in memory and, with a path, in a file that is replaced whenever a mark rises. */
#ifndef HOLDFAST_CLIENT_FENCE_MARKS_H
#define HOLDFAST_CLIENT_FENCE_MARKS_H

#include <stdbool.h>
#include <stdint.h>

enum { FENCE_MARKS_MAX = 65536 };

struct fence_marks;

/* With a path: locks PATH.lock against other processes, and reads the file if it exists. 0, or
 * HF_ERR_SYSTEM, HF_ERR_INVALID (damaged file), HF_ERR_TIMEOUT (another fence had the lock for
 * wait_ms; HF_ERR_SYSTEM if wait_ms is 0), with text. */
int fence_marks_open(struct fence_marks **out, const char *path, uint32_t wait_ms);
/* Takes NULL. */
void fence_marks_close(struct fence_marks *marks);

/* For struct hf_fence_store. ENOBUFS: FENCE_MARKS_MAX marks exist. */
int fence_marks_load(void *arg, const char *resource, uint64_t *mark);
int fence_marks_save(void *arg, const char *resource, uint64_t mark);

/* fsync of a folder: a rename in it is durable then. */
bool fence_sync_folder(const char *folder);

#endif
