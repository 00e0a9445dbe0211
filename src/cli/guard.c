/* The wrapper's end of the guard, see guard.h. */
#include "cli/guard.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

bool guard_start(struct guard *g, const struct guard_plan *plan)
{
    int pair[2];
    /* Messages are whole or not there, and none is lost. */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(pair[0]);
        guard_main(pair[1], plan);
    }
    int error = errno;
    (void)close(pair[1]);
    if (pid < 0) {
        (void)close(pair[0]);
        errno = error;
        return false;
    }
    *g = (struct guard){pair[0], pid};
    return true;
}

void guard_send(const struct guard *g, const struct guard_message *message)
{
    /* Its queue has room for many. When it is full the guard was stopped, and we must not stop with
     * it: what it misses is only that the lock is held for longer; by itself it ends the command at
     * the last deadline that it heard. When it is gone, guard_receive tells. */
    while (send(g->fd, message, sizeof(*message), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
           errno == EINTR) {
    }
}

int guard_receive(const struct guard *g, struct guard_message *message)
{
    for (;;) {
        ssize_t got = recv(g->fd, message, sizeof(*message), MSG_DONTWAIT);
        if (got == (ssize_t)sizeof(*message)) {
            return 1;
        }
        if (got < 0 && errno == EINTR) {
            continue;
        }
        return got < 0 && errno == EAGAIN ? 0 : -1;
    }
}

void guard_close(struct guard *g)
{
    (void)close(g->fd);
    while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    *g = (struct guard){-1, -1};
}
