/* See terminal.h. */
#include "cli/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

void terminal_open(struct terminal *t)
{
    *t = (struct terminal){.fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)};
    t->has_modes = t->fd >= 0 && tcgetattr(t->fd, &t->modes) == 0;
}

bool terminal_is_ours(const struct terminal *t)
{
    return t->fd >= 0 && tcgetpgrp(t->fd) == getpgrp();
}

static bool is_pipe(int fd)
{
    struct stat file;
    return fstat(fd, &file) == 0 && (S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode));
}

bool terminal_to_give(const struct terminal *t)
{
    return terminal_is_ours(t) && isatty(STDIN_FILENO) == 1 && !is_pipe(STDOUT_FILENO);
}

void terminal_take(const struct terminal *t, pid_t child, bool restore)
{
    if (t->fd < 0 || child <= 0 || tcgetpgrp(t->fd) != child) {
        return;
    }
    (void)tcsetpgrp(t->fd, getpgrp());
    if (restore && t->has_modes) {
        (void)tcsetattr(t->fd, TCSADRAIN, &t->modes);
    }
}

static pid_t parent_of(pid_t process)
{
    char path[64];
    int parent = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    /* A process name with ')' does not parse; then the own parent is used. */
    if (file == NULL || fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1) {
        parent = getppid();
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return parent;
}

bool terminal_stop_job(void)
{
    /* The kernel does not stop a group without a parent in its session, nor may we. The group may
     * belong to a script whose shell is in it. */
    pid_t parent = parent_of(getpgrp());
    if (getsid(parent) != getsid(0) || getpgid(parent) == getpgrp()) {
        return false;
    }
    (void)kill(0, SIGTSTP); /* the rest of the pipeline; it is blocked here */
    (void)kill(getpid(), SIGSTOP);
    return true;
}
