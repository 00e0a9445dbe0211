/* syscall(2) with io_submit and io_getevents emulated, see fake_aio.h. One write at a time, as
 * src/storage/disk_direct.c has it. */
#define _GNU_SOURCE

#include "fake_aio.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct iocb current;
static bool is_faked; /* the write that is under way */
static bool is_done;
static int64_t result;

/* Not by the descriptor itself, which takes aligned writes only. */
static int64_t write_and_sync(const struct iocb *write)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%u", write->aio_fildes);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    const void *bytes =
        (const void *)(uintptr_t)write->aio_buf; // NOLINT(performance-no-int-to-ptr)
    int64_t done = pwrite(fd, bytes, write->aio_nbytes, write->aio_offset);
    if (done < 0 || fdatasync(fd) != 0) {
        done = -errno;
    }
    close(fd);
    return done;
}

static void *run(void *argument)
{
    (void)argument;
    int64_t done = write_and_sync(&current);
    pthread_mutex_lock(&lock);
    int event_fd = (int)current.aio_resfd;
    result = done;
    is_done = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    uint64_t one = 1;
    ssize_t put = write(event_fd, &one, sizeof(one));
    (void)put;
    return NULL;
}

static long submit(const struct iocb *write)
{
    pthread_t thread;
    pthread_mutex_lock(&lock);
    current = *write;
    is_faked = true;
    is_done = false;
    pthread_mutex_unlock(&lock);
    if (pthread_create(&thread, NULL, run, NULL) != 0) {
        abort();
    }
    pthread_detach(thread);
    return 1;
}

static long get_event(bool wait, struct io_event *event)
{
    pthread_mutex_lock(&lock);
    while (wait && !is_done) {
        pthread_cond_wait(&changed, &lock);
    }
    long count = is_done;
    if (is_done) {
        *event = (struct io_event){.res = result};
        is_faked = is_done = false;
    }
    pthread_mutex_unlock(&lock);
    return count;
}

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long word[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++) {
        word[i] = va_arg(arguments, long);
    }
    va_end(arguments);
    if (number == SYS_io_submit) {
        struct iocb *const *list =
            (struct iocb *const *)word[2]; // NOLINT(performance-no-int-to-ptr)
        if (fake_aio_wants((int)list[0]->aio_fildes)) {
            return submit(list[0]);
        }
    } else if (number == SYS_io_getevents && is_faked) {
        return get_event(word[1] > 0,
                         (struct io_event *)word[3]); // NOLINT(performance-no-int-to-ptr)
    }
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    }
    return real(number, word[0], word[1], word[2], word[3], word[4], word[5]);
}
