/* The real disk. Each function is one system call, repeated after EINTR or a partial transfer. */
#define _GNU_SOURCE

#include "storage/disk_posix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "storage/disk_posix_state.h"

enum {
    LOCK_WAIT_MS = 5000,
    LOCK_RETRY_MS = 10,
};

static struct folder *folder_of(struct disk *disk)
{
    return (struct folder *)disk;
}

static struct posix_file *posix_of(struct disk_file *file)
{
    return (struct posix_file *)file;
}

enum storage_status posix_status_of(int error)
{
    switch (error) {
    case ENOENT:
        return STORAGE_MISSING;
    case EEXIST:
        return STORAGE_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return STORAGE_FULL;
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOTDIR:
    case ELOOP:
        return STORAGE_DENIED;
    default:
        return STORAGE_IO;
    }
}

/* Sets "cannot WHAT PATH/NAME: why" from errno. Without strerror, which may take locks: the
 * snapshot child calls this. */
static enum storage_status failed(struct problem *problem, const struct folder *folder,
                                  const char *what, const char *name)
{
    int error = errno;
    const char *why = strerrordesc_np(error);
    return problem_set(problem, posix_status_of(error), "cannot %s %s%s%s: %s", what, folder->path,
                       name[0] == '\0' ? "" : "/", name, why != NULL ? why : "unknown error");
}

enum storage_status posix_failed(struct problem *problem, const struct posix_file *file,
                                 const char *what)
{
    return failed(problem, file->folder, what, file->file.name);
}

/* ---- names ---- */

static enum storage_status posix_list(struct disk *disk, disk_visit_fn visit, void *ctx,
                                      struct problem *problem)
{
    struct folder *folder = folder_of(disk);
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        enum storage_status status = failed(problem, folder, "list", "");
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            visit(ctx, entry->d_name);
        }
    }
    enum storage_status status = errno == 0 ? STORAGE_OK : failed(problem, folder, "list", "");
    closedir(dir);
    return status;
}

static const struct disk_ops posix_ops;

static struct posix_file *file_new(struct folder *folder, const char *name, int fd)
{
    struct posix_file *file = memory_alloc(memory_system(), sizeof(*file));
    *file = (struct posix_file){
        .file = {.ops = &posix_ops}, .folder = folder, .fd = fd, .direct_fd = -1};
    snprintf(file->file.name, sizeof(file->file.name), "%s", name);
    return file;
}

static enum storage_status posix_open(struct disk *disk, const char *name, enum disk_mode mode,
                                      struct disk_file **out, struct problem *problem)
{
    struct folder *folder = folder_of(disk);
    int flags = mode == DISK_READ    ? O_RDONLY
                : mode == DISK_WRITE ? O_RDWR
                                     : O_RDWR | O_CREAT | O_EXCL;
    int fd = openat(folder->fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return failed(problem, folder, mode == DISK_CREATE ? "create" : "open", name);
    }
    *out = &file_new(folder, name, fd)->file;
    return STORAGE_OK;
}

static enum storage_status posix_rename(struct disk *disk, const char *from, const char *to,
                                        struct problem *problem)
{
    struct folder *folder = folder_of(disk);
    if (renameat(folder->fd, from, folder->fd, to) != 0) {
        enum storage_status status = failed(problem, folder, "rename", from);
        problem_add(problem, " (to %s)", to);
        return status;
    }
    return STORAGE_OK;
}

static enum storage_status posix_unlink(struct disk *disk, const char *name,
                                        struct problem *problem)
{
    struct folder *folder = folder_of(disk);
    return unlinkat(folder->fd, name, 0) == 0 ? STORAGE_OK
                                              : failed(problem, folder, "remove", name);
}

static enum storage_status posix_sync_folder(struct disk *disk, struct problem *problem)
{
    struct folder *folder = folder_of(disk);
    return fsync(folder->fd) == 0 ? STORAGE_OK : failed(problem, folder, "sync the folder", "");
}

/* The pid that the holder wrote; 0: none. */
static long read_holder(int fd)
{
    char text[24] = "";
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
    return got > 0 ? strtol(text, NULL, 10) : 0;
}

/* Retries while the pid in the file is that of a dead process: its snapshot child still has the
 * lock, and exits as soon as it is scheduled. */
static bool take_lock(int fd)
{
    for (unsigned waited_ms = 0;; waited_ms += LOCK_RETRY_MS) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            return true;
        }
        int error = errno;
        long holder = read_holder(fd);
        bool is_dying = holder > 0 && kill((pid_t)holder, 0) != 0 && errno == ESRCH;
        errno = error;
        if (error != EWOULDBLOCK || !is_dying || waited_ms >= LOCK_WAIT_MS) {
            return false;
        }
        struct timespec pause = {.tv_nsec = LOCK_RETRY_MS * 1000000L};
        nanosleep(&pause, NULL);
    }
}

/* flock(2), not fcntl(2): the lock belongs to the open file and not to the process, so a second
 * open in a test conflicts too. It ends when the last descriptor is closed. */
static enum storage_status posix_lock(struct disk *disk, const char *name, struct disk_file **out,
                                      struct problem *problem)
{
    struct folder *folder = folder_of(disk);
    int fd = openat(folder->fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return failed(problem, folder, "open", name);
    }
    enum storage_status status = STORAGE_OK;
    if (!take_lock(fd)) {
        if (errno == EWOULDBLOCK) {
            char pid[24] = "";
            long holder = read_holder(fd);
            if (holder > 0) {
                snprintf(pid, sizeof(pid), "%ld", holder);
            }
            status = problem_set(problem, STORAGE_LOCKED,
                                 "the folder %s is in use by another process%s%s%s: a folder "
                                 "belongs to one node; stop the other or name another folder",
                                 folder->path, pid[0] == '\0' ? "" : " (pid ", pid,
                                 pid[0] == '\0' ? "" : ")");
        } else {
            status = failed(problem, folder, "lock", name);
        }
        close(fd);
        return status;
    }
    char pid[24];
    int len = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    /* The lock is valid without the pid, so a full disk does not matter. */
    if (ftruncate(fd, 0) == 0 && pwrite(fd, pid, (size_t)len, 0) < 0) {
        errno = 0;
    }
    *out = &file_new(folder, name, fd)->file;
    return STORAGE_OK;
}

static enum storage_status posix_space(struct disk *disk, uint64_t *bytes, struct problem *problem)
{
    struct folder *folder = folder_of(disk);
    struct statvfs information;
    if (fstatvfs(folder->fd, &information) != 0) {
        return failed(problem, folder, "read the free space of", "");
    }
    *bytes = (uint64_t)information.f_bavail * (uint64_t)information.f_frsize;
    return STORAGE_OK;
}

/* ---- files ---- */

static enum storage_status posix_read(struct disk_file *file, uint64_t offset, void *data,
                                      size_t len, size_t *got, struct problem *problem)
{
    struct posix_file *posix = posix_of(file);
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(posix->fd, (char *)data + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return posix_failed(problem, posix, "read");
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    *got = done;
    return STORAGE_OK;
}

static enum storage_status posix_write(struct disk_file *file, uint64_t offset, const void *data,
                                       size_t len, struct problem *problem)
{
    struct posix_file *posix = posix_of(file);
    size_t done = 0;
    while (done < len) {
        ssize_t n =
            pwrite(posix->fd, (const char *)data + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return posix_failed(problem, posix, "write");
        }
        done += (size_t)n;
    }
    return STORAGE_OK;
}

static enum storage_status posix_sync(struct disk_file *file, struct problem *problem)
{
    struct posix_file *posix = posix_of(file);
    return fdatasync(posix->fd) == 0 ? STORAGE_OK : posix_failed(problem, posix, "sync");
}

static enum storage_status posix_size(struct disk_file *file, uint64_t *bytes,
                                      struct problem *problem)
{
    struct posix_file *posix = posix_of(file);
    struct stat information;
    if (fstat(posix->fd, &information) != 0) {
        return posix_failed(problem, posix, "read the size of");
    }
    *bytes = (uint64_t)information.st_size;
    return STORAGE_OK;
}

static enum storage_status posix_truncate(struct disk_file *file, uint64_t bytes,
                                          struct problem *problem)
{
    struct posix_file *posix = posix_of(file);
    return ftruncate(posix->fd, (off_t)bytes) == 0 ? STORAGE_OK
                                                   : posix_failed(problem, posix, "truncate");
}

static void posix_close(struct disk_file *file)
{
    struct posix_file *posix = posix_of(file);
    if (posix->direct_fd >= 0) {
        close(posix->direct_fd);
    }
    close(posix->fd);
    memory_free(memory_system(), posix, sizeof(*posix));
}

static const struct disk_ops posix_ops = {
    .list = posix_list,
    .open = posix_open,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .sync_folder = posix_sync_folder,
    .lock = posix_lock,
    .space = posix_space,
    .read = posix_read,
    .write = posix_write,
    .sync = posix_sync,
    .size = posix_size,
    .truncate = posix_truncate,
    .close = posix_close,
    .direct_prepare = posix_direct_prepare,
    .direct_begin = posix_direct_begin,
    .direct_end = posix_direct_end,
};

/* ---- the folder ---- */

/* Also syncs its parent. */
static bool make_folder(const char *path)
{
    if (mkdir(path, 0700) != 0) {
        return false;
    }
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    while (len > 0 && path[len - 1] != '/') {
        len--;
    }
    char *above = len == 0 ? strdup(".") : strndup(path, len);
    int fd = above == NULL ? -1 : open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(above);
    bool synced = fd >= 0 && fsync(fd) == 0;
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = error;
    return synced;
}

enum storage_status disk_posix_new(const char *path, struct disk **out, struct problem *problem)
{
    size_t path_size = strlen(path) + 1;
    struct folder folder = {.disk = {.ops = &posix_ops}};
    folder.path = memory_alloc(memory_system(), path_size);
    memcpy(folder.path, path, path_size);
    folder.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *what = "open the folder";
    if (folder.fd < 0 && errno == ENOENT) {
        what = "make the folder";
        if (make_folder(path)) {
            folder.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        }
    }
    if (folder.fd < 0) {
        enum storage_status status = failed(problem, &folder, what, "");
        memory_free(memory_system(), folder.path, path_size);
        return status;
    }
    struct folder *kept = memory_alloc(memory_system(), sizeof(*kept));
    *kept = folder;
    *out = &kept->disk;
    return STORAGE_OK;
}

void disk_posix_free(struct disk *disk)
{
    if (disk == NULL) {
        return;
    }
    struct folder *folder = folder_of(disk);
    posix_direct_free(folder);
    close(folder->fd);
    memory_free(memory_system(), folder->path, strlen(folder->path) + 1);
    memory_free(memory_system(), folder, sizeof(*folder));
}

int disk_posix_descriptor(const struct disk_file *file)
{
    return ((const struct posix_file *)file)->fd;
}
