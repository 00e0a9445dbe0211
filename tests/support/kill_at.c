/* Ends the process, as kill -9 does, just before its n-th call that makes something durable or
 * changes a name: KILL_AT=n. For tests of what is left after a crash at every point of a
 * command. Loaded with LD_PRELOAD. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void count(void)
{
    static long left = -1;
    if (left < 0) {
        const char *text = getenv("KILL_AT");
        left = text == NULL ? 0 : strtol(text, NULL, 10);
    }
    if (left > 0 && --left == 0) {
        kill(getpid(), SIGKILL);
    }
}

int fdatasync(int fd)
{
    static int (*real)(int);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    }
    count();
    return real(fd);
}

int fsync(int fd)
{
    static int (*real)(int);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    }
    count();
    return real(fd);
}

int rename(const char *from, const char *to)
{
    static int (*real)(const char *, const char *);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "rename");
    }
    count();
    return real(from, to);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    static int (*real)(int, const char *, int, const char *);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "renameat");
    }
    count();
    return real(from_fd, from, to_fd, to);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    static int (*real)(int, const char *, int, const char *, unsigned);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "renameat2");
    }
    count();
    return real(from_fd, from, to_fd, to, flags);
}
