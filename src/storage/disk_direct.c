/* Direct writes of the real disk: Linux asynchronous I/O (io_submit(2)) of one O_DIRECT write with
 * RWF_DSYNC, durable when it completes. Not io_uring, which container profiles commonly forbid.
 *
 * Only on ext4 and XFS, and where the kernel reports an alignment (statx(2), since Linux 6.1). It
 * reports none where it would write synchronously (ext4 with data=journal, or encrypted).
 *
 * A direct write drops the cached pages of its range before it begins and when it completes, so a
 * cached read returns the new bytes then. */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/panic.h"
#include "storage/disk_posix_state.h"

#define TYPE_EXT4 0xEF53
#define TYPE_XFS 0x58465342

static struct posix_file *posix_of(struct disk_file *file)
{
    return (struct posix_file *)file;
}

/* ---- support ---- */

static bool divides_block(uint32_t bytes)
{
    return bytes > 0 && DISK_BLOCK % bytes == 0;
}

static bool is_known(int fd)
{
    struct statfs system;
    struct statx about;
    if (fstatfs(fd, &system) != 0 || (system.f_type != TYPE_EXT4 && system.f_type != TYPE_XFS)) {
        return false;
    }
    return statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) == 0 &&
           (about.stx_mask & STATX_DIOALIGN) != 0 && divides_block(about.stx_dio_mem_align) &&
           divides_block(about.stx_dio_offset_align);
}

static bool is_same(int a, int b)
{
    struct stat first, second;
    return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

static bool have_context(struct direct *direct)
{
    return direct->context != 0 || syscall(SYS_io_setup, 1, &direct->context) == 0;
}

bool posix_direct_prepare(struct disk_file *file)
{
    struct posix_file *posix = posix_of(file);
    struct folder *folder = posix->folder;
    if (posix->direct_fd >= 0) {
        return true;
    }
    if (!is_known(posix->fd) || !have_context(&folder->direct)) {
        return false;
    }
    int fd = openat(folder->fd, file->name, O_WRONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && !is_same(fd, posix->fd)) {
        close(fd);
        fd = -1;
    }
    posix->direct_fd = fd;
    return fd >= 0;
}

/* ---- one write ---- */

enum disk_direct posix_direct_begin(struct disk_file *file, uint64_t offset, const void *data,
                                    size_t len, int event_fd)
{
    struct posix_file *posix = posix_of(file);
    struct direct *direct = &posix->folder->direct;
    hf_assert(posix->direct_fd >= 0 && !direct->waits && len > 0);
    hf_assert(offset % DISK_BLOCK == 0 && len % DISK_BLOCK == 0 &&
              (uintptr_t)data % DISK_BLOCK == 0);
    direct->write = (struct iocb){.aio_lio_opcode = IOCB_CMD_PWRITE,
                                  .aio_fildes = (uint32_t)posix->direct_fd,
                                  .aio_buf = (uintptr_t)data,
                                  .aio_nbytes = len,
                                  .aio_offset = (int64_t)offset,
                                  .aio_rw_flags = RWF_DSYNC,
                                  .aio_flags = IOCB_FLAG_RESFD,
                                  .aio_resfd = (uint32_t)event_fd};
    struct iocb *list[1] = {&direct->write};
    if (syscall(SYS_io_submit, direct->context, 1L, list) != 1) {
        return errno == EAGAIN || errno == EINTR ? DISK_DIRECT_AGAIN : DISK_DIRECT_NEVER;
    }
    direct->waits = true;
    return DISK_DIRECT_WAITS;
}

/* A full disk is AGAIN: disk_write then fails with STORAGE_FULL, which its caller handles. */
static enum disk_direct direct_result(const struct posix_file *posix, int64_t result, uint64_t len,
                                      struct problem *problem)
{
    if (result >= 0) {
        return (uint64_t)result == len ? DISK_DIRECT_DONE : DISK_DIRECT_AGAIN;
    }
    int error = (int)-result;
    if (error == EINVAL || error == EOPNOTSUPP) {
        return DISK_DIRECT_NEVER;
    }
    if (error == EAGAIN || posix_status_of(error) == STORAGE_FULL) {
        return DISK_DIRECT_AGAIN;
    }
    errno = error;
    posix_failed(problem, posix, "write");
    problem->status = STORAGE_IO;
    return DISK_DIRECT_FAILED;
}

enum disk_direct posix_direct_end(struct disk_file *file, bool wait, struct problem *problem)
{
    struct posix_file *posix = posix_of(file);
    struct direct *direct = &posix->folder->direct;
    hf_assert(direct->waits);
    struct io_event event;
    struct timespec now = {0, 0};
    long got;
    do {
        got = syscall(SYS_io_getevents, direct->context, wait ? 1L : 0L, 1L, &event,
                      wait ? NULL : &now);
    } while (got < 0 && errno == EINTR);
    hf_assert(got == 0 || got == 1);
    if (got == 0) {
        return DISK_DIRECT_WAITS;
    }
    direct->waits = false;
    return direct_result(posix, event.res, direct->write.aio_nbytes, problem);
}

/* No write may be in flight. */
void posix_direct_free(struct folder *folder)
{
    hf_assert(!folder->direct.waits);
    if (folder->direct.context != 0) {
        syscall(SYS_io_destroy, folder->direct.context);
    }
}
