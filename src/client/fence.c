/* The fence of a resource: a high-water mark of tokens with three stores (S11).
 *
 * The mark is saved before permission is given: a crash in between may refuse an entitled holder,
 * but never permits a stale one. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "client/client.h"
#include "client/fence_marks.h"
#include "client/proto.h"

struct hf_fence {
    pthread_mutex_t mutex;
    struct hf_fence_store store;
    struct fence_marks *marks; /* of our two stores, else NULL */
};

int hf_fence_open(hf_fence **out, const struct hf_fence_store *store)
{
    if (store == NULL || store->load == NULL || store->save == NULL) {
        return error_set(HF_ERR_INVALID, "a fence store needs load and save");
    }
    struct hf_fence *fence = calloc(1, sizeof(*fence));
    if (fence == NULL) {
        return error_set(HF_ERR_MEMORY, "out of memory");
    }
    pthread_mutex_init(&fence->mutex, NULL);
    fence->store = *store;
    *out = fence;
    return 0;
}

static int open_marks(hf_fence **out, const char *path)
{
    struct fence_marks *marks;
    int error = fence_marks_open(&marks, path, 0);
    if (error != 0) {
        return error;
    }
    struct hf_fence_store store = {fence_marks_load, fence_marks_save, marks};
    error = hf_fence_open(out, &store);
    if (error != 0) {
        fence_marks_close(marks);
    } else {
        (*out)->marks = marks;
    }
    return error;
}

int hf_fence_open_memory(hf_fence **out)
{
    return open_marks(out, NULL);
}

int hf_fence_open_file(hf_fence **out, const char *path)
{
    if (path == NULL || path[0] == '\0') {
        return error_set(HF_ERR_INVALID, "the path is empty");
    }
    return open_marks(out, path);
}

void hf_fence_close(hf_fence *fence)
{
    if (fence != NULL) {
        fence_marks_close(fence->marks);
        pthread_mutex_destroy(&fence->mutex);
        free(fence);
    }
}

/* With the fence's mutex. */
static int guard(struct hf_fence *fence, const char *resource, uint64_t token, uint64_t *mark)
{
    *mark = 0;
    if (fence->store.load(fence->store.arg, resource, mark) != 0) {
        return error_set(HF_ERR_SYSTEM, "the mark of %s cannot be read: %s", resource,
                         strerrordesc_np(errno));
    }
    if (token < *mark) {
        return error_set(HF_ERR_STALE, "%s: token %llu is stale, token %llu was used here",
                         resource, (unsigned long long)token, (unsigned long long)*mark);
    }
    if (token > *mark) {
        if (fence->store.save(fence->store.arg, resource, token) != 0) {
            return errno == ENOBUFS
                       ? error_set(HF_ERR_LIMIT, "the fence keeps no more than %d resources",
                                   FENCE_MARKS_MAX)
                       : error_set(HF_ERR_SYSTEM, "the mark of %s cannot be saved: %s", resource,
                                   strerrordesc_np(errno));
        }
        *mark = token;
    }
    return 0;
}

int hf_fence_guard(hf_fence *fence, const char *resource, uint64_t token, uint64_t *highest)
{
    if (resource == NULL || resource[0] == '\0' || strlen(resource) > LIMIT_NAME ||
        !text_is_plain(slice_of(resource))) {
        return error_set(HF_ERR_INVALID,
                         "a resource is 1 to 512 bytes of UTF-8 without control characters");
    }
    if (token == 0 || token >= LIMIT_NUMBER) {
        return error_set(HF_ERR_INVALID, "%llu is no token", (unsigned long long)token);
    }
    uint64_t mark;
    pthread_mutex_lock(&fence->mutex);
    int error = guard(fence, resource, token, &mark);
    pthread_mutex_unlock(&fence->mutex);
    if (highest != NULL && (error == 0 || error == HF_ERR_STALE)) {
        *highest = mark;
    }
    return error;
}
