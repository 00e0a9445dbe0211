/* The client with its I/O: engine, sockets, a thread for them and one for callbacks, and the threads
 * of the caller. One mutex guards all of it; callbacks are called without it. */
#ifndef HOLDFAST_CLIENT_CLIENT_H
#define HOLDFAST_CLIENT_CLIENT_H

#include <poll.h>
#include <pthread.h>
#include <sys/types.h>

#include "client/engine.h"
#include "transport/transport.h"

struct io_link {
    struct transport transport;
    uint32_t generation; /* of the link at the last check */
};

struct io {
    int wake_fd;      /* eventfd: there is work */
    int timer_fd;     /* on CLOCK_BOOTTIME: fires after a suspend too */
    int64_t timer_ms; /* when it fires */
    struct io_link links[ENGINE_LINKS];
};

struct hf_client {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* an iteration is over; for threads that wait to run or close the
                             * client */
    struct client_engine client_engine;
    struct io io;
    struct list handles;     /* of the caller, by hf_lock.handle_link */
    pid_t pid;               /* that opened it */
    pthread_cond_t notified; /* there are notifications, for the thread of callbacks */
    pthread_t thread;
    pthread_t callback_thread;
    bool has_thread; /* both */
    bool is_stopping;
    bool is_stopped; /* the thread of the engine has ended */
    bool is_driven;  /* in an iteration */
    bool is_dispatching;
    pthread_t dispatcher;
    unsigned callers; /* threads inside a call */
    hf_event_fn on_event;
    void *arg;
};

int64_t client_now_ms(void);

/* In a child after fork() every use is refused. Neither needs the mutex. */
bool client_is_forked(const struct hf_client *client);
int client_refuse_child(void); /* returns HF_ERR_INVALID, with text */
/* With the mutex: begins and ends a public call. client_enter refuses (HF_ERR_INVALID, with text)
 * in a forked child and, for a call that waits, inside a callback. */
int client_enter(struct hf_client *client, bool waits);
void client_leave(struct hf_client *client);
/* With the mutex: sends what was added to the engine. */
void client_kick(struct hf_client *client);
/* With the mutex: waits for the ticket, frees it, returns its error; this thread's error text is
 * the ticket's. */
int client_wait(struct hf_client *client, struct hf_call *ticket, struct hf_lock **lock,
                int64_t *expires_in_ms);
/* One iteration: reads, does what is due, writes, calls the callbacks, then waits at most `wait_ms`
 * (0: not at all, -1: without limit) for work. With the mutex, released meanwhile. */
void client_turn(struct hf_client *client, int wait_ms);

/* io.c, with the mutex. */
bool io_open(struct io *io);
void io_close(struct io *io);
/* Reads, and continues connects. */
void io_read(struct hf_client *client);
/* Opens and closes sockets for the engine, writes, sets the timer. */
void io_write(struct hf_client *client);
int io_pollfds(const struct hf_client *client, struct pollfd *fds, unsigned max);
void io_wake(struct io *io);

/* error.c: for hf_last_error and hf_last_holder of this thread. Returns `error`. */
int error_set(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
void error_set_holder(const struct hf_holder *holder);

#endif
