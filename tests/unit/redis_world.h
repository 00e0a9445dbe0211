/* A real redis-server of the test's own, in a folder of its own, and a loop on which we speak to
 * it; `request` is how the test itself looks at its keys. To be included first. */
#ifndef HOLDFAST_TESTS_REDIS_WORLD_H
#define HOLDFAST_TESTS_REDIS_WORLD_H

#include "base_testing.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "redis/backend.h"
#include "temporary.h"

/* Short where a test waits for it, long where a busy machine must not meet it. */
enum { TIMEOUT_MS = 200, LONG_TIMEOUT_MS = 5000, PATIENCE_MS = 100000 };

struct redis_world {
    uv_loop_t loop;
    struct net net;
    struct counted counted;
    struct journal journal;
    struct redis_backend *backend;
    struct redis_backend_options options;
    const char *folder;
    char socket[108];
    char password[32];
    uint16_t port;
    pid_t server;
    int changes;
};

static inline uint64_t world_ms(void)
{
    return uv_hrtime() / 1000000;
}

static inline bool nobody_wants(void *ctx, enum journal_level level,
                                enum journal_subsystem subsystem)
{
    (void)ctx;
    (void)level;
    (void)subsystem;
    return false;
}

static inline void count_change(void *ctx)
{
    struct redis_world *w = ctx;
    w->changes++;
}

/* Runs the loop until `condition` holds; a test that waits for ever fails. */
static inline void wake(uv_timer_t *timer)
{
    (void)timer;
}

#define UNTIL(w, condition)                                    \
    do {                                                       \
        uint64_t give_up_ = world_ms() + PATIENCE_MS;          \
        while (!(condition)) {                                 \
            if (world_ms() > give_up_) {                       \
                fail_msg("waited in vain for %s", #condition); \
            }                                                  \
            uv_timer_t timer_;                                 \
            uv_timer_init(&(w)->loop, &timer_);                \
            uv_timer_start(&timer_, wake, 100, 0);             \
            uv_run(&(w)->loop, UV_RUN_ONCE);                   \
            uv_close((uv_handle_t *)&timer_, NULL);            \
            uv_run(&(w)->loop, UV_RUN_NOWAIT);                 \
        }                                                      \
    } while (0)

/* ---- the server ---- */

static inline redisContext *server_connect(struct redis_world *w)
{
    struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    redisContext *c = redisConnectUnixWithTimeout(w->socket, patience);
    if (c != NULL && c->err == 0 && w->password[0] != '\0') {
        redisReply *reply = redisCommand(c, "AUTH %s", w->password);
        freeReplyObject(reply);
    }
    return c;
}

static inline bool server_answers(struct redis_world *w)
{
    redisContext *c = server_connect(w);
    redisReply *reply = c != NULL && c->err == 0 ? redisCommand(c, "PING") : NULL;
    bool fine = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (reply != NULL) {
        freeReplyObject(reply);
    }
    redisFree(c);
    return fine;
}

static inline void server_start(struct redis_world *w)
{
    char port[8];
    snprintf(port, sizeof(port), "%u", w->port);
    fflush(NULL);
    w->server = fork();
    assert_true(w->server >= 0);
    if (w->server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1",
               "--unixsocket", w->socket, "--save", "", "--appendonly", "no", "--dir", w->folder,
               "--enable-debug-command", "yes", w->password[0] != '\0' ? "--requirepass" : NULL,
               w->password, NULL);
        _exit(127);
    }
    uint64_t give_up = world_ms() + PATIENCE_MS;
    while (!server_answers(w)) {
        int status;
        if (waitpid(w->server, &status, WNOHANG) != 0 || world_ms() > give_up) {
            fail_msg("redis-server does not start; is it installed? (scripts/setup test)");
        }
        struct timespec pause = {.tv_nsec = 5000000};
        nanosleep(&pause, NULL);
    }
}

static inline void server_kill(struct redis_world *w)
{
    if (w->server > 0) {
        kill(w->server, SIGKILL);
        waitpid(w->server, NULL, 0);
        w->server = 0;
    }
}

/* One command on a connection of the test's own. The text of the answer; numbers as text. */
static inline const char *request(struct redis_world *w, const char *format, ...)
{
    static char text[1024];
    redisContext *c = server_connect(w);
    assert_true(c != NULL && c->err == 0);
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(c, format, arguments);
    va_end(arguments);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_INTEGER) {
        snprintf(text, sizeof(text), "%lld", reply->integer);
    } else if (reply->type == REDIS_REPLY_NIL) {
        snprintf(text, sizeof(text), "(nil)");
    } else {
        snprintf(text, sizeof(text), "%s", reply->str != NULL ? reply->str : "(array)");
    }
    freeReplyObject(reply);
    redisFree(c);
    return text;
}

/* ---- the world ---- */

static inline uint16_t free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(any);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &len), 0);
    close(fd);
    return ntohs(any.sin_port);
}

/* By the socket in its folder, unless the test says `port` before world_connect. */
static inline void world_open(struct redis_world *w)
{
    memset(w, 0, sizeof(*w));
    counted_init(&w->counted);
    w->folder = temporary_folder(NULL);
    snprintf(w->socket, sizeof(w->socket), "%s/redis.sock", w->folder);
    uv_loop_init(&w->loop);
    net_init(&w->net, &w->loop, &w->counted.memory);
    w->journal = (struct journal){.wants = nobody_wants};
    redis_link_defaults(&w->options.link);
    w->options.link.net = &w->net;
    w->options.link.journal = &w->journal;
    w->options.link.timeout_ms = LONG_TIMEOUT_MS;
    w->options.link.open_min_ms = 50;
    w->options.link.open_max_ms = 200;
    w->options.link.on_change = count_change;
    w->options.link.ctx = w;
    w->options.cluster = (struct id){.high = 0xabc, .low = 0xdef};
    snprintf(w->options.prefix, sizeof(w->options.prefix), "lock:");
    snprintf(w->options.link.path, sizeof(w->options.link.path), "%s", w->socket);
}

static inline void world_connect(struct redis_world *w)
{
    w->backend = redis_backend_new(&w->options);
}

static inline struct redis_link_view world_view(struct redis_world *w)
{
    struct redis_link_view view;
    redis_backend_view(w->backend, &view);
    return view;
}

static inline void world_up(struct redis_world *w)
{
    server_start(w);
    world_connect(w);
    UNTIL(w, world_view(w).up);
}

static inline void world_close(struct redis_world *w)
{
    redis_backend_close(w->backend);
    server_kill(w);
    net_close(&w->net);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    assert_all_given_back(&w->counted);
    temporary_remove(w->folder);
}

/* ---- what was heard ---- */

struct heard {
    int count;
    enum redis_verdict verdict;
    uint32_t name;
    uint64_t holder_ms;
    char holder[REDIS_HOLDER_MAX + 1];
    char problem[160];
};

static inline void hear(void *owner, const struct redis_result *result)
{
    struct heard *h = owner;
    h->count++;
    h->verdict = result->verdict;
    h->name = result->name;
    h->holder_ms = result->holder_ms;
    assert_true(result->holder.len <= REDIS_HOLDER_MAX);
    snprintf(h->holder, sizeof(h->holder), "%.*s", (int)result->holder.len,
             result->holder.data == NULL ? "" : (const char *)result->holder.data);
    snprintf(h->problem, sizeof(h->problem), "%s", result->problem);
}

enum { FLOOR = 7 * 1024 };

static inline struct redis_names one_name(const char *name)
{
    return (struct redis_names){.count = 1, .at = {slice_of(name)}};
}

static inline struct heard take(struct redis_world *w, const char *name, uint64_t token)
{
    struct heard h = {0};
    struct redis_names names = one_name(name);
    redis_take(w->backend, &names, token, FLOOR, 30000, slice_of("web-1"), hear, &h);
    assert_int_equal(h.count, 0);
    UNTIL(w, h.count == 1);
    return h;
}

static inline struct heard extend(struct redis_world *w, const char *name, uint64_t token,
                                  uint64_t px_ms)
{
    struct heard h = {0};
    struct redis_names names = one_name(name);
    redis_extend(w->backend, &names, &token, px_ms, hear, &h);
    UNTIL(w, h.count == 1);
    return h;
}

static inline struct heard give_back(struct redis_world *w, const char *name, uint64_t token)
{
    struct heard h = {0};
    struct redis_names names = one_name(name);
    redis_give_back(w->backend, &names, &token, FLOOR, hear, &h);
    UNTIL(w, h.count == 1);
    return h;
}

#endif
