/* `holdfast dev`: its flags, start, and what it does when a node ends. */
#include "server/dev.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/dev_chaos.h"
#include "server/dev_cluster.h"
#include "server/dev_print.h"
#include "server/dev_secure.h"
#include "server/flags.h"
#include "server/progress.h"
#include "server/serve.h"
#include "tls/digest.h"

enum { READY_MS = 20000 };

struct dev_settings {
    uint64_t nodes;
    uint64_t base_port;
    const char *given_dir;
    char dir[DEV_PATH];
    uint64_t restart_after_ms;
    bool no_restart;
    bool secure;
    bool chaos;
    uint64_t chaos_seed;        /* NO_SEED: a random one */
    uint64_t chaos_interval_ms; /* 0: not given */
    bool help;
};

#define NO_SEED UINT64_MAX

static const struct flag flags[] = {
    {"nodes", 0, FLAG_NUMBER_IN(struct dev_settings, nodes, 1, DEV_NODES_MAX), "N",
     "number of nodes, 1 to 9 (default: 5)"},
    {"dir", 0, FLAG_TEXT_SET(struct dev_settings, given_dir), "DIR",
     "folder for the data and the logs of all nodes (default: /var/lib/holdfast-dev for root, else "
     "~/.local/state/holdfast-dev)"},
    {"base-port", 0, FLAG_NUMBER_IN(struct dev_settings, base_port, 1, UINT16_MAX), "P",
     "client port of node 1 (default: 4653)"},
    {"restart-after", 0,
     FLAG_DURATION_IN(struct dev_settings, restart_after_ms, 1, DEV_PAUSE_MAX_MS), "DURATION",
     "time until a node that ended starts again (default: 3s); it doubles with each failed start, "
     "and after 5 in a row the node stays down"},
    {"no-restart", 0, FLAG_SWITCH(struct dev_settings, no_restart), NULL,
     "leave a node that ended down and print the command that starts it"},
    {"secure", 0, FLAG_SWITCH(struct dev_settings, secure), NULL,
     "use TLS and authentication: make certificates, an administrator and the tenants red and "
     "blue"},
    {"chaos", 0, FLAG_SWITCH(struct dev_settings, chaos), NULL,
     "kill nodes, and stop them for a while, as a test of clients; at most a minority at once"},
    {"chaos-seed", 0, FLAG_NUMBER_IN(struct dev_settings, chaos_seed, 0, UINT32_MAX), "N",
     "with --chaos: the same seed gives the same faults in the same order (default: random)"},
    {"chaos-interval", 0,
     FLAG_DURATION_IN(struct dev_settings, chaos_interval_ms, DEV_CHAOS_INTERVAL_MIN_MS,
                      DEV_CHAOS_INTERVAL_MAX_MS),
     "DURATION", "with --chaos: mean time from one fault to the next (default: 10s)"},
    {"help", 'h', FLAG_SWITCH(struct dev_settings, help), NULL, "this list"},
    FLAGS_END,
};

static void print_help(void)
{
    printf("holdfast dev: a local cluster of real processes.\n\n");
    flags_print(flags, stdout);
    printf(
        "\nNode i uses the port P+10*(i-1) for clients, the next port for peers and the one after "
        "that\nfor the Redis protocol.\n\n"
        "Prints the address of the dashboard, a line for each node, then `ready` with the "
        "endpoints.\nA node that ends starts again after some seconds. Ctrl-C stops all nodes. The "
        "folder stays,\nand the next start continues with the same data. With --secure, DIR/secure "
        "has the\ncertificates and the tokens.\n");
}

static void default_dir(struct dev_settings *o)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (geteuid() == 0) {
        snprintf(o->dir, sizeof(o->dir), "/var/lib/holdfast-dev");
    } else if (state != NULL && state[0] == '/') {
        snprintf(o->dir, sizeof(o->dir), "%s/holdfast-dev", state);
    } else {
        snprintf(o->dir, sizeof(o->dir), "%s/.local/state/holdfast-dev", home != NULL ? home : ".");
    }
}

static bool complete_chaos(struct dev_settings *o)
{
    const char *problem = NULL;
    if (!o->chaos && (o->chaos_seed != NO_SEED || o->chaos_interval_ms != 0)) {
        problem = "--chaos-seed and --chaos-interval need --chaos";
    } else if (o->chaos && o->no_restart) {
        problem = "--chaos and --no-restart exclude each other: killed nodes start again";
    } else if (o->chaos && o->nodes < DEV_CHAOS_NODES_MIN) {
        problem = "--chaos needs at least 3 nodes: fewer serve only while all of them run";
    }
    if (problem != NULL) {
        fprintf(stderr, "holdfast: %s\n", problem);
        return false;
    }
    if (o->chaos && o->chaos_interval_ms == 0) {
        o->chaos_interval_ms = DEV_CHAOS_INTERVAL_MS;
    }
    if (o->chaos_seed == NO_SEED) {
        uint32_t random;
        digest_random(&random, sizeof(random));
        o->chaos_seed = random;
    }
    return true;
}

static bool parse(struct dev_settings *o, int count, char **arguments)
{
    struct flag_words words;
    *o = (struct dev_settings){
        .nodes = 5, .base_port = 4653, .restart_after_ms = DEV_PAUSE_MS, .chaos_seed = NO_SEED};
    default_dir(o);
    if (!flags_read("dev", flags, FLAGS_ANY_ORDER, count, arguments, o, &words) ||
        !flags_words_check("dev", &words, 0) || !complete_chaos(o)) {
        return false;
    }
    if (o->given_dir != NULL && strlen(o->given_dir) >= sizeof(o->dir)) {
        fprintf(stderr, "holdfast: --dir: the path is longer than %d bytes\n", DEV_PATH - 1);
        return false;
    }
    if (o->given_dir != NULL) {
        snprintf(o->dir, sizeof(o->dir), "%s", o->given_dir);
    }
    if (o->base_port + DEV_PORT_STEP * o->nodes > UINT16_MAX) {
        fprintf(stderr, "holdfast: --base-port: the ports of %u nodes must be below 65536\n",
                (unsigned)o->nodes);
        return false;
    }
    return true;
}

static unsigned count_ready(const struct dev_cluster *c)
{
    unsigned count = 0;
    for (unsigned i = 0; i < c->count; i++) {
        count += c->nodes[i].ready ? 1 : 0;
    }
    return count;
}

/* True: all are ready. False: a stop signal, or a node did not start; `*code` is the exit code. */
static bool wait_until_ready(struct dev_cluster *c, int *code)
{
    struct dev_node *node = NULL;
    int status = 0;
    progress_begin("starting", PROGRESS_COUNT, "nodes are ready", false);
    while (count_ready(c) < c->count) {
        progress_update(count_ready(c), c->count);
        switch (dev_cluster_wait(c, READY_MS, &node, &status)) {
        case DEV_SIGNAL:
            progress_end();
            *code = 0;
            return false;
        case DEV_ENDED:
            progress_end();
            fprintf(stderr, "holdfast: node %u did not start; the end of its log:\n", node->id);
            dev_node_print_log(node);
            *code = EXIT_START_FAILED;
            return false;
        case DEV_NOTHING:
        case DEV_READY:
            break;
        }
    }
    progress_end();
    if (dev_is_secure(c) && !dev_secure_make_principals(c)) {
        *code = EXIT_START_FAILED;
        return false;
    }
    dev_print_ready(c, node->leader);
    return true;
}

/* True: the node starts again. */
static bool handle_end(const struct dev_settings *o, struct dev_cluster *c, struct dev_node *node,
                       int status)
{
    bool is_signal = WIFSIGNALED(status);
    struct dev_end end = {
        .was_ready = node->ready,
        .was_signalled = is_signal && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM)};
    if (o->no_restart) {
        dev_print_down(c, node, status);
        return false;
    }
    if (!dev_restart_plan(&node->restart, end, o->restart_after_ms, dev_now_ms())) {
        dev_print_given_up(c, node, status);
        return false;
    }
    dev_print_restart(node, status);
    return true;
}

/* Of two times to wait; -1: without limit. */
static int earlier(int a_ms, int b_ms)
{
    return b_ms < 0 || (a_ms >= 0 && a_ms < b_ms) ? a_ms : b_ms;
}

static void begin_chaos(const struct dev_settings *o, const struct dev_cluster *c,
                        struct dev_chaos *chaos)
{
    dev_chaos_begin(chaos, c, o->chaos_seed, o->chaos_interval_ms, dev_now_ms());
    if (o->chaos) {
        dev_print_chaos(c, o->chaos_seed, o->chaos_interval_ms);
    }
}

static int watch(const struct dev_settings *o, struct dev_cluster *c)
{
    struct dev_node *node = NULL;
    struct dev_chaos chaos;
    int status = 0;
    unsigned running = c->count; /* or to be started again */
    begin_chaos(o, c, &chaos);
    while (running > 0) {
        int timeout_ms =
            earlier(dev_cluster_restart_in_ms(c), dev_chaos_in_ms(&chaos, c, dev_now_ms()));
        switch (dev_cluster_wait(c, timeout_ms, &node, &status)) {
        case DEV_SIGNAL:
            printf("stopping\n");
            fflush(stdout);
            return 0;
        case DEV_ENDED:
            running -= handle_end(o, c, node, status) ? 0 : 1;
            break;
        case DEV_READY:
            dev_print_back(node);
            break;
        case DEV_NOTHING:
            break;
        }
        if (!dev_cluster_restart_due(c)) {
            return EXIT_START_FAILED;
        }
        dev_chaos_run(&chaos, c, dev_now_ms());
    }
    printf("all nodes have ended\n");
    return EXIT_START_FAILED;
}

int dev_main(int count, char **arguments)
{
    struct dev_settings options;
    static struct dev_cluster cluster;
    if (!parse(&options, count, arguments)) {
        return EXIT_USAGE;
    }
    if (options.help) {
        print_help();
        return 0;
    }
    dev_cluster_init(&cluster, (unsigned)options.nodes, (uint16_t)options.base_port, options.dir,
                     options.secure);
    if (options.chaos) {
        cluster.death_signal = SIGKILL; /* no other one reaches a stopped node */
    }
    if (!dev_cluster_ports_are_free(&cluster) || !dev_cluster_prepare_folder(&cluster) ||
        (options.secure && !dev_secure_prepare(&cluster))) {
        return EXIT_START_FAILED;
    }
    dev_print_dashboard(&cluster);
    if (!dev_cluster_start(&cluster)) {
        return EXIT_START_FAILED;
    }
    dev_print_nodes(&cluster);
    int code = 0;
    if (wait_until_ready(&cluster, &code)) {
        code = watch(&options, &cluster);
    }
    dev_cluster_stop(&cluster);
    return code;
}
