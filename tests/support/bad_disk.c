/* A disk that is full, or slow, for as long as a test wants. Loaded with LD_PRELOAD; BAD_DISK names
 * a path: while PATH.full exists, pwrite(2) to a file of the log fails with ENOSPC, as it does on
 * file systems that write anew what is overwritten; while PATH.slow exists, fdatasync(2) takes 100
 * ms longer; while PATH.read exists, pread(2) takes 1,200 ms longer. Direct writes fare as these two do, and are the kernel's at other times. The file
 * `meta` always has space: a node that cannot save its term and vote ends. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake_aio.h"

enum {
    SLOW_MS = 100,
    READ_MS = 1200,
    FEW = 64, /* bytes that there is still space for, enough to undo half a write */
};

static char full[PATH_MAX];
static char slow[PATH_MAX];
static char slow_read[PATH_MAX];
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_fdatasync)(int);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("BAD_DISK");
    if (path != NULL) {
        snprintf(full, sizeof(full), "%s.full", path);
        snprintf(slow, sizeof(slow), "%s.slow", path);
        snprintf(slow_read, sizeof(slow_read), "%s.read", path);
    }
    *(void **)&real_pread = dlsym(RTLD_NEXT, "pread");
    *(void **)&real_pwrite = dlsym(RTLD_NEXT, "pwrite");
    *(void **)&real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
}

/* errno stays as it was. */
static bool is_there(const char *path)
{
    int before = errno;
    bool answer = path[0] != '\0' && access(path, F_OK) == 0;
    errno = before;
    return answer;
}

bool fake_aio_wants(int fd)
{
    (void)fd;
    return is_there(full) || is_there(slow);
}

static bool is_log(int fd)
{
    char link[64];
    char name[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, name, sizeof(name) - 1);
    name[len < 0 ? 0 : len] = '\0';
    const char *last = strrchr(name, '/');
    return last != NULL && strncmp(last, "/log-", 5) == 0;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    if (len > FEW && is_there(full) && is_log(fd)) {
        errno = ENOSPC;
        return -1;
    }
    return real_pwrite(fd, data, len, offset);
}

ssize_t pread(int fd, void *data, size_t len, off_t offset)
{
    if (is_there(slow_read)) {
        struct timespec time = {READ_MS / 1000, READ_MS % 1000 * 1000000L};
        nanosleep(&time, NULL);
    }
    return real_pread(fd, data, len, offset);
}

int fdatasync(int fd)
{
    if (is_there(slow)) {
        struct timespec time = {0, SLOW_MS * 1000000L};
        nanosleep(&time, NULL);
    }
    return real_fdatasync(fd);
}
