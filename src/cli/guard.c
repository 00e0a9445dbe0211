/* The side of the wrapper, see guard.h. */
#include "cli/guard.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void close_both(const int pair[2])
{
    int error = errno;
    (void)close(pair[0]);
    (void)close(pair[1]);
    errno = error;
}

bool guard_start(struct guard *g, const struct guard_plan *plan)
{
    int pair[2];
    struct guard_shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return false;
    }
    /* SOCK_SEQPACKET delivers whole messages and loses none. */
    int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(pair[0]);
        guard_standby(pair[1], wake, shared, plan);
    }
    if (pid < 0) {
        close_both(pair);
        return false;
    }
    (void)close(pair[1]);
    *g = (struct guard){pair[0], wake, pid, shared};
    return true;
}

/* For the standby. An earlier deadline wakes it; a later one it reads when its timer expires. */
static void share_deadline(const struct guard *g, int64_t deadline_ms)
{
    int64_t before_ms = atomic_exchange(&g->shared->deadline_ms, deadline_ms);
    uint64_t one = 1;
    if (before_ms == 0 || deadline_ms < before_ms) {
        (void)!write(g->wake, &one, sizeof(one));
    }
}

void guard_send(const struct guard *g, const struct guard_message *message)
{
    if (message->word == GUARD_START || message->word == GUARD_DEADLINE ||
        (message->word == GUARD_STOP && message->deadline_ms != 0 &&
         message->deadline_ms < atomic_load(&g->shared->deadline_ms))) {
        share_deadline(g, message->deadline_ms);
    }
    /* The queue is full only if the guard is stopped; the wrapper must not block with it. The guard
     * then misses only later deadlines, and ends the command at the last one received. If it is
     * gone, the standby or guard_receive reports it. */
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
    (void)close(g->wake);
    for (;;) {
        int status = 0;
        pid_t got = waitpid(g->standby, &status, WUNTRACED);
        if (got > 0 && WIFSTOPPED(status)) {
            (void)kill(g->standby, SIGKILL); /* the guard does not need it */
        } else if (got > 0 || errno != EINTR) {
            break;
        }
    }
    (void)munmap(g->shared, sizeof(*g->shared));
    *g = (struct guard){-1, -1, -1, NULL};
}
