/* See fence_marks.h. The file is text:
 *
 *     holdfast-fence 1
 *     TOKEN RESOURCE
 *     ...
 *     end COUNT
 *
 * A new file is written beside the old one, synced and renamed: one complete file always exists. A
 * file without its last line is refused. */
#include "client/fence_marks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "client/proto.h"

#define FIRST_LINE "holdfast-fence 1\n"

enum { RETRY_MS = 5 };

struct mark {
    char *resource;
    uint64_t token;
};

struct fence_marks {
    struct mark *at; /* sorted by resource */
    size_t count;
    size_t capacity;
    char *path; /* NULL: in memory only */
    char *new_path;
    char *folder;
    int lock_fd;
};

/* Its index, or where to insert it. */
static size_t find(const struct fence_marks *m, const char *resource, bool *is_there)
{
    size_t low = 0;
    size_t high = m->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(m->at[middle].resource, resource);
        if (order == 0) {
            *is_there = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *is_there = false;
    return low;
}

static bool put(struct fence_marks *m, const char *resource, uint64_t token)
{
    bool is_there;
    size_t i = find(m, resource, &is_there);
    if (is_there) {
        m->at[i].token = token;
        return true;
    }
    if (m->count == FENCE_MARKS_MAX) {
        errno = ENOBUFS;
        return false;
    }
    if (m->count == m->capacity) {
        size_t capacity = m->capacity == 0 ? 16 : m->capacity * 2;
        struct mark *at = realloc(m->at, capacity * sizeof(*at));
        if (at == NULL) {
            return false;
        }
        m->at = at;
        m->capacity = capacity;
    }
    memmove(&m->at[i + 1], &m->at[i], (m->count - i) * sizeof(*m->at));
    m->at[i] = (struct mark){client_copy(resource), token};
    m->count++;
    return true;
}

static void take(struct fence_marks *m, const char *resource)
{
    bool is_there;
    size_t i = find(m, resource, &is_there);
    free(m->at[i].resource);
    m->count--;
    memmove(&m->at[i], &m->at[i + 1], (m->count - i) * sizeof(*m->at));
}

static bool read_line(struct fence_marks *m, char *line, bool *is_over)
{
    char *end = NULL;
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "end ", 4) == 0) {
        *is_over = true;
        return strtoull(line + 4, &end, 10) == m->count && *end == '\0';
    }
    uint64_t token = strtoull(line, &end, 10);
    return end != line && *end == ' ' && end[1] != '\0' && token != 0 && token < LIMIT_NUMBER &&
           put(m, end + 1, token);
}

static int read_file(struct fence_marks *m)
{
    FILE *file = fopen(m->path, "re");
    if (file == NULL) {
        return errno == ENOENT ? 0
                               : error_set(HF_ERR_SYSTEM, "%s cannot be read: %s", m->path,
                                           strerrordesc_np(errno));
    }
    char line[LIMIT_NAME + 32];
    bool is_over = false;
    bool is_well = fgets(line, sizeof(line), file) != NULL && strcmp(line, FIRST_LINE) == 0;
    while (is_well && !is_over && fgets(line, sizeof(line), file) != NULL) {
        is_well = read_line(m, line, &is_over);
    }
    fclose(file);
    if (!is_well || !is_over) {
        return error_set(HF_ERR_INVALID,
                         "%s is no fence file, or is damaged: restore it, or remove it if the "
                         "resource was never written",
                         m->path);
    }
    return 0;
}

bool fence_sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_synced = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return is_synced;
}

static bool write_file(const struct fence_marks *m)
{
    FILE *file = fopen(m->new_path, "we");
    if (file == NULL) {
        return false;
    }
    bool is_written = fputs(FIRST_LINE, file) >= 0;
    for (size_t i = 0; is_written && i < m->count; i++) {
        is_written = fprintf(file, "%" PRIu64 " %s\n", m->at[i].token, m->at[i].resource) > 0;
    }
    is_written = is_written && fprintf(file, "end %zu\n", m->count) > 0 && fflush(file) == 0 &&
                 fdatasync(fileno(file)) == 0;
    int error = errno;
    is_written = fclose(file) == 0 && is_written;
    if (!is_written) {
        (void)unlink(m->new_path);
        errno = error;
        return false;
    }
    return rename(m->new_path, m->path) == 0 && fence_sync_folder(m->folder);
}

/* flock(2) has no time limit. */
static bool wait_flock(int fd, uint32_t wait_ms)
{
    const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000};
    uint32_t waited_ms = 0;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || waited_ms >= wait_ms) {
            return false;
        }
        (void)nanosleep(&pause, NULL);
        waited_ms += RETRY_MS;
    }
    return true;
}

static int take_file(struct fence_marks *m, const char *path, uint32_t wait_ms)
{
    size_t size = strlen(path) + 8;
    char *lock_path = client_alloc(size);
    char *copy = client_copy(path);
    snprintf(lock_path, size, "%s.lock", path);
    m->path = client_copy(path);
    m->new_path = client_alloc(size);
    snprintf(m->new_path, size, "%s.new", path);
    m->folder = client_copy(dirname(copy));
    m->lock_fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    int error = 0;
    if (m->lock_fd < 0 || !wait_flock(m->lock_fd, wait_ms)) {
        error = errno == EWOULDBLOCK
                    ? error_set(wait_ms == 0 ? HF_ERR_SYSTEM : HF_ERR_TIMEOUT,
                                "%s is in use by another fence", path)
                    : error_set(HF_ERR_SYSTEM, "%s: %s", lock_path, strerrordesc_np(errno));
    }
    free(copy);
    free(lock_path);
    return error != 0 ? error : read_file(m);
}

int fence_marks_open(struct fence_marks **out, const char *path, uint32_t wait_ms)
{
    struct fence_marks *m = client_alloc(sizeof(*m));
    m->lock_fd = -1;
    int error = path == NULL ? 0 : take_file(m, path, wait_ms);
    if (error != 0) {
        fence_marks_close(m);
        return error;
    }
    *out = m;
    return 0;
}

void fence_marks_close(struct fence_marks *m)
{
    if (m == NULL) {
        return;
    }
    for (size_t i = 0; i < m->count; i++) {
        free(m->at[i].resource);
    }
    if (m->lock_fd >= 0) {
        close(m->lock_fd);
    }
    free(m->at);
    free(m->path);
    free(m->new_path);
    free(m->folder);
    free(m);
}

int fence_marks_load(void *arg, const char *resource, uint64_t *mark)
{
    const struct fence_marks *m = arg;
    bool is_there;
    size_t i = find(m, resource, &is_there);
    *mark = is_there ? m->at[i].token : 0;
    return 0;
}

int fence_marks_save(void *arg, const char *resource, uint64_t mark)
{
    struct fence_marks *m = arg;
    uint64_t before;
    (void)fence_marks_load(m, resource, &before);
    if (!put(m, resource, mark)) {
        return -1;
    }
    if (m->path != NULL && !write_file(m)) {
        /* It is unknown whether the file reached the disk. Memory keeps the earlier mark: the
         * caller gets an error. */
        int error = errno;
        if (before == 0) {
            take(m, resource);
        } else {
            (void)put(m, resource, before);
        }
        errno = error;
        return -1;
    }
    return 0;
}
