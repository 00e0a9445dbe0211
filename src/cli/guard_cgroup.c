/* See guard_cgroup.h. */
#include "cli/guard_cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PREFIX "holdfast-lock-"

enum { REMOVE_ROUNDS = 100, NAMES_TRIED = 10 };

/* Version 2 alone, or beside version 1. */
static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

static bool has_cgroup(const struct guard_cgroup *c)
{
    return c != NULL && c->path[0] != '\0';
}

/* Of the cgroup or, with a shorter `path_len`, of its parent. */
static int open_file(const struct guard_cgroup *c, size_t path_len, const char *name, int flags)
{
    char path[PATH_MAX + NAME_MAX + 2];
    (void)snprintf(path, sizeof(path), "%.*s/%s", (int)path_len, c->path, name);
    return open(path, flags | O_CLOEXEC);
}

/* The folder of this process's cgroup. */
static bool find_own(char *out, size_t size)
{
    char line[PATH_MAX];
    const char *mount = NULL;
    for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]) && mount == NULL; i++) {
        struct statfs fs;
        if (statfs(mounts[i], &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC) {
            mount = mounts[i];
        }
    }
    FILE *file = mount != NULL ? fopen("/proc/self/cgroup", "re") : NULL;
    bool is_found = false;
    while (file != NULL && !is_found && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            const char *own = strcmp(line + 3, "/") == 0 ? "" : line + 3;
            int len = snprintf(out, size, "%s%s", mount, own);
            is_found = len > 0 && (size_t)len < size;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    errno = is_found ? errno : ENOENT;
    return is_found;
}

/* Removes empty cgroups of wrappers that were killed with guard and standby. */
static void remove_stale(const char *parent)
{
    DIR *folder = opendir(parent);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0) {
            long owner = strtol(entry->d_name + strlen(PREFIX), NULL, 10);
            if (owner > 0 && kill((pid_t)owner, 0) != 0 && errno == ESRCH) {
                (void)unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
            }
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
}

bool guard_cgroup_make(struct guard_cgroup *c)
{
    char parent[PATH_MAX - sizeof(PREFIX) - 64];
    c->path[0] = '\0';
    c->kill = -1;
    if (!find_own(parent, sizeof(parent))) {
        return false;
    }
    remove_stale(parent);
    c->parent_len = strlen(parent);
    /* The number after the pid tells PID namespaces apart. */
    int made = -1;
    for (int i = 0; i < NAMES_TRIED && made != 0; i++) {
        (void)snprintf(c->path, sizeof(c->path), "%s/" PREFIX "%d-%d", parent, (int)getpid(), i);
        made = mkdir(c->path, 0755);
    }
    /* Older kernels have no cgroup.kill; a read-only mount refuses it. */
    if (made == 0) {
        c->kill = open_file(c, strlen(c->path), "cgroup.kill", O_WRONLY);
        if (c->kill >= 0) {
            return true;
        }
        int error = errno;
        (void)rmdir(c->path);
        errno = error;
    }
    c->path[0] = '\0';
    return false;
}

static bool write_text(int fd, const char *text)
{
    ssize_t len = (ssize_t)strlen(text);
    return fd >= 0 && write(fd, text, (size_t)len) == len;
}

void guard_cgroup_enter(const struct guard_cgroup *c)
{
    if (has_cgroup(c)) {
        int procs = open_file(c, strlen(c->path), "cgroup.procs", O_WRONLY);
        (void)write_text(procs, "0");
        if (procs >= 0) {
            (void)close(procs);
        }
    }
}

void guard_cgroup_kill(const struct guard_cgroup *c)
{
    if (has_cgroup(c)) {
        (void)write_text(c->kill, "1");
    }
}

/* Until `visit` returns false. Zombies are not listed. */
static void each_member(const struct guard_cgroup *c, bool (*visit)(pid_t pid, void *arg),
                        void *arg)
{
    int fd = open_file(c, strlen(c->path), "cgroup.procs", O_RDONLY);
    FILE *file = fd >= 0 ? fdopen(fd, "re") : NULL;
    int pid;
    while (file != NULL && fscanf(file, "%d", &pid) == 1) {
        if (pid > 0 && !visit(pid, arg)) {
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

static bool take_first(pid_t pid, void *arg)
{
    *(pid_t *)arg = pid;
    return false;
}

pid_t guard_cgroup_member(const struct guard_cgroup *c)
{
    pid_t found = 0;
    if (has_cgroup(c)) {
        each_member(c, take_first, &found);
    }
    return found;
}

static bool move(pid_t pid, void *arg)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", (int)pid);
    (void)write_text(*(int *)arg, text);
    return true;
}

void guard_cgroup_remove(const struct guard_cgroup *c)
{
    if (!has_cgroup(c)) {
        return;
    }
    int parent = -1;
    for (int i = 0; i < REMOVE_ROUNDS && rmdir(c->path) != 0 && errno == EBUSY; i++) {
        if (parent < 0) {
            parent = open_file(c, c->parent_len, "cgroup.procs", O_WRONLY);
        }
        each_member(c, move, &parent);
    }
    if (parent >= 0) {
        (void)close(parent);
    }
}
