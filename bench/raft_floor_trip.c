/* The time of one round trip of a client: bytes there and back over TCP, between two processes that
 * wait with epoll. */
#include "raft_floor.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/histogram.h"

void floor_connect(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&address, &len) != 0) {
        floor_die("a socket");
    }
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ends[0] < 0 || connect(ends[0], (struct sockaddr *)&address, len) != 0 ||
        (ends[1] = accept(listener, NULL, NULL)) < 0) {
        floor_die("a connection");
    }
    close(listener);
    for (int i = 0; i < 2; i++) {
        if (setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
            floor_die("a connection");
        }
    }
}

/* Waits with epoll and reads until `bytes` are there. False: the other end is gone. */
static bool take(int epoll, int fd, size_t bytes)
{
    uint8_t in[4096];
    while (bytes > 0) {
        struct epoll_event event;
        int count = epoll_wait(epoll, &event, 1, -1);
        ssize_t got = count == 1 ? recv(fd, in, bytes < sizeof(in) ? bytes : sizeof(in), 0) : -1;
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return false;
        }
        bytes -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

static bool give(int fd, size_t bytes)
{
    static const uint8_t out[4096];
    return send(fd, out, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static int wait_on(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        floor_die("epoll");
    }
    return epoll;
}

double floor_round_trip_us(const struct floor_settings *s)
{
    static struct histogram trips;
    int ends[2];
    floor_connect(ends);
    pid_t server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        int epoll = wait_on(ends[1]);
        while (take(epoll, ends[1], s->there) && give(ends[1], s->back)) {
        }
        _exit(0);
    }
    close(ends[1]);
    int epoll = wait_on(ends[0]);
    uint64_t end = floor_now_ns() + (uint64_t)(s->seconds * 1e9);
    while (floor_now_ns() < end) {
        uint64_t began = floor_now_ns();
        if (!give(ends[0], s->there) || !take(epoll, ends[0], s->back)) {
            floor_die("a round trip");
        }
        histogram_add(&trips, floor_now_ns() - began);
    }
    close(epoll);
    close(ends[0]);
    waitpid(server, NULL, 0);
    return (double)histogram_at(&trips, 50000) / 1000;
}
