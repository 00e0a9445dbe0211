/* A fake node behind a real socket: one thread that listens on a free port of the loopback and
 * serves fake_service.h. The test touches `fake` between fake_listener_lock and _unlock only. */
#ifndef HOLDFAST_TESTS_FAKE_LISTENER_H
#define HOLDFAST_TESTS_FAKE_LISTENER_H

#include <pthread.h>

#include "fake_service.h"

enum { FAKE_SOCKETS = 32 };

struct fake_socket {
    int fd; /* -1: free */
    struct fake_conn *conn;
    struct buffer out;
};

struct fake_listener {
    struct fake fake;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* something was read */
    pthread_t thread;
    int listen_fd;
    int wake_fd;
    bool is_over;
    struct fake_socket sockets[FAKE_SOCKETS];
    char address[32]; /* 127.0.0.1:PORT */
};

void fake_listener_start(struct fake_listener *l);
void fake_listener_stop(struct fake_listener *l);
struct fake *fake_listener_lock(struct fake_listener *l);
void fake_listener_unlock(struct fake_listener *l);
/* Until so many calls of that method have come. */
void fake_listener_await(struct fake_listener *l, const char *path, unsigned count);

#endif
