/* The client with its edges: the engine, its sockets, the thread that turns it, and the threads of
 * the caller. One mutex guards all of it; callbacks are called without it. */
#ifndef HOLDFAST_CLIENT_CLIENT_H
#define HOLDFAST_CLIENT_CLIENT_H

#include <poll.h>
#include <pthread.h>
#include <sys/types.h>

#include "client/engine.h"

struct resolve;

/* A link's socket. */
struct io_link {
    int fd;              /* -1: none */
    uint32_t generation; /* the link's, when it was last looked at */
    bool is_connecting;
    struct resolve *resolve; /* the address is being looked up */
    struct addrinfo *addresses;
    struct addrinfo *next; /* the one to try when this one fails */
};

struct io {
    int wake_fd;      /* an eventfd: something is to be done */
    int timer_fd;     /* on CLOCK_BOOTTIME, so that it rings after a suspend too */
    int64_t timer_ms; /* when it rings */
    struct io_link links[ENGINE_LINKS];
};

struct hf_client {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a turn is over: for those who wait for the driver, or to close */
    struct client_engine client_engine;
    struct io io;
    struct list handles; /* of the caller, by hf_lock.handle_link */
    pid_t pid;           /* of the process that opened it */
    pthread_t thread;
    bool has_thread;
    bool is_stopping;
    bool is_driven; /* some thread is in its turn */
    bool is_dispatching;
    pthread_t dispatcher;
    unsigned callers; /* threads that wait in a call */
    hf_event_fn on_event;
    void *arg;
};

int64_t client_now_ms(void);

/* With the mutex: begins and ends a public call. client_enter says no (HF_ERR_INVALID, with its
 * text) in a forked child and, for a call that waits, within a callback. */
int client_enter(struct hf_client *client, bool waits);
void client_leave(struct hf_client *client);
/* With the mutex, after the engine was asked for something: sends it. */
void client_kick(struct hf_client *client);
/* With the mutex: waits until the ticket is done, frees it and returns its error; the texts are
 * then this thread's last ones. */
int client_wait(struct hf_client *client, struct hf_call *ticket, struct hf_lock **lock,
                int64_t *expires_in_ms);
/* One turn: reads, does what is due, writes, tells the news; then, if told so, waits at most
 * `wait_ms` (-1: any) for more to do. With the mutex, which it gives up meanwhile. */
void client_turn(struct hf_client *client, int wait_ms);

/* io.c, with the mutex. */
bool io_open(struct io *io);
void io_close(struct io *io);
/* Reads what is there, and sees to connections that are being made. */
void io_read(struct hf_client *client);
/* Makes and closes sockets as the engine wants them, writes, sets the timer. */
void io_write(struct hf_client *client);
int io_pollfds(const struct hf_client *client, struct pollfd *fds, unsigned max);
void io_wake(struct io *io);

/* resolve.c: looks an address up on a thread of its own, which then wakes the client. */
struct resolve *resolve_new(const char *host, const char *port, int wake_fd);
/* Whether it is over; then *out is the list (the caller's), or NULL with the resolver's words. */
bool resolve_is_done(struct resolve *resolve, struct addrinfo **out, const char **problem);
/* Takes NULL; the thread may still be at it. */
void resolve_free(struct resolve *resolve);

/* error.c: what hf_last_error and hf_last_holder say to this thread. Returns `error`. */
int error_set(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
void error_set_holder(const struct hf_holder *holder);

#endif
