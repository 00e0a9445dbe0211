/* Redlock, the lock that Redis's documentation recommends for more than one Redis: a client requests
 * all servers at the same time for the same name with the same value, holds the lock when a
 * majority said yes, and gives it back by the deleting script on all of them, of which it also
 * awaits a majority.
 *
 * A client has a connection to every server, which the load of `holdfast bench` does not know; so
 * this is a loop of its own. Requests of a connection are answered in order: the even answers are
 * those to SET, the odd ones those to the script, and what is behind a majority is read later. */
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/load.h"
#include "peers.h"

enum {
    SERVERS_MAX = 9,
    CLIENTS_MAX = 4096,
    REQUEST_MAX = 512,
    IN_MAX = 4096,
    EVENTS = 256,
    WAIT_MS = 100
};

static const char script[] = "if redis.call(\"get\",KEYS[1]) == ARGV[1] then "
                             "return redis.call(\"del\",KEYS[1]) else return 0 end";

struct redlock_link {
    struct redlock_client *client;
    int fd;
    uint64_t answers; /* so far: 2 for each cycle */
    char in[IN_MAX];
    size_t in_len;
};

struct redlock_client {
    struct redlock *load;
    uint32_t number;
    uint64_t cycle;
    bool is_releasing;
    unsigned votes; /* of this step */
    uint64_t started_ns;
    struct redlock_link links[SERVERS_MAX];
};

struct redlock {
    const struct bench_settings *settings;
    const struct bench_targets *targets;
    struct bench_result *result;
    char *problem;
    bool failed;
    bool is_measuring;
    uint64_t run; /* random: names and values are fresh in every run */
    int epoll;
    struct redlock_client *clients;
};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(struct redlock *l, const char *what)
{
    if (!l->failed) {
        l->failed = true;
        (void)snprintf(l->problem, BENCH_PROBLEM, "%s", what);
    }
}

/* ---- requesting ---- */

static void send_all(struct redlock_client *c, const char *bytes, int len)
{
    hf_assert(len > 0 && len < REQUEST_MAX);
    for (unsigned i = 0; i < c->load->targets->count; i++) {
        if (send(c->links[i].fd, bytes, (size_t)len, MSG_NOSIGNAL) != len) {
            fail(c->load, "a Redis does not take what is sent to it");
        }
    }
    c->votes = 0;
    c->started_ns = clock_ns(CLOCK_MONOTONIC);
}

static void request(struct redlock_client *c)
{
    char bytes[REQUEST_MAX];
    char name[64];
    char value[64];
    int name_len = snprintf(name, sizeof(name), "bench/%08" PRIx32 "/%" PRIu32 "/%" PRIu64,
                            (uint32_t)c->load->run, c->number, c->cycle);
    int value_len = snprintf(value, sizeof(value), "%016" PRIx64 "-%" PRIu32 "-%" PRIu64,
                             c->load->run, c->number, c->cycle);
    int len =
        c->is_releasing
            ? snprintf(bytes, sizeof(bytes),
                       "*5\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n",
                       sizeof(script) - 1, script, name_len, name, value_len, value)
            : snprintf(bytes, sizeof(bytes),
                       "*6\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$2\r\nNX\r\n$2\r\nPX\r\n"
                       "$5\r\n30000\r\n",
                       name_len, name, value_len, value);
    send_all(c, bytes, len);
}

/* ---- answers ---- */

static void measure(struct redlock_client *c)
{
    struct bench_result *r = c->load->result;
    uint64_t took_ns = clock_ns(CLOCK_MONOTONIC) - c->started_ns;
    if (!c->load->is_measuring) {
        return;
    }
    if (c->is_releasing) {
        histogram_add(&r->release, took_ns);
        r->cycles++;
    } else {
        histogram_add(&r->acquire, took_ns);
    }
}

/* A server said yes to what is being requested now; of a step that is over it may still come. */
static void on_vote(struct redlock_client *c, uint64_t answer)
{
    if (answer != 2 * c->cycle + (c->is_releasing ? 1 : 0)) {
        return;
    }
    if (++c->votes == c->load->targets->count / 2 + 1) {
        measure(c);
        c->cycle += c->is_releasing ? 1 : 0;
        c->is_releasing = !c->is_releasing;
        request(c);
    }
}

static void on_line(struct redlock_link *k, const char *line, size_t len)
{
    uint64_t answer = k->answers++;
    bool yes = answer % 2 == 0 ? len == 3 && memcmp(line, "+OK", 3) == 0
                               : len == 2 && memcmp(line, ":1", 2) == 0;
    if (yes) {
        on_vote(k->client, answer);
    } else {
        char words[BENCH_PROBLEM];
        (void)snprintf(words, sizeof(words), "a Redis answered \"%.*s\"", (int)len, line);
        fail(k->client->load, words);
    }
}

static void on_readable(struct redlock_link *k)
{
    ssize_t got = recv(k->fd, k->in + k->in_len, IN_MAX - k->in_len, MSG_DONTWAIT);
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            fail(k->client->load, "a Redis closed its connection");
        }
        return;
    }
    k->in_len += (size_t)got;
    size_t used = 0;
    for (const char *end; (end = memmem(k->in + used, k->in_len - used, "\r\n", 2)) != NULL;) {
        on_line(k, k->in + used, (size_t)(end - (k->in + used)));
        used = (size_t)(end - k->in) + 2;
    }
    memmove(k->in, k->in + used, k->in_len - used);
    k->in_len -= used;
    if (k->in_len == IN_MAX) {
        fail(k->client->load, "an answer that is too long");
    }
}

/* ---- the run ---- */

static bool connect_client(struct redlock_client *c)
{
    struct redlock *l = c->load;
    for (unsigned i = 0; i < l->targets->count; i++) {
        const struct bench_target *target = &l->targets->at[i];
        struct redlock_link *k = &c->links[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = k};
        int on = 1;
        k->client = c;
        k->fd = socket(target->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
        if (k->fd < 0 ||
            connect(k->fd, (const struct sockaddr *)&target->address, target->address_len) != 0 ||
            setsockopt(k->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
            epoll_ctl(l->epoll, EPOLL_CTL_ADD, k->fd, &event) != 0) {
            char words[BENCH_PROBLEM];
            (void)snprintf(words, sizeof(words), "%s: %s", target->host, strerror(errno));
            fail(l, words);
            return false;
        }
    }
    return true;
}

static void turn_until(struct redlock *l, uint64_t end_ns)
{
    struct epoll_event events[EVENTS];
    while (!l->failed && clock_ns(CLOCK_MONOTONIC) < end_ns) {
        int count = epoll_wait(l->epoll, events, EVENTS, WAIT_MS);
        for (int i = 0; i < count && !l->failed; i++) {
            on_readable(events[i].data.ptr);
        }
    }
}

static void run(struct redlock *l)
{
    const struct bench_settings *s = l->settings;
    for (uint32_t i = 0; i < s->clients && !l->failed; i++) {
        l->clients[i].load = l;
        l->clients[i].number = i;
        if (connect_client(&l->clients[i])) {
            request(&l->clients[i]);
        }
    }
    turn_until(l, clock_ns(CLOCK_MONOTONIC) + s->warmup_ms * 1000000);
    l->is_measuring = true;
    uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    turn_until(l, began_ns + s->measure_ms * 1000000);
    l->result->measured_ns = clock_ns(CLOCK_MONOTONIC) - began_ns;
    l->result->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
}

/* As far as it may; a socket that cannot be had is reported by itself. */
static void raise_file_limit(uint64_t files)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < files) {
        limit.rlim_cur = files < limit.rlim_max ? files : limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

bool redlock_run(const struct bench_settings *settings, const struct bench_targets *targets,
                 struct bench_result *result, char problem[BENCH_PROBLEM])
{
    struct redlock l = {
        .settings = settings, .targets = targets, .result = result, .problem = problem};
    *result = (struct bench_result){.cycles = 0};
    if (settings->clients > CLIENTS_MAX || targets->count > SERVERS_MAX) {
        (void)snprintf(problem, BENCH_PROBLEM, "Redlock takes at most %d clients and %d servers",
                       CLIENTS_MAX, SERVERS_MAX);
        return false;
    }
    if (getrandom(&l.run, sizeof(l.run), 0) != (ssize_t)sizeof(l.run)) {
        l.run = clock_ns(CLOCK_REALTIME);
    }
    raise_file_limit(settings->clients * targets->count + 64);
    size_t size = settings->clients * sizeof(*l.clients);
    l.clients = memory_alloc(memory_system(), size);
    memset(l.clients, 0, size);
    l.epoll = epoll_create1(EPOLL_CLOEXEC);
    hf_assert(l.epoll >= 0);
    run(&l);
    for (uint32_t i = 0; i < settings->clients; i++) {
        for (unsigned k = 0; k < targets->count && l.clients[i].links[k].fd > 0; k++) {
            close(l.clients[i].links[k].fd);
        }
    }
    close(l.epoll);
    memory_free(memory_system(), l.clients, size);
    return !l.failed;
}

const struct bench_protocol peer_redlock = {.name = "redlock"};
