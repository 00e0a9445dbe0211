/* Lookups on a separate thread: one may take seconds, and keep-alives cannot wait. The thread and
 * its client share the state; the last of them frees it. */
#include "transport/resolve.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

struct resolve {
    struct host_port address;
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
        memory_free(memory_system(), r, sizeof(*r));
    }
}

/* `*out` is NULL if it fails. */
static int look_up(const struct host_port *address, int flags, struct addrinfo **out)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    int error = getaddrinfo(address->host, address->port, &hints, out);
    *out = error == 0 ? *out : NULL;
    return error;
}

static void *run(void *arg)
{
    struct resolve *r = arg;
    uint64_t one = 1;
    r->error = look_up(&r->address, AI_ADDRCONFIG, &r->addresses);
    atomic_store(&r->is_done, true);
    if (write(r->wake_fd, &one, sizeof(one)) < 0) {
        /* The counter is at its maximum: a wake-up is pending. */
    }
    unref(r);
    return NULL;
}

struct resolve *resolve_new(const struct host_port *address, int wake_fd)
{
    struct resolve *r = memory_alloc(memory_system(), sizeof(*r));
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    r->address = *address;
    r->wake_fd = dup(wake_fd);
    atomic_init(&r->refs, 2);
    atomic_init(&r->is_done, false);
    r->error =
        look_up(address, AI_NUMERICHOST, &r->addresses); /* a numeric address needs no resolver */
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

socklen_t resolve_now(const struct host_port *address, struct sockaddr_storage *out)
{
    struct addrinfo *list;
    socklen_t len = 0;
    if (look_up(address, 0, &list) == 0) {
        len = list->ai_addrlen;
        memcpy(out, list->ai_addr, len);
        freeaddrinfo(list);
    }
    return len;
}
