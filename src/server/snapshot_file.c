/* Receives a snapshot into a file, see snapshot_file.h. */
#include "server/snapshot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static bool fail(struct problem *problem, const char *name, const char *doing)
{
    char words[128];
    int error = errno;
    (void)problem_set(problem, error == ENOSPC ? STORAGE_FULL : STORAGE_IO, "%s: cannot %s: %s",
                      name, doing, strerror_r(error, words, sizeof(words)));
    return false;
}

static bool is_stdout(const struct snapshot_file *f)
{
    return strcmp(f->path, "-") == 0;
}

/* ---- FILE.part ---- */

/* FILE.part is still the file that we locked: its previous owner may have renamed or removed it
 * before. */
static bool is_still_part(const struct snapshot_file *f)
{
    struct stat ours, named;
    return fstat(f->fd, &ours) == 0 && stat(f->part, &named) == 0 && ours.st_dev == named.st_dev &&
           ours.st_ino == named.st_ino;
}

static bool open_part(struct snapshot_file *f, struct problem *problem)
{
    for (;;) {
        f->fd = open(f->part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* it contains lease ids */
        if (f->fd < 0) {
            return fail(problem, f->part, "create it");
        }
        if (flock(f->fd, LOCK_EX | LOCK_NB) != 0) {
            (void)close(f->fd);
            f->fd = -1; /* another process owns the file: do not remove it */
            (void)problem_set(problem, STORAGE_LOCKED,
                              "%s: another command is writing this file; wait for it, or choose "
                              "another file name",
                              f->part);
            return false;
        }
        if (is_still_part(f)) {
            return ftruncate(f->fd, 0) == 0 || fail(problem, f->part, "empty it");
        }
        (void)close(f->fd);
    }
}

static bool refuse_existing(const char *path, struct problem *problem)
{
    (void)problem_set(problem, STORAGE_EXISTS,
                      "%s exists already; choose another name, or replace it with --force", path);
    return false;
}

bool snapshot_file_open(struct snapshot_file *f, const char *path, bool replaces,
                        struct problem *problem)
{
    struct stat about;
    *f = (struct snapshot_file){.path = path, .replaces = replaces, .fd = -1};
    f->check.name = "the received snapshot";
    if (is_stdout(f)) {
        f->fd = STDOUT_FILENO;
        return true;
    }
    if (snprintf(f->part, sizeof(f->part), "%s.part", path) >= (int)sizeof(f->part)) {
        (void)problem_set(problem, STORAGE_DENIED, "the name of the file is too long");
        return false;
    }
    bool is_there = lstat(path, &about) == 0;
    if (is_there && !replaces) {
        return refuse_existing(path, problem);
    }
    if (is_there && !S_ISREG(about.st_mode)) {
        (void)problem_set(problem, STORAGE_EXISTS, "%s exists and is not a regular file", path);
        return false;
    }
    return open_part(f, problem);
}

/* ---- pieces ---- */

static bool write_all(struct snapshot_file *f, const uint8_t *data, size_t len,
                      struct problem *problem)
{
    while (len > 0) {
        ssize_t done = write(f->fd, data, len);
        if (done < 0 && errno != EINTR) {
            return fail(problem, is_stdout(f) ? "stdout" : f->part, "write");
        }
        size_t written = done > 0 ? (size_t)done : 0;
        data += written;
        len -= written;
    }
    return true;
}

static bool accept_piece(struct snapshot_file *f, struct problem *problem)
{
    struct slice body;
    bool is_header = !f->check.begun;
    if (snapshot_check_piece(&f->check, f->piece, f->piece_used, &body, is_header ? &f->info : NULL,
                             problem) != STORAGE_OK) {
        return false;
    }
    f->info.configuration = slice_make(NULL, 0); /* it points into the piece */
    size_t len = f->piece_used;
    f->piece_used = 0;
    return write_all(f, f->piece, len, problem);
}

bool snapshot_file_put(struct snapshot_file *f, struct slice bytes, struct problem *problem)
{
    while (bytes.len > 0) {
        size_t need = snapshot_check_need(&f->check, f->piece, f->piece_used);
        if (need == 0) {
            (void)problem_set(problem, STORAGE_CORRUPT, "%s has bytes after its end",
                              f->check.name);
            return false;
        }
        if (need > f->piece_size) {
            f->piece = memory_grow(memory_system(), f->piece, f->piece_size, need);
            f->piece_size = need;
        }
        size_t len = need - f->piece_used < bytes.len ? need - f->piece_used : bytes.len;
        memcpy(f->piece + f->piece_used, bytes.data, len);
        f->piece_used += len;
        bytes = slice_make(bytes.data + len, bytes.len - len);
        if (f->piece_used == need &&
            snapshot_check_need(&f->check, f->piece, f->piece_used) == need &&
            !accept_piece(f, problem)) {
            return false;
        }
    }
    return true;
}

/* ---- the end ---- */

static bool give_name(struct snapshot_file *f, struct problem *problem)
{
    if (f->replaces) {
        return rename(f->part, f->path) == 0 || fail(problem, f->part, "rename it");
    }
    if (renameat2(AT_FDCWD, f->part, AT_FDCWD, f->path, RENAME_NOREPLACE) == 0) {
        return true;
    }
    if (errno == EINVAL || errno == ENOSYS) { /* not supported here; link does not replace either */
        return (link(f->part, f->path) == 0 && unlink(f->part) == 0) ||
               (errno == EEXIST ? refuse_existing(f->path, problem)
                                : fail(problem, f->part, "rename it"));
    }
    return errno == EEXIST ? refuse_existing(f->path, problem)
                           : fail(problem, f->part, "rename it");
}

static bool sync_folder(const struct snapshot_file *f, struct problem *problem)
{
    char folder[SNAPSHOT_FILE_PATH];
    const char *slash = strrchr(f->path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - f->path);
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)len, f->path);
    int fd = open(len > 0 ? folder : slash != NULL ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return fail(problem, f->path, "open its folder");
    }
    bool is_synced = fsync(fd) == 0 || fail(problem, f->path, "sync its folder");
    (void)close(fd);
    return is_synced;
}

bool snapshot_file_finish(struct snapshot_file *f, struct problem *problem)
{
    if (!f->check.done) {
        (void)problem_set(problem, STORAGE_CORRUPT,
                          "%s is incomplete: it ended after %" PRIu64 " bytes", f->check.name,
                          f->check.offset + f->piece_used);
        return false;
    }
    if (is_stdout(f)) {
        return true;
    }
    if (fsync(f->fd) != 0) {
        return fail(problem, f->part, "sync it");
    }
    if (!give_name(f, problem)) {
        return false;
    }
    (void)close(f->fd); /* releases the lock: abandon must not remove the file any more */
    f->fd = -1;
    return sync_folder(f, problem);
}

void snapshot_file_abandon(struct snapshot_file *f)
{
    if (f->fd >= 0 && !is_stdout(f)) {
        (void)unlink(f->part);
        (void)close(f->fd);
    }
    f->fd = -1;
    if (f->piece_size > 0) {
        memory_free(memory_system(), f->piece, f->piece_size);
        f->piece_size = 0;
    }
}
