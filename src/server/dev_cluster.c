/* Processes of a local cluster. */
#include "server/dev_cluster.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "node/node.h"

enum {
    STOP_MS = 10000, /* from SIGTERM to SIGKILL */
    CHILD_READY_FD = 3,
    LOG_TAIL = 2000,
    LIST_MAX = 512,
    WORDS = 27, /* of the command of a node */
};

static int signal_fd = -1;

/* ---- preparing ---- */

void dev_cluster_init(struct dev_cluster *c, unsigned count, uint16_t base_port, const char *dir,
                      bool is_secure)
{
    memset(c, 0, sizeof(*c));
    c->count = count;
    c->base_port = base_port;
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

struct node_words {
    char id[16], client[32], peer[32], resp[32], list[LIST_MAX];
    char cert[DEV_PATH + 64], key[DEV_PATH + 64], ca[DEV_PATH + 64];
    const char *words[WORDS + 1]; /* NULL at the end */
    size_t count;
};

static void add_pair(struct node_words *w, const char *flag, const char *value)
{
    hf_assert(w->count + 2 <= WORDS);
    w->words[w->count++] = flag;
    w->words[w->count++] = value;
}

static void add_addresses(struct node_words *w, const struct dev_cluster *c,
                          const struct dev_node *node)
{
    size_t len = 0;
    for (unsigned i = 0; i < c->count; i++) {
        len += (size_t)snprintf(w->list + len, sizeof(w->list) - len, "%s%u=127.0.0.1:%u",
                                i == 0 ? "" : ",", c->nodes[i].id, c->nodes[i].client_port + 1u);
    }
    snprintf(w->id, sizeof(w->id), "%u", node->id);
    snprintf(w->client, sizeof(w->client), "127.0.0.1:%u", node->client_port);
    snprintf(w->peer, sizeof(w->peer), "127.0.0.1:%u", node->client_port + 1u);
    snprintf(w->resp, sizeof(w->resp), "127.0.0.1:%u", node->client_port + 2u);
    add_pair(w, "--id", w->id);
    add_pair(w, "--client", w->client);
    add_pair(w, "--peer", w->peer);
    add_pair(w, "--resp", w->resp);
    add_pair(w, "--cluster", w->list);
    add_pair(w, "--cluster-name", DEV_CLUSTER_NAME);
}

static void add_credentials(struct node_words *w, const struct dev_cluster *c,
                            const struct dev_node *node)
{
    snprintf(w->cert, sizeof(w->cert), "%s/node-%u.pem", c->secure_dir, node->id);
    snprintf(w->key, sizeof(w->key), "%s/node-%u-key.pem", c->secure_dir, node->id);
    snprintf(w->ca, sizeof(w->ca), "%s/ca.pem", c->secure_dir);
    add_pair(w, "--tls-cert", w->cert);
    add_pair(w, "--tls-key", w->key);
    add_pair(w, "--tls-ca", w->ca);
    add_pair(w, "--auth", "on");
}

static _Noreturn void become_node(const struct dev_cluster *c, const struct dev_node *node,
                                  int ready_fd, bool bootstrap, pid_t parent)
{
    static struct node_words w;
    add_pair(&w, "holdfast", "serve");
    add_pair(&w, "--data", node->folder);
    add_pair(&w, "--ready-fd", "3");
    add_addresses(&w, c, node);
    if (dev_is_secure(c)) {
        add_credentials(&w, c, node);
    }
    w.words[w.count] = bootstrap ? "--bootstrap" : NULL;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0); /* Ctrl-C goes to the parent only, which stops the nodes */
    int log = open(node->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int nothing = open("/dev/null", O_RDWR);
    /* dup2 of a descriptor onto itself does not clear FD_CLOEXEC. */
    int kept =
        ready_fd == CHILD_READY_FD ? fcntl(ready_fd, F_SETFD, 0) : dup2(ready_fd, CHILD_READY_FD);
    if (log < 0 || nothing < 0 || kept < 0) {
        _exit(127);
    }
    (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(log, STDOUT_FILENO);
    (void)dup2(log, STDERR_FILENO);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(0);
    }
    execv("/proc/self/exe", (char **)(uintptr_t)w.words);
    _exit(127);
}

static bool start_node(struct dev_cluster *c, struct dev_node *node, bool bootstrap)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fprintf(stderr, "holdfast: cannot create a pipe: %s\n", strerror(errno));
        return false;
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become_node(c, node, ends[1], bootstrap, parent);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        fprintf(stderr, "holdfast: cannot start a process: %s\n", strerror(errno));
        return false;
    }
    node->pid = pid;
    node->ready_fd = ends[0];
    node->ready = false;
    return true;
}

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
        if (!start_node(c, &c->nodes[i], bootstrap)) {
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

/* ---- stopping ---- */

static int64_t monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

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
    int64_t until = monotonic_ms() + STOP_MS;
    signal_all(c, SIGTERM);
    while (signal_all(c, 0) > 0) {
        int64_t left = until - monotonic_ms();
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
