/* Looks up names on a separate thread: a lookup may take seconds, and the keep-alives cannot wait.
 * The thread and its client share the state; the last of them frees it. */
#include <netdb.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "client/proto.h"

struct resolve {
    char host[ENDPOINT_TEXT];
    char port[8];
    int wake_fd; /* our own copy */
    atomic_int refs;
    atomic_bool is_done;
    int error;
    struct addrinfo *addresses;
};

static void unref(struct resolve *r)
{
    if (atomic_fetch_sub(&r->refs, 1) == 1) {
        if (r->addresses != NULL) {
            freeaddrinfo(r->addresses);
        }
        close(r->wake_fd);
        free(r);
    }
}

static void look_up(struct resolve *r, int flags)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    r->error = getaddrinfo(r->host, r->port, &hints, &r->addresses);
    if (r->error != 0) {
        r->addresses = NULL;
    }
}

static void *run(void *arg)
{
    struct resolve *r = arg;
    uint64_t one = 1;
    look_up(r, AI_ADDRCONFIG);
    atomic_store(&r->is_done, true);
    if (write(r->wake_fd, &one, sizeof(one)) < 0) {
        /* The counter is at its maximum: the client is being woken already. */
    }
    unref(r);
    return NULL;
}

struct resolve *resolve_new(const char *host, const char *port, int wake_fd)
{
    struct resolve *r = client_alloc(sizeof(*r));
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    snprintf(r->host, sizeof(r->host), "%s", host);
    snprintf(r->port, sizeof(r->port), "%s", port);
    r->wake_fd = dup(wake_fd);
    atomic_init(&r->refs, 2);
    atomic_init(&r->is_done, false);
    look_up(r, AI_NUMERICHOST); /* a numeric address needs no resolver */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (r->error == 0 || pthread_create(&thread, NULL, run, r) != 0) {
        atomic_store(&r->refs, 1);
        atomic_store(&r->is_done, true);
    } else {
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

bool resolve_is_done(struct resolve *r, struct addrinfo **out, const char **problem)
{
    if (!atomic_load(&r->is_done)) {
        return false;
    }
    *out = r->addresses;
    *problem = r->error == 0 ? NULL : gai_strerror(r->error);
    r->addresses = NULL;
    return true;
}

void resolve_free(struct resolve *r)
{
    if (r != NULL) {
        unref(r);
    }
}
