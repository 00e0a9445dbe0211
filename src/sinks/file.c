/* JSON lines in a file of this node, with fdatasync for each batch.
 *
 *     events.jsonl ──full──▶ events.jsonl.1 ──▶ events.jsonl.2 ──▶ ... ──▶ removed
 *
 * A batch that failed leaves nothing behind: the file is cut to its length before. After a crash the
 * unfinished last line is cut off when the file is opened; its event was not delivered yet. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sinks/driver.h"

enum { LINGER_MS = 250, TAIL_BYTES = 4096, PATH_BYTES = 4096 + 16, FILE_MODE = 0640 };

struct file_driver {
    struct sink_driver driver; /* first */
    struct file_settings settings;
    int fd;
    uint64_t bytes; /* of the file */
    bool is_torn;   /* it has bytes after `bytes` that could not be cut off */
    const struct sink_batch *batch;
};

static struct file_driver *file_of(struct sink_driver *driver)
{
    return (struct file_driver *)driver;
}

static bool fail(const struct file_driver *f, struct driver_trouble *trouble, const char *what)
{
    const char *next =
        errno == ENOSPC || errno == EDQUOT
            ? ": make space; the events are sent later, as long as the event log has them"
            : "";
    snprintf(trouble->text, sizeof(trouble->text), "%s %.150s: %s%.80s", what, f->settings.path,
             strerrordesc_np(errno), next);
    return false;
}

/* ---- opening ---- */

/* Where the last complete line ends. */
static bool find_end(int fd, uint64_t size, uint64_t *end)
{
    char tail[TAIL_BYTES];
    while (size > 0) {
        uint64_t from = size > sizeof(tail) ? size - sizeof(tail) : 0;
        ssize_t got = pread(fd, tail, (size_t)(size - from), (off_t)from);
        if (got != (ssize_t)(size - from)) {
            errno = got < 0 ? errno : EIO;
            return false;
        }
        const char *newline = memrchr(tail, '\n', (size_t)got);
        if (newline != NULL) {
            *end = from + (uint64_t)(newline - tail) + 1;
            return true;
        }
        size = from;
    }
    *end = 0;
    return true;
}

/* Two nodes with one file would mix their lines and rotate it twice. */
static bool open_file(struct file_driver *f, struct driver_trouble *trouble)
{
    struct stat info;
    int fd = open(f->settings.path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, FILE_MODE);
    if (fd < 0) {
        return fail(f, trouble, "cannot open");
    }
    const char *what = NULL;
    if (fstat(fd, &info) != 0) {
        what = "cannot read";
    } else if (!S_ISREG(info.st_mode)) {
        errno = EINVAL;
        what = "not a regular file:";
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        what = "another process writes";
    } else if (!find_end(fd, (uint64_t)info.st_size, &f->bytes)) {
        what = "cannot read";
    } else if (f->bytes != (uint64_t)info.st_size && ftruncate(fd, (off_t)f->bytes) != 0) {
        what = "cannot cut the unfinished last line of";
    }
    if (what != NULL) {
        (void)fail(f, trouble, what);
        close(fd);
        return false;
    }
    f->fd = fd;
    f->is_torn = false;
    return true;
}

static bool file_open(struct sink_driver *driver, struct driver_trouble *trouble)
{
    return open_file(file_of(driver), trouble);
}

static void file_close(struct sink_driver *driver)
{
    struct file_driver *f = file_of(driver);
    if (f->fd >= 0) {
        close(f->fd);
        f->fd = -1;
    }
}

/* ---- rotation ---- */

static bool sync_folder(const struct file_driver *f)
{
    char folder[PATH_BYTES];
    const char *slash = strrchr(f->settings.path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - f->settings.path);
    snprintf(folder, sizeof(folder), "%.*s", (int)len, f->settings.path);
    int fd = open(slash == NULL ? "."
                  : len == 0    ? "/"
                                : folder,
                  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_fine = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return is_fine;
}

static void name_of(const struct file_driver *f, uint32_t number, char name[PATH_BYTES])
{
    if (number == 0) {
        snprintf(name, PATH_BYTES, "%s", f->settings.path);
    } else {
        snprintf(name, PATH_BYTES, "%s.%u", f->settings.path, number);
    }
}

static bool rotate(struct file_driver *f, struct driver_trouble *trouble)
{
    char from[PATH_BYTES];
    char to[PATH_BYTES];
    for (uint32_t i = f->settings.keep; i > 0; i--) {
        name_of(f, i - 1, from);
        name_of(f, i, to);
        if (rename(from, to) != 0 && errno != ENOENT) {
            return fail(f, trouble, "cannot rename");
        }
    }
    if (f->settings.keep == 0 && unlink(f->settings.path) != 0) {
        return fail(f, trouble, "cannot remove");
    }
    file_close(&f->driver);
    if (!open_file(f, trouble)) {
        return false;
    }
    return sync_folder(f) || fail(f, trouble, "cannot sync the folder of");
}

/* ---- writing ---- */

static bool cut(struct file_driver *f)
{
    f->is_torn = ftruncate(f->fd, (off_t)f->bytes) != 0;
    return !f->is_torn;
}

static bool write_all(struct file_driver *f, struct slice bytes)
{
    uint64_t at = f->bytes;
    while (bytes.len > 0) {
        ssize_t written = pwrite(f->fd, bytes.data, bytes.len, (off_t)at);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            errno = written < 0 ? errno : ENOSPC;
            return false;
        }
        at += (uint64_t)written;
        bytes = slice_make(bytes.data + written, bytes.len - (size_t)written);
    }
    return true;
}

static void file_begin(struct sink_driver *driver, const struct sink_batch *batch)
{
    file_of(driver)->batch = batch;
}

static enum driver_step file_poll(struct sink_driver *driver, uint32_t wait_ms,
                                  struct driver_trouble *trouble)
{
    struct file_driver *f = file_of(driver);
    struct slice lines = buffer_bytes(&f->batch->lines);
    if (f->fd < 0) { /* a rotation failed after the rename */
        trouble->reopen = true;
        (void)snprintf(trouble->text, sizeof(trouble->text), "%.150s is not open",
                       f->settings.path);
        return DRIVER_FAILED;
    }
    if (f->is_torn && !cut(f)) {
        (void)fail(f, trouble, "cannot cut");
        return DRIVER_FAILED;
    }
    if (f->bytes > 0 && f->bytes + lines.len > f->settings.max_bytes && !rotate(f, trouble)) {
        trouble->reopen = true;
        return DRIVER_FAILED;
    }
    if (!write_all(f, lines) || fdatasync(f->fd) != 0) {
        (void)fail(f, trouble, "cannot write");
        (void)cut(f);
        return DRIVER_FAILED;
    }
    f->bytes += lines.len;
    return DRIVER_DELIVERED;
}

static void file_free(struct sink_driver *driver)
{
    file_close(driver);
    free(driver);
}

struct sink_driver *file_driver_new(const struct file_settings *settings,
                                    char problem[DRIVER_PROBLEM])
{
    struct driver_trouble trouble = {0};
    struct file_driver *f = calloc(1, sizeof(*f));
    hf_assert(f != NULL);
    f->driver = (struct sink_driver){.linger_ms = LINGER_MS,
                                     .events = SINK_BATCH_EVENTS,
                                     .open = file_open,
                                     .begin = file_begin,
                                     .poll = file_poll,
                                     .close = file_close,
                                     .free = file_free};
    f->settings = *settings;
    f->fd = -1;
    if (!open_file(f, &trouble)) {
        snprintf(problem, DRIVER_PROBLEM, "sink-file: %s", trouble.text);
        free(f);
        return NULL;
    }
    file_close(&f->driver);
    return &f->driver;
}
