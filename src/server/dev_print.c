/* See dev_print.h. */
#include "server/dev_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "server/dev_node.h"
#include "server/dev_secure.h"
#include "server/dev_shell.h"

void dev_print_dashboard(const struct dev_cluster *c)
{
    printf("dashboard  %s://127.0.0.1:%u/\n", dev_is_secure(c) ? "https" : "http",
           c->nodes[0].client_port);
    fflush(stdout);
}

void dev_print_nodes(const struct dev_cluster *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        const struct dev_node *n = &c->nodes[i];
        printf("node %u  %s://127.0.0.1:%u  pid %d  data %s  log %s\n", n->id,
               dev_is_secure(c) ? "https" : "http", n->client_port, (int)n->pid, n->folder, n->log);
    }
    fflush(stdout);
}

static void print_tips(const struct dev_cluster *c, const char *name)
{
    unsigned first = c->nodes[0].client_port;
    unsigned last = c->nodes[c->count - 1].client_port;
    printf("\nTry it in another terminal, with any node:\n"
           "  %s lock --endpoints 127.0.0.1:%u demo -- sleep 30\n"
           "  %s show --endpoints 127.0.0.1:%u demo\n",
           name, first, name, last);
    if (dev_is_in_path("curl")) {
        printf("  curl -s -XPOST http://127.0.0.1:%u/api/v1/locks/demo/acquire "
               "-d '{\"client_id\":\"me\",\"ttl_ms\":30000}'\n"
               "  curl -s http://127.0.0.1:%u/api/v1/cluster\n",
               first, last);
    }
}

void dev_print_ready(const struct dev_cluster *c, unsigned leader)
{
    char name[DEV_WORD];
    dev_program_word(name);
    printf("ready  leader: node %u  endpoints: ", leader);
    for (unsigned i = 0; i < c->count; i++) {
        printf("%s127.0.0.1:%u", i == 0 ? "" : ",", c->nodes[i].client_port);
    }
    printf("\n");
    if (dev_is_secure(c)) {
        dev_secure_print(c, name);
    } else {
        print_tips(c, name);
    }
    printf("  kill -9 %d    # crash a node\n"
           "Ctrl-C stops all.\n",
           (int)c->nodes[0].pid);
    fflush(stdout);
}

/* "node 2 was killed by signal 9 (Killed)", without the end of the line. */
static void print_cause(const struct dev_node *node, int status)
{
    if (WIFSIGNALED(status)) {
        printf("node %u was killed by signal %d (%s)", node->id, WTERMSIG(status),
               strsignal(WTERMSIG(status)));
    } else {
        printf("node %u ended with exit status %d", node->id, WEXITSTATUS(status));
    }
}

void dev_print_restart(const struct dev_node *node, int status)
{
    int64_t left_ms = node->restart.due_ms - dev_now_ms();
    print_cause(node, status);
    printf("; it starts again in %.1f s", (double)(left_ms > 0 ? left_ms : 0) / 1000);
    if (node->restart.failures > 0) {
        printf(" (failed start %u of %d; its log: %s)", node->restart.failures, DEV_FAILURES_MAX,
               node->log);
    }
    printf("\n");
    fflush(stdout);
}

void dev_print_given_up(const struct dev_cluster *c, const struct dev_node *node, int status)
{
    print_cause(node, status);
    printf(
        "; it failed %d times in a row and stays down. The end of its log is on stderr. Solve the "
        "problem, then start it:\n  ",
        DEV_FAILURES_MAX);
    dev_node_print_command(c, node, stdout);
    fflush(stdout);
    dev_node_print_log(node);
}

void dev_print_down(const struct dev_cluster *c, const struct dev_node *node, int status)
{
    print_cause(node, status);
    printf("; start it in another terminal, where Ctrl-C stops it:\n  ");
    dev_node_print_command(c, node, stdout);
    fflush(stdout);
}

void dev_print_back(const struct dev_node *node)
{
    printf("node %u is ready again  pid %d\n", node->id, (int)node->pid);
    fflush(stdout);
}

void dev_print_chaos(const struct dev_cluster *c, uint64_t seed, uint64_t interval_ms)
{
    printf("chaos  seed %" PRIu64
           ": a node is killed or stopped every %.1f s on average, at most %u "
           "of %u at once\n",
           seed, (double)interval_ms / 1000, (c->count - 1) / 2, c->count);
    fflush(stdout);
}

void dev_print_stopped(const struct dev_node *node, int64_t for_ms)
{
    printf("node %u is stopped (SIGSTOP) for %.1f s\n", node->id, (double)for_ms / 1000);
    fflush(stdout);
}

void dev_print_continued(const struct dev_node *node)
{
    printf("node %u continues (SIGCONT)\n", node->id);
    fflush(stdout);
}
