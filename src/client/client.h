/* The client with its I/O: the engine, its sockets, the thread that runs it, and the threads of the
 * caller. One mutex guards all of it; callbacks are called without it. */
#ifndef HOLDFAST_CLIENT_CLIENT_H
#define HOLDFAST_CLIENT_CLIENT_H

#include <poll.h>
#include <pthread.h>
#include <sys/types.h>

#include "client/engine.h"
#include "transport/transport.h"

/* A link's connection. */
struct io_link {
    struct transport transport;
    uint32_t generation; /* the link's generation at the last check */
};

struct io {
    int wake_fd;      /* an eventfd: there is work */
    int timer_fd;     /* on CLOCK_BOOTTIME, so that it fires after a suspend too */
    int64_t timer_ms; /* when it fires */
    struct io_link links[ENGINE_LINKS];
};

struct hf_client {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* an iteration is over: for threads that wait to run the client, or
                               to close it */
    struct client_engine client_engine;
    struct io io;
    struct list handles; /* handles that the caller has, by hf_lock.handle_link */
    pid_t pid;           /* of the process that opened it */
    pthread_t thread;
    bool has_thread;
    bool is_stopping;
    bool is_driven; /* a thread runs an iteration */
    bool is_dispatching;
    pthread_t dispatcher;
    unsigned callers; /* threads that wait inside a call */
    hf_event_fn on_event;
    void *arg;
};

int64_t client_now_ms(void);

/* With the mutex: begins and ends a public call. client_enter refuses (HF_ERR_INVALID, with its
 * text) in a forked child and, for a call that waits, inside a callback. */
int client_enter(struct hf_client *client, bool waits);
void client_leave(struct hf_client *client);
/* With the mutex, after a call was added to the engine: sends it. */
void client_kick(struct hf_client *client);
/* With the mutex: waits until the ticket is done, frees it and returns its error. The error text of
 * this thread is then that of the ticket. */
int client_wait(struct hf_client *client, struct hf_call *ticket, struct hf_lock **lock,
                int64_t *expires_in_ms);
/* One iteration: reads, does what is due, writes, calls the callbacks. Then it waits at most
 * `wait_ms` (0: not at all, -1: without limit) for more work. With the mutex, which it releases
 * meanwhile. */
void client_turn(struct hf_client *client, int wait_ms);

/* io.c, with the mutex. */
bool io_open(struct io *io);
void io_close(struct io *io);
/* Reads what was received, and continues connects in progress. */
void io_read(struct hf_client *client);
/* Opens and closes sockets as the engine requires, writes, sets the timer. */
void io_write(struct hf_client *client);
int io_pollfds(const struct hf_client *client, struct pollfd *fds, unsigned max);
void io_wake(struct io *io);

/* error.c: sets what hf_last_error and hf_last_holder return to this thread. Returns `error`. */
int error_set(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
void error_set_holder(const struct hf_holder *holder);

#endif
