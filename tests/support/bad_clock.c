/* A wall clock that jumps when a test says so. Loaded with LD_PRELOAD; BAD_CLOCK names a file of 8
 * bytes, the seconds by which CLOCK_REALTIME is wrong, which the test may write at any time. All
 * other clocks, and all timers, stay as they are: those do not jump on a real machine either.
 * (libfaketime moves timers of every clock along with it, so a node under it fails for reasons that
 * no machine has.) */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *wrong_s;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("BAD_CLOCK");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    if (fd >= 0) {
        void *at = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
        wrong_s = at != MAP_FAILED ? at : NULL;
        close(fd);
    }
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int status = real_clock_gettime(clock, out);
    if (status == 0 && wrong_s != NULL &&
        (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        out->tv_sec += *wrong_s;
    }
    return status;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    int status = clock_gettime(CLOCK_REALTIME, &now);
    (void)zone;
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return status;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}
