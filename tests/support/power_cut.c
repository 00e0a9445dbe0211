/* A disk that forgets what was not synced, to be loaded in front of a node (LD_PRELOAD).
 *
 * What is written to a file of the folder that POWER_CUT_FOLDER names stays in this process until
 * fdatasync(2) or fsync(2) of that file; reads see it. Some sectors go to the file at once, as the
 * kernel may do at any time. So kill -9 leaves exactly what a power cut may leave: what was synced,
 * and any part of what was not. A file grows at once, with zeros.
 *
 * A direct write is a write and a sync like that, by a thread (fake_aio.h).
 *
 * Names are handled by undoing: each new, renamed or removed name is noted in FOLDER.undo/journal,
 * and what it replaced is kept there by a hard link, until the folder is synced. Whoever cuts the
 * power undoes the last few of them (tests/cluster/power.py).
 *
 * Real syncs are left out: nothing here outlives the machine. POWER_CUT_SYNC_MS makes a sync of a
 * file take up to so long, as that of a disk does: until then the power may be cut. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fake_aio.h"

enum { SECTOR = 512, EARLY_ONE_IN = 4 };

/* One write that is not synced yet. In the order in which they came. */
struct unsynced_write {
    struct unsynced_write *next;
    ino_t inode;
    off_t offset;
    size_t len;
    uint8_t bytes[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct unsynced_write *first;
static struct unsynced_write **last = &first;
static char folder[PATH_MAX]; /* "": not ours to watch */
static char undo[PATH_MAX + 8];
static dev_t device;
static ino_t folder_inode;
static int journal = -1;
static unsigned backups;
static uint64_t seed;
static uint32_t sync_ms; /* at most; each takes another time */
static bool is_lying; /* POWER_CUT_NO_SYNC: no byte is ever durable, to show that it is noticed */

static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_fdatasync)(int);
static int (*real_fsync)(int);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_renameat)(int, const char *, int, const char *);
static int (*real_unlinkat)(int, const char *, int);
static int (*real_ftruncate)(int, off_t);

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

#define FIND(name) (*(void **)&real_##name = dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void)
{
    FIND(pread);
    FIND(pwrite);
    FIND(fdatasync);
    FIND(fsync);
    FIND(openat);
    FIND(renameat);
    FIND(unlinkat);
    FIND(ftruncate);
    const char *name = getenv("POWER_CUT_FOLDER");
    const char *number = getenv("POWER_CUT_SEED");
    if (name == NULL) {
        return;
    }
    snprintf(folder, sizeof(folder), "%s", name);
    snprintf(undo, sizeof(undo), "%s.undo", name);
    seed = number == NULL ? 1 : strtoull(number, NULL, 10) * 2 + 1;
    const char *ms = getenv("POWER_CUT_SYNC_MS");
    sync_ms = ms == NULL ? 0 : (uint32_t)strtoul(ms, NULL, 10);
    is_lying = getenv("POWER_CUT_NO_SYNC") != NULL;
    pthread_atfork(before_fork, after_fork, after_fork);
}

static uint32_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32);
}

/* ---- whose is it ---- */

/* The folder is made by the node, so it is looked for until it is there. With the lock. */
static bool is_known(void)
{
    struct stat about;
    if (folder[0] == '\0') {
        return false;
    }
    if (folder_inode == 0 && stat(folder, &about) == 0) {
        device = about.st_dev;
        folder_inode = about.st_ino;
        mkdir(undo, 0700);
        char path[PATH_MAX + 32];
        snprintf(path, sizeof(path), "%s/journal", undo);
        journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    return folder_inode != 0;
}

static bool is_folder(int fd)
{
    struct stat about;
    return is_known() && fstat(fd, &about) == 0 && about.st_dev == device &&
           about.st_ino == folder_inode;
}

/* A file of the folder, by any descriptor. With the lock. */
static bool is_file(int fd, struct stat *about)
{
    char link[64];
    char path[PATH_MAX];
    if (!is_known() || fstat(fd, about) != 0 || !S_ISREG(about->st_mode) ||
        about->st_dev != device) {
        return false;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof(path) - 1);
    size_t folder_len = strlen(folder);
    return len > (ssize_t)folder_len && memcmp(path, folder, folder_len) == 0 &&
           path[folder_len] == '/';
}

bool fake_aio_wants(int fd)
{
    struct stat about;
    pthread_mutex_lock(&lock);
    bool answer = is_file(fd, &about);
    pthread_mutex_unlock(&lock);
    return answer;
}

/* ---- bytes ---- */

/* The kernel writes back when it likes: some sectors reach the file before they are synced. */
static void write_some_early(int fd, const uint8_t *bytes, size_t len, off_t offset)
{
    for (size_t done = 0; done < len;) {
        size_t sector = SECTOR - (size_t)(offset + (off_t)done) % SECTOR;
        size_t n = sector < len - done ? sector : len - done;
        if (!is_lying && draw() % EARLY_ONE_IN == 0) {
            ssize_t written = real_pwrite(fd, bytes + done, n, offset + (off_t)done);
            (void)written;
        }
        done += n;
    }
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    struct stat about;
    pthread_mutex_lock(&lock);
    if (!is_file(fd, &about)) {
        pthread_mutex_unlock(&lock);
        return real_pwrite(fd, bytes, len, offset);
    }
    struct unsynced_write *held = malloc(sizeof(*held) + len);
    if (held == NULL ||
        (offset + (off_t)len > about.st_size && real_ftruncate(fd, offset + (off_t)len) != 0)) {
        free(held);
        pthread_mutex_unlock(&lock);
        return -1;
    }
    *held = (struct unsynced_write){.inode = about.st_ino, .offset = offset, .len = len};
    memcpy(held->bytes, bytes, len);
    *last = held;
    last = &held->next;
    write_some_early(fd, bytes, len, offset);
    pthread_mutex_unlock(&lock);
    return (ssize_t)len;
}

ssize_t pread(int fd, void *bytes, size_t len, off_t offset)
{
    struct stat about;
    pthread_mutex_lock(&lock);
    ssize_t got = real_pread(fd, bytes, len, offset);
    if (got > 0 && first != NULL && is_file(fd, &about)) {
        off_t end = offset + got;
        for (const struct unsynced_write *held = first; held != NULL; held = held->next) {
            off_t from = held->offset > offset ? held->offset : offset;
            off_t to = held->offset + (off_t)held->len;
            to = to < end ? to : end;
            if (held->inode == about.st_ino && from < to) {
                memcpy((uint8_t *)bytes + (from - offset), held->bytes + (from - held->offset),
                       (size_t)(to - from));
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return got;
}

/* Lets go of what is held of a file, into it when `fd` is one. With the lock. */
static bool release(ino_t inode, int fd)
{
    bool fine = true;
    struct unsynced_write **at = &first;
    while (*at != NULL) {
        struct unsynced_write *held = *at;
        if (held->inode != inode) {
            at = &held->next;
            continue;
        }
        fine = fine && (fd < 0 || real_pwrite(fd, held->bytes, held->len, held->offset) ==
                                      (ssize_t)held->len);
        *at = held->next;
        free(held);
    }
    last = at;
    return fine;
}

int ftruncate(int fd, off_t size)
{
    struct stat about;
    pthread_mutex_lock(&lock);
    if (is_file(fd, &about)) { /* what was written before it is as durable as the new size */
        (void)release(about.st_ino, fd);
    }
    int status = real_ftruncate(fd, size);
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- names ---- */

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    char line[2 * NAME_MAX + 64];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    ssize_t written = write(journal, line, (size_t)len);
    (void)written;
}

/* Keeps what a name stands for. 0: nothing does. */
static unsigned keep(int fd, const char *name)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/%u", undo, backups + 1);
    return linkat(fd, name, AT_FDCWD, path, 0) == 0 ? ++backups : 0;
}

/* The folder was synced: there is nothing to undo. */
static void forget(void)
{
    for (unsigned i = 1; i <= backups; i++) {
        char path[PATH_MAX + 32];
        struct stat about;
        snprintf(path, sizeof(path), "%s/%u", undo, i);
        if (stat(path, &about) == 0 && about.st_nlink == 1) {
            (void)release(about.st_ino, -1); /* the number will be another file's */
        }
        unlink(path);
    }
    backups = 0;
    int status = real_ftruncate(journal, 0);
    (void)status;
}

int openat(int fd, const char *name, int flags, ...)
{
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    pthread_mutex_lock(&lock);
    if ((flags & O_CREAT) != 0 && is_folder(fd) && faccessat(fd, name, F_OK, 0) != 0) {
        note("create %s\n", name);
    }
    int opened = real_openat(fd, name, flags, mode);
    pthread_mutex_unlock(&lock);
    return opened;
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    pthread_mutex_lock(&lock);
    if (is_folder(from_fd)) {
        note("rename %s %s %u\n", from, to, keep(to_fd, to));
    }
    int status = real_renameat(from_fd, from, to_fd, to);
    pthread_mutex_unlock(&lock);
    return status;
}

int unlinkat(int fd, const char *name, int flags)
{
    pthread_mutex_lock(&lock);
    if (is_folder(fd)) {
        unsigned kept = keep(fd, name);
        if (kept != 0) {
            note("remove %s %u\n", name, kept);
        }
    }
    int status = real_unlinkat(fd, name, flags);
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- syncing ---- */

/* Without the lock: what is written meanwhile may become durable too, as with a real one. */
static void take_time(int fd)
{
    struct stat about;
    pthread_mutex_lock(&lock);
    long us = is_file(fd, &about) ? (long)(draw() % (sync_ms * 1000 + 1)) : 0;
    pthread_mutex_unlock(&lock);
    if (us > 0) {
        struct timespec time = {us / 1000000, us % 1000000 * 1000};
        nanosleep(&time, NULL);
    }
}

static int sync_it(int fd, int (*real)(int))
{
    struct stat about;
    int status = 0;
    if (sync_ms > 0) {
        take_time(fd);
    }
    pthread_mutex_lock(&lock);
    if (is_file(fd, &about)) {
        status = is_lying || release(about.st_ino, fd) ? 0 : -1;
    } else if (is_folder(fd)) {
        forget();
    } else {
        status = real(fd);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int fdatasync(int fd)
{
    return sync_it(fd, real_fdatasync);
}

int fsync(int fd)
{
    return sync_it(fd, real_fsync);
}
