/* The fence for a file: mark and file change under one flock(2), in the format and with the lock of
 * holdfast.fence.files of the Python client, so programs in both languages can write one file. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "client/fence_marks.h"
#include "client/proto.h"

#define RESOURCE_OF_FILE "file" /* in PATH.fence, which concerns one file */

static char *with_suffix(const char *path, const char *suffix)
{
    size_t size = strlen(path) + strlen(suffix) + 1;
    char *out = client_alloc(size);
    snprintf(out, size, "%s%s", path, suffix);
    return out;
}

static bool write_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t done = write(fd, data, size);
        if (done < 0 && errno != EINTR) {
            return false;
        }
        if (done > 0) {
            data += done;
            size -= (size_t)done;
        }
    }
    return true;
}

/* `old` is the present file, NULL if there is none: its mode stays. */
static bool write_new(const char *path, const struct stat *old, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) {
        return false;
    }
    bool is_written = (old == NULL || fchmod(fd, old->st_mode & 07777) == 0) &&
                      write_all(fd, data, size) && fsync(fd) == 0;
    int error = errno;
    is_written = close(fd) == 0 && is_written;
    if (!is_written) {
        (void)unlink(path);
        errno = error;
    }
    return is_written;
}

/* Durably: after a crash the file is the old one or the new one. */
static bool replace(const char *path, const struct stat *old, const void *data, size_t size)
{
    char *new_path = with_suffix(path, ".new");
    char *copy = client_copy(path);
    bool is_replaced = write_new(new_path, old, data, size) && rename(new_path, path) == 0 &&
                       fence_sync_folder(dirname(copy));
    int error = errno;
    free(copy);
    free(new_path);
    errno = error;
    return is_replaced;
}

/* With the flock. */
static int write_fenced(struct fence_marks *marks, const char *path, const struct stat *old,
                        const void *data, size_t size, uint64_t token, uint64_t *mark)
{
    (void)fence_marks_load(marks, RESOURCE_OF_FILE, mark);
    if (token < *mark) {
        return error_set(HF_ERR_STALE, "%s: token %llu is stale, token %llu was used here", path,
                         (unsigned long long)token, (unsigned long long)*mark);
    }
    if (token > *mark && fence_marks_save(marks, RESOURCE_OF_FILE, token) != 0) {
        return error_set(HF_ERR_SYSTEM, "the mark of %s cannot be saved: %s", path,
                         strerrordesc_np(errno));
    }
    *mark = token;
    if (!replace(path, old, data, size)) {
        return error_set(HF_ERR_SYSTEM, "%s cannot be written: %s", path, strerrordesc_np(errno));
    }
    return 0;
}

int hf_fence_write_file(const char *path, const void *data, size_t size, uint64_t token,
                        uint32_t wait_ms, uint64_t *highest)
{
    if (path == NULL || path[0] == '\0') {
        return error_set(HF_ERR_INVALID, "the path is empty");
    }
    if (token == 0 || token >= LIMIT_NUMBER) {
        return error_set(HF_ERR_INVALID, "%llu is no token", (unsigned long long)token);
    }
    struct stat old;
    bool is_there = lstat(path, &old) == 0;
    if (!is_there && errno != ENOENT) {
        return error_set(HF_ERR_SYSTEM, "%s: %s", path, strerrordesc_np(errno));
    }
    if (is_there && !S_ISREG(old.st_mode)) {
        return error_set(HF_ERR_INVALID,
                         "%s is not a regular file: pass the path of the file itself", path);
    }
    struct fence_marks *marks;
    char *marks_path = with_suffix(path, ".fence");
    int error = fence_marks_open(&marks, marks_path, wait_ms);
    free(marks_path);
    if (error != 0) {
        return error;
    }
    uint64_t mark;
    error = write_fenced(marks, path, is_there ? &old : NULL, data, size, token, &mark);
    fence_marks_close(marks);
    if (highest != NULL && (error == 0 || error == HF_ERR_STALE)) {
        *highest = mark;
    }
    return error;
}
