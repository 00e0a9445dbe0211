/* Processes of a local cluster. */
#include "server/dev_cluster.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "node/node.h"
#include "server/dev_node.h"

enum {
    STOP_MS = 10000, /* from SIGTERM to SIGKILL */
    LOG_TAIL = 2000,
};

static int signal_fd = -1;

/* ---- preparing ---- */

void dev_cluster_init(struct dev_cluster *c, unsigned count, uint16_t base_port, const char *dir,
                      bool is_secure)
{
    memset(c, 0, sizeof(*c));
    c->count = count;
    c->base_port = base_port;
    c->death_signal = SIGTERM;
    snprintf(c->dir, sizeof(c->dir), "%s", dir);
    if (is_secure) {
        snprintf(c->secure_dir, sizeof(c->secure_dir), "%s/secure", dir);
    }
    for (unsigned i = 0; i < count; i++) {
        struct dev_node *node = &c->nodes[i];
        node->id = i + 1;
        node->client_port = (uint16_t)(base_port + DEV_PORT_STEP * i);
        node->ready_fd = -1;
        snprintf(node->folder, sizeof(node->folder), "%s/node-%u", c->dir, node->id);
        snprintf(node->log, sizeof(node->log), "%s/node-%u.log", c->dir, node->id);
    }
}

static bool is_free(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    bool is = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0;
    close(fd);
    return is;
}

bool dev_cluster_ports_are_free(const struct dev_cluster *c)
{
    static const char *const uses[] = {"client", "peer", "Redis"};
    for (unsigned i = 0; i < c->count; i++) {
        for (unsigned j = 0; j < 3; j++) {
            uint16_t port = (uint16_t)(c->nodes[i].client_port + j);
            if (!is_free(port)) {
                fprintf(stderr,
                        "holdfast: port %u, the %s port of node %u, is in use by another program: "
                        "stop it, or choose other ports with --base-port\n",
                        port, uses[j], c->nodes[i].id);
                return false;
            }
        }
    }
    return true;
}

static bool make_folder(const char *path)
{
    char part[DEV_PATH + 2];
    snprintf(part, sizeof(part), "%s/", path);
    for (size_t i = 1; part[i] != '\0'; i++) {
        if (part[i] == '/') {
            part[i] = '\0';
            if (mkdir(part, 0700) != 0 && errno != EEXIST) {
                fprintf(stderr, "holdfast: cannot create the folder %s: %s\n", part,
                        strerror(errno));
                return false;
            }
            part[i] = '/';
        }
    }
    return true;
}

/* Refuses a cluster with another number of nodes or another base port, and to serve a secure one
 * without credentials. */
bool dev_cluster_prepare_folder(const struct dev_cluster *c)
{
    char path[DEV_PATH + 16];
    unsigned count = 0;
    unsigned port = 0;
    unsigned secure = 0;
    if (!make_folder(c->dir)) {
        return false;
    }
    snprintf(path, sizeof(path), "%s/cluster", c->dir);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        int got = fscanf(file, "nodes=%u base-port=%u secure=%u", &count, &port, &secure);
        fclose(file);
        if (got >= 3 && secure != 0 && !dev_is_secure(c)) {
            fprintf(stderr,
                    "holdfast: %s contains a secure cluster: use --secure, or another --dir\n",
                    c->dir);
            return false;
        }
        if (got >= 2 && (count != c->count || port != c->base_port)) {
            fprintf(stderr,
                    "holdfast: %s contains a cluster of %u nodes with base port %u: use --nodes %u "
                    "--base-port %u, or another --dir\n",
                    c->dir, count, port, count, port);
            return false;
        }
    }
    file = fopen(path, "we");
    if (file == NULL || fprintf(file, "nodes=%u base-port=%u secure=%u\n", c->count, c->base_port,
                                dev_is_secure(c) ? 1u : 0u) < 0) {
        fprintf(stderr, "holdfast: cannot write %s: %s\n", path, strerror(errno));
        if (file != NULL) {
            fclose(file);
        }
        return false;
    }
    fclose(file);
    return true;
}

/* ---- starting ---- */

bool dev_cluster_start(struct dev_cluster *c)
{
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, SIGINT);
    sigaddset(&mine, SIGTERM);
    sigaddset(&mine, SIGHUP);
    sigaddset(&mine, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mine, NULL);
    signal_fd = signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK);
    /* Bootstrap only if no node has data: later an empty folder means a lost disk, which the node
     * must report (S12.1). */
    bool bootstrap = true;
    for (unsigned i = 0; i < c->count; i++) {
        bootstrap = bootstrap && !node_folder_is_used(c->nodes[i].folder);
    }
    for (unsigned i = 0; i < c->count; i++) {
        if (!dev_node_start(c, &c->nodes[i], bootstrap)) {
            dev_cluster_stop(c);
            return false;
        }
    }
    return true;
}

/* ---- watching ---- */

static bool reap(struct dev_cluster *c, struct dev_node **node, int *status)
{
    for (unsigned i = 0; i < c->count; i++) {
        struct dev_node *at = &c->nodes[i];
        if (at->pid > 0 && waitpid(at->pid, status, WNOHANG) == at->pid) {
            at->pid = 0;
            if (at->ready_fd >= 0) {
                close(at->ready_fd);
                at->ready_fd = -1;
            }
            *node = at;
            return true;
        }
    }
    return false;
}

static enum dev_event take_signal(struct dev_cluster *c, struct dev_node **node, int *status)
{
    struct signalfd_siginfo info;
    bool stop = false;
    while (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        stop = stop || info.ssi_signo != SIGCHLD;
    }
    if (stop) {
        return DEV_SIGNAL;
    }
    return reap(c, node, status) ? DEV_ENDED : DEV_NOTHING;
}

/* "ready LEADER", or the end of the pipe. */
static enum dev_event read_ready(struct dev_node *node)
{
    char text[64];
    ssize_t got = read(node->ready_fd, text, sizeof(text) - 1);
    close(node->ready_fd);
    node->ready_fd = -1;
    if (got <= 0) {
        return DEV_NOTHING; /* the node has ended: SIGCHLD follows */
    }
    text[got] = '\0';
    node->ready = sscanf(text, "ready %u", &node->leader) == 1;
    return node->ready ? DEV_READY : DEV_NOTHING;
}

enum dev_event dev_cluster_wait(struct dev_cluster *c, int timeout_ms, struct dev_node **node,
                                int *status)
{
    struct pollfd fds[DEV_NODES_MAX + 1];
    if (reap(c, node, status)) {
        return DEV_ENDED;
    }
    fds[0] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
    for (unsigned i = 0; i < c->count; i++) {
        fds[i + 1] = (struct pollfd){.fd = c->nodes[i].ready_fd, .events = POLLIN};
    }
    if (poll(fds, c->count + 1, timeout_ms) <= 0) {
        return DEV_NOTHING;
    }
    for (unsigned i = 0; i < c->count; i++) {
        if (fds[i + 1].revents != 0) {
            *node = &c->nodes[i];
            return read_ready(&c->nodes[i]);
        }
    }
    return take_signal(c, node, status);
}

/* ---- starting again ---- */

int dev_cluster_restart_in_ms(const struct dev_cluster *c)
{
    int64_t now_ms = dev_now_ms();
    int64_t least_ms = -1;
    for (unsigned i = 0; i < c->count; i++) {
        int64_t due_ms = c->nodes[i].restart.due_ms;
        int64_t left_ms = due_ms > now_ms ? due_ms - now_ms : 0;
        if (due_ms != 0 && (least_ms < 0 || left_ms < least_ms)) {
            least_ms = left_ms;
        }
    }
    return (int)least_ms;
}

bool dev_cluster_restart_due(struct dev_cluster *c)
{
    int64_t now_ms = dev_now_ms();
    for (unsigned i = 0; i < c->count; i++) {
        struct dev_node *node = &c->nodes[i];
        if (node->restart.due_ms != 0 && node->restart.due_ms <= now_ms &&
            !dev_node_start(c, node, false)) {
            return false;
        }
    }
    return true;
}

/* ---- stopping ---- */

static unsigned signal_all(const struct dev_cluster *c, int number)
{
    unsigned running = 0;
    for (unsigned i = 0; i < c->count; i++) {
        if (c->nodes[i].pid > 0) {
            running++;
            if (number != 0) {
                (void)kill(c->nodes[i].pid, number);
            }
        }
    }
    return running;
}

void dev_cluster_stop(struct dev_cluster *c)
{
    struct dev_node *node;
    int status;
    int64_t until = dev_now_ms() + STOP_MS;
    signal_all(c, SIGTERM);
    signal_all(c, SIGCONT); /* a stopped node gets no SIGTERM */
    while (signal_all(c, 0) > 0) {
        int64_t left = until - dev_now_ms();
        if (left <= 0) {
            signal_all(c, SIGKILL);
            left = STOP_MS;
            until += STOP_MS;
        }
        if (dev_cluster_wait(c, (int)left, &node, &status) == DEV_SIGNAL) {
            signal_all(c, SIGKILL); /* a second stop signal */
        }
    }
}

void dev_print_end(const char *path, long bytes)
{
    char tail[LOG_TAIL + 1];
    FILE *file = fopen(path, "re");
    hf_assert(bytes <= LOG_TAIL);
    if (file == NULL) {
        return;
    }
    if (fseek(file, -bytes, SEEK_END) != 0) {
        rewind(file);
    }
    size_t len = fread(tail, 1, (size_t)bytes, file);
    fclose(file);
    tail[len] = '\0';
    char *begin =
        len == (size_t)bytes && strchr(tail, '\n') != NULL ? strchr(tail, '\n') + 1 : tail;
    fprintf(stderr, "%s", begin);
}

void dev_node_print_log(const struct dev_node *node)
{
    dev_print_end(node->log, LOG_TAIL);
}
