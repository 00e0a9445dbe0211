/* `holdfast dev`: its flags and its output. */
#include "server/dev.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/dev_cluster.h"
#include "server/dev_secure.h"
#include "server/flags.h"
#include "server/serve.h"

enum { READY_MS = 20000 };

struct dev_settings {
    uint64_t nodes;
    uint64_t base_port;
    const char *given_dir;
    char dir[DEV_PATH];
    bool secure;
    bool help;
};

static const struct flag flags[] = {
    {"nodes", 0, FLAG_NUMBER_IN(struct dev_settings, nodes, 1, DEV_NODES_MAX), "N",
     "number of nodes, 1 to 9 (default: 5)"},
    {"dir", 0, FLAG_TEXT_SET(struct dev_settings, given_dir), "DIR",
     "folder for the data and the logs of all nodes (default: /var/lib/holdfast-dev for root, else "
     "~/.local/state/holdfast-dev)"},
    {"base-port", 0, FLAG_NUMBER_IN(struct dev_settings, base_port, 1, UINT16_MAX), "P",
     "client port of node 1 (default: 4653)"},
    {"secure", 0, FLAG_SWITCH(struct dev_settings, secure), NULL,
     "use TLS and authentication: make certificates, an administrator and the tenants red and "
     "blue"},
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
        "Prints a line for each node, then `ready` with the endpoints. Ctrl-C stops all nodes. "
        "The\nfolder stays, and the next start continues with the same data. With --secure, "
        "DIR/secure\nhas the certificates and the tokens.\n");
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

static bool parse(struct dev_settings *o, int count, char **arguments)
{
    struct flag_words words;
    *o = (struct dev_settings){.nodes = 5, .base_port = 4653};
    default_dir(o);
    if (!flags_read("dev", flags, FLAGS_ANY_ORDER, count, arguments, o, &words) ||
        !flags_words_check("dev", &words, 0)) {
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

/* ---- output ---- */

static void print_nodes(const struct dev_cluster *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        const struct dev_node *n = &c->nodes[i];
        printf("node %u  %s://127.0.0.1:%u  pid %d  data %s  log %s\n", n->id,
               dev_is_secure(c) ? "https" : "http", n->client_port, (int)n->pid, n->folder, n->log);
    }
    fflush(stdout);
}

/* The program that a shell would run; false if PATH has none. */
static bool find_in_path(const char *name, char *out, size_t size)
{
    const char *at = getenv("PATH");
    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, ":");
        int used = len == 0 ? snprintf(out, size, "./%s", name)
                            : snprintf(out, size, "%.*s/%s", (int)len, at, name);
        if (used > 0 && (size_t)used < size && access(out, X_OK) == 0) {
            return true;
        }
        at += len + (at[len] == ':' ? 1 : 0);
    }
    return false;
}

bool dev_is_in_path(const char *name)
{
    char found[PATH_MAX];
    return find_in_path(name, found, sizeof(found));
}

/* The shell word that runs this program in any folder: "holdfast" if PATH leads to it, else its
 * path, quoted if necessary. */
static void write_name(char word[DEV_WORD])
{
    char found[PATH_MAX];
    char real[PATH_MAX];
    char own[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);
    own[len > 0 ? len : 0] = '\0';
    bool is_in_path = find_in_path("holdfast", found, sizeof(found)) &&
                      realpath(found, real) != NULL && strcmp(real, own) == 0;
    dev_shell_word(len <= 0 || is_in_path ? "holdfast" : own, word);
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

static void print_ready(const struct dev_cluster *c, unsigned leader)
{
    char name[DEV_WORD];
    write_name(name);
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

static void print_end(const struct dev_node *node, int status)
{
    if (WIFSIGNALED(status)) {
        printf("node %u was killed by signal %d\n", node->id, WTERMSIG(status));
    } else {
        printf("node %u ended with exit code %d\n", node->id, WEXITSTATUS(status));
    }
    fflush(stdout);
}

static bool all_ready(const struct dev_cluster *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        if (!c->nodes[i].ready) {
            return false;
        }
    }
    return true;
}

/* True: all are ready. False: a stop signal, or a node did not start; `*code` is the exit code. */
static bool wait_until_ready(struct dev_cluster *c, int *code)
{
    struct dev_node *node = NULL;
    int status = 0;
    while (!all_ready(c)) {
        switch (dev_cluster_wait(c, READY_MS, &node, &status)) {
        case DEV_SIGNAL:
            *code = 0;
            return false;
        case DEV_ENDED:
            fprintf(stderr, "holdfast: node %u did not start; the end of its log:\n", node->id);
            dev_node_print_log(node);
            *code = EXIT_START_FAILED;
            return false;
        case DEV_NOTHING:
        case DEV_READY:
            break;
        }
    }
    if (dev_is_secure(c) && !dev_secure_make_principals(c)) {
        *code = EXIT_START_FAILED;
        return false;
    }
    print_ready(c, node->leader);
    return true;
}

static int watch(struct dev_cluster *c)
{
    struct dev_node *node = NULL;
    int status = 0;
    unsigned running = c->count;
    while (running > 0) {
        enum dev_event event = dev_cluster_wait(c, -1, &node, &status);
        if (event == DEV_SIGNAL) {
            printf("stopping\n");
            fflush(stdout);
            return 0;
        }
        if (event == DEV_ENDED) {
            print_end(node, status);
            running--;
        }
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
    if (!dev_cluster_ports_are_free(&cluster) || !dev_cluster_prepare_folder(&cluster) ||
        (options.secure && !dev_secure_prepare(&cluster)) || !dev_cluster_start(&cluster)) {
        return EXIT_START_FAILED;
    }
    print_nodes(&cluster);
    int code = 0;
    if (wait_until_ready(&cluster, &code)) {
        code = watch(&cluster);
    }
    dev_cluster_stop(&cluster);
    return code;
}
