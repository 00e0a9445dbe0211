/* One process of a local cluster, see dev_node.h. */
#include "server/dev_node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/panic.h"
#include "server/dev_shell.h"

enum {
    CHILD_READY_FD = 3,
    LIST_MAX = 512,
    WORDS = 27, /* of the command of a node */
};

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

/* What a start by hand needs, too. */
static void add_settings(struct node_words *w, const struct dev_cluster *c,
                         const struct dev_node *node)
{
    *w = (struct node_words){.count = 0};
    add_pair(w, "holdfast", "serve");
    add_pair(w, "--data", node->folder);
    add_addresses(w, c, node);
    if (dev_is_secure(c)) {
        add_credentials(w, c, node);
    }
}

static _Noreturn void become_node(const struct dev_cluster *c, const struct dev_node *node,
                                  int ready_fd, bool bootstrap, pid_t parent)
{
    static struct node_words w;
    add_settings(&w, c, node);
    add_pair(&w, "--ready-fd", "3");
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
    (void)unsetenv("NOTIFY_SOCKET"); /* a service manager would take it for us */
    (void)prctl(PR_SET_PDEATHSIG, c->death_signal);
    if (getppid() != parent) {
        _exit(0);
    }
    execv("/proc/self/exe", (char **)(uintptr_t)w.words);
    _exit(127);
}

bool dev_node_start(const struct dev_cluster *c, struct dev_node *node, bool bootstrap)
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
    node->restart.due_ms = 0;
    node->restart.started_ms = dev_now_ms();
    return true;
}

/* Paths become absolute: the command works in any folder. */
static void write_word(FILE *to, const char *word)
{
    char real[PATH_MAX];
    char quoted[DEV_WORD];
    bool is_path = strchr(word, '/') != NULL && realpath(word, real) != NULL;
    dev_shell_word(is_path ? real : word, quoted);
    fprintf(to, " %s", quoted);
}

void dev_node_print_command(const struct dev_cluster *c, const struct dev_node *node, FILE *to)
{
    static struct node_words w;
    char program[DEV_WORD];
    add_settings(&w, c, node);
    dev_program_word(program);
    fprintf(to, "%s", program);
    for (size_t i = 1; i < w.count; i++) {
        write_word(to, w.words[i]);
    }
    fprintf(to, "\n");
}
